//! Topology-aware placement: which nodes, racks and blocks get how many pods of a workload, as Kueue decides it.
//!
//! A [`TasSnapshot`] is the nodes of one flavor as a tree of topology domains with what is free in each leaf. It
//! answers [`TasSnapshot::place`] (where do these pod sets go?), [`TasSnapshot::replace`] (where do the pods of a
//! broken node go?) and [`TasSnapshot::fits`]; [`TasSnapshot::add`] and [`TasSnapshot::remove`] move what is in use,
//! so that a caller can ask "and if these victims left?" and put everything back exactly.
//!
//! How one pod set is placed:
//! 1. count, leaf by leaf, how many pods fit, and roll the counts up the tree (`count`);
//! 2. choose the level and the domains that hold everything (`fit`, or `balanced` when switched on);
//! 3. walk down level by level, using as few and as tight domains as possible (`descend`).
//!
//! Steps 1 and 2 look at every domain. Where pods are placed without a leader they are answered from memory instead
//! (`memo`, `recall`): counts are kept by what the pods request, and only leaves that changed are counted again. What
//! is free lies in tables that clones share (`table`), so that a clone costs next to nothing.
//!
//! Domains are integers: level by level, in the order of their full path. Comparing two of one level by name is
//! comparing their numbers, and the children of a domain are a range. No string is touched after step 0.
//! It owns neither quota nor queues, and nothing here depends on the order in which nodes are listed.

mod assumed;
mod balanced;
mod count;
mod counts;
mod descend;
mod elastic;
mod entropy;
mod failure;
mod fit;
mod holders;
mod memo;
mod model;
mod narrow;
mod node_match;
mod nodes;
mod order;
mod place;
mod plan;
mod recall;
mod replace;
mod replace_several;
mod shape;
mod snapshot;
mod subset;
mod table;
mod tree;
mod ways;

#[cfg(test)]
mod tests;

pub use assumed::Assumed;
pub use failure::{Exclusions, Failure, LayerFit, Unit};
pub(in crate::kueue) use holders::Holder;
pub(in crate::kueue) use model::HOSTNAME;
pub use model::{
    Capacity, FlavorNodes, Node, OtherPod, Outcome, PodSetOutcome, PodSetRequest, PreferredTerm,
    Switches, UnconstrainedOrder,
};
pub(in crate::kueue) use nodes::{NodeBook, Renewal};
pub use replace::{ReplaceRequest, Replacement};
pub use snapshot::{LeafUsage, TasSnapshot};
