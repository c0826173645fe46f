//! For tests: one server without a world; it leads, and time is what the test says.

use super::board;
use super::effects::{Effect, Input, ScheduleTask};
use super::heartbeat::HeartbeatRules;
use super::{Config, Op, Server, Turn};
use model::alloc::Allocation;
use model::id::{EvalId, NodeId};
use model::job::JobSpec;
use model::node::{Node, NodeInfo, NodeStatus};
use model::scheduling::SchedulerSettings;
use model::time::{Mono, Now, Span, Wall};
use state::samples::{AT, in_memory, key, spec};
use state::store::{Options, Store};
use state::view::View;
use wire::command::Command;
use wire::request::{Refusal, WriteReply, WriteRequest};

const TOKEN: u64 = 7;

pub struct Alone {
    pub server: Server,
    pub now: Mono,
    pub wall: Wall,
}

impl Alone {
    /// It leads.
    pub fn new(scheduler: SchedulerSettings) -> Alone {
        Alone::with(|config| config.scheduler = scheduler)
    }

    /// It leads, and is configured so.
    pub fn with(change: impl FnOnce(&mut Config)) -> Alone {
        let (store, recovered) = Store::open(in_memory(), Options::default()).unwrap();
        let heartbeats = HeartbeatRules::default();
        let garbage = Default::default();
        let mut config = Config {
            id: 1,
            heartbeats,
            workers: 1,
            tracked_versions: 6,
            scheduler: SchedulerSettings::default(),
            garbage,
            zones: |_| None,
        };
        change(&mut config);
        let server = Server::new(config, store, recovered, 3).unwrap();
        let mut alone = Alone { server, now: Mono(1), wall: AT };
        alone.lead();
        alone
    }

    /// Until it leads.
    pub fn lead(&mut self) {
        (0..200).for_each(|_| drop(self.turn(vec![])));
        assert!(self.server.ready);
    }

    pub fn turn(&mut self, inputs: Vec<Input>) -> Turn {
        self.now = self.now.after(Span::millis(100));
        self.server.turn(Now { mono: self.now, wall: Some(self.wall) }, inputs).unwrap()
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
        self.server.propose(command, Op::Unattended).expect("leads");
        self.turns(3);
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
        let result = board::decide(task, &self.server.reader());
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
