//! The agent's identity: random, made once, kept with its state.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use tracing::warn;

/// Bytes of an identity: enough that no two nodes ever have the same.
const UID_BYTES: usize = 16;

/// The identity in `file`; made if there is none, or none that can be read. `dir` is where the file lies.
///
/// # Errors
/// The file cannot be written.
pub(super) fn read_or_create(dir: &Path, file: &Path) -> Result<String, String> {
    match std::fs::read_to_string(file) {
        Ok(text) if is_uid(text.trim()) => return Ok(text.trim().to_owned()),
        Ok(_) => {
            warn!(file = %file.display(), "the agent's identity cannot be read and is made anew");
        }
        // Any other trouble shows when it is written.
        Err(_) => {}
    }
    let uid = random()?;
    let new = dir.join("node_uid.new");
    let write = || {
        let mut opened = File::create(&new)?;
        writeln!(opened, "{uid}")?;
        opened.sync_all()?;
        std::fs::rename(&new, file)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|e: std::io::Error| {
        format!(
            "could not write \"{}\": {e}; check the disk and who owns --state-dir",
            file.display()
        )
    })?;
    Ok(uid)
}

/// 128 random bits as 32 hexadecimal digits.
///
/// # Errors
/// The kernel's source of randomness cannot be read.
pub(super) fn random() -> Result<String, String> {
    let source = "/dev/urandom";
    let mut bytes = [0; UID_BYTES];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| format!("could not read \"{source}\": {e}; mount /dev"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_uid(text: &str) -> bool {
    text.len() == 2 * UID_BYTES && text.bytes().all(|b| b.is_ascii_hexdigit())
}
