//! `drover deployment`, and deployments as other commands follow them.
//!
//! Refuses to know: when a deployment is good; the servers decide that.

pub mod change;
pub mod monitor;
pub mod progress;
pub mod shapes;
pub mod show;
