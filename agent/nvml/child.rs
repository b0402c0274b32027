//! The child process: asks the library what the agent wants to know, one question after the other.
//!
//! It has no runtime, no configuration and no logger, and keeps nothing open but the library and one socket. A call
//! that hangs makes it hang; that is what it is for. It ends when told, when the socket closes, when its parent dies, and
//! when the library cannot be started: a library that was replaced meanwhile is only found by a new process.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use sluice_core::sample::{DriverState, GpuSample, nvml_code};

use super::PROBE_NAME;
use super::frame::{self, Answer, Request};
use super::library::{DRIVER_NOT_LOADED, Library, VERSION_MISMATCH};
use super::look::Looker;

/// Talks over `socket` until the parent is gone or says end. `parent` is the agent's process id, `libraries` are tried
/// in turn.
///
/// # Errors
/// The process could not be set up, or the socket failed.
pub(super) fn run(mut socket: UnixStream, parent: i32, libraries: &[String]) -> Result<(), String> {
    set_up(parent)?;
    let failed = |error: io::Error| format!("the agent cannot be answered: {error}");
    let mut opened: Option<Opened> = None;
    let mut bytes = Vec::new();
    while let Some(request) = next_request(&mut socket, &mut bytes)? {
        match request {
            Request::End => break,
            Request::Look => {}
        }
        if opened.is_none() {
            opened = match Opened::new(libraries) {
                Ok(new) => Some(new),
                Err(driver) => {
                    let answer = Answer { driver, gpus: Vec::new() };
                    socket.write_all(&frame::encode(&answer)).map_err(failed)?;
                    return Ok(());
                }
            };
        }
        if let Some(opened) = &mut opened {
            let answer = opened.look();
            socket.write_all(&frame::encode(&answer)).map_err(failed)?;
            if !matches!(answer.driver, DriverState::Running { .. }) {
                break;
            }
        }
    }
    if let Some(opened) = opened {
        // Nothing can be done about a refusal: the process ends anyway.
        let _ = opened.library.shutdown();
    }
    Ok(())
}

/// Dies with its parent, also if that died before this line was reached.
fn set_up(parent: i32) -> Result<(), String> {
    // By this name it is left out where holders of devices are looked for. Cannot fail: it is 11 bytes long.
    let name = CString::new(PROBE_NAME).map_err(|error| error.to_string())?;
    let _ = prctl::set_name(&name);
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| format!("the kernel does not tell when the parent dies: {error}"))?;
    if getppid().as_raw() == parent {
        return Ok(());
    }
    Err("the agent that started this process is gone".to_owned())
}

/// `None`: the agent closed the socket.
fn next_request(socket: &mut UnixStream, bytes: &mut Vec<u8>) -> Result<Option<Request>, String> {
    let mut chunk = [0; 64];
    loop {
        if let Some(request) = frame::take(bytes).map_err(|error| error.to_string())? {
            return Ok(Some(request));
        }
        match socket.read(&mut chunk) {
            Ok(0) => return Ok(None),
            Ok(len) => bytes.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the agent cannot be heard: {error}")),
        }
    }
}

/// The library, started.
struct Opened {
    library: Library,
    looker: Looker,
    state: DriverState,
}

impl Opened {
    /// Loads the first library that there is and starts it. What stands in the way otherwise.
    fn new(libraries: &[String]) -> Result<Self, DriverState> {
        let mut failures = Vec::new();
        let library = libraries.iter().find_map(|path| {
            Library::load(path).map_err(|why| failures.push(format!("\"{path}\": {why}"))).ok()
        });
        let missing = || DriverState::LibraryMissing { why: failures.join("; ") };
        let library = library.ok_or_else(missing)?;
        library.init().map_err(refused)?;
        let state = DriverState::Running {
            version: library.driver_version().ok(),
            nvml_version: library.nvml_version().ok(),
            cuda_version: library.cuda_version().ok(),
        };
        Ok(Self { library, looker: Looker::default(), state })
    }

    fn look(&mut self) -> Answer {
        match self.looker.look(&self.library) {
            Ok(gpus) => Answer { driver: self.state.clone(), gpus },
            Err(code) => Answer { driver: refused(code), gpus: Vec::<GpuSample>::new() },
        }
    }
}

/// Why the library as a whole does not answer.
fn refused(code: u32) -> DriverState {
    match code {
        DRIVER_NOT_LOADED => DriverState::NotLoaded,
        VERSION_MISMATCH => DriverState::Mismatch,
        code => DriverState::Failed {
            code: Some(code),
            text: nvml_code(code).unwrap_or("a code that this version does not know").to_owned(),
        },
    }
}
