//! `drover node`: nodes, what they use, their drain, eligibility and metadata; and node pools.
//!
//! Refuses to know: what runs on a node beyond the list of its allocations.

pub mod config;
pub mod drain;
pub mod eligibility;
pub mod list;
pub mod meta;
pub mod pool_change;
pub mod pool_show;
pub mod shapes;
pub mod status;
pub mod usage;
