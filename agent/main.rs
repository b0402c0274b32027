//! `agent`.
fn main() {}
