//! What one message says, if it speaks of a GPU or an `NVSwitch`.
//!
//! Every form is matched from the message's first byte on: a process may be named like a message of the driver, and its
//! name is part of what the driver prints.

use crate::sample::PciAddress;

/// Longest text kept of a message. Unit: bytes. The driver's own lines are shorter.
const TEXT_BYTES_MAX: usize = 512;

/// A message of the driver about one GPU ("Xid").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XidLine {
    /// The GPU.
    pub pci: PciAddress,
    /// What happened, by NVIDIA's number.
    pub code: u32,
    /// The process that was at work, in the host's numbers. `None` where the driver does not know.
    pub pid: Option<u32>,
    /// The rest of the message, at most 512 bytes; what is no UTF-8 is replaced.
    pub text: String,
    /// What a message about `NVLink` (144 to 150) says of itself.
    pub nvlink: Option<NvlinkError>,
    /// Number of the recovery action that a 154 changes to: `Some(None)` where the message is cut off.
    pub action: Option<Option<u32>>,
}

/// The parts of a message 144 to 150.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvlinkError {
    /// The unit: `RLW_REMAP`, `NETIR_LINK_EVT`.
    pub unit: String,
    /// It says `Fatal`. `None`: neither that nor `Nonfatal`.
    pub is_fatal: Option<bool>,
    /// The first two registers: interrupt, error. `None` where they cannot be read.
    pub registers: Option<(u32, u32)>,
}

/// A message of the driver about an `NVSwitch` ("SXid").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchLine {
    /// The switch.
    pub pci: PciAddress,
    /// What happened, by NVIDIA's number.
    pub code: u32,
    /// It says `Fatal`. `None`: neither that nor `Non-fatal`.
    pub is_fatal: Option<bool>,
    /// The rest of the message.
    pub text: String,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Something about a GPU.
    Xid(XidLine),
    /// Something about a switch.
    Switch(SwitchLine),
    /// Details of the switch's message before: nothing new.
    SwitchDetail,
    /// A GPU does not answer any more.
    FallenOff(PciAddress),
    /// First of the three messages that say so together.
    FallenOffFirst(PciAddress),
    /// Last of the three.
    FallenOffLast,
    /// The name of the GPU at a place on the bus.
    Identity {
        /// Where.
        pci: PciAddress,
        /// `GPU-` and a UUID.
        uuid: String,
    },
    /// A GPU was reset.
    Reset {
        /// `GPU-` and a UUID.
        uuid: String,
        /// It worked.
        has_succeeded: bool,
    },
    /// A task has not run for long: a hint that it hangs in a driver.
    Blocked {
        /// The task's name.
        task: String,
        /// Its id.
        pid: u32,
        /// For how long. Unit: seconds.
        seconds: u64,
    },
    /// It begins as one of these do and goes on otherwise.
    Unparsed,
    /// It speaks of something else.
    Other,
}

/// Reads one message.
#[must_use]
pub fn parse_line(message: &[u8]) -> Line {
    if message.starts_with(b"NVRM: ") {
        return driver(message);
    }
    if message.starts_with(b"nvidia-nvswitch") {
        return switch(message);
    }
    if message.starts_with(b"INFO: task ") {
        return blocked(message).unwrap_or(Line::Other);
    }
    Line::Other
}

/// The text of a message, cut to its bound.
fn text_of(message: &[u8]) -> String {
    let cut = message.get(..TEXT_BYTES_MAX).unwrap_or(message);
    String::from_utf8_lossy(cut).trim().to_owned()
}

fn driver(message: &[u8]) -> Line {
    if message.starts_with(b"NVRM: Xid") {
        return xid(message).map_or(Line::Unparsed, Line::Xid);
    }
    let text = text_of(message);
    let Some(rest) = text.strip_prefix("NVRM: ") else { return Line::Other };
    if let Some(rest) = rest.strip_prefix("The NVIDIA GPU ") {
        let Some(pci) = first_address(rest) else { return Line::Other };
        let says_all = rest.contains("fallen off the bus");
        return if says_all { Line::FallenOff(pci) } else { Line::FallenOffFirst(pci) };
    }
    if rest.starts_with("fallen off the bus and is not responding") {
        return Line::FallenOffLast;
    }
    if let Some(rest) = rest.strip_prefix("GPU reset executed: ") {
        let (uuid, outcome) = rest.split_once(',').unwrap_or((rest, ""));
        let has_succeeded = outcome.trim() == "success: true";
        return Line::Reset { uuid: uuid.trim().to_owned(), has_succeeded };
    }
    if let Some(rest) = rest.strip_prefix("GPU at ") {
        let identity = rest.split_once(": ").and_then(|(pci, uuid)| {
            let uuid = uuid.split_whitespace().next().filter(|uuid| uuid.starts_with("GPU-"))?;
            Some(Line::Identity { pci: pci.parse().ok()?, uuid: uuid.to_owned() })
        });
        return identity.unwrap_or(Line::Other);
    }
    let fallen = rest.strip_prefix("GPU ").and_then(|rest| {
        let (pci, what) = rest.split_once(": ")?;
        what.starts_with("GPU has fallen off the bus").then(|| pci.parse().ok())?
    });
    fallen.map_or(Line::Other, Line::FallenOff)
}

