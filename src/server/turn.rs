//! A server's turn: inputs go in, at most one durable commit is made, and all that follows from it comes out. It has two halves, so that
//! what may leave before the commit is on its way while the disk works (decision 0086).
//!
//! Refuses to know: what inputs mean, and how effects are carried out.

use super::effects::{Effect, Input};
use super::forwarding::Forwarding;
use super::leader::Leader;
use super::metrics::Timed;
use super::replica::PreparedStep;
use super::reservations::ReservationChange;
use super::{Server, status};
use model::time::{Mono, Now};
use state::fault::Fault;
use wire::change::Change;
use wire::event::Events;
use wire::frame::{self, Body, Frame};
use wire::rpc::Peer;

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
        self.clock.set(now, !self.replica.raft().is_only_voter());
        let had_inputs = !inputs.is_empty();
        self.with_leader(now.mono, Leader::expire)?;
        self.with_forwarding(now.mono, Forwarding::expire);
        self.expire_reads(now.mono);
        for input in inputs {
            self.input(input, now.mono)?;
        }
        // after what a leader has said meanwhile
        self.replica.tick(now.mono);
        self.join(now.mono)?;
        self.hand_over_on_full_disk(now.mono);
        self.judge_clock_again(now.mono);
        self.with_leader(now.mono, Leader::advance)?;
        self.change_members(now.mono);
        self.step_down_if_deposed(now.mono);
        self.flush(now.mono);
        let mut step = self.replica.prepare(now.mono, self.space_free)?;
        let early = step.as_mut().map(|step| std::mem::take(&mut step.early)).unwrap_or_default();
        let mut early: Vec<Effect> = early.into_iter().map(raft_message).collect();
        self.say_region(&mut early);
        Ok(PreparedTurn { early, step, had_inputs, now: now.mono })
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
        self.finish_handover(now);
        self.finish_removals(now);
        self.with_leader(now, Leader::hand_out)?;
        if self.replica.has_peers() {
            self.work_for_leader(now);
            self.send_time(now);
        }
        self.propose_all(now);
        self.send_snapshot_messages();
        let (replica, leader, batch) = (&self.replica, self.leader.as_ref(), self.metrics.last_batch());
        self.metrics.publish(worked, now, |m| status::add_gauges(m, replica, leader, batch));
        let (mut effects, reservations) = self.outbox.take_effects();
        self.say_region(&mut effects);
        let (changes, events) = (std::mem::take(&mut self.changes), std::mem::take(&mut self.events));
        let restored = std::mem::take(&mut self.restored);
        Ok(Turn { effects, reservations, changes, events, restored })
    }
}

pub fn raft_message(out: raft::Outbound) -> Effect {
    let body = if out.is_append { Body::Append(out.message) } else { Body::Raft(out.message) };
    let frame = Frame { request: 0, body };
    Effect::Send { to: Peer::Server(out.to), bytes: frame::encode(&frame) }
}
