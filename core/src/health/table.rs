//! What the driver's codes mean. The rows are data of the shell's, with source and date; here is their form.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::nvlink::{NvlinkOutcome, NvlinkRow};

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// What an Xid says about the device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Class {
            $($(#[$doc])* $name,)*
        }

        impl Class {
            /// All classes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Stable name, as in the data file.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

classes! {
    /// A program's error: told about the worker, the device goes on.
    App = "app";
    /// Worth knowing.
    Warn = "warn";
    /// Worth knowing; the device is avoided if it comes again and again.
    WarnRepeated = "warn-repeated";
    /// The consequence of the fault before.
    FollowUp = "follow-up";
    /// The device is avoided.
    Degrade = "degrade";
    /// It probably needs a reset: avoided.
    ResetSuspected = "reset-suspected";
    /// The machine probably needs a restart: avoided.
    RebootSuspected = "reboot-suspected";
    /// The device needs a reset.
    Reset = "reset";
    /// The machine needs a restart.
    Reboot = "reboot";
    /// The maker has to be asked: not used.
    Support = "support";
    /// The message itself says whether it is fatal (144 to 150).
    Decode = "decode";
    /// The driver says what it wants to be done (154).
    Carrier = "carrier";
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|class| class.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no class of Xids"))
    }
}

/// What follows if it happens again after the cure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// The same as the first time.
    #[default]
    Same,
    /// The board has to be replaced.
    Replace,
}

/// One code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XidRow {
    /// NVIDIA's words for it.
    pub what: String,
    /// What it says about the device.
    pub class: Class,
    /// Major version of the driver from which it asks for what it needs (154). `None`: it never does.
    pub asks_since: Option<u32>,
    /// What follows if it happens again after the cure.
    pub repeat: Repeat,
    /// Links between GPUs are down: those who work together fail within seconds.
    pub is_urgent: bool,
    /// It ends the standing fault of this code.
    pub cancels: Option<u32>,
}

/// One code of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchRow {
    /// It is fatal even where the message does not say so.
    pub is_always_fatal: bool,
}

/// All codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    xids: BTreeMap<u32, XidRow>,
    switches: BTreeMap<u32, SwitchRow>,
    nvlink: Vec<NvlinkRow>,
}

impl Table {
    /// A table of these rows.
    #[must_use]
    pub fn new(
        xids: BTreeMap<u32, XidRow>,
        switches: BTreeMap<u32, SwitchRow>,
        nvlink: Vec<NvlinkRow>,
    ) -> Self {
        Self { xids, switches, nvlink }
    }

    /// The row of an Xid; `None`: nothing is known of it.
    #[must_use]
    pub fn xid(&self, code: u32) -> Option<&XidRow> {
        self.xids.get(&code)
    }

    /// Whether a switch's message is fatal: what it says goes before its number.
    #[must_use]
    pub fn is_switch_fatal(&self, code: u32, says: Option<bool>) -> bool {
        says.unwrap_or_else(|| self.switches.get(&code).is_some_and(|row| row.is_always_fatal))
    }

    /// What a message about `NVLink` comes to, by its registers; `None`: no row, or the driver's version is not known.
    #[must_use]
    pub fn nvlink(
        &self,
        code: u32,
        error: &super::kmsg::NvlinkError,
        driver_major: Option<u32>,
    ) -> Option<NvlinkOutcome> {
        let registers = error.registers?;
        let row =
            self.nvlink.iter().find(|row| row.suits(code, &error.unit, registers, driver_major));
        row.map(|row| row.outcome)
    }
}
