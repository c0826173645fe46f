//! A node's brain: it compares what the servers want of this node with what runs there, drives allocations and tasks
//! towards that through the keeper, applies restart rules with or without servers in reach, and reports.
//!
//! Refuses to know: sockets, processes, files, clocks. Invariants: a run's id is stored before the keeper is asked to
//! start it; a run is forgotten only after its end is stored; a turn's effects leave after the store's receipt; a
//! node at rest writes nothing; a full disk is not written to, and what has to be stored first waits for room.

mod alloc_runner;
mod brain;
mod claims;
pub mod config;
mod disk_full;
mod driver;
pub mod effects;
mod endpoints;
mod environment;
mod events;
mod forwarding;
mod garbage_collection;
mod health;
mod interpolate;
mod kill_order;
mod lifecycle;
mod metadata;
mod metrics;
mod restart_tracker;
mod run_limit;
mod servers;
mod signals;
mod task_runner;
#[cfg(test)]
mod tests;

pub use brain::Client;
#[cfg(any(test, feature = "testing"))]
pub use brain::MAX_LIVE_ALLOCS;
pub use metrics::ClientStatusReport;
