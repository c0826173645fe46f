//! The deterministic world: real brains on real stores, with a simulated clock, network, disks and processes, and every
//! fault that fits in a seed. Nothing here is a stand-in for a brain; what is simulated is only what brains cannot see.
//!
//! A world has regions of servers and nodes; every fault is counted when it strikes. The seeds run one region of one, three or
//! five servers, `two_regions` two; `elections`, `consistency` and `snapshots` look at what only several do.
//!
//! Refuses to know: `io`, `agent`, `cli`. Invariants: no thread, no clock, no entropy: a seed decides everything, and the
//! same seed twice gives the same trace. `DROVER_SIM_SEED=n` runs one seed and prints its events; `DROVER_SIM_SEEDS=n`
//! sets how many are run; `DROVER_SIM_SERVERS=n` gives every region n servers, whatever its seed says.

#![cfg(test)]

mod address_books;
mod agreement;
mod api_requests;
mod asks;
mod blocked;
mod broken;
mod broken_links;
mod checks;
mod clients;
mod clock;
mod consistency;
mod contact;
pub mod disk;
mod dispatchers;
mod elections;
mod enabled_schedulers;
mod event_readers;
mod exec_sessions;
mod exits;
mod faults;
mod feature_levels;
mod full_disks;
mod garbage;
mod golden;
mod grown_regions;
mod heard;
mod http;
mod http_calls;
mod job_groups;
mod job_specs;
mod keeper_host;
mod launches;
mod ledger;
mod line;
mod lost_disks;
mod member_checks;
mod membership;
mod network;
mod node_host;
mod node_room;
mod node_users;
mod operators;
mod output;

mod place;
mod power_cuts;
mod preemption;
mod processes;
mod region;
mod rollouts;
mod rot;
mod scaling;
mod scheduler_config;
mod server_host;
mod server_operators;
mod shared_machines;
mod slow_lines;
mod snapshot_links;
mod snapshots;
mod stale_relays;
mod starts;
mod stores;
mod task_places;
mod tests;
mod topologies;
mod trace;
mod tracked;
mod two_regions;
mod users;
mod wear;
mod workers;
mod workload;
mod world;
mod worlds;
