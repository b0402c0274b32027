//! The kernel's log, as far as it speaks of GPUs: records into lines, lines into events.
//!
//! Works on bytes, so that whatever the kernel or a test hands over can be judged; nothing in here fails or panics.
//! [`KernelLog::take`] is given one record after the other, each as a read of `/dev/kmsg` returns it, and says what is
//! new. Reading is the shell's, meaning is the [judge](super::Judge)'s.

mod line;
mod log;
mod record;
#[cfg(test)]
mod tests;

pub use line::{Line, NvlinkError, SwitchLine, XidLine, parse_line};
pub use log::{KernelEvent, KernelLog, LogCounters, Occurrence};
pub use record::Record;
