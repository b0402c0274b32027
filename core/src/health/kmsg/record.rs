//! One record of `/dev/kmsg`: `priority,sequence,microseconds,flags;message`, then continuation lines.

/// A record, taken apart.
///
/// Source: the kernel's `Documentation/ABI/testing/dev-kmsg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Facility × 8 + level.
    pub priority: u32,
    /// Rises by one with each record since boot.
    pub sequence: u64,
    /// Since boot. Unit: microseconds.
    pub uptime_us: u64,
    /// The first line after the header. Continuation lines, which name the device in words of the kernel, are left out.
    pub message: &'a [u8],
}

/// Longest header: three numbers of 20 digits, flags, and room for fields that newer kernels add.
const HEADER_BYTES_MAX: usize = 256;

impl<'a> Record<'a> {
    /// Takes a record apart; `None` if it has another form.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header_end = bytes.iter().take(HEADER_BYTES_MAX).position(|b| *b == b';')?;
        let (header, message) = bytes.split_at(header_end);
        let header = std::str::from_utf8(header).ok()?;
        let mut fields = header.split(',');
        let priority = number(fields.next()?)?;
        let sequence = number(fields.next()?)?;
        let uptime_us = number(fields.next()?)?;
        // Flags, and whatever later kernels put behind them.
        fields.next()?;
        let message = message.get(1..).unwrap_or_default();
        let end = message.iter().position(|b| *b == b'\n').unwrap_or(message.len());
        let message = message.get(..end).unwrap_or_default();
        Some(Record { priority: u32::try_from(priority).ok()?, sequence, uptime_us, message })
    }

    /// Who wrote it: 0 is the kernel, everything else came through a program that wrote into `/dev/kmsg`.
    #[must_use]
    pub fn facility(&self) -> u32 {
        self.priority >> 3
    }
}

/// Digits only: `+1` is no number of the kernel's.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
