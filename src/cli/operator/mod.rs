//! Commands for operators: `operator`, `server`, `system`, `namespace`, `ui`.
//!
//! Refuses to know: jobs and their allocations.

pub mod api;
pub mod gossip;
pub mod join_tokens;
pub mod named_objects;
pub mod namespace_change;
pub mod namespace_show;
pub mod object_file;
pub mod raft;
pub mod scheduler_config;
pub mod servers;
