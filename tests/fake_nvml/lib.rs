//! NVIDIA's management library without NVIDIA: the functions that the agent calls, with C's interface, over a control file.
//!
//! See `control.rs` for what can be told to it. Handles are plain numbers: a GPU's index plus one, and for a part of it
//! the part's index plus one in the next eight bits. Nothing is behind them.

#![allow(unsafe_code, reason = "a library that stands in for a C library has C's interface")]
#![allow(
    clippy::unwrap_used,
    reason = "a wrong control file ends the process, so that the test fails"
)]
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "the functions are nvml.h's, and are found by their names"
)]
#![allow(non_snake_case, reason = "the names are NVIDIA's")]
#![allow(
    clippy::missing_panics_doc,
    reason = "a wrong control file ends the process, so that the test fails"
)]
#![allow(clippy::missing_safety_doc, reason = "every pointer is valid for what nvml.h says of it")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "callers keep nvml.h's contract throughout")]

mod control;
mod lists;
mod values;

use std::ffi::{c_char, c_uint};
use std::time::Instant;

use nix::sys::signal::{SigHandler, Signal, signal};
use serde_json::Value;

use self::control::{NOT_SUPPORTED, call, code, current};

const INVALID_ARGUMENT: u32 = 2;
const BUFFER_TOO_SMALL: u32 = 7;

/// What C calls `nvmlDevice_t`.
type Handle = usize;

/// A GPU by its handle, and the part.
fn decode(handle: Handle) -> (usize, Option<usize>) {
    ((handle & 0xff) - 1, (handle >> 8).checked_sub(1))
}

fn encode(gpu: usize, part: Option<usize>) -> Handle {
    gpu + 1 + (part.map_or(0, |part| part + 1) << 8)
}

/// What a call about a GPU has to say: the control file's code, that the GPU is lost, or the value.
fn value(name: &str, handle: Handle, key: &str) -> Result<Value, u32> {
    let (gpu, part) = decode(handle);
    begin(name, Some(gpu))?;
    let control = current();
    if let Some(lost) = control::number(&control.value(gpu, "lost")) {
        return Err(lost);
    }
    let value = match part {
        None => control.value(gpu, key),
        Some(part) => control.value(gpu, "mig_instances")[part][key].clone(),
    };
    if value.is_null() {
        return Err(NOT_SUPPORTED);
    }
    code(&value).map_or(Ok(value), Err)
}

fn begin(name: &str, gpu: Option<usize>) -> Result<(), u32> {
    call(name, gpu).filter(|code| *code != 0).map_or(Ok(()), Err)
}

/// A result as C has it.
fn returned(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(0)
}

/// Writes a text and its end.
unsafe fn write_text(text: &str, into: *mut c_char, length: c_uint) -> Result<(), u32> {
    if text.len() >= length as usize {
        return Err(BUFFER_TOO_SMALL);
    }
    for (at, byte) in text.bytes().chain([0]).enumerate() {
        unsafe { into.add(at).write(byte.cast_signed()) };
    }
    Ok(())
}

fn system_text(name: &str, key: &str) -> Result<String, u32> {
    begin(name, None)?;
    let value = current().system(key).clone();
    code(&value).map_or(Ok(()), Err)?;
    value.as_str().map(str::to_owned).ok_or(NOT_SUPPORTED)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> u32 {
    let control = current();
    if control.is_set("ignore_sigterm") {
        unsafe { signal(Signal::SIGTERM, SigHandler::SigIgn) }.unwrap();
    }
    if control.is_set("unreapable") {
        keep_from_being_reaped();
    }
    returned(begin("nvmlInit_v2", None))
}

/// Has this process traced by another one that never waits for it: once dead it stays, as it would if it hung in the
/// kernel. The tracer ends when the switch does.
fn keep_from_being_reaped() {
    use nix::sys::{prctl, ptrace};
    use nix::unistd::{ForkResult, fork, getpid};
    let me = getpid();
    // Where tracing is restricted to descendants the tracer must be allowed by its target.
    let _ = unsafe { nix::libc::prctl(nix::libc::PR_SET_PTRACER, nix::libc::PR_SET_PTRACER_ANY) };
    if let ForkResult::Child = unsafe { fork() }.unwrap() {
        let _ = prctl::set_name(c"fake-tracer");
        // The files of the process are its own: they have to close when it dies.
        for file in 0..16 {
            unsafe { nix::libc::close(file) };
        }
        if ptrace::seize(me, ptrace::Options::empty()).is_ok() {
            let deadline = Instant::now() + control::HANG_MAX;
            while current().is_set("unreapable") && Instant::now() < deadline {
                std::thread::sleep(control::HANG_LOOK);
            }
        } else {
            // The machine forbids tracing: the test has to know that it shows nothing.
            let mark = std::env::var("SLUICE_FAKE_NVML").unwrap() + ".untraceable";
            let _ = std::fs::write(mark, "");
        }
        unsafe { nix::libc::_exit(0) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> u32 {
    returned(begin("nvmlShutdown", None))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) -> u32 {
    let version = system_text("nvmlSystemGetDriverVersion", "driver_version");
    returned(version.and_then(|version| unsafe { write_text(&version, text, length) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(text: *mut c_char, length: c_uint) -> u32 {
    let version = system_text("nvmlSystemGetNVMLVersion", "nvml_version");
    returned(version.and_then(|version| unsafe { write_text(&version, text, length) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut i32) -> u32 {
    returned(begin("nvmlSystemGetCudaDriverVersion_v2", None).map(|()| {
        let told = current().system("cuda_version").as_i64().unwrap_or(0);
        unsafe { version.write(i32::try_from(told).unwrap()) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> u32 {
    returned(begin("nvmlDeviceGetCount_v2", None).map(|()| {
        unsafe { count.write(u32::try_from(current().count()).unwrap()) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, handle: *mut Handle) -> u32 {
    let gpu = index as usize;
    returned(begin("nvmlDeviceGetHandleByIndex_v2", Some(gpu)).and_then(|()| {
        if gpu >= current().count() {
            return Err(INVALID_ARGUMENT);
        }
        // A GPU may be lost for its handle too, or only for everything else.
        if let Some(lost) = control::number(&current().value(gpu, "lost_handle")) {
            return Err(lost);
        }
        unsafe { handle.write(encode(gpu, None)) };
        Ok(())
    }))
}
