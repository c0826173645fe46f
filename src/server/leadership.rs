//! Becoming leader, and stepping down: each request that waits is answered with what is known of it then (server.md 4).
//!
//! Refuses to know: elections, which are raft's.

use super::establish::{EstablishLeadership, Established};
use super::leader::Leader;
use super::reservations::ReservationChange;
use super::{NO_LEADER, Server, UNKNOWN, unavailable};
use model::time::Mono;
use state::fault::Fault;

/// Whether this server leads.
#[derive(Default)]
pub enum Leadership {
    #[default]
    Follows,
    /// Leads, and reads what came before.
    Establishes(Box<EstablishLeadership>),
    /// Leads, and has applied everything from before.
    Leads(Box<Leader>),
}

impl Leadership {
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Leadership::Leads(leader) => Some(leader),
            _ => None,
        }
    }

    pub fn leader_mut(&mut self) -> Option<&mut Leader> {
        match self {
            Leadership::Leads(leader) => Some(leader),
            _ => None,
        }
    }

    pub fn is_establishing(&self) -> bool {
        matches!(self, Leadership::Establishes(_))
    }

    fn take_establishing(&mut self) -> Option<Box<EstablishLeadership>> {
        match std::mem::take(self) {
            Leadership::Establishes(establishing) => Some(establishing),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The term in which this server leads.
    pub fn term(&self) -> Option<u64> {
        match self {
            Leadership::Follows => None,
            Leadership::Establishes(establishing) => Some(establishing.term()),
            Leadership::Leads(leader) => Some(leader.term),
        }
    }
}

impl Server {
    /// This server leads and has applied all that came before.
    pub(super) fn begin_to_lead(&mut self, now: Mono) -> Result<(), Fault> {
        assert!(self.pending.is_empty(), "a new leader has proposed nothing");
        self.clocks.own.begin_to_lead(now);
        let term = self.replica.raft().term();
        let (_, mut cx) = self.split(now);
        let establishing = EstablishLeadership::new(term, &mut cx)?;
        self.leadership = Leadership::Establishes(Box::new(establishing));
        Ok(())
    }

    /// Builds the leader's parts, some rows a turn.
    pub(super) fn establish_leadership(&mut self, now: Mono) -> Result<(), Fault> {
        let Some(establishing) = self.leadership.take_establishing() else { return Ok(()) };
        let (_, mut cx) = self.split(now);
        match establishing.advance(&mut cx)? {
            Established::Leads(leader) => {
                self.leadership = Leadership::Leads(leader);
                self.clocks.check(true, &mut self.replica, now);
            }
            Established::NotYet(establishing) => self.leadership = Leadership::Establishes(establishing),
        }
        // the disk may have become full, or free, meanwhile
        self.with_leader(now, |leader, cx| leader.evals.apply_disk_space(cx))
    }

    pub(super) fn step_down_if_deposed(&mut self, now: Mono) {
        if self.leadership.term().is_some_and(|term| !self.replica.leads(term)) {
            self.step_down(now);
        }
    }

    /// The leader's parts are dropped. What was proposed and is in no log is refused; what is in the log may still turn out
    /// to be applied in this turn.
    pub(super) fn step_down(&mut self, now: Mono) {
        tracing::info!(target: "nomad", "cluster leadership lost");
        let Leadership::Leads(leader) = std::mem::take(&mut self.leadership) else { return };
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
        if self.leadership.leader().is_none() {
            for then in self.pending.abandon() {
                self.reply_to_waiting(&then, unavailable(UNKNOWN), now);
            }
        }
        assert!(
            self.leadership.leader().is_some() || self.pending.is_empty(),
            "only a leader has entries pending"
        );
    }
}
