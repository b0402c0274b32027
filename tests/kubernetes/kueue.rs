//! A real Kueue beside a control plane. Its webhooks are reached at its port on loopback instead of through a service.

use std::path::Path;

use serde_json::{Value, json};

use super::control_plane::{ControlPlane, free_ports};
use crate::process::wait_for;

/// Kueue's own CRDs.
const CRDS: [&str; 11] = [
    "admissionchecks",
    "clusterqueues",
    "cohorts",
    "localqueues",
    "multikueueclusters",
    "multikueueconfigs",
    "provisioningrequestconfigs",
    "resourceflavors",
    "topologies",
    "workloadpriorityclasses",
    "workloads",
];
/// Those of them that are served in more than one version, which Kueue converts.
const CONVERTED: [&str; 5] =
    ["clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"];

/// Creates Kueue's kinds; who converts them listens at `url`.
fn apply_crds(plane: &ControlPlane, url: &str) {
    let crd = |name: &&str| {
        let file = format!("crd/bases/kueue.x-k8s.io_{name}.yaml");
        let mut crd = documents(&plane.programs.join(file)).remove(0);
        if CONVERTED.contains(name) {
            crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": format!("{url}/convert")},
                "conversionReviewVersions": ["v1"],
            }});
        }
        crd
    };
    let items: Vec<Value> = CRDS.iter().map(crd).collect();
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
    for name in CRDS {
        let name = format!("{name}.kueue.x-k8s.io");
        plane.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", &name]);
    }
}

/// Starts Kueue for Jobs, and waits until it serves its webhooks.
pub(crate) fn start(plane: &mut ControlPlane) {
    let [webhook_port, health_port] = free_ports();
    let url = format!("https://127.0.0.1:{webhook_port}");
    apply_crds(plane, &url);
    plane.apply("{apiVersion: v1, kind: Namespace, metadata: {name: kueue-system}}");
    let mut secret = vec!["create", "secret", "generic", "kueue-webhook-server-cert"];
    let files: Vec<String> = ["ca.crt", "ca.key", "tls.crt", "tls.key"]
        .iter()
        .map(|name| format!("--from-file={}", plane.path(name).display()))
        .collect();
    secret.extend(files.iter().map(String::as_str));
    plane.kubectl(&[&secret[..], &["-n", "kueue-system"]].concat());
    apply_webhooks(plane, &url);
    let configuration = plane.path("kueue.yaml");
    let text = format!(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nnamespace: kueue-system\n\
         health: {{healthProbeBindAddress: \"127.0.0.1:{health_port}\"}}\nmetrics: {{bindAddress: \"0\"}}\n\
         webhook: {{host: 127.0.0.1, port: {webhook_port}, certDir: {}}}\nleaderElection: {{leaderElect: false}}\n\
         internalCertManagement: {{enable: true}}\nclientConnection: {{qps: 300, burst: 500}}\n\
         integrations: {{frameworks: [batch/job]}}\nfeatureGates: {{VisibilityOnDemand: false}}\n",
        plane.root().display()
    );
    std::fs::write(&configuration, text).unwrap();
    let mut command = plane.command(&plane.programs.join("kueue"));
    command.env("KUBECONFIG", plane.kubeconfig("kueue")).arg("--config").arg(&configuration);
    let mut kueue = plane.spawn("kueue", &mut command);
    wait_for("Kueue to serve its webhooks", || {
        assert!(kueue.exited().is_none(), "{}", kueue.tail());
        let ready = format!("http://127.0.0.1:{health_port}/readyz");
        is_ok(&ready).then_some(())
    });
    plane.keep(kueue);
}

fn apply_webhooks(plane: &ControlPlane, url: &str) {
    let mut items = documents(&plane.programs.join("webhook/manifests.yaml"));
    for item in &mut items {
        let name = item["metadata"]["name"].as_str().unwrap();
        item["metadata"]["name"] = json!(format!("kueue-{name}"));
        for webhook in item["webhooks"].as_array_mut().unwrap() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
            webhook["clientConfig"] = json!({"url": format!("{url}{path}")});
        }
    }
    plane.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string());
}

pub(super) fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Whether a GET of `url`, on loopback and without TLS, is answered with status 200.
fn is_ok(url: &str) -> bool {
    use std::io::{Read as _, Write as _};
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let Ok(mut stream) = std::net::TcpStream::connect(host) else { return false };
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.split(' ').nth(1) == Some("200")
}
