//! What two ranks of one gang say differently.

use crate::workload::WorkloadSpec;

/// The first field in which two ranks of one gang disagree.
pub(super) fn difference(
    first: &WorkloadSpec,
    second: &WorkloadSpec,
) -> Option<(String, String, String)> {
    let WorkloadSpec {
        name: _,
        queue,
        priority,
        nnodes,
        resources,
        topology,
        slice,
        checkpoint,
        save_signal,
        is_signal_vouched,
        grace_ms,
        drain_deadline_ms,
        command: _,
    } = first;
    let show = |field: &str, first: &dyn std::fmt::Debug, second: &dyn std::fmt::Debug| {
        Some((field.to_owned(), format!("{first:?}"), format!("{second:?}")))
    };
    if *queue != second.queue {
        return show("queue", queue, &second.queue);
    }
    if *priority != second.priority {
        return show("priority", priority, &second.priority);
    }
    if *nnodes != second.nnodes {
        return show("nnodes", nnodes, &second.nnodes);
    }
    if *resources != second.resources {
        return show("resources", resources, &second.resources);
    }
    if *topology != second.topology {
        return show("topology", topology, &second.topology);
    }
    if *slice != second.slice {
        return show("slice", slice, &second.slice);
    }
    if *checkpoint != second.checkpoint {
        return show("checkpoint", checkpoint, &second.checkpoint);
    }
    if *save_signal != second.save_signal {
        return show("save-signal", save_signal, &second.save_signal);
    }
    if *is_signal_vouched != second.is_signal_vouched {
        return show("save-signal-proven", is_signal_vouched, &second.is_signal_vouched);
    }
    if *grace_ms != second.grace_ms {
        return show("grace", grace_ms, &second.grace_ms);
    }
    if *drain_deadline_ms != second.drain_deadline_ms {
        return show("drain-deadline", drain_deadline_ms, &second.drain_deadline_ms);
    }
    None
}
