//! The tasks' parent as a brain: idempotent starts, stops, exits, the journal of all that, and where output goes.
//!
//! Refuses to know: jobs, allocations, sockets, processes, files and clocks. Its event loop brings inputs and the
//! time, and executes the effects. Invariants: a run's process executes nothing before its journal entry is durable, nor
//! before the journal says that it was let go; no start and no exit is told before its entry is durable; an end is kept
//! until it is forgotten; what lives and is in no entry is ended before its run may start; an idle keeper writes
//! nothing; at most `MAX_RUNS` runs are held.

pub mod brain;
pub mod effects;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod journal;
pub mod logs;
pub mod mark;
pub mod restore;
pub mod run;
mod sessions;

#[cfg(test)]
mod tests;
