//! Messages between the agent and its child: one byte of version, four of length, then the values of the message in the
//! order of its fields.
//!
//! Both ends are the same program, so nothing has to be understood by another version; the byte only guards against a
//! stray writer. Whatever arrives is checked: a length beyond the bound, a value cut off or bytes left over end the
//! conversation.

use sluice_core::sample::{
    DriverState, EccSample, GpuClocks, GpuFabric, GpuMemory, GpuPower, GpuProcess, GpuSample,
    GpuTemperature, MigInstance, MigSample, NvLinkSample, PciAddress, PcieSample, Refusal,
    RemappedRows, RetiredPages,
};

#[cfg(test)]
mod tests;

/// First byte of each frame.
const VERSION: u8 = 1;

/// Bytes before a message: version and length.
const HEADER_BYTES: usize = 5;

/// Longest message. 16 GPUs with a thousand processes each take 210,000 bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What the agent asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Look at everything.
    Look,
    /// Close everything and end.
    End,
}

/// What the child answers to [`Request::Look`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// How the driver does; only [`DriverState::Running`] comes with GPUs.
    pub(super) driver: DriverState,
    /// Its GPUs, ordered by index.
    pub(super) gpus: Vec<GpuSample>,
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// Somebody else writes there.
    #[error("a message begins with {0} instead of {VERSION}")]
    Version(u8),
    /// Longer than any message.
    #[error("a message of {0} bytes is longer than {MESSAGE_BYTES_MAX}")]
    TooLong(usize),
    /// The bytes do not make a message.
    #[error("a message of {0} bytes makes no sense")]
    Malformed(usize),
}

/// `message` as it travels.
pub(super) fn encode(message: &impl Wire) -> Vec<u8> {
    let mut frame = vec![VERSION, 0, 0, 0, 0];
    message.put(&mut frame);
    let len = u32::try_from(frame.len() - HEADER_BYTES).unwrap_or(u32::MAX);
    frame[1..HEADER_BYTES].copy_from_slice(&len.to_le_bytes());
    frame
}

/// Takes the first message off `bytes`. `None`: it has not arrived in full.
///
/// # Errors
/// The bytes are no message; nothing that follows can be trusted.
pub(super) fn take<M: Wire>(bytes: &mut Vec<u8>) -> Result<Option<M>, FrameError> {
    let [version, a, b, c, d, ..] = bytes[..] else {
        return match bytes.first() {
            Some(&version) if version != VERSION => Err(FrameError::Version(version)),
            Some(_) | None => Ok(None),
        };
    };
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if len > MESSAGE_BYTES_MAX {
        return Err(FrameError::TooLong(len));
    }
    let Some(mut message) = bytes.get(HEADER_BYTES..HEADER_BYTES + len) else { return Ok(None) };
    let taken = M::take(&mut message).filter(|_| message.is_empty());
    let taken = taken.ok_or(FrameError::Malformed(len))?;
    bytes.drain(..HEADER_BYTES + len);
    Ok(Some(taken))
}

/// A value that travels.
pub(super) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    /// Takes itself off the front. `None`: the bytes end early or have no meaning.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, u32, i32, u64);

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? { T::take(from).map(Some) } else { Some(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        for value in self {
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::try_from(u32::take(from)?).ok()?;
        // Each value takes a byte at least, so nothing is reserved for what cannot follow.
        if len > from.len() {
            return None;
        }
        (0..len).map(|_| T::take(from)).collect()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::try_from(u32::take(from)?).ok()?;
        let (bytes, rest) = from.split_at_checked(len)?;
        *from = rest;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

/// All fields of a structure, one after the other; one left out does not compile.
macro_rules! structures {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: Wire::take(from)?),* })
            }
        }
    )*};
}

structures! {
    Answer { driver, gpus }
    GpuSample {
        index, uuid, pci, name, serial, minor, lost, mig, memory, busy_percent, memory_busy_percent,
        power, temperature, clocks, ecc, rows, retired_pages, pcie, nvlinks, fabric,
        recovery_action, is_persistent, processes, refusals,
    }
    PciAddress { domain, bus, device, function }
    MigSample { is_enabled, is_enabled_after_reset, instances }
    MigInstance { index, uuid, name, gpu_instance, compute_instance, memory, processes }
    GpuMemory { total_bytes, reserved_bytes, used_bytes }
    GpuPower { usage_mw, limit_mw }
    GpuTemperature {
        gpu_celsius, memory_celsius, margin_celsius, slowdown_margin_celsius, slowdown_celsius,
        shutdown_celsius,
    }
    GpuClocks { sm_mhz, sm_max_mhz, memory_mhz, event_reasons }
    EccSample {
        is_enabled, corrected_volatile, uncorrected_volatile, corrected_aggregate,
        uncorrected_aggregate, is_sram_threshold_exceeded, sram_uncorrected_aggregate,
    }
    RemappedRows { corrected, uncorrected, is_pending, has_failed }
    RetiredPages { single_bit, double_bit, is_pending }
    PcieSample { generation, generation_max, width, width_max, replays }
    NvLinkSample { link, is_active }
    GpuFabric { state, status, health_mask }
    GpuProcess { pid, used_memory_bytes }
    Refusal { call, code }
}

impl Wire for Request {
    fn put(&self, out: &mut Vec<u8>) {
        let word: u8 = match self {
            Request::Look => 1,
            Request::End => 2,
        };
        word.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            1 => Some(Request::Look),
            2 => Some(Request::End),
            _ => None,
        }
    }
}

/// What the child can tell. That it hangs, was never started or has been released only the agent knows.
impl Wire for DriverState {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            DriverState::Running { version, nvml_version, cuda_version } => {
                1_u8.put(out);
                version.put(out);
                nvml_version.put(out);
                cuda_version.put(out);
            }
            DriverState::NotLoaded => 2_u8.put(out),
            DriverState::Mismatch => 3_u8.put(out),
            DriverState::LibraryMissing { why } => {
                4_u8.put(out);
                why.put(out);
            }
            DriverState::Failed { code, text } => {
                5_u8.put(out);
                code.put(out);
                text.put(out);
            }
            DriverState::Starting
            | DriverState::Unresponsive { .. }
            | DriverState::Released { .. } => 0_u8.put(out),
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => DriverState::Starting,
            1 => DriverState::Running {
                version: Wire::take(from)?,
                nvml_version: Wire::take(from)?,
                cuda_version: Wire::take(from)?,
            },
            2 => DriverState::NotLoaded,
            3 => DriverState::Mismatch,
            4 => DriverState::LibraryMissing { why: Wire::take(from)? },
            5 => DriverState::Failed { code: Wire::take(from)?, text: Wire::take(from)? },
            _ => return None,
        })
    }
}
