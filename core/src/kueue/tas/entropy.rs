//! How evenly pods are spread over domains, in integers.
//!
//! Kueue compares Shannon entropies as floats. Here they are fixed-point numbers that depend on the shares alone, so
//! equal spreads are equal on every machine and in every order of the domains.

/// Fractional bits of a logarithm.
const LOG_BITS: u32 = 40;

/// Fractional bits of an entropy: few enough that rounding swallows the error of the logarithms.
const ENTROPY_BITS: u32 = 30;

/// Shannon entropy of the shares that `counts` make up, in 2^-30 bits; 0 if there is nothing to share.
///
/// Negative counts are taken as 0. Range: 0 to 32 * 2^30 for up to 2^32 counts.
pub(super) fn entropy(counts: impl Iterator<Item = i64> + Clone) -> u64 {
    let counts = counts.filter_map(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
    // Shares do not change when all counts are divided by one number; exact ties stay exact that way.
    let divisor = counts.clone().fold(0, greatest_common_divisor);
    if divisor == 0 {
        return 0;
    }
    let mut total: u64 = 0;
    let mut weighted: u128 = 0;
    for count in counts.map(|count| count / divisor) {
        total = total.saturating_add(count);
        weighted += u128::from(count) * u128::from(log2(count));
    }
    // H = log2(total) - (sum of n * log2(n)) / total; rounding may put it just below 0.
    let mean = weighted / u128::from(total);
    let entropy = u128::from(log2(total)).saturating_sub(mean);
    let dropped = LOG_BITS - ENTROPY_BITS;
    let rounded = (entropy + (1 << (dropped - 1))) >> dropped;
    u64::try_from(rounded).expect("an entropy is at most 64 bits")
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Base-2 logarithm of `n` in 2^-40; `n` is at least 1. Exact for powers of two.
fn log2(n: u64) -> u64 {
    assert!(n > 0, "zero has no logarithm");
    let whole = u64::from(n.ilog2());
    // The fraction bit by bit: squaring doubles the logarithm.
    let mut mantissa = u128::from(n << n.leading_zeros());
    let mut fraction = 0;
    for _ in 0..LOG_BITS {
        mantissa = (mantissa * mantissa) >> 63;
        fraction <<= 1;
        if mantissa >> 64 != 0 {
            fraction |= 1;
            mantissa >>= 1;
        }
    }
    (whole << LOG_BITS) | fraction
}

#[cfg(test)]
mod tests;
