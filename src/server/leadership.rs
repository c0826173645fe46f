//! Becoming leader, and stepping down: whoever waits is told the truth (server.md 4).
//!
//! Refuses to know: elections, which are raft's.

use super::leader::Leader;
use super::reservations::ReservationChange;
use super::{NO_LEADER, Server, UNKNOWN, unavailable};
use model::time::Mono;
use state::fault::Fault;

impl Server {
    /// This server leads and has applied all that came before.
    pub(super) fn become_leader(&mut self, now: Mono) -> Result<(), Fault> {
        assert!(self.pending.is_empty(), "a new leader has proposed nothing");
        let term = self.replica.raft().term();
        self.clock.begin_to_lead(now);
        let (_, mut cx) = self.split(now);
        let leader = Leader::new(term, &mut cx)?;
        self.leader = Some(leader);
        Ok(())
    }

    pub(super) fn step_down_if_deposed(&mut self, now: Mono) {
        if self.leader.as_ref().is_some_and(|leader| !self.replica.leads(leader.term)) {
            self.step_down(now);
        }
    }

    /// The leader's parts are dropped. What was proposed and is in no log is refused; what is in the log may still turn out
    /// to be applied in this turn.
    pub(super) fn step_down(&mut self, now: Mono) {
        tracing::info!(target: "nomad", "cluster leadership lost");
        let Some(leader) = self.leader.take() else { return };
        let (_, mut cx) = self.split(now);
        leader.step_down(&mut cx);
        cx.metrics.step_down();
        cx.outbox.reservation(ReservationChange::ReleaseAll);
        for proposal in self.outbox.take_all_proposals() {
            self.refuse_proposal(proposal.then, unavailable(NO_LEADER), now);
        }
    }

    /// A server that stepped down does not know what becomes of its entries that were not applied yet.
    pub(super) fn abandon_if_deposed(&mut self, now: Mono) {
        if self.leader.is_none() {
            for then in self.pending.abandon() {
                self.tell_waiting(&then, unavailable(UNKNOWN), now);
            }
        }
        assert!(self.leader.is_some() || self.pending.is_empty(), "only a leader has entries pending");
    }
}
