//! The placement cases of the facts, each by its number.

mod health;
mod packing;
mod scenario;
mod victims;
