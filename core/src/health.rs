//! Is a device fit for work, and if not, what is to be done?
//!
//! [`Judge`] takes what the kernel's log, the driver and the PCI bus say, and has a [`Verdict`] on every device and on
//! the node. It knows no clock and reads nothing. Its rules:
//!
//! * What the driver asks for (recovery action) goes before what it printed about it (Xid 154), which goes before the
//!   table of codes; for codes without such a request the table decides, and the more severe of both counts.
//! * "Nothing is to be done" lifts what a request had raised, and nothing else.
//! * Rates count, totals do not; what a look shows counts when several looks in a row show it.
//! * An error of a program is told about its worker, and leaves the device alone.
//! * What is not known is `Unknown`: not healthy, and no reason to drain anybody.

mod action;
mod fault;
mod judge;
pub mod kmsg;
mod nvlink;
mod table;

pub use action::{Action, RecoveryAction};
pub use fault::{Fault, FaultKey, Source};
pub use judge::{Change, Input, Judge, Standing, Verdict};
pub use nvlink::{NvlinkOutcome, NvlinkRow};
pub use table::{Class, Repeat, SwitchRow, Table, XidRow};
