//! A server's turn: inputs go in, at most one durable commit is made, and all that follows from it comes out. It has two halves, so that
//! what may leave before the commit is on its way while the disk works (decision 0086).
//!
//! Refuses to know: what inputs mean, and how effects are carried out.

use super::effects::{Effect, Input};
use super::forwarding::Forwarding;
use super::leader::Leader;
use super::metrics::Timed;
use super::replica::{PreparedStep, StepOutcome};
use super::reservations::ReservationChange;
use super::{Server, status};
use model::time::{Mono, Now};
use state::fault::Fault;
use wire::change::Change;
use wire::event::Events;
use wire::frame::Body;

/// A turn that waits for its commit.
pub struct PreparedTurn {
    /// To be sent before the commit: a leader's appends, which the others can write to their disks meanwhile.
    pub early: Vec<Effect>,
    step: Option<PreparedStep>,
    had_inputs: bool,
    now: Mono,
}

/// What a turn led to. All of it may be shown and sent: it rests on nothing that is not durable.
#[derive(Debug, Default)]
pub struct Turn {
    pub effects: Vec<Effect>,
    /// What the turn means to the reservations of scheduler workers; to be applied before the effects.
    pub reservations: Vec<ReservationChange>,
    /// What moved in the state, for those who wait for it; in log order.
    pub changes: Vec<Change>,
    /// The same for those who stream it, with the objects.
    pub events: Vec<Events>,
    /// Before that, a snapshot has taken the state's place: anything may have changed, and no list says what.
    pub restored: bool,
}

impl Server {
    /// A turn's first half: takes the inputs, and prepares what is to be made durable. On a fault, in this half or in the other
    /// one, nothing of the turn has happened to anyone but other servers' logs; the server and its store are to be dropped, and
    /// opened by another process.
    pub fn prepare(&mut self, now: Now, inputs: Vec<Input>) -> Result<PreparedTurn, Fault> {
        self.metrics.begin_turn(now.mono);
        // a learner cannot confirm a time, and may never come to vote
        self.clocks.own.set(now, !self.replica.raft().is_only_voter());
        let had_inputs = !inputs.is_empty();
        self.with_leader(now.mono, Leader::expire)?;
        self.with_forwarding(now.mono, Forwarding::expire);
        let (parts, mut cx) = self.parts(now.mono);
        parts.reads.expire(&mut cx);
        for input in inputs {
            self.input(input, now.mono)?;
        }
        // after what a leader has said meanwhile
        self.replica.tick(now.mono);
        self.join(now.mono)?;
        self.disk.transfer_if_full(&mut self.replica, now.mono);
        self.clocks.recheck(self.leadership.leader().is_some(), &mut self.replica, now.mono);
        self.with_leader(now.mono, Leader::advance)?;
        if let (Some(leader), _, mut cx) = self.split_group(now.mono) {
            leader.membership.change_members(&mut cx);
        }
        self.step_down_if_deposed(now.mono);
        self.flush(now.mono);
        let mut step = self.replica.prepare(now.mono, self.disk.is_free)?;
        let early = step.as_mut().map(|step| std::mem::take(&mut step.early)).unwrap_or_default();
        let mut early: Vec<Effect> = early.into_iter().map(raft_message).collect();
        self.mark_region(&mut early);
        Ok(PreparedTurn { early, step, had_inputs, now: now.mono })
    }

    /// What is due until this server belongs to its region as it should.
    fn join(&mut self, now: Mono) -> Result<(), Fault> {
        let (parts, mut cx) = self.parts(now);
        let leader = parts.leader.map(|leader| &mut leader.membership);
        let Some(founding) = parts.joining.advance(leader, &mut cx) else { return Ok(()) };
        self.found(&founding, now)?;
        let (parts, mut cx) = self.parts(now);
        parts.joining.say_hello(&mut cx);
        Ok(())
    }

