//! File names for keys. Any text can be a key; in a name, everything but letters, digits, `_` and
//! `-` becomes `%XX`, so no key can leave the directory, hide, or look like a temporary file.

/// Ending of a record.
pub(super) const JSON_SUFFIX: &str = ".json";

/// Added to the name of a record while it is written.
pub(super) const TMP_SUFFIX: &str = ".tmp";

/// Longest key, encoded. File names have at most 255 bytes, of which the endings take up to 17.
pub(super) const KEY_BYTES_MAX: usize = 230;

/// The file name for `key`; `None` if it is empty or too long.
pub(super) fn file_name(key: &str) -> Option<String> {
    let mut name = String::with_capacity(key.len() + JSON_SUFFIX.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            other => name.push_str(&format!("%{other:02X}")),
        }
        if name.len() > KEY_BYTES_MAX {
            return None;
        }
    }
    if name.is_empty() {
        return None;
    }
    name.push_str(JSON_SUFFIX);
    Some(name)
}

/// The key whose file name is exactly `name`.
pub(super) fn key_of(name: &str) -> Option<String> {
    let encoded = name.strip_suffix(JSON_SUFFIX)?;
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    let key = String::from_utf8(bytes).ok()?;
    // One name per key: other spellings of the same key are not ours.
    (file_name(&key)? == name).then_some(key)
}
