//! What the registers of Xid 144 to 150 mean (fifth generation of `NVLink`).

/// From this driver on the number of the unit stands in other bits of the interrupt register.
const SECOND_LAYOUT_SINCE: u32 = 575;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvlinkOutcome {
    /// Nothing.
    Ignore,
    /// Whatever the driver asks for beside it.
    FollowAction,
    /// A reset of the GPU.
    Reset,
}

/// One row: a unit's errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvlinkRow {
    /// The Xid.
    pub code: u32,
    /// The unit's name.
    pub unit: String,
    /// Its number in the interrupt register.
    pub number: u32,
    /// Bits of the error register.
    pub errors: u32,
    /// What is to be done.
    pub outcome: NvlinkOutcome,
}

impl NvlinkRow {
    /// Whether it speaks of this message. Without the driver's version the unit's bits cannot be read.
    pub(super) fn suits(
        &self,
        code: u32,
        unit: &str,
        (interrupt, error): (u32, u32),
        driver_major: Option<u32>,
    ) -> bool {
        let Some(major) = driver_major else { return false };
        let number =
            if major < SECOND_LAYOUT_SINCE { interrupt >> 5 & 0x1f } else { interrupt & 0x7f };
        self.code == code && self.unit == unit && self.number == number && self.errors & error != 0
    }
}
