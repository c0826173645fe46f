//! A server's brain: its replica of the region; the parts that it has whether it leads or not, such as joining and clocks; and while it
//! leads the parts of a leader: evaluation broker, plan applier, heartbeats, deployment watcher, drainer, periodic launches,
//! garbage collector.
//!
//! A plain struct: inputs go in, effects come out, and nothing else changes it. Refuses to know: sockets, threads, clocks
//! and entropy. Invariants: an effect that rests on a write leaves only after the write is durable; each request is
//! answered once, and never with what another leader's entry did; queues and deadlines hold nothing that a new leader could
//! not rebuild from the state.

mod admission;
mod blocked;
mod broker;
mod clock;
mod context;
mod deployments;
mod dequeue;
pub mod disk_full;
mod drainer;
pub mod effects;
mod entry_logging;
mod establish;
mod eval_deletion;
mod evals;
mod feature_level;
mod forwarding;
mod frames;
mod garbage;
pub mod heartbeat;
mod ids;
pub mod inbox;
#[cfg(any(test, feature = "testing"))]
mod inspection;
pub mod job_plan;
mod join_tokens;
mod joining;
mod keys;
mod leader;
mod leadership;
mod members;
mod membership;
mod metrics;
mod nodes;
mod operator;
mod outbox;
mod peer_clocks;
mod pending;
mod periodic;
mod plans;
mod reads;
mod relayed_requests;
mod remote_workers;
mod replica;
mod reports;
pub mod reservations;
mod snapshots;
mod status;
mod submit;
mod system_jobs;
#[cfg(test)]
mod testing;
mod turn;
mod unserved_types;
mod watches;
pub mod why;
pub mod worker;

use clock::WallClock;
use context::{Context, GroupContext};
use dequeue::FollowerWorkers;
use disk_full::StoreSpace;
use effects::Input;
use forwarding::Forwarding;
use heartbeat::HeartbeatRules;
use ids::Ids;
use joining::Joining;
use leader::Leader;
use leadership::Leadership;
use metrics::Metrics;
use model::cron::Zones;
use model::garbage::GarbageRules;
use model::job::JobType;
use model::member::{Founding, ServerInfo};
use model::scheduling::SchedulerSettings;
use model::time::Mono;
use operator::OperatorRequests;
use outbox::{Outbox, Proposal};
use peer_clocks::Clocks;
use pending::{MAX_PENDING, OnApply, PendingEntries, Waiting, with_evals};
use reads::PendingReads;
use replica::{AppliedEntry, Replica};
use reservations::ReservationChange;
use state::fault::Fault;
use state::store::{Recovered, Store};
use wire::change::Change;
use wire::command::Command;
use wire::request::{Refusal, RefusalKind, WriteReply, WriteRequest};
use wire::rpc::{NodeReply, Peer};

pub use turn::{PreparedTurn, Turn};

const NO_LEADER: &str = "No cluster leader";
const UNKNOWN: &str = "the leader changed before the write was committed: read the state before trying again";
const REPLACED: &str = "the leader changed before the write was committed, and it was not done: try again";

/// Reading this many rows takes some milliseconds; an election timeout is a whole second.
pub const ROWS_PER_TURN: usize = 500;

#[derive(Clone, Debug)]
pub struct Config {
    /// How many servers with empty disks begin a region together. 1: this one alone; 0: it waits for a region.
    pub bootstrap_expect: u32,
    /// The configuration names other servers: one that expects only itself begins no region before it has heard of one of them.
    pub knows_others: bool,
    /// What the others are to know of this server.
    pub info: ServerInfo,
    pub heartbeats: HeartbeatRules,
    /// Evaluations that are scheduled at the same time.
    pub workers: usize,
    /// The types of jobs whose evaluations the workers take.
    pub enabled_schedulers: Vec<JobType>,
    /// While more evaluations are ready than so many for each worker, other servers' workers are given the rest.
    pub ready_per_worker: usize,
    /// Rows of the state that a new leader reads in one turn: `ROWS_PER_TURN`, but in tests.
    pub rows_per_turn: usize,
    /// Versions of a job that stay listed.
    pub tracked_versions: u32,
    /// What a new region's scheduler begins with.
    pub scheduler: SchedulerSettings,
    pub garbage: GarbageRules,
    pub zones: Zones,
}

