//! Allocations that are placed again because they failed or their node is away: the reschedule tracker of the new one, the nodes
//! that are penalized, and the follow-up evaluations. Refuses to know which allocations those are.

use super::super::fleet::FleetSnapshot;
use super::super::proposal::ProposedAllocs;
use super::super::reconcile::{Followup, UNKNOWN};
use super::{EvalContext, FOLLOWUP_IDS};
use model::alloc::{Allocation, ClientStatus, StateChange};
use model::eval::Evaluation;
use model::id::EvalId;
use model::job::TaskGroup;
use model::random::Stream;
use model::reschedule::Reschedule;
use model::time::Wall;
use std::collections::BTreeSet;

/// Empty: the successor's reschedule tracker says why.
pub const RESCHEDULED: &str = "";

/// The reschedule tracker of the successor of `old`.
pub fn next_tracker(group: &TaskGroup, old: &Allocation, now: Wall) -> Vec<Reschedule> {
    let Some(policy) = &group.reschedule else { return old.reschedules.clone() };
    let since = if old.client == ClientStatus::Failed { old.failed_at() } else { now };
    let delay = policy.next_delay(&old.reschedules, since);
    let this = Reschedule { at: now, previous_alloc: old.id, previous_node: old.node_id, delay };
    policy.remembered(&old.reschedules, this)
}

/// The nodes where the allocation or its predecessors failed.
pub fn penalized_slots(old: &Allocation, fleet: &FleetSnapshot) -> BTreeSet<u32> {
    let here = (old.client == ClientStatus::Failed).then_some(old.node_id);
    let before = old.reschedules.iter().map(|r| r.previous_node);
    before.chain(here).filter_map(|node| fleet.slot(node)).collect()
}

/// Records which allocations became unknown, and which are known again.
pub fn record_disconnects(
    disconnected: &[&Allocation],
    reconnected: &[&Allocation],
    at: Wall,
    proposal: &mut ProposedAllocs,
) {
    for alloc in disconnected {
        proposal.amend(alloc, |a| {
            a.client = ClientStatus::Unknown;
            a.client_description = UNKNOWN.to_string();
            a.states.push(StateChange { status: a.client, at });
        });
    }
    for alloc in reconnected {
        proposal.amend(alloc, |a| a.states.push(StateChange { status: a.client, at }));
    }
}

/// Creates the follow-up evaluations, and names them in the allocations that wait for them.
pub fn create_followup_evals(
    run: &EvalContext,
    followups: Vec<Followup>,
    proposal: &mut ProposedAllocs,
) -> Vec<Evaluation> {
    let mut ids = Stream::new(run.seed, FOLLOWUP_IDS);
    let mut evals = Vec::with_capacity(followups.len());
    for followup in followups {
        let id = EvalId::from_random(ids.next_u128());
        followup.allocs.iter().for_each(|alloc| proposal.amend(alloc, |a| a.followup_eval = Some(id)));
        let (of, now) = (run.eval, run.now);
        evals.push(Evaluation {
            wait_until: Some(followup.at),
            status_description: followup.description.to_string(),
            job_modify_index: of.job_modify_index,
            previous_eval: Some(of.id),
            ..Evaluation::pending(id, of.job.clone(), of.job_type, of.priority, followup.trigger, now)
        });
    }
    evals
}
