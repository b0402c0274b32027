//! A digest of what a step led to: its outputs, and the records that they save.

use std::fmt::{self, Write as _};

use sluice_core::arbiter::{Arbiter, Output};

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>. Finds differences that happened,
/// not ones that an attacker made.
struct Fnv(u64);

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

/// The digest, over the debug form: it names every field, and two values differ where it does.
pub(super) fn of(arbiter: &Arbiter, outputs: &[Output]) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for output in outputs {
        let saved = match output {
            Output::SaveWorkload(name) => write!(hash, "{:?}", arbiter.workload(name)),
            Output::SaveDrain(id) => write!(hash, "{:?}", arbiter.drain(id)),
            Output::SaveNodeFaults(name) => write!(hash, "{:?}", arbiter.node_faults(name)),
            Output::SaveWave => {
                write!(hash, "{} {}", arbiter.is_wave_open(), arbiter.known_nodes())
            }
            Output::ForgetWorkload(_)
            | Output::ForgetDrain(_)
            | Output::Decided(_)
            | Output::Send { .. }
            | Output::Reply(_)
            | Output::WakeAt(_) => Ok(()),
        };
        saved.and_then(|()| write!(hash, "{output:?};")).expect("the hash takes any text");
    }
    hash.0
}