pub struct Server {
    config: Config,
    replica: Replica,
    joining: Joining,
    operator: OperatorRequests,
    leadership: Leadership,
    pending: PendingEntries,
    reads: PendingReads,
    forwarding: Forwarding,
    follower_workers: FollowerWorkers,
    outbox: Outbox,
    metrics: Metrics,
    ids: Ids,
    clocks: Clocks,
    disk: StoreSpace,
    /// What this turn has led to; its effects are in the outbox until it ends.
    outcome: Turn,
}

/// The parts, beside the context that their methods take.
struct ServerParts<'a> {
    joining: &'a mut Joining,
    operator: &'a mut OperatorRequests,
    leader: Option<&'a mut Leader>,
    reads: &'a mut PendingReads,
    forwarding: &'a mut Forwarding,
    follower_workers: &'a mut FollowerWorkers,
    clocks: &'a mut Clocks,
}

impl Server {
    /// Opens a server on what its disk holds. `seed` decides ids and jitter.
    pub fn new(config: Config, store: Store, recovered: Recovered, seed: u64) -> Result<Server, Fault> {
        let raft = raft::Config { id: recovered.server_id, seed };
        let mut joining = Joining::new(recovered.is_empty());
        let mut replica = Replica::open(raft, store, recovered)?;
        joining.members_changed(&config.info, &mut replica, Mono::default())?;
        let mut clock = WallClock::default();
        clock.observe_stamp(replica.last_stamp(), None);
        Ok(Server {
            replica,
            joining,
            operator: OperatorRequests::default(),
            leadership: Leadership::default(),
            pending: PendingEntries::default(),
            reads: PendingReads::default(),
            forwarding: Forwarding::new(seed),
            // apart from what is forwarded: an answer to the one is none to the other
            follower_workers: FollowerWorkers::new(seed ^ (1 << 63)),
            outbox: Outbox::default(),
            metrics: Metrics::default(),
            ids: Ids::new(seed),
            clocks: Clocks::new(clock),
            disk: StoreSpace::default(),
            outcome: Turn::default(),
            config,
        })
    }

    /// The parts, and what they are given.
    fn parts(&mut self, now: Mono) -> (ServerParts<'_>, Context<'_>) {
        let cx = Context {
            config: &self.config,
            now,
            at: self.clocks.own.stamp(now),
            clock: self.clocks.own,
            space_free: self.disk.is_free,
            applied: self.replica.applied(),
            log_end: self.replica.raft().position().last_index,
            has_peers: self.replica.has_peers(),
            reader: self.replica.reader(),
            raft: self.replica.raft(),
            members: self.replica.members(),
            ids: &mut self.ids,
            metrics: &mut self.metrics,
            outbox: &mut self.outbox,
        };
        let parts = ServerParts {
            joining: &mut self.joining,
            operator: &mut self.operator,
            leader: self.leadership.leader_mut(),
            reads: &mut self.reads,
            forwarding: &mut self.forwarding,
            follower_workers: &mut self.follower_workers,
            clocks: &mut self.clocks,
        };
        (parts, cx)
    }

    /// The leader's parts, if this server leads, and what they are given.
    fn split(&mut self, now: Mono) -> (Option<&mut Leader>, Context<'_>) {
        let (parts, cx) = self.parts(now);
        (parts.leader, cx)
    }

    /// The parts that change the raft group, and what they are given.
    fn split_group(&mut self, now: Mono) -> (Option<&mut Leader>, &mut OperatorRequests, GroupContext<'_>) {
        let cx = GroupContext {
            now,
            space_free: self.disk.is_free,
            replica: &mut self.replica,
            pending: &mut self.pending,
            metrics: &mut self.metrics,
            outbox: &mut self.outbox,
        };
        (self.leadership.leader_mut(), &mut self.operator, cx)
    }

