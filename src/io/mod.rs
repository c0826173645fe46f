//! The outside world: sockets, processes and cgroups, files, the clock, fingerprints. It turns them into typed inputs
//! and carries out typed effects.
//!
//! Refuses to know: what any of it is for. Every policy lives in a brain; what is here is mechanism, bounded in time and
//! space.
#![allow(unsafe_code, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod alloc_dir;
pub mod client_rpc;
pub mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod corpus;
pub mod disk;
pub mod entropy;
pub mod executor;
pub mod fingerprint;
pub mod host_stats;
pub mod http;
pub mod interfaces;
pub mod keeper;
pub mod keeper_cli;
pub mod keeper_connection;
pub mod keys;
pub mod log_file;
pub mod monitor;
pub mod quic;
pub mod tls;
pub mod zones;
