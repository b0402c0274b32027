//! Names of Slice objects.

/// Longest name of a Slice: the controller of the cloud appends to it, and its own limit is 63 bytes.
pub const NAME_BYTES_MAX: usize = 49;

/// The name of slice `index` of a gang: its parts joined by `-`, and shortened with a hash if that is too long.
///
/// Characters that such names cannot have become `-`. Two different gangs get different names as far as five
/// hexadecimal digits tell them apart.
#[must_use]
pub fn slice_name(namespace: &str, workload: &str, pod_set: &str, index: u32) -> String {
    let full = format!("{namespace}-{workload}-{pod_set}-{index}");
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let mut name: String = full.to_lowercase().chars().map(plain).collect();
    let is_letter_first = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !is_letter_first {
        name.insert_str(0, "s-");
    }
    if name.len() <= NAME_BYTES_MAX && name.ends_with(full.as_str()) {
        return name;
    }
    // Whatever was changed or cut off is told apart by the hash of the whole.
    let kept: String = name.chars().take(NAME_BYTES_MAX - 6).collect();
    format!("{}-{:05x}", kept.trim_end_matches('-'), hash(&full) & 0xf_ffff)
}

/// FNV-1a, the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    // Its low bits alone depend too little on the last characters.
    hash ^ (hash >> 32)
}
