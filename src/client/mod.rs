//! A node's brain: it compares what the servers want of this node with what is so, drives allocations and tasks
//! towards it through the keeper, applies restart rules with or without servers in reach, and reports.
//!
//! Refuses to know: sockets, processes, files, clocks. Invariants: a run's id is stored before the keeper is asked to
//! start it; a run is forgotten only after its end is stored; a turn's effects leave after the store's receipt; a
//! node at rest writes nothing; a full disk is not written to, and what has to be stored first waits for room.

mod alloc;
mod asks;
mod brain;
mod collect;
pub mod config;
mod driver;
pub mod effects;
mod environment;
mod events;
mod exclusive;
mod health;
mod interpolate;
mod kill;
mod lifecycle;
mod measures;
mod metadata;
mod restart;
mod room;
mod runner;
mod servers;
mod signals;
#[cfg(test)]
mod tests;

pub use brain::Client;
#[cfg(any(test, feature = "testing"))]
pub use brain::MAX_HELD;
pub use measures::ClientStatusReport;
