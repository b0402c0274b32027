//! `ctl`.
fn main() {}
