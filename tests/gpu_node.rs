//! A node with NVIDIA GPUs that are not there: the real agent, the real child, and a driver's library that does what a
//! control file says ([`fake_nvml`](../fake_nvml/control.rs)).
//!
//! What the agent knows is read where people and Prometheus read it. Each question measures how long the agent took.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde_json::Value;
use sluice::wire::pb;

use crate::cluster::{AGENT, Cluster, Setup};
use crate::process::{ROOT_VARIABLE, patience, processes_with};

/// Longest that an answer of the agent may take while its driver hangs. It takes milliseconds; a call that waited for
/// the driver would take for ever.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Time between two looks in these tests, and how long the driver may not answer. Unit: ms.
const INTERVAL_MS: &str = "250";
const UNRESPONSIVE_MS: &str = "2000";

/// The products that the fake driver knows.
pub(crate) const PROFILES: [(&str, &str); 7] = [
    ("h100", include_str!("fake_nvml/profiles/h100.json")),
    ("h100-mig", include_str!("fake_nvml/profiles/h100-mig.json")),
    ("h200", include_str!("fake_nvml/profiles/h200.json")),
    ("a100", include_str!("fake_nvml/profiles/a100.json")),
    ("l4", include_str!("fake_nvml/profiles/l4.json")),
    ("t4", include_str!("fake_nvml/profiles/t4.json")),
    ("b200", include_str!("fake_nvml/profiles/b200.json")),
];

/// The node.
#[derive(Debug)]
pub(crate) struct GpuNode {
    pub(crate) cluster: Cluster,
    control: PathBuf,
}

/// The library that stands in for NVIDIA's; built as an example of this package.
pub(crate) fn library() -> PathBuf {
    let library = Path::new(AGENT).parent().unwrap().join("examples/libfake_nvml.so");
    assert!(library.exists(), "{} is missing: cargo build --examples", library.display());
    library
}

impl GpuNode {
    /// Starts an agent whose driver does what `control` says.
    pub(crate) fn start(control: &Value) -> Self {
        let node = Self::unstarted(control);
        node.add_bus(control);
        node.with_library(&library())
    }

    /// Puts the GPUs of `control` on the PCI bus.
    pub(crate) fn add_bus(&self, control: &Value) {
        let name = control["profile"].as_str().unwrap_or("h100");
        let (_, profile) = PROFILES.iter().find(|(known, _)| *known == name).unwrap();
        let profile: Value = serde_json::from_str(profile).unwrap();
        let addresses = profile["pci"].as_array().unwrap();
        let count =
            control["count"].as_u64().map_or(addresses.len(), |n| usize::try_from(n).unwrap());
        for address in addresses.iter().take(count) {
            let address = address.as_str().unwrap().to_lowercase();
            let gpu = [("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")];
            self.add_pci(address.strip_prefix("0000").unwrap(), &gpu);
        }
    }

    /// Of which nothing runs yet; there is a host's root of its own, with this machine's processes.
    pub(crate) fn unstarted(control: &Value) -> Self {
        let cluster = Cluster::unstarted(Setup::nodes(&[("n1", 0)]));
        let file = cluster.path("nvml.json");
        let node = Self { cluster, control: file };
        node.set(control);
        std::fs::create_dir_all(node.root().join("sys/bus/pci/devices")).unwrap();
        std::os::unix::fs::symlink("/proc", node.root().join("proc")).unwrap();
        node
    }

    /// The host's root as the agent sees it.
    pub(crate) fn root(&self) -> PathBuf {
        self.cluster.path("host")
    }

    /// Starts the agent with this library.
    pub(crate) fn with_library(mut self, library: &Path) -> Self {
        let flags = [
            ("--nvml", library.display().to_string()),
            ("--device-interval-ms", INTERVAL_MS.to_owned()),
            ("--nvml-unresponsive-ms", UNRESPONSIVE_MS.to_owned()),
            ("--listen-metrics", "127.0.0.1:0".to_owned()),
            ("--host-root", self.root().display().to_string()),
        ];
        let setup = &mut self.cluster.setup;
        setup.agent_flags = flags.into_iter().flat_map(|(f, v)| [f.to_owned(), v]).collect();
        setup.agent_environment = vec![("SLUICE_FAKE_NVML", self.control.display().to_string())];
        self.cluster.start_agent("n1");
        self
    }

