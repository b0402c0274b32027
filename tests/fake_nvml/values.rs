//! One value of a GPU each.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlEccSramErrorStatus_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfoV_t,
    nvmlMarginTemperature_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlUtilization_t,
};

use crate::control::{NOT_SUPPORTED, current, number};
use crate::{Handle, INVALID_ARGUMENT, decode, returned, value, write_text};

const VERSION_MISMATCH: u32 = 25;

/// Functions that fill in one number.
macro_rules! numbers {
    ($($name:ident $key:literal)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: Handle, into: *mut c_uint) -> u32 {
            returned(value(stringify!($name), handle, $key).and_then(|value| {
                let told = value.as_bool().map(u32::from).or_else(|| number(&value));
                unsafe { into.write(told.ok_or(NOT_SUPPORTED)?) };
                Ok(())
            }))
        }
    )*};
}

numbers! {
    nvmlDeviceGetPowerUsage "power_usage_mw"
    nvmlDeviceGetEnforcedPowerLimit "power_limit_mw"
    nvmlDeviceGetCurrPcieLinkGeneration "pcie_generation"
    nvmlDeviceGetMaxPcieLinkGeneration "pcie_generation_max"
    nvmlDeviceGetCurrPcieLinkWidth "pcie_width"
    nvmlDeviceGetMaxPcieLinkWidth "pcie_width_max"
    nvmlDeviceGetPcieReplayCounter "pcie_replays"
    nvmlDeviceGetPersistenceMode "persistent"
    nvmlDeviceGetGpuInstanceId "gpu_instance"
    nvmlDeviceGetComputeInstanceId "compute_instance"
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMinorNumber(handle: Handle, into: *mut c_uint) -> u32 {
    let (gpu, _) = decode(handle);
    returned(value("nvmlDeviceGetMinorNumber", handle, "name").map(|_| {
        let told = number(&current().value(gpu, "minor"));
        unsafe { into.write(told.unwrap_or_else(|| u32::try_from(gpu).unwrap())) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(handle: Handle, text: *mut c_char, length: u32) -> u32 {
    let (gpu, part) = decode(handle);
    returned(value("nvmlDeviceGetUUID", handle, "name").and_then(|_| {
        let own = current().value(gpu, "uuid");
        let uuid = match (part, own.as_str()) {
            (None, Some(own)) => own.to_owned(),
            (None, None) => format!("GPU-000000{gpu:02x}-0000-0000-0000-0000000000{gpu:02x}"),
            (Some(part), _) => format!("MIG-000000{gpu:02x}-0000-0000-0000-0000000000{part:02x}"),
        };
        unsafe { write_text(&uuid, text, length) }
    }))
}

unsafe fn text(name: &str, key: &str, of: Handle, into: *mut c_char, length: u32) -> u32 {
    returned(value(name, of, key).and_then(|value| {
        let told = value.as_str().ok_or(NOT_SUPPORTED)?;
        unsafe { write_text(told, into, length) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(handle: Handle, into: *mut c_char, length: u32) -> u32 {
    unsafe { text("nvmlDeviceGetName", "name", handle, into, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSerial(of: Handle, into: *mut c_char, length: u32) -> u32 {
    unsafe { text("nvmlDeviceGetSerial", "serial", of, into, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(handle: Handle, info: *mut nvmlPciInfo_t) -> u32 {
    let (gpu, _) = decode(handle);
    returned(value("nvmlDeviceGetPciInfo_v3", handle, "name").and_then(|_| {
        let into = unsafe { (&raw mut (*info).busId).cast() };
        unsafe { write_text(&current().pci(gpu), into, 32) }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(of: Handle, into: *mut nvmlMemory_v2_t) -> u32 {
    if unsafe { (*into).version } != 0x0200_0028 {
        return VERSION_MISMATCH;
    }
    returned(value("nvmlDeviceGetMemoryInfo_v2", of, "memory").map(|memory| {
        let bytes = |key: &str| memory[key].as_u64().unwrap_or(0);
        let (total, reserved, used) = (bytes("total"), bytes("reserved"), bytes("used"));
        let told = nvmlMemory_v2_t {
            version: 0x0200_0028,
            total,
            reserved,
            free: total.saturating_sub(reserved).saturating_sub(used),
            used,
        };
        unsafe { into.write(told) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    handle: Handle,
    into: *mut nvmlUtilization_t,
) -> u32 {
    returned(value("nvmlDeviceGetUtilizationRates", handle, "utilization").map(|shares| {
        let share = |key: &str| number(&shares[key]).unwrap_or(0);
        unsafe { into.write(nvmlUtilization_t { gpu: share("gpu"), memory: share("memory") }) };
    }))
}

/// Functions that fill in one number for a selector: the key of each by its place.
macro_rules! selected {
    ($($name:ident [$($key:literal),*])*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: Handle, which: c_uint, into: *mut c_uint) -> u32 {
            let keys = [$($key),*];
            let Some(key) = keys.get(which as usize) else { return INVALID_ARGUMENT };
            returned(value(stringify!($name), handle, key).and_then(|value| {
                unsafe { into.write(number(&value).ok_or(NOT_SUPPORTED)?) };
                Ok(())
            }))
        }
    )*};
}

selected! {
    nvmlDeviceGetTemperature ["temperature_celsius"]
    nvmlDeviceGetTemperatureThreshold ["shutdown_celsius", "slowdown_celsius"]
    nvmlDeviceGetClockInfo ["sm_mhz", "sm_mhz", "memory_mhz"]
    nvmlDeviceGetMaxClockInfo ["sm_max_mhz", "sm_max_mhz", "memory_mhz"]
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMarginTemperature(
    handle: Handle,
    into: *mut nvmlMarginTemperature_t,
) -> u32 {
    if unsafe { (*into).version } != 0x0100_0008 {
        return VERSION_MISMATCH;
    }
    returned(value("nvmlDeviceGetMarginTemperature", handle, "margin_celsius").map(|margin| {
        let margin = c_int::try_from(margin.as_i64().unwrap()).unwrap();
        unsafe { (*into).marginTemperature = margin };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(
    handle: Handle,
    into: *mut c_ulonglong,
) -> u32 {
    let name = "nvmlDeviceGetCurrentClocksEventReasons";
    returned(value(name, handle, "clock_event_reasons").map(|reasons| {
        unsafe { into.write(reasons.as_u64().unwrap()) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEccMode(
    handle: Handle,
    now: *mut c_uint,
    later: *mut c_uint,
) -> u32 {
    returned(value("nvmlDeviceGetEccMode", handle, "ecc_enabled").map(|is_enabled| {
        let told = u32::from(is_enabled == true);
        unsafe { now.write(told) };
        unsafe { later.write(told) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    handle: Handle,
    kind: c_uint,
    counter: c_uint,
    into: *mut c_ulonglong,
) -> u32 {
    let key = match (kind, counter) {
        (0, 0) => "corrected_volatile",
        (1, 0) => "uncorrected_volatile",
        (0, 1) => "corrected_aggregate",
        (1, 1) => "uncorrected_aggregate",
        _ => return INVALID_ARGUMENT,
    };
    returned(value("nvmlDeviceGetTotalEccErrors", handle, "ecc").and_then(|errors| {
        unsafe { into.write(errors[key].as_u64().ok_or(NOT_SUPPORTED)?) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSramEccErrorStatus(
    handle: Handle,
    into: *mut nvmlEccSramErrorStatus_t,
) -> u32 {
    if unsafe { (*into).version } >> 24 != 1 {
        return VERSION_MISMATCH;
    }
    returned(value("nvmlDeviceGetSramEccErrorStatus", handle, "sram_ecc").map(|status| {
        let is_exceeded = status["is_threshold_exceeded"] == true;
        unsafe { (*into).bThresholdExceeded = u32::from(is_exceeded) };
        unsafe { (*into).aggregateUncSecDed = status["uncorrected"].as_u64().unwrap_or(0) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuFabricInfoV(
    handle: Handle,
    into: *mut nvmlGpuFabricInfoV_t,
) -> u32 {
    let versions = [
        size_of::<nvmlGpuFabricInfoV_t>() | 3 << 24,
        size_of::<nvmlGpuFabricInfo_v2_t>() | 2 << 24,
    ];
    let newest = current().system("fabric_version_max").as_u64().unwrap_or(3);
    let version = unsafe { (*into).version };
    if !versions.contains(&(version as usize)) || u64::from(version >> 24) > newest {
        return VERSION_MISMATCH;
    }
    returned(value("nvmlDeviceGetGpuFabricInfoV", handle, "fabric").map(|fabric| {
        let told = |key: &str| number(&fabric[key]).unwrap_or(0);
        unsafe { (*into).state = told("state").try_into().unwrap() };
        unsafe { (*into).status = told("status") };
        unsafe { (*into).healthMask = told("health_mask") };
    }))
}
