//! Becoming leader, and stepping down: each request that waits is answered with what is known of it then (server.md 4).
//!
//! Refuses to know: elections, which are raft's.

use super::establish::{EstablishLeadership, Established};
use super::reservations::ReservationChange;
use super::{NO_LEADER, Server, UNKNOWN, unavailable};
use model::time::Mono;
use state::fault::Fault;

impl Server {
    /// This server leads and has applied all that came before.
    pub(super) fn begin_to_lead(&mut self, now: Mono) -> Result<(), Fault> {
        assert!(self.pending.is_empty(), "a new leader has proposed nothing");
        self.clock.begin_to_lead(now);
        let term = self.replica.raft().term();
        let (_, mut cx) = self.split(now);
        self.establishing = Some(Box::new(EstablishLeadership::new(term, &mut cx)?));
        Ok(())
    }

    /// Builds the leader's parts, some rows a turn.
    pub(super) fn establish_leadership(&mut self, now: Mono) -> Result<(), Fault> {
        let Some(establishing) = self.establishing.take() else { return Ok(()) };
        let (_, mut cx) = self.split(now);
        match establishing.advance(&mut cx)? {
            Established::Leads(leader) => {
                self.leader = Some(*leader);
                self.judge_clock(now);
            }
            Established::NotYet(establishing) => self.establishing = Some(establishing),
        }
        // the disk may have become full, or free, meanwhile
        self.with_leader(now, |leader, cx| leader.evals.follow_disk_space(cx))
    }

    pub(super) fn step_down_if_deposed(&mut self, now: Mono) {
        let leads = |term| self.replica.leads(term);
        let is_deposed = self.leader.as_ref().is_some_and(|leader| !leads(leader.term))
            || self.establishing.as_ref().is_some_and(|establishing| !leads(establishing.term()));
        if is_deposed {
            self.step_down(now);
        }
    }

    /// The leader's parts are dropped. What was proposed and is in no log is refused; what is in the log may still turn out
    /// to be applied in this turn.
    pub(super) fn step_down(&mut self, now: Mono) {
        tracing::info!(target: "nomad", "cluster leadership lost");
        self.establishing = None;
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
                self.reply_to_waiting(&then, unavailable(UNKNOWN), now);
            }
        }
        assert!(self.leader.is_some() || self.pending.is_empty(), "only a leader has entries pending");
    }
}
