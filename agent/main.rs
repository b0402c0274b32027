//! `agent`.
mod checkpoint;
mod journal;
mod sensor;
mod signals;
fn main() {}
