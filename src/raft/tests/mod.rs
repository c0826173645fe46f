//! Tests of the room as a whole: a cluster in memory under every fault, and a script for each trap of the engine and each refusal.

mod bounds;
mod cluster;
mod elections;
mod faults;
mod lone;
mod membership;
mod messages;
mod reading;
mod slow_links;
mod snapshots;
