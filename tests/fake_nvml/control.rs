//! What the fake does: a profile of a product, and a control file that changes it while it is in use.
//!
//! ```json
//! { "profile": "h100", "count": 2,
//!   "calls": { "nvmlInit_v2": {"code": 9}, "nvmlDeviceGetPowerUsage@1": {"hang": true} },
//!   "gpus": { "1": { "lost": 15, "fields": {"230": 1}, "power_usage_mw": {"code": 999} } } }
//! ```
//!
//! `calls` are functions, with `@` and an index for one GPU only: `code` is returned, `delay_ms` waited first, `hang` never
//! returns while it stands, `crash` ends the process by a signal. `gpus` replaces values of the profile by index; objects
//! are merged. A value that is null or missing is not supported; `{"code": 999}` in its place is returned. The file is
//! read again when it has changed: replace it by renaming.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Names the control file.
const VARIABLE: &str = "SLUICE_FAKE_NVML";

pub(crate) const NOT_SUPPORTED: u32 = 3;
const UNKNOWN: u32 = 999;

/// Time between two looks whether a hang is over, and how long one lasts at most: longer than any test.
pub(crate) const HANG_LOOK: Duration = Duration::from_millis(10);
pub(crate) const HANG_MAX: Duration = Duration::from_secs(600);

const PROFILES: [(&str, &str); 7] = [
    ("h100", include_str!("profiles/h100.json")),
    ("h100-mig", include_str!("profiles/h100-mig.json")),
    ("h200", include_str!("profiles/h200.json")),
    ("a100", include_str!("profiles/a100.json")),
    ("l4", include_str!("profiles/l4.json")),
    ("t4", include_str!("profiles/t4.json")),
    ("b200", include_str!("profiles/b200.json")),
];

/// The control file and the profile that it names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    file: Value,
    profile: Value,
    stamp: (u64, u64, i64, i64),
}

static CURRENT: Mutex<Option<Control>> = Mutex::new(None);

/// What stands in the control file now. Without a file, or with one that is not JSON, the process ends: a test is wrong.
pub(crate) fn current() -> Control {
    let path = std::env::var(VARIABLE).unwrap_or_else(|_| panic!("{VARIABLE} names no file"));
    let stat = fs::metadata(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let stamp = (stat.ino(), stat.size(), stat.mtime(), stat.mtime_nsec());
    let mut current = CURRENT.lock().unwrap();
    if let Some(control) = current.as_ref().filter(|control| control.stamp == stamp) {
        return control.clone();
    }
    let text = fs::read_to_string(&path).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{path}: {why}"));
    let name = file["profile"].as_str().unwrap_or("h100");
    let (_, profile) = PROFILES
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("{path}: no profile {name}"));
    let control = Control { profile: serde_json::from_str(profile).unwrap(), file, stamp };
    *current = Some(control.clone());
    control
}

/// Does to a call what the control file says; the code to return, if any but success.
pub(crate) fn call(name: &str, gpu: Option<usize>) -> Option<u32> {
    let started = Instant::now();
    loop {
        let control = current();
        let calls = &control.file["calls"];
        let of_gpu = gpu.map(|index| &calls[format!("{name}@{index}")]);
        let told = of_gpu.filter(|told| !told.is_null()).unwrap_or(&calls[name]);
        if told.is_null() {
            return None;
        }
        if told["crash"] == true {
            std::process::abort();
        }
        let takes = told["delay_ms"].as_u64().map_or(Duration::ZERO, Duration::from_millis);
        let deadline = started + if told["hang"] == true { HANG_MAX } else { takes };
        if Instant::now() >= deadline {
            return code(told);
        }
        // The call takes its time on purpose; that is over when the file says so, or at the deadline.
        sleep(HANG_LOOK);
    }
}

/// The code that stands in place of a value.
pub(crate) fn code(value: &Value) -> Option<u32> {
    value.get("code").map(|code| number(code).unwrap_or(UNKNOWN))
}

/// A number of 32 bits.
pub(crate) fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

impl Control {
    /// A switch of the control file.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.file[name] == true
    }

    /// A value of the system: of the control file, else of the profile.
    pub(crate) fn system(&self, name: &str) -> &Value {
        let own = &self.file[name];
        if own.is_null() { &self.profile[name] } else { own }
    }

    /// How many GPUs there are: all of the profile if the control file does not say.
    pub(crate) fn count(&self) -> usize {
        let all = self.profile["pci"].as_array().map_or(1, Vec::len);
        let told = self.file["count"].as_u64().and_then(|count| usize::try_from(count).ok());
        told.unwrap_or(all)
    }

    /// Where a GPU is on the bus; beyond the profile's list on buses of a domain of their own.
    pub(crate) fn pci(&self, gpu: usize) -> String {
        let known = self.profile["pci"][gpu].as_str();
        known.map_or_else(|| format!("00000001:{gpu:02X}:00.0"), str::to_owned)
    }

    /// A GPU's value, the control file's over the profile's.
    pub(crate) fn value(&self, gpu: usize, name: &str) -> Value {
        let mut value = self.profile["gpu"][name].clone();
        let own = &self.file["gpus"][gpu.to_string()];
        if let Some(own) = own.get(name) {
            merge(&mut value, own);
        }
        value
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) if !from.contains_key("code") => {
            for (key, value) in from {
                merge(into.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