    fn with_leader(
        &mut self,
        now: Mono,
        work: impl FnOnce(&mut Leader, &mut Context<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (leader, mut cx) = self.split(now);
        leader.map_or(Ok(()), |leader| work(leader, &mut cx))
    }

    fn input(&mut self, input: Input, now: Mono) -> Result<(), Fault> {
        match input {
            Input::Frame { from, bytes } => return self.frame(from, &bytes, now),
            Input::Request { token, action } => return self.request(token, action, now),
            Input::Read { token } => self.read(token, now),
            Input::Forward { token, request } => {
                let leader = self.other_leader().filter(|leader| self.joining.is_connected(*leader));
                self.with_forwarding(now, |all, cx| all.forward(token, request, leader, cx));
            }
            Input::Served { serving, response } => {
                self.with_forwarding(now, |all, cx| all.served(serving, response, cx));
            }
            Input::LinkUp { peer } => {
                self.joining.link_up(peer, self.replica.members());
                self.forwarding.of_nodes.link_up(peer);
            }
            Input::LinkDown { peer } => {
                self.joining.link_down(peer);
                self.replica.link_lost(peer);
                self.with_forwarding(now, |all, cx| all.link_down(Peer::Server(peer), cx));
                return self.with_leader(now, |leader, cx| {
                    leader.link_down(peer, cx);
                    Ok(())
                });
            }
            Input::NodeLinkDown { node } => {
                self.with_forwarding(now, |all, cx| all.link_down(Peer::Node(node), cx));
            }
            Input::Planned { eval, token, result } => return self.planned(eval, token, result, now),
            Input::SigningKey { seed, public } => {
                return self.with_leader(now, |_, cx| keys::signing_key_made(seed, public, cx));
            }
            Input::Space { free } => {
                self.disk.is_free = free;
                return self.with_leader(now, |leader, cx| leader.evals.apply_disk_space(cx));
            }
            Input::Snapshot { from, message } => return self.snapshot(from, message, now),
        }
        Ok(())
    }

    fn request(&mut self, token: u64, action: WriteRequest, now: Mono) -> Result<(), Fault> {
        self.metrics.asked(token, &action);
        let refusal = self.cannot_write();
        let (leader, mut cx) = self.split(now);
        match (leader, refusal) {
            (None, _) => cx.refuse(token, RefusalKind::Unavailable, NO_LEADER),
            (_, Some(refusal)) => cx.reply(token, Err(refusal)),
            (Some(leader), None) => match action {
                WriteRequest::RemoveServer { id } => {
                    let (_, operator, mut cx) = self.split_group(now);
                    operator.remove_server(token, id, &mut cx);
                }
                WriteRequest::TransferLeadership { to } => {
                    let (_, operator, mut cx) = self.split_group(now);
                    operator.transfer_leadership(token, to, &mut cx);
                }
                action => return leader.request(token, action, &mut cx),
            },
        }
        Ok(())
    }

    fn read(&mut self, token: u64, now: Mono) {
        let is_full = self.reads.len() >= MAX_PENDING;
        if is_full || self.joining.is_removed || self.replica.read_index(token).is_err() {
            let (_, mut cx) = self.split(now);
            reads::confirm(token, false, &mut cx);
        }
    }

    fn cannot_write(&self) -> Option<Refusal> {
        if !self.disk.is_free {
            let message =
                "the servers' disk is full: nothing is written until there is room again; reads go on";
            return Some(Refusal::new(RefusalKind::Unavailable, message));
        }
        let under_way = self.pending.len() + self.outbox.proposals() + self.operator.removals();
        (under_way >= MAX_PENDING)
            .then(|| Refusal::new(RefusalKind::Busy, "too many writes are under way: try again shortly"))
    }

    /// Another server that leads, as far as this one knows.
    fn other_leader(&self) -> Option<u64> {
        self.joining.other_leader(self.replica.raft())
    }

    /// Begins a region.
    fn found(&mut self, founding: &Founding, now: Mono) -> Result<(), Fault> {
        self.joining.found(founding, &self.config.info, &mut self.replica, now)?;
        self.outcome.changes.extend(founding.ids().map(|id| Change::Member { id }));
        Ok(())
    }

    fn members_changed(&mut self, now: Mono) -> Result<(), Fault> {
        self.joining.members_changed(&self.config.info, &mut self.replica, now)
    }

    /// Appends proposals to the log, and the deferred ones if it is time for them.
    fn flush(&mut self, now: Mono) {
        for proposal in self.outbox.flush(now, self.replica.has_work()) {
            self.propose(proposal, now);
        }
    }

    /// Appends what followed from applied entries at once: the next turn writes it, and the deferred proposals with it.
    fn propose_all(&mut self, now: Mono) {
        for proposal in self.outbox.take_proposals() {
            self.propose(proposal, now);
        }
    }

    fn propose(&mut self, Proposal { command, then }: Proposal, now: Mono) {
        assert!(self.leadership.leader().is_some(), "only a leader's parts propose");
        if let Some(refusal) = self.replica.members().beyond_level(&command) {
            return self.refuse_proposal(then, refusal, now);
        }
        let (index, term) = match self.replica.propose(&command) {
            Ok(place) => place,
            Err(refused)
                if refused.passes() && matches!(then, OnApply::Nothing | OnApply::NodeDown { .. }) =>
            {
                self.outbox.put_back(Proposal { command, then }, now);
                if self.outbox.is_overfull() {
                    tracing::warn!("too much waits to be written: this server gives up leadership");
                    self.replica.step_down();
                }
                return;
            }
            Err(refused) => return self.refuse_proposal(then, replica::not_proposed(refused), now),
        };
        self.metrics.proposed(index, &command);
        if let (Command::ApplyPlan { .. }, OnApply::Plan { eval, token, .. }) = (&command, &then) {
            let (eval, token) = (*eval, *token);
            self.outbox.reservation(ReservationChange::Visible { eval, token, index });
        }
        self.pending.insert((index, term), then);
    }

    /// The proposal is in no log.
    fn refuse_proposal(&mut self, then: OnApply, refusal: Refusal, now: Mono) {
        self.reply_to_waiting(&then, refusal.clone(), now);
        if let (Some(leader), mut cx) = self.split(now) {
            leader.proposal_refused(then, &refusal, &mut cx);
        }
    }

    /// Gives the refusal to the caller that waits for the entry, if one does.
    fn reply_to_waiting(&mut self, then: &OnApply, refusal: Refusal, now: Mono) {
        let (_, mut cx) = self.split(now);
        match then.waiting() {
            Some(Waiting::User(token)) => cx.reply(token, Err(refusal)),
            Some(Waiting::Node(asker)) => cx.answer(asker, NodeReply::NoLeader),
            None => {}
        }
    }

    fn handle_entry(&mut self, AppliedEntry { term, outcome }: AppliedEntry, now: Mono) -> Result<(), Fault> {
        let index = outcome.index;
        self.metrics.applied(index);
        self.clocks.own.observe_stamp(outcome.at, Some(now));
        let completed = self.pending.complete(index, term);
        for then in &completed.replaced {
            self.reply_to_waiting(then, unavailable(REPLACED), now);
        }
        if let Some(then) = completed.own {
            self.entry_applied(then, outcome.reply, now)?;
        }
        if outcome
            .changes
            .iter()
            .any(|change| matches!(change, Change::Member { .. } | Change::FeatureLevel { .. }))
        {
            self.members_changed(now)?;
        }
        self.with_leader(now, |leader, cx| leader.apply_changes(&outcome.changes, index, cx))?;
        outcome.events.iter().for_each(entry_logging::log_events);
        self.outcome.changes.extend(outcome.changes);
        self.outcome.events.extend(outcome.events);
        Ok(())
    }

    /// An entry of this server is applied. If the server was deposed meanwhile, the caller is answered all the same: the write is done.
    fn entry_applied(
        &mut self,
        then: OnApply,
        result: Result<WriteReply, Refusal>,
        now: Mono,
    ) -> Result<(), Fault> {
        let (parts, mut cx) = self.parts(now);
        if let OnApply::ServerRemoved { token } = then {
            parts.operator.server_removed(token, result, &mut cx);
            return Ok(());
        }
        if let Some(leader) = parts.leader {
            return leader.entry_applied(then, result, &mut cx);
        }
        match then {
            OnApply::Reply { token } => cx.reply(token, result),
            OnApply::Evaluated { token, evals, modify_index } => {
                cx.reply(token, result.map(|done| with_evals(done, evals, Some(modify_index))));
            }
            OnApply::NodeChanged { token, evals, .. } => {
                cx.reply(token, result.map(|done| with_evals(done, evals, None)));
            }
            OnApply::NodeReported { asker } => reports::reported(asker, &result, &mut cx),
            // the next leader hears of the node itself, and of a list only a part is deleted
            OnApply::NodeAlive { .. } | OnApply::EvalsDeleted { .. } => {
                self.reply_to_waiting(&then, unavailable(UNKNOWN), now)
            }
            _ => {}
        }
        Ok(())
    }
}

fn unavailable(message: &str) -> Refusal {
    Refusal::new(RefusalKind::Unavailable, message)
}

#[cfg(test)]
mod tests;
