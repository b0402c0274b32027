//! `arbiter`.
fn main() {}
