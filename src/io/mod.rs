//! The outside world: sockets, processes and cgroups, files, the clock, fingerprints. It turns them into typed inputs
//! and obeys typed effects.
//!
//! Refuses to know: what any of it is for. Every policy lives in a brain; what is here is mechanism, bounded in time and
//! space.
#![allow(unsafe_code, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod aside;
pub mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod corpus;
pub mod dirs;
pub mod disk;
pub mod entropy;
pub mod fingerprint;
pub mod http;
pub mod interfaces;
pub mod keeper;
pub mod keeper_cli;
pub mod keeper_link;
pub mod keys;
pub mod log_file;
pub mod machine;
pub mod monitor;
pub mod node;
pub mod zones;
