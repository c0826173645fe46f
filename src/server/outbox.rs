//! The output of a turn: effects, and the proposals that are appended to the log together. Some proposals are deferred: no
//! caller waits for them within milliseconds, so they share the durable commit of the next write.
//!
//! Refuses to know: what is in them. Deferred are no more than evaluations are in workers' hands at a time. Returned are no more than
//! the parts propose of their own accord in a turn or two: they wait while anything is, and a leader with more steps down.

use super::effects::Effect;
use super::pending::OnApply;
use super::reservations::ReservationChange;
use model::time::{Mono, Span};
use wire::command::Command;

/// How long a deferred proposal waits for others. A client that registers jobs one after the other sends its next within this.
const MAX_DELAY: Span = Span::millis(5);

/// Proposals that raft did not take for the moment. A leader that has more steps down: the next one builds its parts from the state.
pub const MAX_RETURNED: usize = 1024;

#[derive(Debug)]
pub struct Proposal {
    pub command: Command,
    pub then: OnApply,
}

#[derive(Default)]
pub struct Outbox {
    effects: Vec<Effect>,
    reservations: Vec<ReservationChange>,
    proposals: Vec<Proposal>,
    deferred: Vec<Proposal>,
    /// Proposals that raft did not take for the moment; they come before all others.
    returned: Vec<Proposal>,
    /// When the oldest deferred proposal has waited long enough.
    due: Option<Mono>,
}

impl Outbox {
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub fn reservation(&mut self, change: ReservationChange) {
        self.reservations.push(change);
    }

    pub fn propose(&mut self, command: Command, then: OnApply) {
        self.proposals.push(Proposal { command, then });
    }

    pub fn defer(&mut self, command: Command, then: OnApply, now: Mono) {
        self.due.get_or_insert(now.after(MAX_DELAY));
        self.deferred.push(Proposal { command, then });
    }

    /// Keeps a proposal that raft does not take now, but will later: no caller waits for it who would ask again.
    pub fn put_back(&mut self, proposal: Proposal, now: Mono) {
        self.due.get_or_insert(now.after(MAX_DELAY));
        self.returned.push(proposal);
    }

    /// Whether proposals that raft refused wait here: a part that can keep a new one for later does so.
    pub fn has_returned(&self) -> bool {
        !self.returned.is_empty()
    }

    /// Whether so many proposals wait that this server must step down.
    pub fn is_overfull(&self) -> bool {
        self.returned.len() > MAX_RETURNED
    }

    /// Drops what workers made of evaluations: the scheduler is paused. What a change of a node leads to has to be written all the same.
    pub fn drop_decisions(&mut self) {
        self.deferred.clear();
        self.returned.retain(|proposal| !matches!(proposal.then, OnApply::Plan { .. }));
        self.due.take_if(|_| self.returned.is_empty());
    }

    /// The proposals to be appended now. Deferred ones go along when something is written anyhow, or alone when they have waited long
    /// enough.
    pub fn flush(&mut self, now: Mono, is_written_anyhow: bool) -> Vec<Proposal> {
        let mut out = self.take_proposals();
        if self.due.is_some_and(|due| due <= now || is_written_anyhow || !out.is_empty()) {
            out.append(&mut self.deferred);
            self.due = None;
        }
        assert!(self.deferred.is_empty() || self.due.is_some(), "what is deferred goes at some time");
        out
    }

    /// Takes the proposals, but not the deferred ones.
    pub fn take_proposals(&mut self) -> Vec<Proposal> {
        let mut out = std::mem::take(&mut self.returned);
        out.append(&mut self.proposals);
        out
    }

    /// Takes all of them, because this server does not lead any more.
    pub fn take_all_proposals(&mut self) -> Vec<Proposal> {
        let mut out = self.take_proposals();
        out.append(&mut self.deferred);
        self.due = None;
        out
    }

    pub fn take_effects(&mut self) -> (Vec<Effect>, Vec<ReservationChange>) {
        (std::mem::take(&mut self.effects), std::mem::take(&mut self.reservations))
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.due
    }

    pub fn proposals(&self) -> usize {
        self.proposals.len() + self.returned.len()
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty() && self.deferred.is_empty() && self.returned.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pending::AfterPlan;
    use super::*;
    use model::id::{EvalId, EvalToken};

    fn deletes(name: &str) -> (Command, OnApply) {
        (Command::DeleteNodePool { name: name.into() }, OnApply::Nothing)
    }

    fn names(proposals: Vec<Proposal>) -> Vec<String> {
        let name = |p: Proposal| match p.command {
            Command::DeleteNodePool { name } => name,
            _ => panic!("another command"),
        };
        proposals.into_iter().map(name).collect()
    }

    #[test]
    fn a_deferred_proposal_goes_with_a_write_or_when_due() {
        let now = Mono(1);
        let mut outbox = Outbox::default();
        let defer = |outbox: &mut Outbox, name: &str| {
            let (command, then) = deletes(name);
            outbox.defer(command, then, now);
        };
        defer(&mut outbox, "a");
        assert_eq!(names(outbox.flush(now, false)), [""; 0]);
        let (command, then) = deletes("b");
        outbox.propose(command, then);
        assert_eq!(names(outbox.flush(now, false)), ["b", "a"]);
        defer(&mut outbox, "c");
        assert_eq!(names(outbox.flush(now, true)), ["c"]);
        defer(&mut outbox, "d");
        assert_eq!(outbox.next_deadline(), Some(now.after(MAX_DELAY)));
        assert_eq!(names(outbox.flush(now.after(MAX_DELAY), false)), ["d"]);
        assert!(outbox.is_empty() && outbox.next_deadline().is_none());
    }

    #[test]
    fn a_proposal_that_raft_refused_is_tried_again_first() {
        let now = Mono(1);
        let mut outbox = Outbox::default();
        let (command, then) = deletes("a");
        outbox.put_back(Proposal { command, then }, now);
        let (command, then) = deletes("b");
        outbox.propose(command, then);
        assert_eq!((outbox.is_empty(), outbox.next_deadline()), (false, Some(now.after(MAX_DELAY))));
        assert_eq!(names(outbox.flush(now, false)), ["a", "b"]);
        let (command, then) = deletes("c");
        outbox.put_back(Proposal { command, then }, now);
        assert_eq!(names(outbox.take_all_proposals()), ["c"]);
    }

    #[test]
    fn a_pause_drops_what_workers_decided_and_nothing_else() {
        let now = Mono(1);
        let evals = || Command::UpdateEvals { evals: vec![], at: Default::default() };
        let (eval, token) = (EvalId::from_random(1), EvalToken::from_random(1));
        let plan = || OnApply::Plan { eval, token, next: AfterPlan::Ack };
        let mut outbox = Outbox::default();
        outbox.put_back(Proposal { command: evals(), then: plan() }, now);
        outbox.defer(evals(), plan(), now);
        outbox.drop_decisions();
        assert!(outbox.is_empty() && outbox.next_deadline().is_none());
        outbox.put_back(Proposal { command: evals(), then: OnApply::Nothing }, now);
        outbox.drop_decisions();
        assert_eq!(outbox.next_deadline(), Some(now.after(MAX_DELAY)), "a node's evaluations are written");
        let kept = outbox.flush(now.after(MAX_DELAY), false);
        assert!(matches!(kept[..], [Proposal { then: OnApply::Nothing, .. }]), "{kept:?}");
    }
}
