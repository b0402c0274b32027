//! How NVIDIA's driver and its library do.

/// Whether the driver can be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DriverState {
    /// Nothing is known yet.
    #[default]
    Starting,
    /// It answers. A version is `None` where it did not tell.
    Running {
        /// Of the kernel module: `570.133.20`.
        version: Option<String>,
        /// Of the library: `12.570.133.20`.
        nvml_version: Option<String>,
        /// Highest CUDA that it supports, major × 1000 + minor × 10: 12080.
        cuda_version: Option<u32>,
    },
    /// The kernel module is not loaded (NVML 9): being installed, upgraded, or never there.
    NotLoaded,
    /// Library and kernel module are of different versions (NVML 18): an upgrade is under way, or needs a reboot.
    Mismatch,
    /// There is no library where it was looked for.
    LibraryMissing {
        /// Where, and what the loader said.
        why: String,
    },
    /// A call has not returned for long. What was last known stays in the sample.
    Unresponsive {
        /// Since the call began. Unit: milliseconds.
        since_ms: u64,
        /// The process that hangs in it has been killed and does not end: it hangs in the kernel.
        is_stuck_in_kernel: bool,
    },
    /// The library refuses to start for another reason.
    Failed {
        /// NVML's code; see [`nvml_code`]. `None`: not the library but the process that asks it failed.
        code: Option<u32>,
        /// What happened.
        text: String,
    },
    /// Nobody asks: the driver was given free so that it can be replaced or a GPU reset.
    Released {
        /// Until it is asked again by itself. Unit: milliseconds.
        remaining_ms: u64,
    },
}

/// What an NVML return code is called, in NVML's own words; numbers that this version does not know get none.
///
/// Source: `nvmlReturn_t` of nvml.h, CUDA 13.0.
#[must_use]
pub fn nvml_code(code: u32) -> Option<&'static str> {
    const NAMES: [&str; 30] = [
        "success",
        "uninitialized",
        "invalid argument",
        "not supported",
        "no permission",
        "already initialized",
        "not found",
        "insufficient size",
        "insufficient power",
        "driver not loaded",
        "timeout",
        "interrupt request issue",
        "library not found",
        "function not found",
        "corrupted inforom",
        "GPU is lost",
        "reset required",
        "operating system",
        "library and driver version mismatch",
        "in use",
        "memory",
        "no data",
        "vgpu ecc not supported",
        "insufficient resources",
        "frequency not supported",
        "argument version mismatch",
        "deprecated",
        "not ready",
        "GPU not found",
        "invalid state",
    ];
    if code == 999 {
        return Some("unknown error");
    }
    NAMES.get(usize::try_from(code).ok()?).copied()
}
