//! The command of a workload: found as a shell would find it, and the name it lends.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::failure::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure};

/// Where programs are looked for if PATH is not set, as shells do it.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file of `program`, looked up in PATH unless it holds a slash.
///
/// # Errors
/// Exit status 127 if there is none, 126 if it cannot be executed: as shells say it.
pub(crate) fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into());
    find_in(program, &path)
}

fn find_in(program: &OsStr, path: &OsStr) -> Result<PathBuf, Failure> {
    if program.as_bytes().contains(&b'/') {
        let file = Path::new(program);
        return match look(file) {
            Found::Program => Ok(file.to_owned()),
            Found::NotExecutable(why) => Err(not_executable(file, why)),
            Found::Nothing => Err(not_found(program, "there is no such file")),
        };
    }
    let mut not_usable = None;
    for dir in std::env::split_paths(path) {
        let file = dir.join(program);
        match look(&file) {
            Found::Program => return Ok(file),
            Found::NotExecutable(why) => {
                not_usable.get_or_insert((file, why));
            }
            Found::Nothing => {}
        }
    }
    match not_usable {
        Some((file, why)) => Err(not_executable(&file, why)),
        None => Err(not_found(program, "it is in no directory of PATH")),
    }
}

enum Found {
    Program,
    NotExecutable(&'static str),
    Nothing,
}

fn look(file: &Path) -> Found {
    match file.metadata() {
        Ok(meta) if meta.is_dir() => Found::NotExecutable("it is a directory"),
        Ok(_) if access(file, AccessFlags::X_OK).is_ok() => Found::Program,
        Ok(_) => Found::NotExecutable("it may not be executed"),
        Err(_) => Found::Nothing,
    }
}

fn not_found(program: &OsStr, why: &str) -> Failure {
    let message = format!("command {program:?} was not found: {why}");
    Failure { exit: EXIT_NOT_FOUND, ..Failure::runtime(message) }
}

fn not_executable(file: &Path, why: &str) -> Failure {
    let message = format!("command {file:?} cannot be run: {why}");
    let hint = if why.contains("directory") { "name a program" } else { "chmod +x it" };
    Failure { exit: EXIT_NOT_EXECUTABLE, ..Failure::runtime(message) }.hint(hint)
}

/// A name for a workload that runs `program`: its file name and five random characters.
pub(crate) fn workload_name(program: &Path, rng: &mut fastrand::Rng) -> String {
    const BASE_LEN_MAX: usize = 48;
    const LETTERS: &[u8] = b"bcdfghjkmnpqrstvwxz23456789";
    let base = program.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let base: String = base.chars().filter(allowed).take(BASE_LEN_MAX).collect();
    let base = if base.is_empty() { "run" } else { &base };
    let random = (0..5).map(|_| char::from(LETTERS[rng.usize(..LETTERS.len())]));
    format!("{base}-{}", random.collect::<String>())
}
