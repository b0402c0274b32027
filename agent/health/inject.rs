//! Faults that nobody saw, for fire drills: written as the kernel would, and read by the same parser.

use sluice_core::sample::PciAddress;

/// Longest text of a message. Unit: bytes.
const TEXT_BYTES_MAX: usize = 200;

/// Highest number that the driver uses lies far below.
const XID_MAX: u32 = 9_999;

/// A fault to be taken as if the kernel had told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injected {
    /// The GPU.
    pub(crate) pci: PciAddress,
    /// NVIDIA's number.
    pub(crate) xid: u32,
    /// The process at work.
    pub(crate) pid: Option<u32>,
    /// The rest of the message.
    pub(crate) text: String,
}

/// Why it cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InjectError {
    /// No such code.
    #[error("Xid {0} is out of range; give one from 1 to {XID_MAX}")]
    BadXid(u32),
    /// A text that would be no message.
    #[error(
        "the text has {0} bytes or control characters; give at most {TEXT_BYTES_MAX} bytes of plain text"
    )]
    BadText(usize),
}

impl Injected {
    /// Checks a fault.
    ///
    /// # Errors
    /// What cannot be taken.
    pub(crate) fn new(
        pci: PciAddress,
        xid: u32,
        pid: Option<u32>,
        text: String,
    ) -> Result<Self, InjectError> {
        if !(1..=XID_MAX).contains(&xid) {
            return Err(InjectError::BadXid(xid));
        }
        if text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(InjectError::BadText(text.len()));
        }
        Ok(Self { pci, xid, pid, text })
    }

    /// What the driver writes when what it asks for changes to `action`.
    pub(crate) fn recovery_action(pci: PciAddress, action: u32) -> Self {
        let name = match action {
            0 => "None",
            1 => "GPU Reset Required",
            2 => "Node Reboot Required",
            3 => "Drain P2P",
            4 => "Drain and Reset",
            _ => "Unknown",
        };
        let text = format!("GPU recovery action changed from 0x0 (None) to {action:#x} ({name})");
        Self { pci, xid: 154, pid: None, text }
    }

    /// The record, as `/dev/kmsg` would give it.
    pub(crate) fn record(&self, sequence: u64, uptime_us: u64) -> String {
        let Self { pci, xid, pid, text } = self;
        let (domain, bus, device) = (pci.domain, pci.bus, pci.device);
        let pid = match pid {
            Some(pid) => format!("pid={pid}, name=<unknown>, "),
            None if *xid == 154 => String::new(),
            None => "pid='<unknown>', name=<unknown>, ".to_owned(),
        };
        let text = if text.is_empty() { "a fire drill, injected by hand" } else { text };
        format!(
            "3,{sequence},{uptime_us},-;NVRM: Xid (PCI:{domain:04x}:{bus:02x}:{device:02x}): {xid}, {pid}{text}"
        )
    }
}
