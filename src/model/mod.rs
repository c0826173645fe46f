//! What jobs, groups, tasks, nodes, allocations, evaluations and plans *are*: plain data, ids, validation, canonical
//! defaults and resource arithmetic.
//!
//! Refuses to know: how anything is stored, sent, parsed or shown. There is no JSON here, no clock, no policy.
//! Every map is ordered, so that two machines that hold equal values encode equal bytes.

pub mod alloc;
pub mod canonical;
pub mod child_jobs;
pub mod claims;
pub mod constraint;
pub mod counts;
pub mod cron;
pub mod deployment;
pub mod diff;
pub mod dispatch;
pub mod drain;
pub mod environment;
pub mod eval;
pub mod garbage;
pub mod id;
pub mod job;
pub mod job_summary;
pub mod join_token;
pub mod key;
pub mod member;
pub mod namespace;
pub mod node;
pub mod periodic;
pub mod plan;
pub mod pool;
pub mod preference;
pub mod random;
pub mod reschedule;
pub mod resources;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
pub mod scaling;
pub mod scheduling;
pub mod schema;
pub mod short_float;
pub mod submission;
pub mod task;
pub mod time;
pub mod ui;
pub mod validate;
pub mod value;