    /// The other half: at most one durable commit, and all that follows from it.
    pub fn commit(&mut self, prepared: PreparedTurn) -> Result<Turn, Fault> {
        let PreparedTurn { step, had_inputs, now, .. } = prepared;
        let worked = had_inputs || step.is_some();
        if let Some(step) = step {
            let outcome = self.replica.commit(step)?;
            self.metrics.done(Timed::DispatchLog);
            self.handle_step(outcome, now)?;
        }
        self.abandon_if_deposed(now);
        self.establish_leadership(now)?;
        let (parts, mut cx) = self.parts(now);
        parts.operator.finish(parts.leader.is_some(), &mut cx);
        self.with_leader(now, Leader::dispatch)?;
        if self.replica.has_peers() {
            self.work_for_leader(now);
            self.answer_lost_requests(now);
            let leader = self.other_leader();
            let (parts, mut cx) = self.parts(now);
            parts.clocks.send_time(leader, &mut cx);
        }
        self.propose_all(now);
        self.send_snapshot_messages();
        let (replica, leader, batch) = (&self.replica, self.leadership.leader(), self.metrics.last_batch());
        self.metrics.publish(worked, now, |m| status::add_gauges(m, replica, leader, batch));
        let (mut effects, reservations) = self.outbox.take_effects();
        self.mark_region(&mut effects);
        Ok(Turn { effects, reservations, ..std::mem::take(&mut self.outcome) })
    }

    fn handle_step(&mut self, step: StepOutcome, now: Mono) -> Result<(), Fault> {
        step.messages.into_iter().for_each(|message| self.outbox.effect(raft_message(message)));
        // before entries of the next leader are handled
        self.step_down_if_deposed(now);
        if step.restored {
            assert!(self.leadership.leader().is_none(), "a leader installs no snapshot");
            self.outcome.restored = true;
            self.members_changed(now)?;
        }
        let (applied, reads) = (!step.applied.is_empty(), step.reads);
        for entry in step.applied {
            self.handle_entry(entry, now)?;
        }
        let (parts, mut cx) = self.parts(now);
        parts.reads.take(reads, &mut cx);
        parts.reads.serve(&mut cx);
        self.abandon_if_deposed(now);
        if applied && self.leadership.leader().is_none() && self.replica.leads_its_term() {
            self.begin_to_lead(now)?;
        }
        Ok(())
    }

    fn send_snapshot_messages(&mut self) {
        for (to, message) in self.replica.take_snapshot_messages() {
            self.outbox.effect(Effect::SendSnapshot { to, message });
        }
    }

    /// The turn is over, and what it led to is about to leave.
    pub fn end_turn(&mut self, now: Mono) {
        self.metrics.end_turn(now);
    }

    /// When the next turn is due at the latest, if nothing comes in before.
    pub fn next_deadline(&self) -> Option<Mono> {
        let (leader, space_free) = (self.leadership.leader(), self.disk.is_free);
        // while raft takes no proposals, the outbox has a deadline of its own and the parts have to wait for it
        let leader = leader.filter(|_| !self.outbox.has_returned());
        if self.replica.has_work()
            || self.leadership.is_establishing()
            || leader.is_some_and(|leader| leader.has_work(space_free))
        {
            return Some(Mono(0));
        }
        let deadlines = [
            leader.and_then(|leader| leader.next_deadline(space_free, self.clocks.own)),
            self.replica.next_tick(),
            self.reads.next_deadline(),
            self.forwarding.next_deadline(),
            self.follower_workers.next_deadline(),
            self.clocks.next_deadline(),
            self.replica.next_snapshot_deadline(),
            self.outbox.next_deadline(),
            self.metrics.next_deadline(),
            self.joining.next_deadline(),
            self.disk.next_transfer(self.replica.raft()),
            self.operator.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}

fn raft_message(out: raft::Outbound) -> Effect {
    let body = if out.is_append { Body::Append(out.message) } else { Body::Raft(out.message) };
    Effect::server_frame(out.to, 0, body)
}