    /// Starts the agent again.
    pub(crate) fn restart(&mut self) {
        self.cluster.start_agent("n1");
    }

    /// A GPU on the PCI bus.
    pub(crate) fn add_pci(&self, address: &str, attributes: &[(&str, &str)]) {
        let dir = self.root().join("sys/bus/pci/devices").join(address);
        std::fs::create_dir_all(&dir).unwrap();
        for (name, value) in attributes {
            std::fs::write(dir.join(name), format!("{value}\n")).unwrap();
        }
    }

    /// Changes what the driver does, at once.
    pub(crate) fn set(&self, control: &Value) {
        let new = self.control.with_extension("new");
        std::fs::write(&new, control.to_string()).unwrap();
        std::fs::rename(new, &self.control).unwrap();
    }

    /// The agent's report. Fails if it takes longer than an agent that waits for nothing may.
    pub(crate) fn report(&self) -> pb::GetReportResponse {
        let started = Instant::now();
        let answer = self.cluster.report_of("n1");
        let took = started.elapsed();
        assert!(took < ANSWER_MAX, "the agent took {took:?} to answer");
        answer
    }

    /// What the GPU sensor complains of; empty: of nothing.
    pub(crate) fn complaint(&self) -> String {
        let status = self.report().status.unwrap();
        status.sensors.into_iter().find(|s| s.name == "gpu").expect("a sensor \"gpu\"").error
    }

    /// All series that are scraped: name with labels, and value. Where the driver runs but is late on a loaded machine,
    /// its values are waited for.
    pub(crate) fn scrape(&mut self) -> BTreeMap<String, String> {
        self.wait("the values of a driver that runs", |node| {
            let scraped = node.scrape_once();
            let is = |name: &str| scraped.get(name).is_some_and(|value| value == "1");
            let is_running = is("gpu_driver_state{state=\"running\"}");
            let has_values = scraped.keys().any(|series| series.starts_with("gpu_info{"));
            (has_values || !is_running).then_some(scraped)
        })
    }

    fn scrape_once(&mut self) -> BTreeMap<String, String> {
        let ready = self.cluster.agent("n1").first_line().unwrap();
        let address = ready.split_once("metrics=").unwrap().1.to_owned();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let series = answer.lines().filter(|line| line.starts_with("sluice_agent_"));
        series
            .filter_map(|line| line.strip_prefix("sluice_agent_")?.rsplit_once(' '))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// One number of those.
    pub(crate) fn number(&mut self, series: &str) -> Option<f64> {
        self.scrape().get(series).map(|value| value.parse().unwrap())
    }

    /// The state that the driver is in, as metrics tell it.
    pub(crate) fn driver(&mut self) -> String {
        let scraped = self.scrape();
        let mut states = scraped.iter().filter_map(|(name, value)| {
            let state = name.strip_prefix("gpu_driver_state{state=\"")?.strip_suffix("\"}")?;
            (value == "1").then(|| state.to_owned())
        });
        // Before the first look there is nothing to tell.
        states.next().unwrap_or_default()
    }

    /// Waits until the driver is in `state`; the agent's own socket has to answer all the while.
    pub(crate) fn wait_driver(&mut self, state: &str) {
        self.wait(&format!("the driver to be {state}"), |node| {
            let _answers = node.report();
            (node.driver() == state).then_some(())
        });
    }

    /// Waits until `look` has something.
    pub(crate) fn wait<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + patience();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}: {:?}", self.report());
            std::thread::sleep(crate::process::PAUSE);
        }
    }

    /// Children that ask the driver now.
    pub(crate) fn children(&self) -> Vec<Pid> {
        let root = self.cluster.root().display().to_string();
        let is_child = |pid: &Pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            command.split(|byte| *byte == 0).any(|word| word == b"nvml-child")
                && name != b"fake-tracer\n"
        };
        let marked = processes_with(ROOT_VARIABLE, &root);
        marked.into_iter().map(|(pid, _)| pid).filter(is_child).collect()
    }

    /// The devices of the report: id, whether it is there, kind.
    pub(crate) fn devices(&self) -> Vec<(String, String)> {
        let devices = self.report().report.unwrap().devices;
        devices.into_iter().map(|device| (device.id, device.kind)).collect()
    }
}
