//! A server's brain: admission, proposals, evaluation broker, blocked evaluations, plan applier, deployment
//! watcher, heartbeats.
//!
//! A plain struct: inputs go in, effects come out, and nothing else changes it. Refuses to know: sockets, threads, clocks
//! and entropy. Invariants: an effect that rests on a write leaves only after the write is durable; each request is
//! answered once; queues and deadlines hold nothing that a new leader could not rebuild from the state.

mod admission;
mod applied_log;
mod blocked;
pub mod board;
mod broker;
mod deployments;
mod drainer;
pub mod effects;
mod follow;
mod garbage;
pub mod heartbeat;
mod keys;
mod log;
mod measures;
mod nodes;
mod pause;
mod periodic;
mod plans;
pub mod rehearsal;
mod reports;
mod system;
#[cfg(test)]
mod testing;
mod unhurried;
mod watches;
pub mod why;

use blocked::Blocked;
use board::Board;
use broker::Broker;
use deployments::Watched;
use drainer::Drainer;
use effects::{Effect, Input, ScheduleTask};
use garbage::Collector;
use heartbeat::{HeartbeatRules, Heartbeats};
use log::Log;
use measures::{Counter, Measures, Timed};
use model::cron::Zones;
use model::eval::Evaluation;
use model::garbage::GarbageRules;
use model::id::{DeploymentId, EvalId, EvalToken, NodeId, Uuid};
use model::plan::Decision;
use model::random::Stream;
use model::scheduling::SchedulerSettings;
use model::time::{Mono, Now, Wall};
use nodes::Asker;
use periodic::Launches;
use plans::{InFlight, Then};
use raft::Damaged;
use scheduler::Attempt;
use state::fault::Fault;
use state::store::{Reader, Recovered, Store};
use std::collections::BTreeMap;
use std::sync::Arc;
use system::SystemJobs;
use unhurried::Unhurried;
use watches::Watches;
use wire::change::Change;
use wire::command::Command;
use wire::event::Events;
use wire::request::{Done, Refusal};
use wire::rpc::Peer;
use wire::status::{LogStatus, ServerStatus};

#[derive(Clone, Debug)]
pub struct Config {
    /// This server's raft id.
    pub id: u64,
    pub heartbeats: HeartbeatRules,
    /// Evaluations that are scheduled at the same time.
    pub workers: usize,
    /// Versions of a job that stay listed.
    pub tracked_versions: u32,
    /// What a new region's scheduler begins with.
    pub scheduler: SchedulerSettings,
    pub garbage: GarbageRules,
    pub zones: Zones,
}

pub struct Server {
    config: Config,
    log: Log,
    broker: Broker,
    blocked: Blocked,
    heartbeats: Heartbeats,
    watches: Watches,
    watched: Watched,
    in_flight: InFlight,
    board: Arc<Board>,
    /// Nodes to which nothing may be placed once the entry of this index is applied.
    closing: BTreeMap<u64, NodeId>,
    unhurried: Unhurried,
    drainer: Drainer,
    system_jobs: SystemJobs,
    collector: Collector,
    launches: Launches,
    /// Evaluations that scheduler workers hold.
    outstanding: BTreeMap<EvalId, Outstanding>,
    /// What waits for the entry of each index.
    ops: BTreeMap<u64, Op>,
    ids: Ids,
    /// Leads, and has applied everything from before.
    ready: bool,
    /// No evaluation is handed out.
    paused: bool,
    space_free: bool,
    /// The newest wall time known, and when that was.
    wall: (Wall, Mono),
    out: Vec<Effect>,
    changes: Vec<Change>,
    events: Vec<Events>,
    measures: Measures,
}

/// An evaluation in a worker's hands.
struct Outstanding {
    task: ScheduleTask,
    given: Mono,
    /// When its worker answered last.
    planned: Mono,
    /// The last decision on it, if not all of its plan was accepted.
    last: Option<Decision>,
}

/// What is to happen once a proposed entry is applied.
#[derive(Debug)]
enum Op {
    Reply {
        token: u64,
    },
    /// Evaluations that somebody asked for: the reply names them.
    Evaluate {
        token: u64,
        evals: Vec<EvalId>,
        modify_index: u64,
    },
    /// A wish for a node: the reply names the evaluations.
    Node {
        token: u64,
        evals: Vec<EvalId>,
    },
    /// A step of drains.
    Drained,
    Alive {
        asker: Asker,
        node: NodeId,
    },
    Reported {
        asker: Asker,
    },
    Plan {
        eval: EvalId,
        token: EvalToken,
        then: Then,
    },
    Failed {
        eval: Box<Evaluation>,
    },
    /// The rest of the evaluations that somebody wants deleted, and how many are gone.
    Delete {
        token: u64,
        later: Vec<EvalId>,
        skip_needed: bool,
        count: u64,
    },
    /// What was found to be of no use is gone.
    Collected,
    /// A deployment's watcher has moved it on.
    Watched {
        deployment: DeploymentId,
    },
    Unattended,
}

