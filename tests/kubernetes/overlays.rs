//! The manifests, as `kubectl kustomize` makes them, are taken by a real API server.

use super::control_plane::ControlPlane;

#[test]
fn every_overlay_is_taken_by_the_api_server() {
    let Some(plane) = ControlPlane::start("the manifests") else { return };
    let overlays = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/overlays");
    // What is only tried is not there for what comes after it.
    plane.apply("{apiVersion: v1, kind: Namespace, metadata: {name: sluice-system}}");
    let mut tried = 0;
    for entry in std::fs::read_dir(overlays).unwrap() {
        let overlay = entry.unwrap().path();
        let text = plane.kubectl(&["kustomize", &overlay.display().to_string()]);
        let file = plane.path("overlay.yaml");
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let flags =
            ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "name"];
        let made = plane.kubectl(&[&flags[..], &["-f", &file]].concat());
        for expected in ["deployment.apps/sluice-arbiter", "daemonset.apps/sluice-agent"] {
            assert!(made.lines().any(|line| line == expected), "{}: {made}", overlay.display());
        }
        tried += 1;
    }
    assert_eq!(tried, 2);
}
