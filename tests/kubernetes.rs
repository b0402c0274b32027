//! A real Kubernetes API server, and where it says so a real Kueue, against the real arbiter.
//!
//! `tests/kubernetes/setup` builds them. Where they are absent each test says so on the terminal, past the capture of the
//! test runner, and passes for that reason alone; with `SLUICE_TEST_KUBERNETES=required` it fails instead.

mod bed;
mod control_plane;
mod control_plane_files;
mod failover;
mod kueue;
mod overlays;
mod roles;
