//! What a GPU is and how it does: one method for each value.

use std::ptr;

use nvml_wrapper_sys::bindings::{
    nvmlEccSramErrorStatus_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfoV_t,
    nvmlMarginTemperature_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlUtilization_t,
};

use super::{
    ARGUMENT_VERSION_MISMATCH, Answer, FUNCTION_NOT_FOUND, Handle, Library, answer, fill, function,
    get, get_selected, get_text, text, version_word,
};

impl Library {
    pub(in crate::nvml) fn uuid(&self, of: Handle) -> Answer<String> {
        get_text(&self.lib.nvmlDeviceGetUUID, of)
    }

    pub(in crate::nvml) fn name(&self, of: Handle) -> Answer<String> {
        get_text(&self.lib.nvmlDeviceGetName, of)
    }

    pub(in crate::nvml) fn serial(&self, of: Handle) -> Answer<String> {
        get_text(&self.lib.nvmlDeviceGetSerial, of)
    }

    pub(in crate::nvml) fn minor(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetMinorNumber, of)
    }

    /// In NVML's own spelling.
    pub(in crate::nvml) fn pci_bus_id(&self, of: Handle) -> Answer<String> {
        let empty = nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: [0; 32],
        };
        Ok(text(&fill(&self.lib.nvmlDeviceGetPciInfo_v3, of, empty)?.busId))
    }

    /// Total, reserved, used. Unit: bytes.
    pub(in crate::nvml) fn memory(&self, of: Handle) -> Answer<[u64; 3]> {
        let version = version_word::<nvmlMemory_v2_t>(2);
        let empty = nvmlMemory_v2_t { version, total: 0, reserved: 0, free: 0, used: 0 };
        let memory = fill(&self.lib.nvmlDeviceGetMemoryInfo_v2, of, empty)?;
        Ok([memory.total, memory.reserved, memory.used])
    }

    /// Of the GPU and of its memory. Unit: percent.
    pub(in crate::nvml) fn utilization(&self, of: Handle) -> Answer<[u32; 2]> {
        let empty = nvmlUtilization_t { gpu: 0, memory: 0 };
        let shares = fill(&self.lib.nvmlDeviceGetUtilizationRates, of, empty)?;
        Ok([shares.gpu, shares.memory])
    }

    pub(in crate::nvml) fn power_usage_mw(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetPowerUsage, of)
    }

    pub(in crate::nvml) fn power_limit_mw(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetEnforcedPowerLimit, of)
    }

    pub(in crate::nvml) fn temperature_celsius(&self, of: Handle) -> Answer<u32> {
        get_selected(&self.lib.nvmlDeviceGetTemperature, of, 0)
    }

    /// 0: where the hardware switches off; 1: where the driver slows down.
    pub(in crate::nvml) fn temperature_threshold_celsius(
        &self,
        of: Handle,
        which: u32,
    ) -> Answer<u32> {
        get_selected(&self.lib.nvmlDeviceGetTemperatureThreshold, of, which)
    }

    pub(in crate::nvml) fn temperature_margin_celsius(&self, of: Handle) -> Answer<i32> {
        let version = version_word::<nvmlMarginTemperature_t>(1);
        let empty = nvmlMarginTemperature_t { version, marginTemperature: 0 };
        Ok(fill(&self.lib.nvmlDeviceGetMarginTemperature, of, empty)?.marginTemperature)
    }

    /// 1: of the multiprocessors; 2: of the memory.
    pub(in crate::nvml) fn clock_mhz(&self, of: Handle, which: u32) -> Answer<u32> {
        get_selected(&self.lib.nvmlDeviceGetClockInfo, of, which)
    }

    pub(in crate::nvml) fn clock_max_mhz(&self, of: Handle, which: u32) -> Answer<u32> {
        get_selected(&self.lib.nvmlDeviceGetMaxClockInfo, of, which)
    }

    pub(in crate::nvml) fn clock_event_reasons(&self, of: Handle) -> Answer<u64> {
        let newer = get(&self.lib.nvmlDeviceGetCurrentClocksEventReasons, of);
        match newer {
            Err(FUNCTION_NOT_FOUND) => get(&self.lib.nvmlDeviceGetCurrentClocksThrottleReasons, of),
            other => other,
        }
    }

    pub(in crate::nvml) fn ecc_mode(&self, of: Handle) -> Answer<bool> {
        let (mut now, mut later) = (0, 0);
        // SAFETY: the function has this type in nvml.h; the values are local variables.
        answer(unsafe {
            function(&self.lib.nvmlDeviceGetEccMode)?(of.0, &raw mut now, &raw mut later)
        })?;
        Ok(now != 0)
    }

    pub(in crate::nvml) fn ecc_errors(
        &self,
        of: Handle,
        is_uncorrected: bool,
        is_aggregate: bool,
    ) -> Answer<u64> {
        let (kind, counter) = (u32::from(is_uncorrected), u32::from(is_aggregate));
        let mut errors = 0;
        // SAFETY: as above; the selectors are plain numbers.
        answer(unsafe {
            function(&self.lib.nvmlDeviceGetTotalEccErrors)?(of.0, kind, counter, &raw mut errors)
        })?;
        Ok(errors)
    }

    /// Whether the threshold is exceeded, and the uncorrected errors for life.
    pub(in crate::nvml) fn sram_ecc(&self, of: Handle) -> Answer<(bool, u64)> {
        let empty = nvmlEccSramErrorStatus_t {
            version: version_word::<nvmlEccSramErrorStatus_t>(1),
            aggregateUncParity: 0,
            aggregateUncSecDed: 0,
            aggregateCor: 0,
            volatileUncParity: 0,
            volatileUncSecDed: 0,
            volatileCor: 0,
            aggregateUncBucketL2: 0,
            aggregateUncBucketSm: 0,
            aggregateUncBucketPcie: 0,
            aggregateUncBucketMcu: 0,
            aggregateUncBucketOther: 0,
            bThresholdExceeded: 0,
        };
        let status = fill(&self.lib.nvmlDeviceGetSramEccErrorStatus, of, empty)?;
        let uncorrected = status.aggregateUncParity.saturating_add(status.aggregateUncSecDed);
        Ok((status.bThresholdExceeded != 0, uncorrected))
    }

    /// Corrected, uncorrected, pending, failed.
    pub(in crate::nvml) fn remapped_rows(&self, of: Handle) -> Answer<[u32; 4]> {
        let [mut corrected, mut uncorrected, mut pending, mut failed] = [0; 4];
        // SAFETY: the function has this type in nvml.h; the values are local variables.
        answer(unsafe {
            function(&self.lib.nvmlDeviceGetRemappedRows)?(
                of.0,
                &raw mut corrected,
                &raw mut uncorrected,
                &raw mut pending,
                &raw mut failed,
            )
        })?;
        Ok([corrected, uncorrected, pending, failed])
    }

    pub(in crate::nvml) fn pcie_generation(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetCurrPcieLinkGeneration, of)
    }

    pub(in crate::nvml) fn pcie_generation_max(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetMaxPcieLinkGeneration, of)
    }

    pub(in crate::nvml) fn pcie_width(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetCurrPcieLinkWidth, of)
    }

    pub(in crate::nvml) fn pcie_width_max(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetMaxPcieLinkWidth, of)
    }

    pub(in crate::nvml) fn pcie_replays(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetPcieReplayCounter, of)
    }

    pub(in crate::nvml) fn is_nvlink_active(&self, of: Handle, link: u32) -> Answer<bool> {
        get_selected(&self.lib.nvmlDeviceGetNvLinkState, of, link).map(|state: u32| state != 0)
    }

    /// State, status, health mask.
    pub(in crate::nvml) fn fabric(&self, of: Handle) -> Answer<(u32, u32, Option<u32>)> {
        let mut info = nvmlGpuFabricInfoV_t {
            version: version_word::<nvmlGpuFabricInfoV_t>(3),
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: 0,
            healthMask: 0,
            healthSummary: 0,
        };
        let symbol = &self.lib.nvmlDeviceGetGpuFabricInfoV;
        let filled = match fill(symbol, of, info) {
            // The older structure is the newer one's beginning.
            Err(ARGUMENT_VERSION_MISMATCH) => {
                info.version = version_word::<nvmlGpuFabricInfo_v2_t>(2);
                fill(symbol, of, info)
            }
            other => other,
        }?;
        Ok((filled.state.into(), filled.status, Some(filled.healthMask)))
    }

    pub(in crate::nvml) fn is_persistent(&self, of: Handle) -> Answer<bool> {
        get(&self.lib.nvmlDeviceGetPersistenceMode, of).map(|mode: u32| mode != 0)
    }

    /// Split now, and after the next reset.
    pub(in crate::nvml) fn mig_mode(&self, of: Handle) -> Answer<(bool, bool)> {
        let (mut now, mut later) = (0, 0);
        // SAFETY: the function has this type in nvml.h; the values are local variables.
        answer(unsafe {
            function(&self.lib.nvmlDeviceGetMigMode)?(of.0, &raw mut now, &raw mut later)
        })?;
        Ok((now != 0, later != 0))
    }

    pub(in crate::nvml) fn mig_instances_max(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetMaxMigDeviceCount, of)
    }

    pub(in crate::nvml) fn mig_instance(&self, of: Handle, index: u32) -> Answer<Handle> {
        let mut device = ptr::null_mut();
        // SAFETY: the function has this type in nvml.h; the value is a local variable.
        answer(unsafe {
            function(&self.lib.nvmlDeviceGetMigDeviceHandleByIndex)?(of.0, index, &raw mut device)
        })?;
        Ok(Handle(device))
    }

    pub(in crate::nvml) fn gpu_instance(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetGpuInstanceId, of)
    }

    pub(in crate::nvml) fn compute_instance(&self, of: Handle) -> Answer<u32> {
        get(&self.lib.nvmlDeviceGetComputeInstanceId, of)
    }
}
