//! Whether slices can be asked for at all: told at submission, not by waiting for ever.

use std::collections::BTreeSet;

use super::{Arbiter, CHIPS};
use crate::reason::Reason;
use crate::slice::label::NodeLabels;
use crate::topology::{Notation, Slicing};
use crate::workload::{RANKS_MAX, WorkloadSpec};

impl Arbiter {
    /// Checks what `spec` says of slices, and notes the name of their generation.
    pub(in super::super) fn check_slice(&self, spec: &mut WorkloadSpec) -> Result<(), Reason> {
        let Some(slice) = &mut spec.slice else { return Ok(()) };
        if !(1..=RANKS_MAX).contains(&slice.count) {
            let (field, value) = ("slices".to_owned(), slice.count.to_string());
            return Err(Reason::BadSpec { field, value, expected: format!("1 to {RANKS_MAX}") });
        }
        if spec.topology.is_some() {
            let (field, value) = ("topology".to_owned(), "given beside slices".to_owned());
            let expected = "none: a slice says where its ranks are".to_owned();
            return Err(Reason::BadSpec { field, value, expected });
        }
        if slice.generation.is_empty() {
            slice.generation = self.only_generation()?;
        }
        let table = &self.config.generations;
        let wanted = table
            .request(&slice.generation, &slice.shape, Notation::SliceAnnotation)
            .map_err(|error| Reason::SliceIllegal { why: error.to_string() })?;
        slice.generation.clone_from(&wanted.generation);
        slice.shape = wanted.shape.to_string();
        let Some(generation) = table.find(&wanted.generation) else { return Ok(()) };
        let ranks = |why: String| Err(Reason::SliceIllegal { why });
        let chips = spec.resources.iter().find(|(r, _)| r.as_str() == CHIPS).map(|(_, n)| *n);
        let Some(chips) = chips.and_then(|chips| u32::try_from(chips).ok()) else {
            let host = generation.hosts.first().map_or(0, crate::topology::Shape::chips);
            return ranks(format!("each needs {CHIPS}, such as {host}: all chips of a host"));
        };
        if !spec.nnodes.is_multiple_of(slice.count) {
            let (nnodes, count) = (spec.nnodes, slice.count);
            return ranks(format!("{nnodes} ranks cannot be spread evenly over {count} slices"));
        }
        let checked = generation.check_pods(wanted.shape, spec.nnodes / slice.count, chips);
        checked.map_err(|error| Reason::SliceIllegal {
            why: match slice.count {
                1 => error.to_string(),
                count => format!("each of the {count} slices: {error}"),
            },
        })
    }

    /// The generation of the nodes, or the only one of which slices are made.
    pub(super) fn only_generation(&self) -> Result<String, Reason> {
        let table = &self.config.generations;
        let of_node = |node: &super::super::Node| {
            let labels = node.labels.iter().map(|(k, v)| (k.as_str(), v.as_str()));
            let accelerator = NodeLabels::read(labels).accelerator?;
            Some(table.find(&accelerator)?.name.as_str())
        };
        let mut known: BTreeSet<&str> = self.nodes.values().filter_map(of_node).collect();
        if known.is_empty() {
            let dynamic = table.generations().iter().filter(|g| g.slicing == Slicing::Dynamic);
            known.extend(dynamic.map(|g| g.name.as_str()));
        }
        match known.first().filter(|_| known.len() == 1) {
            Some(only) => Ok((*only).to_owned()),
            None => {
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                let why = format!("say of which generation it is; there are: {known}");
                Err(Reason::SliceIllegal { why })
            }
        }
    }
}
