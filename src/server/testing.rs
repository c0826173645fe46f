//! For tests: one server without a world; it leads, and time is what the test says.

use super::context::Context;
use super::effects::{Effect, Input, ScheduleTask};
use super::heartbeat::HeartbeatRules;
use super::leader::Leader;
use super::outbox::Proposal;
use super::pending::OnApply;
use super::reservations::Reservations;
use super::{Config, Server, Turn, worker};
use model::alloc::Allocation;
use model::id::{EvalId, NodeId};
use model::job::{JobSpec, JobType};
use model::node::{Node, NodeInfo, NodeStatus};
use model::scheduling::SchedulerSettings;
use model::time::{Mono, Now, Span, Wall};
use state::samples::{AT, in_memory, key, spec};
use state::store::{Options, Store};
use state::view::View;
use std::cell::RefCell;
use wire::command::Command;
use wire::frame;
use wire::request::{Refusal, WriteReply, WriteRequest};
use wire::rpc::Peer;

const TOKEN: u64 = 7;

pub struct Alone {
    pub server: Server,
    /// What the workers have reserved.
    pub reservations: RefCell<Reservations>,
    pub now: Mono,
    pub wall: Wall,
}

impl Server {
    /// Both halves; what may be sent early comes first.
    pub fn turn(&mut self, now: Now, inputs: Vec<Input>) -> Turn {
        let mut prepared = self.prepare(now, inputs).expect("a sound disk");
        let early = std::mem::take(&mut prepared.early);
        let mut turn = self.commit(prepared).expect("a sound disk");
        turn.effects.splice(0..0, early);
        turn
    }
}

impl Alone {
    /// A server that leads.
    pub fn new(scheduler: SchedulerSettings) -> Alone {
        Alone::with(|config| config.scheduler = scheduler)
    }

    /// A server that leads with this configuration.
    pub fn with(change: impl FnOnce(&mut Config)) -> Alone {
        let (store, recovered) =
            Store::open(in_memory(), Options { feature_level: 3, ..Options::default() }).unwrap();
        let heartbeats = HeartbeatRules::default();
        let garbage = Default::default();
        let mut config = Config {
            bootstrap_expect: 1,
            knows_others: false,
            info: state::samples::server_info("alone"),
            heartbeats,
            workers: 1,
            enabled_schedulers: JobType::ALL.into(),
            ready_per_worker: 2,
            rows_per_turn: 100,
            tracked_versions: 6,
            scheduler: SchedulerSettings::default(),
            garbage,
            zones: |_| None,
        };
        change(&mut config);
        let server = Server::new(config, store, recovered, 3).unwrap();
        let mut alone = Alone { server, reservations: RefCell::default(), now: Mono(1), wall: AT };
        alone.lead();
        alone
    }

    /// Until it leads.
    pub fn lead(&mut self) {
        (0..200).for_each(|_| drop(self.turn(vec![])));
        assert!(self.server.leadership.leader().is_some());
    }

    pub fn turn(&mut self, inputs: Vec<Input>) -> Turn {
        self.now = self.now.after(Span::millis(100));
        let inputs = inputs.into_iter().map(|input| self.of_this_region(input)).collect();
        let mut turn = self.server.turn(Now { mono: self.now, wall: Some(self.wall) }, inputs);
        for effect in &mut turn.effects {
            if let Effect::Send { to: Peer::Server(_), bytes } = effect {
                *bytes = frame::split_region(bytes).unwrap().1.to_vec();
            }
        }
        self.reservations.get_mut().apply(&turn.reservations);
        turn
    }

    /// What other servers say, they say as members of its region.
    fn of_this_region(&self, input: Input) -> Input {
        match input {
            Input::Frame { from: from @ Peer::Server(_), bytes } => {
                Input::Frame { from, bytes: frame::with_region(self.server.region(), &bytes) }
            }
            other => other,
        }
    }

    pub fn leader(&mut self) -> &mut Leader {
        self.server.leadership.leader_mut().expect("it leads")
    }

    /// The leader, and what its parts are given.
    pub fn split(&mut self) -> (&mut Leader, Context<'_>) {
        self.server.clocks.own.set(Now { mono: self.now, wall: Some(self.wall) }, false);
        let (leader, cx) = self.server.split(self.now);
        (leader.expect("it leads"), cx)
    }

