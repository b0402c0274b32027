//! Throughput as Google counts it: whole MiB a second.

use std::fmt;

/// Bytes of one MiB: Google's "MB/s" of disks is 2^20 bytes a second.
pub const MIB_BYTES: u64 = 1 << 20;

/// A throughput. Unit: MiB a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mib(pub u64);

impl Mib {
    /// The same in bytes a second (saturating).
    #[must_use]
    pub fn bytes_per_second(self) -> u64 {
        self.0.saturating_mul(MIB_BYTES)
    }
}

impl fmt::Display for Mib {
    /// `7,200 MiB/s`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        write!(f, "{grouped} MiB/s")
    }
}

impl std::str::FromStr for Mib {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::Mib;

    #[test]
    fn throughput_is_shown_in_groups_of_three() {
        let shown: Vec<String> = [0, 400, 7_200, 480_000, 2_097_152]
            .into_iter()
            .map(|mib| Mib(mib).to_string())
            .collect();
        assert_eq!(
            shown,
            ["0 MiB/s", "400 MiB/s", "7,200 MiB/s", "480,000 MiB/s", "2,097,152 MiB/s"]
        );
    }
}
