//! drover: one binary that orchestrates processes across fleets of small machines.
//!
//! This file is the map, in reading order. Each room imports only from the floors below it; `tests/tidy` keeps it so.

mod model;

mod jobspec;
mod raft;
mod scheduler;
mod wire;

mod state;

mod api;
mod client;
mod keeper;
mod server;

mod io;

mod agent;

mod cli;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

#[cfg(test)]
mod sim;

pub fn main() -> std::process::ExitCode {
    cli::main()
}