    /// Another leader takes over, which builds everything from the state.
    pub fn change_leader(&mut self) {
        self.server.step_down(self.now);
        self.server.abandon_if_deposed(self.now);
        self.server.clocks.own.set(Now { mono: self.now, wall: Some(self.wall) }, false);
        self.server.begin_to_lead(self.now).unwrap();
        while self.server.leadership.leader().is_none() {
            self.server.establish_leadership(self.now).unwrap();
        }
        self.server.propose_all(self.now);
    }

    pub fn turns(&mut self, n: usize) {
        (0..n).for_each(|_| drop(self.turn(vec![])));
    }

    pub fn view(&self) -> View {
        self.server.reader().view().unwrap()
    }

    pub fn allocs(&self, job: &str) -> Vec<Allocation> {
        self.view().allocs_of_job(&key(job)).unwrap()
    }

    pub fn node(&self, node: NodeId) -> Node {
        Node::clone(&self.view().node(node).unwrap().expect("is registered"))
    }

    pub fn propose(&mut self, command: &Command) {
        self.append(command);
        self.turns(3);
    }

    /// Puts the command into the log; it is applied in the next turn.
    pub fn append(&mut self, command: &Command) {
        let proposal = Proposal { command: command.clone(), then: OnApply::Nothing };
        self.server.propose(proposal, self.now);
    }

    /// The node is registered and ready.
    pub fn add_node(&mut self, info: NodeInfo) -> NodeId {
        let (node, status) = (info.id, NodeStatus::Ready);
        self.propose(&Command::RegisterNode { info: Box::new(info), evals: vec![], at: AT });
        self.propose(&Command::UpdateNodeStatus { node, status, event: None, evals: vec![], at: AT });
        node
    }

    /// What workers are given in the next 20 turns; they do not answer.
    pub fn tasks(&mut self, mut inputs: Vec<Input>) -> Vec<ScheduleTask> {
        let mut given = vec![];
        for _ in 0..20 {
            for effect in self.turn(std::mem::take(&mut inputs)).effects {
                if let Effect::Schedule(task) = effect {
                    given.push(*task);
                }
            }
        }
        given
    }

    /// What a worker answers on the latest state.
    pub fn planned(&self, task: &ScheduleTask) -> Input {
        let result = worker::decide(task, &self.server.reader(), || self.reservations.borrow_mut());
        Input::Planned { eval: task.eval.id, token: task.token, result }
    }

    /// Workers work until nothing is left to do; how many tasks they had.
    pub fn work(&mut self, mut inputs: Vec<Input>) -> usize {
        let mut given = 0;
        for _ in 0..20 {
            for effect in self.turn(std::mem::take(&mut inputs)).effects {
                if let Effect::Schedule(task) = effect {
                    inputs.push(self.planned(&task));
                    given += 1;
                }
            }
        }
        given
    }

    /// What is answered, and what workers get meanwhile.
    pub fn ask(&mut self, action: WriteRequest) -> (Result<WriteReply, Refusal>, Vec<EvalId>) {
        let mut given = vec![];
        let mut inputs = vec![Input::Request { token: TOKEN, action }];
        for _ in 0..50 {
            let turn = self.turn(std::mem::take(&mut inputs));
            let mut answer = None;
            for effect in turn.effects {
                match effect {
                    Effect::Reply { token: TOKEN, result } => answer = Some(result),
                    Effect::Schedule(task) => given.push(task.eval.id),
                    _ => {}
                }
            }
            if let Some(answer) = answer {
                return (answer, given);
            }
        }
        panic!("nobody answers");
    }

    pub fn register(&mut self, id: &str) -> Vec<EvalId> {
        self.submit(spec(id, 1))
    }

    pub fn submit(&mut self, spec: JobSpec) -> Vec<EvalId> {
        let (answer, given) = self.ask(registration(spec));
        answer.unwrap();
        given
    }

    pub fn pause(&mut self, pause_eval_broker: bool) -> Vec<EvalId> {
        let settings = SchedulerSettings { pause_eval_broker, ..SchedulerSettings::default() };
        let (answer, given) = self.ask(WriteRequest::ConfigureScheduler { settings, cas: None });
        answer.unwrap();
        given
    }

    pub fn open(&self) -> Vec<EvalId> {
        let view = self.server.reader().view().unwrap();
        view.open_evals().unwrap().into_iter().map(|e| e.id).collect()
    }
}

pub fn registration(spec: JobSpec) -> WriteRequest {
    WriteRequest::RegisterJob {
        spec: Box::new(spec),
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        submission: None,
    }
}

/// As an input of which nobody awaits the answer.
pub fn asks(action: WriteRequest) -> Input {
    Input::Request { token: 1, action }
}
