//! Faults of devices: the arbiter's store of them.

use sluice_core::arbiter::{Arbiter, Faults, Output};

/// Stores what `output` asks to be stored of faults.
pub(crate) fn store(stored: &mut Faults, arbiter: &Arbiter, output: &Output) {
    match output {
        Output::SaveNodeFaults(name) => match arbiter.node_faults(name) {
            Some(faults) => drop(stored.nodes.insert(name.clone(), faults)),
            None => drop(stored.nodes.remove(name)),
        },
        Output::SaveWave => {
            stored.is_open = arbiter.is_wave_open();
            stored.known = arbiter.known_nodes();
        }
        Output::SaveWorkload(_)
        | Output::SaveDrain(_)
        | Output::ForgetWorkload(_)
        | Output::ForgetDrain(_)
        | Output::Decided(_)
        | Output::Send { .. }
        | Output::Reply(_)
        | Output::WakeAt(_) => {}
    }
}