fn first_address(text: &str) -> Option<PciAddress> {
    text.split(char::is_whitespace).next()?.parse().ok()
}

/// `NVRM: Xid (PCI:0000:d8:00): 79, pid=1, name=x, text`; older drivers leave out parts from the end.
fn xid(message: &[u8]) -> Option<XidLine> {
    let text = text_of(message);
    let rest = text.strip_prefix("NVRM: Xid (")?;
    let (pci, rest) = rest.split_once("): ")?;
    let pci = PciAddress { function: 0, ..pci.parse().ok()? };
    let (code, rest) = leading_number(rest.trim_start())?;
    let (pid, rest) = process(rest);
    let nvlink = (144..=150).contains(&code).then(|| nvlink(rest));
    let action = (code == 154).then(|| recovery_action(rest));
    Some(XidLine { pci, code, pid, text: rest.to_owned(), nvlink, action })
}

/// A number, and what follows it and a comma.
fn leading_number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text.get(..digits)?.parse().ok()?;
    let rest = text.get(digits..)?;
    let is_end = rest.is_empty() || rest.starts_with([',', ' ']);
    is_end.then(|| (number, rest.trim_start_matches([',', ' '])))
}

/// The process that `pid=…, name=…,` tells, and what follows.
fn process(text: &str) -> (Option<u32>, &str) {
    let Some(rest) = text.strip_prefix("pid=") else { return (None, text) };
    let (pid, rest) = rest.split_once(',').unwrap_or((rest, ""));
    let pid = pid.trim().trim_matches('\'').parse().ok().filter(|pid| *pid != 0);
    let rest = rest.trim_start();
    let Some(name) = rest.strip_prefix("name=") else { return (pid, rest) };
    (pid, name.split_once(", ").map_or("", |(_, rest)| rest.trim_start()))
}

/// `RLW_SRC_TRACK Nonfatal XC0 i0 Link 09 (0x00000007 0x00000004 …`.
fn nvlink(text: &str) -> NvlinkError {
    let mut words = text.split_whitespace();
    let unit = words.next().unwrap_or_default().to_owned();
    let is_fatal = match words.next() {
        Some("Fatal") => Some(true),
        Some("Nonfatal" | "Non-fatal") => Some(false),
        Some(_) | None => None,
    };
    let registers = text.split_once('(').and_then(|(_, registers)| {
        let mut registers = registers.trim_end_matches(')').split_whitespace();
        Some((hex(registers.next()?)?, hex(registers.next()?)?))
    });
    NvlinkError { unit, is_fatal, registers }
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// `GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)`. `None`: cut off before the number's end.
fn recovery_action(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("GPU recovery action changed from 0x")?;
    let (_, to) = rest.split_once(" to ")?;
    let (number, _) = to.split_once(' ')?;
    hex(number)
}

/// `nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress …`.
fn switch(message: &[u8]) -> Line {
    let text = text_of(message);
    let Some(rest) = text.strip_prefix("nvidia-nvswitch") else { return Line::Other };
    let Some((number, rest)) = rest.split_once(": SXid") else { return Line::Other };
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Line::Other;
    }
    let parsed = (|| {
        let (pci, rest) = rest.strip_prefix(" (")?.split_once("): ")?;
        let pci = PciAddress { function: 0, ..pci.parse().ok()? };
        let (code, rest) = leading_number(rest.trim_start())?;
        Some((pci, code, rest))
    })();
    let Some((pci, code, rest)) = parsed else { return Line::Unparsed };
    let (word, text) = rest.split_once(',').unwrap_or((rest, ""));
    let is_fatal = match word.trim() {
        "Fatal" => Some(true),
        "Non-fatal" => Some(false),
        _ if word.starts_with("Severity ") || word.starts_with("Data ") => {
            return Line::SwitchDetail;
        }
        _ => None,
    };
    let text = if is_fatal.is_some() { text } else { rest };
    Line::Switch(SwitchLine { pci, code, is_fatal, text: text.trim().to_owned() })
}

/// `INFO: task agent:4242 blocked for more than 120 seconds.`
fn blocked(message: &[u8]) -> Option<Line> {
    let text = text_of(message);
    let rest = text.strip_prefix("INFO: task ")?;
    let (task, rest) = rest.split_once(" blocked for more than ")?;
    let (seconds, _) = rest.split_once(" seconds")?;
    let (task, pid) = task.rsplit_once(':')?;
    Some(Line::Blocked {
        task: task.to_owned(),
        pid: pid.parse().ok()?,
        seconds: seconds.parse().ok()?,
    })
}
