//! Addresses on the PCI bus, in the spellings of the kernel's log, NVML and sysfs, and what the bus tells of a GPU.

use std::fmt;
use std::str::FromStr;

/// A place on the PCI bus.
///
/// Shown as sysfs does: `0000:d8:00.0`. Read in any of these spellings: `PCI:0000:d8:00` and `PCI:0000:b3:00.0`
/// (kernel log), `00000000:D8:00.0` (NVML), `0000:d8:00.0` (sysfs), `d8:00.0` (`lspci`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    /// The domain (segment); beyond 16 bits behind some controllers and on some virtual machines.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device. Range: 0..=31.
    pub device: u8,
    /// The function. Range: 0..=7; 0 where the text has none.
    pub function: u8,
}

/// A text that is no PCI address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciAddressError(String);

impl fmt::Display for PciAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCI address {:?} is not of the form 0000:d8:00.0", self.0)
    }
}

impl std::error::Error for PciAddressError {}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = PciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| PciAddressError(text.chars().take(64).collect()))
    }
}

impl PciAddress {
    /// Whether both are functions of one device: a GPU's sound function is the same board.
    #[must_use]
    pub fn is_same_device(&self, other: &Self) -> bool {
        (self.domain, self.bus, self.device) == (other.domain, other.bus, other.device)
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let text = text.strip_prefix("PCI:").unwrap_or(text);
    let (rest, function) = match text.split_once('.') {
        Some((rest, function)) => (rest, hex(function, 1)?),
        None => (text, 0),
    };
    let mut parts = rest.rsplit(':');
    let device = hex(parts.next()?, 2)?;
    let bus = hex(parts.next()?, 2)?;
    let domain = parts.next().map_or(Some(0), |domain| hex(domain, 8))?;
    if parts.next().is_some() || device > 31 || function > 7 {
        return None;
    }
    Some(PciAddress {
        domain,
        bus: u8::try_from(bus).ok()?,
        device: u8::try_from(device).ok()?,
        function: u8::try_from(function).ok()?,
    })
}

fn hex(text: &str, digits_max: usize) -> Option<u32> {
    let is_hex = text.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hex || !(1..=digits_max).contains(&text.len()) {
        return None;
    }
    u32::from_str_radix(text, 16).ok()
}

/// A GPU as the bus shows it. Source: `/sys/bus/pci/devices/<address>`, vendor 0x10de, class 0x0300 or 0x0302.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciGpu {
    /// Where it is.
    pub address: PciAddress,
    /// The maker's number of the product: 0x2330.
    pub device_id: Option<u16>,
    /// The kernel's driver that has it: `nvidia`, `vfio-pci`. `None`: none.
    pub driver: Option<String>,
    /// Lanes of its link now. `None`: not told.
    pub link_width: Option<u32>,
    /// Most lanes of its link.
    pub link_width_max: Option<u32>,
}
