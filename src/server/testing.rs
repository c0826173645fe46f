//! For tests: one server without a world; it leads, and time is what the test says.

use super::effects::{Effect, Input};
use super::heartbeat::HeartbeatRules;
use super::{Config, Server, Turn};
use model::id::EvalId;
use model::job::JobSpec;
use model::scheduling::SchedulerSettings;
use model::time::{Mono, Now, Span, Wall};
use state::samples::{AT, in_memory, spec};
use state::store::{Options, Store};
use wire::request::{Action, Done, Refusal};

const TOKEN: u64 = 7;

pub struct Alone {
    pub server: Server,
    pub now: Mono,
    pub wall: Wall,
}

impl Alone {
    /// It leads.
    pub fn new(scheduler: SchedulerSettings) -> Alone {
        let (store, recovered) = Store::open(in_memory(), Options::default()).unwrap();
        let heartbeats = HeartbeatRules::default();
        let garbage = Default::default();
        let config = Config {
            id: 1,
            heartbeats,
            workers: 1,
            tracked_versions: 6,
            scheduler,
            garbage,
            zones: |_| None,
        };
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

    /// What is answered, and what workers get meanwhile.
    pub fn ask(&mut self, action: Action) -> (Result<Done, Refusal>, Vec<EvalId>) {
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
        let action = Action::RegisterJob {
            spec: Box::new(spec),
            enforce_index: None,
            eval_priority: None,
            preserve_counts: false,
            submission: None,
        };
        let (answer, given) = self.ask(action);
        answer.unwrap();
        given
    }

    pub fn pause(&mut self, pause_eval_broker: bool) -> Vec<EvalId> {
        let settings = SchedulerSettings { pause_eval_broker, ..SchedulerSettings::default() };
        let (answer, given) = self.ask(Action::ConfigureScheduler { settings, cas: None });
        answer.unwrap();
        given
    }

    pub fn open(&self) -> Vec<EvalId> {
        let view = self.server.reader().view().unwrap();
        view.open_evals().unwrap().into_iter().map(|e| e.id).collect()
    }
}
