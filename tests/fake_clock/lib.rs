//! A wall clock that is wrong, for programs started with `LD_PRELOAD` set to this library.
//!
//! The time of day is moved by `SLUICE_TEST_CLOCK_OFFSET_S` seconds (may be negative); clocks that only measure spans
//! are left alone, as on a machine whose clock was set wrongly. Only what asks through libc is fooled, which is all
//! that the standard library does.

#![allow(unsafe_code, reason = "a library that stands in for libc's functions has C's interface")]

use std::sync::OnceLock;

use nix::libc::{
    CLOCK_REALTIME, CLOCK_REALTIME_COARSE, SYS_clock_gettime, c_int, clockid_t, syscall, time_t,
    timespec, timeval,
};

/// Unit: seconds.
fn offset_s() -> time_t {
    static OFFSET: OnceLock<time_t> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let text = std::env::var("SLUICE_TEST_CLOCK_OFFSET_S").unwrap_or_default();
        text.parse().unwrap_or(0)
    })
}

/// The kernel's own answer.
///
/// # Safety
/// `now` is valid for writing a `timespec`.
unsafe fn kernel_time(clock: clockid_t, now: *mut timespec) -> c_int {
    // SAFETY: the caller vouches for `now`, which is all that the kernel writes to.
    let result = unsafe { syscall(SYS_clock_gettime, clock, now) };
    if result == 0 { 0 } else { -1 }
}

/// `clock_gettime(2)`.
///
/// # Safety
/// As libc's: `now` is valid for writing a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, now: *mut timespec) -> c_int {
    // SAFETY: the caller keeps libc's contract.
    let result = unsafe { kernel_time(clock, now) };
    if result == 0 && [CLOCK_REALTIME, CLOCK_REALTIME_COARSE].contains(&clock) {
        // SAFETY: the kernel has just written to it.
        unsafe { (*now).tv_sec += offset_s() };
    }
    result
}

/// `gettimeofday(2)`; the time zone has long been ignored.
///
/// # Safety
/// As libc's: `now` is null or valid for writing a `timeval`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(now: *mut timeval, _zone: *mut ()) -> c_int {
    let mut exact = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `exact` is a local variable.
    let result = unsafe { clock_gettime(CLOCK_REALTIME, &raw mut exact) };
    if result == 0 && !now.is_null() {
        let value = timeval { tv_sec: exact.tv_sec, tv_usec: exact.tv_nsec / 1_000 };
        // SAFETY: not null, so the caller vouches for it.
        unsafe { now.write(value) };
    }
    result
}

/// `time(2)`.
///
/// # Safety
/// As libc's: `now` is null or valid for writing a `time_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(now: *mut time_t) -> time_t {
    let mut exact = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `exact` is a local variable.
    let result = unsafe { clock_gettime(CLOCK_REALTIME, &raw mut exact) };
    if result != 0 {
        return -1;
    }
    if !now.is_null() {
        // SAFETY: not null, so the caller vouches for it.
        unsafe { now.write(exact.tv_sec) };
    }
    exact.tv_sec
}