impl Op {
    /// Whom it owes a reply.
    fn asked(&self) -> Option<u64> {
        match self {
            Op::Reply { token }
            | Op::Evaluate { token, .. }
            | Op::Node { token, .. }
            | Op::Delete { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// What a turn led to. All of it may be shown and sent: it rests on nothing that is not durable.
#[derive(Debug, Default)]
pub struct Turn {
    pub effects: Vec<Effect>,
    /// What moved in the state, for those who wait for it; in log order.
    pub changes: Vec<Change>,
    /// The same for those who stream it, with the objects.
    pub events: Vec<Events>,
}

impl Server {
    /// Opens a server on what its disk holds. `seed` decides ids and jitter.
    pub fn new(config: Config, store: Store, recovered: Recovered, seed: u64) -> Result<Server, Damaged> {
        Ok(Server {
            log: Log::open(raft::Config { id: config.id, seed }, store, recovered)?,
            broker: Broker::new(seed),
            blocked: Blocked::default(),
            heartbeats: Heartbeats::new(config.heartbeats, seed),
            watches: Watches::default(),
            watched: Watched::default(),
            in_flight: InFlight::default(),
            board: Arc::default(),
            closing: BTreeMap::new(),
            unhurried: Unhurried::default(),
            drainer: Drainer::default(),
            system_jobs: SystemJobs::default(),
            collector: Collector::new(config.garbage),
            launches: Launches::default(),
            outstanding: BTreeMap::new(),
            ops: BTreeMap::new(),
            ids: Ids(Stream::new(seed, 2)),
            ready: false,
            paused: false,
            space_free: true,
            wall: (Wall::NEVER, Mono::default()),
            out: vec![],
            changes: vec![],
            events: vec![],
            measures: Measures::default(),
            config,
        })
    }

    /// One turn: at most one durable commit. On a fault nothing of the turn has happened to anyone; the server and its
    /// store are to be dropped and opened again.
    pub fn turn(&mut self, now: Now, inputs: Vec<Input>) -> Result<Turn, Fault> {
        self.measures.begin_turn(now.mono);
        self.note_wall(now);
        self.expire(now)?;
        self.launch_due(now);
        let had_inputs = !inputs.is_empty();
        for input in inputs {
            self.take(input, now)?;
        }
        self.chores(now);
        self.advance_drains(now)?;
        self.watch_deployments(now)?;
        self.collect_garbage(now)?;
        self.join_company(now);
        let round = self.log.round()?;
        let worked = had_inputs || round.is_some();
        if let Some(round) = round {
            self.measures.done(Timed::DispatchLog);
            self.follow(round, now)?;
        }
        if self.ready && !self.log.raft().is_leader() {
            self.leave_office();
        }
        self.answer_watches(now)?;
        self.dispatch(now);
        self.publish_measures(worked, now.mono);
        Ok(Turn {
            effects: std::mem::take(&mut self.out),
            changes: std::mem::take(&mut self.changes),
            events: std::mem::take(&mut self.events),
        })
    }

    fn take(&mut self, input: Input, now: Now) -> Result<(), Fault> {
        match input {
            Input::Frame { from, bytes } => self.frame(from, &bytes, now),
            Input::Request { token, action } => self.request(token, action, now),
            Input::Planned { eval, token, result } => self.planned(eval, token, result, now),
            Input::SigningKey { seed, public } => self.signing_key_made(seed, public, now),
            Input::Space { free } => {
                self.space_free = free;
                Ok(())
            }
        }
    }

    fn expire(&mut self, now: Now) -> Result<(), Fault> {
        for eval in self.broker.expire(now.mono) {
            self.outstanding.remove(&eval);
        }
        for eval in self.blocked.take_released(now.mono) {
            self.broker.enqueue(eval, now.mono);
        }
        self.bury_silent_nodes(now)
    }

    /// When the next turn is due at the latest, if nothing comes in before.
    pub fn next_deadline(&self) -> Option<Mono> {
        let at_once = self.log.has_work()
            || self.broker.has_chores()
            || self.blocked.has_duplicates()
            || self.blocked.has_released()
            || (self.watched.has_moved() && self.space_free)
            || self.watches.has_due();
        if at_once {
            return Some(Mono(0));
        }
        let deadlines = [
            self.broker.next_deadline(),
            self.blocked.next_deadline(),
            self.heartbeats.next_deadline(),
            self.watches.next_deadline(),
            self.watched.next_deadline().filter(|_| self.space_free),
            self.unhurried.next_deadline(),
            self.drainer.next_deadline(),
            self.collector.next_deadline().filter(|_| self.space_free),
            self.measures.next_deadline(),
            self.next_launch(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The evaluations in the leader's queues, when no work on them is under way: then they must be the state's open ones.
    #[cfg(any(test, feature = "testing"))]
    pub fn queued_at_rest(&self) -> Option<std::collections::BTreeSet<EvalId>> {
        let busy = !self.ready
            || self.paused
            || self.log.has_work()
            || self.broker.has_chores()
            || self.blocked.has_duplicates()
            || !self.ops.is_empty()
            || !self.unhurried.is_empty()
            || !self.outstanding.is_empty();
        (!busy).then(|| self.broker.contents().into_iter().chain(self.blocked.contents()).collect())
    }

    /// The nodes whose drains it leads, if it leads.
    #[cfg(any(test, feature = "testing"))]
    pub fn draining(&self) -> Option<std::collections::BTreeSet<NodeId>> {
        self.ready.then(|| self.drainer.nodes())
    }

    /// The deployments that the leader watches: the state's active ones.
    #[cfg(any(test, feature = "testing"))]
    pub fn watched_deployments(&self) -> Option<std::collections::BTreeSet<DeploymentId>> {
        self.ready.then(|| self.watched.known().collect())
    }

    pub fn reader(&self) -> Reader {
        self.log.reader().clone()
    }

    pub fn status(&self) -> ServerStatus {
        let raft = self.log.raft();
        let mut broker = self.broker.status();
        broker.blocked = self.blocked.len() as u64;
        ServerStatus {
            id: raft.id(),
            leader: raft.leader(),
            term: raft.term(),
            applied_index: self.log.applied(),
            log: log_status(raft),
            ready: self.ready,
            voters: raft.voters(),
            broker,
            measured: self.measures.published.clone(),
            storage_fault: (!self.space_free).then(|| "the disk is full".to_string()),
            ..ServerStatus::default()
        }
    }

    fn leave_office(&mut self) {
        tracing::info!(target: "nomad", "cluster leadership lost");
        self.ready = false;
        self.paused = false;
        self.measures.leave_office();
        self.abandon_ops();
        self.empty_queues();
        self.heartbeats = Heartbeats::new(self.config.heartbeats, self.ids.seed());
        self.watches = Watches::default();
        self.watched = Watched::default();
        self.in_flight = InFlight::default();
        self.board = Arc::default();
        self.closing.clear();
        self.drainer = Drainer::default();
        self.system_jobs = SystemJobs::default();
        self.collector.leave_office();
        self.launches = Launches::default();
    }

    /// Free workers get the most urgent evaluations.
    fn dispatch(&mut self, now: Now) {
        while self.ready && self.outstanding.len() < self.config.workers && self.broker.has_ready() {
            let token = self.ids.token();
            let Some(eval) = self.broker.dequeue(token, now.mono) else { break };
            self.measures.dequeued(self.broker.ready_since(eval.id));
            let (job_id, triggered_by) = (&eval.job.id, eval.trigger.as_str());
            tracing::debug!(target: "nomad.worker", eval_id = %eval.id, job_id, triggered_by, "dequeued evaluation");
            let (at, seed) = (self.stamp(now), self.ids.seed());
            let min_index = self.log.applied();
            let (attempt, board) = (Attempt::first(min_index), self.board.clone());
            let task = ScheduleTask { eval, token, attempt, min_index, at, seed, board };
            self.outstanding.insert(
                task.eval.id,
                Outstanding { task: task.clone(), given: now.mono, planned: now.mono, last: None },
            );
            self.schedule(task);
        }
    }

    fn schedule(&mut self, task: ScheduleTask) {
        self.out.push(Effect::Schedule(Box::new(task)));
    }

    /// Proposes; what hangs on it is settled when it is applied. `None`: this server does not lead any more.
    fn propose(&mut self, command: &Command, op: Op) -> Option<u64> {
        match self.log.propose(command) {
            Ok(index) => {
                self.measures.proposed(index, command);
                self.ops.insert(index, op);
                Some(index)
            }
            Err(refused) => {
                if let Some(token) = op.asked() {
                    self.reply(token, Err(log::not_proposed(refused)));
                }
                None
            }
        }
    }

    fn reply(&mut self, token: u64, result: Result<Done, Refusal>) {
        self.measures.answered(token, result.is_err());
        self.out.push(Effect::Reply { token, result });
    }

    fn send(&mut self, to: Peer, bytes: Vec<u8>) {
        self.out.push(Effect::Send { to, bytes });
    }

    fn note_wall(&mut self, now: Now) {
        if let Some(wall) = now.wall {
            self.wall = (wall, now.mono);
        }
    }

    /// The time that goes into commands: the clock's, or what it would be if it had gone on since it was last known.
    fn stamp(&self, now: Now) -> Wall {
        self.wall_at(now.mono)
    }

    fn wall_at(&self, mono: Mono) -> Wall {
        self.wall.0 + mono.since(self.wall.1)
    }
}

fn log_status(raft: &raft::Node) -> LogStatus {
    let at = raft.position();
    LogStatus {
        last_index: at.last_index,
        last_term: at.last_term,
        commit_index: at.commit,
        compacted_index: at.compacted,
        compacted_term: at.compacted_term,
    }
}

/// Random ids and draws of this server, from its seed.
struct Ids(Stream);

impl Ids {
    fn eval(&mut self) -> EvalId {
        EvalId::from_random(self.0.next_u128())
    }

    fn token(&mut self) -> EvalToken {
        EvalToken::from_random(self.0.next_u128())
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_random(self.0.next_u128())
    }

    fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }
}
