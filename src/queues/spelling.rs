//! Which name somebody may have meant.

/// Longest name that is compared. Unit: bytes.
const COMPARED_BYTES_MAX: usize = 64;
/// Most names one is compared with, so that a large file full of errors stays quick.
const CANDIDATES_MAX: usize = 1_000;

/// The one of `candidates` that is nearest to `written`, if it is near: a few letters changed, added, lost or swapped.
pub(super) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if written.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let lower = written.to_lowercase();
    let far = (written.chars().count() / 3).clamp(1, 3);
    let comparable = candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= COMPARED_BYTES_MAX);
    comparable
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `; did you mean "NAME"?`, or nothing.
pub(super) fn did_you_mean<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    nearest(written, candidates)
        .map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}
