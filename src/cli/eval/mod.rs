//! `drover eval`, and evaluations as other commands follow them.
//!
//! Refuses to know: how allocations are placed.

pub mod delete;
pub mod list;
pub mod monitor;
pub mod status;
pub mod watch;
