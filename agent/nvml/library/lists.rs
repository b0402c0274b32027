//! Answers of several parts: processes, and fields by number.

use nvml_wrapper_sys::bindings::{nvmlFieldValue_t, nvmlProcessInfo_t, nvmlValue_t};

use super::{Answer, Handle, Library, UNKNOWN, answer, function};

/// The buffer is too small; how large it must be was answered.
const BUFFER_TOO_SMALL: u32 = 7;

/// Processes for which there is room at first; a training has one for each GPU.
const PROCESSES_ROOM: u32 = 32;

/// Most processes told of one GPU. With more nobody is told: that it is in use is seen by its memory.
const PROCESSES_MAX: u32 = 1_024;

/// A process as the library tells of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::nvml) struct Computing {
    pub(in crate::nvml) pid: u32,
    pub(in crate::nvml) used_memory_bytes: Option<u64>,
    /// The part that it computes on. `None`: the whole GPU.
    pub(in crate::nvml) gpu_instance: Option<u32>,
    pub(in crate::nvml) compute_instance: Option<u32>,
}

/// The library's word for "not told".
fn told(value: u32) -> Option<u32> {
    (value != u32::MAX).then_some(value)
}

impl Library {
    /// Processes that compute on the GPU, on all its parts.
    pub(in crate::nvml) fn processes(&self, of: Handle) -> Answer<Vec<Computing>> {
        let list = function(&self.lib.nvmlDeviceGetComputeRunningProcesses_v3)?;
        let mut room = PROCESSES_ROOM;
        loop {
            let empty = nvmlProcessInfo_t {
                pid: 0,
                usedGpuMemory: 0,
                gpuInstanceId: u32::MAX,
                computeInstanceId: u32::MAX,
            };
            let mut infos = vec![empty; usize::try_from(room).unwrap_or_default()];
            let mut count = room;
            // SAFETY: the function has this type in nvml.h; the buffer has room for `count` entries.
            let done = answer(unsafe { list(of.0, &raw mut count, infos.as_mut_ptr()) });
            match done {
                // Processes may start between the two calls.
                Err(BUFFER_TOO_SMALL) if room < PROCESSES_MAX => {
                    room = count.saturating_add(16).clamp(room + 1, PROCESSES_MAX);
                }
                Err(code) => return Err(code),
                Ok(()) => {
                    infos.truncate(usize::try_from(count).unwrap_or_default());
                    return Ok(infos.iter().map(computing).collect());
                }
            }
        }
    }

    /// The values of `fields`, each with its own answer, in their order; booleans are 0 or 1.
    pub(in crate::nvml) fn fields<const N: usize>(
        &self,
        of: Handle,
        fields: [u32; N],
    ) -> [Answer<i64>; N] {
        let mut values = fields.map(|id| nvmlFieldValue_t {
            fieldId: id,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: UNKNOWN,
            value: nvmlValue_t { ullVal: 0 },
        });
        let asked = function(&self.lib.nvmlDeviceGetFieldValues).and_then(|get| {
            let len = i32::try_from(N).unwrap_or(i32::MAX);
            // SAFETY: the function has this type in nvml.h; the array has the length that is told.
            answer(unsafe { get(of.0, len, values.as_mut_ptr()) })
        });
        values.map(|value| asked.and_then(|()| field(&value)))
    }
}

fn computing(info: &nvmlProcessInfo_t) -> Computing {
    Computing {
        pid: info.pid,
        used_memory_bytes: (info.usedGpuMemory != u64::MAX).then_some(info.usedGpuMemory),
        gpu_instance: told(info.gpuInstanceId),
        compute_instance: told(info.computeInstanceId),
    }
}

/// A field's number, whatever its type; a fraction is refused, as none of the fields asked has any.
fn field(value: &nvmlFieldValue_t) -> Answer<i64> {
    answer(value.nvmlReturn)?;
    // SAFETY: every bit pattern is a u64, and all eight bytes were set before the call.
    let bits = unsafe { value.value.ullVal };
    let [a, b, c, d, ..] = bits.to_ne_bytes();
    let low = [a, b, c, d];
    match value.valueType {
        // Unsigned int, signed int, unsigned short.
        1 => Ok(i64::from(u32::from_ne_bytes(low))),
        5 => Ok(i64::from(i32::from_ne_bytes(low))),
        6 => Ok(i64::from(u16::from_ne_bytes([a, b]))),
        // Unsigned long and long long, signed long long.
        2 | 3 => i64::try_from(bits).map_err(|_| UNKNOWN),
        4 => Ok(bits.cast_signed()),
        _ => Err(UNKNOWN),
    }
}
