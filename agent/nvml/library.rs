//! NVIDIA's management library: one safe method for each question, and the code where it does not answer.
//!
//! All that is unsafe in this program is here. The library is opened at run time; a function that it lacks answers
//! [`FUNCTION_NOT_FOUND`], so that old drivers tell what they can. `nvml-wrapper` is not used: it hides codes above 22,
//! panics when it closes a library without `nvmlShutdown`, and cannot read signed fields (decision 9).
#![expect(unsafe_code, reason = "calls of a C library through pointers")]

mod lists;
mod values;

use std::ffi::c_char;
use std::ptr;

use nvml_wrapper_sys::bindings::{NvmlLib, nvmlDevice_t, nvmlReturn_t};

/// The driver's module is not loaded.
pub(super) const DRIVER_NOT_LOADED: u32 = 9;
/// The library lacks the function.
pub(super) const FUNCTION_NOT_FOUND: u32 = 13;
/// The GPU has fallen off the bus.
pub(super) const GPU_IS_LOST: u32 = 15;
/// The GPU answers nothing until it is reset.
pub(super) const RESET_REQUIRED: u32 = 16;
/// Library and module are of different versions.
pub(super) const VERSION_MISMATCH: u32 = 18;
/// The structure's version is not known to the library.
const ARGUMENT_VERSION_MISMATCH: u32 = 25;
/// The GPU is not there.
pub(super) const GPU_NOT_FOUND: u32 = 28;
/// Any other fault.
const UNKNOWN: u32 = 999;

/// Longest text that any of the functions below writes.
const TEXT_BYTES_MAX: usize = 128;

/// An answer, or NVML's code.
pub(super) type Answer<T> = Result<T, u32>;

/// A GPU or a part of one, as the library knows it. Good until the library is shut down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle(nvmlDevice_t);

pub(super) use self::lists::Computing;

/// The library, loaded.
pub(super) struct Library {
    lib: NvmlLib,
}

/// A function that fills in one value of a device.
type Getter<T> = unsafe extern "C" fn(nvmlDevice_t, *mut T) -> nvmlReturn_t;
/// A function that fills in one value of a device for a selector.
type Selected<T> = unsafe extern "C" fn(nvmlDevice_t, u32, *mut T) -> nvmlReturn_t;
/// A function that writes a text of a device.
type TextGetter = unsafe extern "C" fn(nvmlDevice_t, *mut c_char, u32) -> nvmlReturn_t;

/// The code of a call as an answer.
fn answer(code: nvmlReturn_t) -> Answer<()> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// A symbol, or that it is missing.
fn function<F: Copy, E>(symbol: &Result<F, E>) -> Answer<F> {
    symbol.as_ref().map_or(Err(FUNCTION_NOT_FOUND), |f| Ok(*f))
}

/// The text up to the first zero byte. Whatever a broken GPU writes is text afterwards.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The word by which versioned structures say which they are.
fn version_word<T>(version: u32) -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(u32::MAX) | (version << 24)
}

fn get<T: Default, E>(symbol: &Result<Getter<T>, E>, handle: Handle) -> Answer<T> {
    let mut value = T::default();
    // SAFETY: the function has this type in nvml.h; the handle is the library's; the value is a local variable.
    answer(unsafe { function(symbol)?(handle.0, &raw mut value) })?;
    Ok(value)
}

fn get_selected<T: Default, E>(
    symbol: &Result<Selected<T>, E>,
    handle: Handle,
    selector: u32,
) -> Answer<T> {
    let mut value = T::default();
    // SAFETY: as in `get`; selectors are plain numbers that the library checks.
    answer(unsafe { function(symbol)?(handle.0, selector, &raw mut value) })?;
    Ok(value)
}

fn get_text<E>(symbol: &Result<TextGetter, E>, handle: Handle) -> Answer<String> {
    let mut bytes: [c_char; TEXT_BYTES_MAX] = [0; TEXT_BYTES_MAX];
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    // SAFETY: as in `get`; the buffer has the length that is told.
    answer(unsafe { function(symbol)?(handle.0, bytes.as_mut_ptr(), len) })?;
    Ok(text(&bytes))
}

/// Fills in a structure. `T` is plain C data.
fn fill<T, E>(symbol: &Result<Getter<T>, E>, handle: Handle, mut value: T) -> Answer<T> {
    // SAFETY: as in `get`; a structure with a version word is written up to the size in it.
    answer(unsafe { function(symbol)?(handle.0, &raw mut value) })?;
    Ok(value)
}

impl Library {
    /// Loads the library.
    ///
    /// # Errors
    /// What the dynamic loader says.
    pub(super) fn load(path: &str) -> Result<Self, String> {
        // SAFETY: loading runs the library's constructors; the operator vouches for what is at --nvml, and the system
        // for its own library.
        let loaded = unsafe { NvmlLib::new(path) };
        loaded.map(|lib| Self { lib }).map_err(|error| error.to_string())
    }

    pub(super) fn init(&self) -> Answer<()> {
        // SAFETY: no arguments.
        answer(unsafe { function(&self.lib.nvmlInit_v2)?() })
    }

    pub(super) fn shutdown(&self) -> Answer<()> {
        // SAFETY: no arguments; no handle is used afterwards.
        answer(unsafe { function(&self.lib.nvmlShutdown)?() })
    }

    fn system_text<E>(
        symbol: &Result<unsafe extern "C" fn(*mut c_char, u32) -> nvmlReturn_t, E>,
    ) -> Answer<String> {
        let mut bytes: [c_char; TEXT_BYTES_MAX] = [0; TEXT_BYTES_MAX];
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // SAFETY: the function has this type in nvml.h; the buffer has the length that is told.
        answer(unsafe { function(symbol)?(bytes.as_mut_ptr(), len) })?;
        Ok(text(&bytes))
    }

    pub(super) fn driver_version(&self) -> Answer<String> {
        Self::system_text(&self.lib.nvmlSystemGetDriverVersion)
    }

    pub(super) fn nvml_version(&self) -> Answer<String> {
        Self::system_text(&self.lib.nvmlSystemGetNVMLVersion)
    }

    pub(super) fn cuda_version(&self) -> Answer<u32> {
        let mut version = 0;
        // SAFETY: the function has this type in nvml.h; the value is a local variable.
        answer(unsafe {
            function(&self.lib.nvmlSystemGetCudaDriverVersion_v2)?(&raw mut version)
        })?;
        u32::try_from(version).map_err(|_| UNKNOWN)
    }

    pub(super) fn count(&self) -> Answer<u32> {
        let mut count = 0;
        // SAFETY: the function has this type in nvml.h; the value is a local variable.
        answer(unsafe { function(&self.lib.nvmlDeviceGetCount_v2)?(&raw mut count) })?;
        Ok(count)
    }

    pub(super) fn gpu(&self, index: u32) -> Answer<Handle> {
        let mut device = ptr::null_mut();
        // SAFETY: the function has this type in nvml.h; the value is a local variable.
        answer(unsafe {
            function(&self.lib.nvmlDeviceGetHandleByIndex_v2)?(index, &raw mut device)
        })?;
        Ok(Handle(device))
    }
}
