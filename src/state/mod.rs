//! Durable stores: a server's replicated state, and a client's own allocations. A server's is a log of its own, with raft's
//! hard state, and one redb database: the rows of every object with their indexes, `apply` from commands to rows, and
//! views that read them at one index. A client's is a log alone (`client_store`).
//!
//! Refuses to know: clocks, randomness, the network, who proposed a command and who waits for it. Invariants: what is
//! applied depends on the log alone, so replicas at one index hold equal rows and equal digests; every index row agrees
//! with the row it names (`check` proves it); an allocation's job and the spec of its version exist; a commit is never
//! half visible; damaged rows are a `Fault`, never a panic.

pub mod apply;
#[cfg(any(test, feature = "testing"))]
pub mod check;
pub mod checksum;
pub mod checksummed;
pub mod client_store;
mod cluster_config;
mod database;
mod digest;
mod dispatched_spec;
pub mod fault;
pub mod garbage;
pub mod job_headers;
mod join_tokens;
pub mod log_batch;
mod members;
mod options;
mod orphaned_children;
mod scaling;
pub mod scans;
pub mod snapshot;
pub mod store;
pub mod tables;
pub mod view;
pub mod wal;

#[cfg(any(test, feature = "testing"))]
pub mod samples;
#[cfg(test)]
mod tests;
