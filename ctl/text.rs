//! Numbers, times and foreign text, as people read them.
//!
//! Everything that comes from outside (names, paths, messages) goes through [`safe`] before it
//! reaches a terminal.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use sluice_core::unit::Span;

/// What is shown where nothing is known.
pub(crate) const NOTHING: &str = "-";

/// `text` with every character escaped that could move the cursor, change colours or hide.
///
/// That is control characters, marks of writing direction and invisible characters; a terminal
/// shows `\u{1b}` instead of obeying it.
pub(crate) fn safe(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_dangerous(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// `text` made safe, or `-` if it is empty.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { safe(text) }
}

/// A span in a column: `850ms`, `12s`, `4m10s`, `3h5m`, `2d3h`.
pub(crate) fn age(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0 => format!("{ms}ms"),
        1..120 => format!("{seconds}s"),
        120..7_200 => format!("{minutes}m{}s", seconds % 60),
        7_200..172_800 => format!("{hours}h{}m", minutes % 60),
        172_800.. => format!("{days}d{}h", hours % 24),
    }
}

/// [`age`], or `-` if it is not known.
pub(crate) fn age_or_dash(ms: Option<u64>) -> String {
    ms.map_or_else(|| NOTHING.to_owned(), age)
}

/// A span in a sentence: `850 ms`, `12.3 s`, `4 min 10 s`.
pub(crate) fn span(ms: u64) -> String {
    Span(ms).to_string()
}

/// [`span`], or `unknown`.
pub(crate) fn span_or_unknown(ms: Option<u64>) -> String {
    ms.map_or_else(|| "unknown".to_owned(), span)
}

/// A quantity of bytes: `512 B`, `1.5 GiB`; three digits at most before the unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1_024 {
        return format!("{count} B");
    }
    let power = (count.ilog2() / 10).clamp(1, 6);
    let unit = 1_u64 << (10 * power);
    let (whole, tenth) = (count / unit, u128::from(count % unit) * 10 / u128::from(unit));
    let name = UNITS[power as usize - 1];
    if whole < 10 { format!("{whole}.{tenth} {name}") } else { format!("{whole} {name}") }
}

/// Work of several accelerators together, from device-milliseconds: `12.3 GPU-s`.
pub(crate) fn device_seconds(device_ms: u64) -> String {
    format!("{}.{} GPU-s", device_ms / 1_000, device_ms % 1_000 / 100)
}

/// Thousandths as a percentage: `12.5%`.
pub(crate) fn permille(value: u32) -> String {
    format!("{}.{}%", value / 10, value % 10)
}

/// `1 worker`, `2 workers`: for words that take an s.
pub(crate) fn count(number: usize, word: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {word}{plural}")
}

/// The point in time that a message carries; `None` if it carries none, or nonsense.
pub(crate) fn timestamp(wire: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    wire.and_then(|t| Timestamp::new(t.seconds, t.nanos).ok())
}

/// Milliseconds from `earlier` to `now`; 0 if the clocks disagree and it lies ahead.
pub(crate) fn ms_between(earlier: Timestamp, now: Timestamp) -> u64 {
    let ms = now.as_millisecond().saturating_sub(earlier.as_millisecond());
    u64::try_from(ms).unwrap_or(0)
}
