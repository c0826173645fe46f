//! All that crosses a machine or outlives a process: requests to the leader, replicated commands, messages between
//! nodes and servers, the keeper's protocol, and the rules by which they become bytes.
//!
//! Refuses to know: sockets, tables, and what anyone does with a message. Invariants: enums are encoded by position and
//! only ever appended to; every stored or sent record starts with its schema version; decoding never panics and never
//! allocates more than a small multiple of its input.

pub mod bearer_token;
pub mod change;
pub mod client_rpc;
pub mod command;
pub mod credential;
pub mod enrolment;
pub mod event;
pub mod feature_level;
pub mod frame;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod http;
pub mod job_plan;
pub mod keeper;
pub mod metrics;
pub mod record;
pub mod relay;
pub mod request;
pub mod resource_usage;
pub mod rpc;
pub mod server_rpc;
pub mod snapshot;
pub mod status;
pub mod stored_identity;
pub mod why;
