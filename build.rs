//! Compiles the contract in `proto/` to Rust, in `OUT_DIR`, without `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

const FILES: [&str; 5] = [
    "sluice/v1/node.proto",
    "sluice/v1/agents.proto",
    "sluice/v1/worker.proto",
    "sluice/v1/admin.proto",
    "sluice/v1/record.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let encoded = protox::prost::Message::encode_to_vec(&descriptors);
    fs::write(out_dir.join("sluice_descriptors.bin"), encoded)?;
    // Without the generated `connect` constructors: `Agents.Connect` would collide with them.
    // Ordered maps: a message has one encoding, so that digests and records can be compared.
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
