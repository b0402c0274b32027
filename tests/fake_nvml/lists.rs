//! Answers of several parts: rows, links, instances, processes, fields.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlProcessInfo_t};

use crate::control::{NOT_SUPPORTED, code, current, number};
use crate::{BUFFER_TOO_SMALL, Handle, INVALID_ARGUMENT, begin, decode, encode, returned, value};

const NOT_FOUND: u32 = 6;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetRemappedRows(
    handle: Handle,
    corrected: *mut c_uint,
    uncorrected: *mut c_uint,
    pending: *mut c_uint,
    failed: *mut c_uint,
) -> u32 {
    returned(value("nvmlDeviceGetRemappedRows", handle, "remapped_rows").map(|rows| {
        for (at, into) in [corrected, uncorrected, pending, failed].into_iter().enumerate() {
            unsafe { into.write(number(&rows[at]).unwrap()) };
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(
    handle: Handle,
    link: c_uint,
    is_active: *mut c_uint,
) -> u32 {
    returned(value("nvmlDeviceGetNvLinkState", handle, "nvlinks").and_then(|links| {
        let state = links[link as usize].as_bool().ok_or(INVALID_ARGUMENT)?;
        unsafe { is_active.write(u32::from(state)) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: Handle,
    now: *mut c_uint,
    later: *mut c_uint,
) -> u32 {
    returned(value("nvmlDeviceGetMigMode", handle, "mig_enabled").map(|is_enabled| {
        let told = u32::from(is_enabled == true);
        unsafe { now.write(told) };
        unsafe { later.write(told) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: Handle, count: *mut c_uint) -> u32 {
    returned(value("nvmlDeviceGetMaxMigDeviceCount", handle, "mig_instances").map(|_| {
        unsafe { count.write(7) };
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    handle: Handle,
    index: c_uint,
    part: *mut Handle,
) -> u32 {
    let name = "nvmlDeviceGetMigDeviceHandleByIndex";
    returned(value(name, handle, "mig_instances").and_then(|instances| {
        if instances[index as usize].is_null() {
            return Err(NOT_FOUND);
        }
        unsafe { part.write(encode(decode(handle).0, Some(index as usize))) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: Handle,
    count: *mut c_uint,
    into: *mut nvmlProcessInfo_t,
) -> u32 {
    let name = "nvmlDeviceGetComputeRunningProcesses_v3";
    returned(value(name, handle, "processes").and_then(|processes| {
        let processes = processes.as_array().cloned().unwrap_or_default();
        let room = unsafe { count.read() } as usize;
        unsafe { count.write(u32::try_from(processes.len()).unwrap()) };
        if processes.len() > room {
            return Err(BUFFER_TOO_SMALL);
        }
        for (at, process) in processes.iter().enumerate() {
            let told = nvmlProcessInfo_t {
                pid: number(&process["pid"]).unwrap(),
                usedGpuMemory: process["used_memory_bytes"].as_u64().unwrap_or(u64::MAX),
                gpuInstanceId: number(&process["gpu_instance"]).unwrap_or(u32::MAX),
                computeInstanceId: number(&process["compute_instance"]).unwrap_or(u32::MAX),
            };
            unsafe { into.add(at).write(told) };
        }
        Ok(())
    }))
}

/// Fields are of the type that NVIDIA gives them: signed where they are margins, else unsigned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    handle: Handle,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> u32 {
    let name = "nvmlDeviceGetFieldValues";
    returned(value(name, handle, "name").and_then(|_| {
        let (gpu, _) = decode(handle);
        let told = current().value(gpu, "fields");
        for at in 0..usize::try_from(count).map_err(|_| INVALID_ARGUMENT)? {
            let value = unsafe { &mut *values.add(at) };
            let field = &told[value.fieldId.to_string()];
            let refused = begin(&format!("field {}", value.fieldId), Some(gpu)).err();
            let number = field.as_i64();
            value.nvmlReturn = match (refused, code(field), number) {
                (Some(code), _, _) | (None, Some(code), _) => code,
                (None, None, None) => NOT_SUPPORTED,
                (None, None, Some(_)) => 0,
            };
            let number = number.unwrap_or(0);
            if (193..=196).contains(&value.fieldId) {
                value.valueType = 5;
                value.value.siVal = c_int::try_from(number).unwrap();
            } else {
                value.valueType = 1;
                value.value.uiVal = c_uint::try_from(number).unwrap();
            }
        }
        Ok(())
    }))
}
