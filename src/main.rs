//! drover: one binary that orchestrates processes across fleets of small machines.
//!
//! The map is the list of rooms in `Cargo.toml`, in reading order, and docs/ARCHITECTURE.md. Each room is a crate and imports only
//! from the floors below it.

fn main() -> std::process::ExitCode {
    cli::main()
}
