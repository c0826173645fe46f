//! drover: one binary that orchestrates processes across fleets of small machines.
//!
//! This file is the map, in reading order. Each room imports only from the floors below it; `tests/tidy` keeps it so.

mod model;
mod raft;
mod server;
mod wire;

pub fn main() {}
