//! Users who run commands beside tasks (`alloc exec`): the node's client grants a session, and its keeper begins it over a connection of its
//! own, which it lasts as long as. Its process dies with its keeper, as in life.
//!
//! Refuses to know what flows through a session. Invariants checked: who asks is refused, told how the command ended as it did end, or loses
//! the connection; no more sessions live at a time than may; none outlives its connection, its run or its allocation.

use super::faults::Kind;
use super::place::NodeAt;
use super::processes::ProcessEnd;
use super::users::HOME_REGION;
use super::world::{Event, World};
use ::keeper::effects::Input as ToKeeper;
use client::effects::{Input, RequestOutcome};
use model::id::{AllocId, RunId};
use model::random::Stream;
use model::task::{Exit, ExitStatus};
use model::time::Span;
use std::collections::BTreeMap;
use wire::client_rpc::ClientRequest;
use wire::keeper::{Event as Told, KeeperCommand, MAX_SESSIONS, PROTOCOL, RunSpec};
use wire::request::Refusal;

/// How long the keeper may take to begin a session.
const PATIENCE: Span = Span::seconds(10);
/// Between two wishes, at most.
const PAUSE: Span = Span::seconds(4);
/// Now and then so many come at once: more than there may be.
const CROWD: usize = MAX_SESSIONS + 4;
/// From a signal to the death.
const KILLED_AFTER: Span = Span(20_000);
/// What goes between a caller and a keeper takes so long; what is sent first arrives first.
const ON_THE_WAY: Span = Span(50_000);

/// One session of a node, by its connection to the keeper.
pub struct Session {
    run: RunId,
    alloc: AllocId,
    phase: Phase,
    /// The caller is gone, and is told nothing any more.
    is_left: bool,
}

enum Phase {
    /// The keeper is to greet.
    Greeting(Box<RunSpec>),
    Asked,
    Lives,
    Ended(Exit),
}

impl Session {
    fn lives(&self) -> bool {
        matches!(self.phase, Phase::Lives)
    }
}

/// What happens to a session.
#[derive(Clone, Copy, Debug)]
pub enum SessionEvent {
    Ends(ProcessEnd),
    /// The caller goes; `is_late`: because the session has not begun.
    Left {
        is_late: bool,
    },
    /// The keeper has closed the connection.
    HungUp,
}

pub struct ExecUsers {
    draws: Stream,
    next_token: u64,
    /// What clients were asked, by token: where, and beside which task.
    asked: BTreeMap<u64, (NodeAt, String)>,
}

impl ExecUsers {
    pub fn new(seed: u64) -> ExecUsers {
        ExecUsers { draws: Stream::new(seed, 118), next_token: 0, asked: BTreeMap::new() }
    }
}

/// What users do.
impl World {
    /// Somebody wants a session, or many do; then, after a while, again.
    pub fn exec_beside_tasks(&mut self) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        let nodes = self.regions.nodes_of(HOME_REGION);
        let n = nodes[self.exec_users.draws.below(nodes.len() as u64) as usize];
        let callers = if self.exec_users.draws.below(40) == 0 { CROWD } else { 1 };
        (0..callers).for_each(|_| self.ask_for_session(n));
        let pause = self.exec_users.draws.span_below(PAUSE);
        self.after(pause, Event::ExecBesideTasks);
        Ok(())
    }

    fn ask_for_session(&mut self, n: NodeAt) {
        let users = &mut self.exec_users;
        let host = &self.regions[n];
        let living: Vec<_> = host.processes.values().filter(|p| p.running).collect();
        if living.is_empty() || host.client.is_none() {
            return;
        }
        let process = living[users.draws.below(living.len() as u64) as usize];
        let (Some(alloc), Some((_, task))) = (process.alloc(), process.label.split_once('.')) else { return };
        let (task, label) = (task.to_string(), process.label.clone());
        users.next_token += 1;
        let token = users.next_token;
        users.asked.insert(token, (n, label));
        let ask = ClientRequest::Exec { alloc, task, command: vec!["look".into()], tty: false };
        self.node_input(n, Input::Ask { token, ask });
    }

    /// The client's answer. The session is to run beside what the user asked for.
    pub fn session_granted(
        &mut self,
        n: NodeAt,
        token: u64,
        result: Result<RequestOutcome, Refusal>,
    ) -> Result<(), String> {
        let Some((_, label)) = self.exec_users.asked.remove(&token) else { return Ok(()) };
        let (run, spec) = match result {
            Ok(RequestOutcome::Session { run, spec }) => (run, spec),
            Ok(other) => return Err(format!("{n} grants {other:?} to who wants a session")),
            Err(_) => {
                self.faults.fired(Kind::SessionRefused);
                return Ok(());
            }
        };
        let host = &mut self.regions[n];
        let other = host.processes.values().find(|p| p.run == run && p.label != label);
        if spec.label != label || other.is_some() {
            return Err(format!("a session beside {label} of {n} is granted beside {}", spec.label));
        }
        if host.keeper.is_none() {
            self.faults.fired(Kind::SessionLost);
            return Ok(());
        }
        let Some(alloc) = label.split('.').next().and_then(|id| id.parse().ok()) else { return Ok(()) };
        host.connections += 1;
        let connection = host.connections;
        let phase = Phase::Greeting(spec);
        host.sessions.insert(connection, Session { run, alloc, phase, is_left: false });
        self.say_to_keeper(n, connection, KeeperCommand::Hello { protocol: PROTOCOL });
        self.session_event(n, connection, PATIENCE, SessionEvent::Left { is_late: true });
        Ok(())
    }

    fn say_to_keeper(&mut self, n: NodeAt, client: u64, command: KeeperCommand) {
        let life = self.regions[n].keeper_life;
        let input = Box::new(ToKeeper::Command { client, command });
        self.after(ON_THE_WAY, Event::ToKeeper { node: n, life, input });
    }

    fn session_event(&mut self, node: NodeAt, connection: u64, after: Span, what: SessionEvent) {
        self.after(after, Event::Session { node, connection, what });
    }

    pub fn session_happens(&mut self, n: NodeAt, connection: u64, what: SessionEvent) -> Result<(), String> {
        let Some(session) = self.regions[n].sessions.get_mut(&connection) else { return Ok(()) };
        match what {
            SessionEvent::Left { is_late }
                if is_late && !matches!(session.phase, Phase::Greeting(_) | Phase::Asked) => {}
            SessionEvent::Left { .. } => self.leave_session(n, connection),
            SessionEvent::Ends(end) => self.session_process_ends(n, connection, end),
            SessionEvent::HungUp if session.is_left => {}
            SessionEvent::HungUp => {
                return Err(format!(
                    "the keeper of {n} hangs up and does not say how session {connection} ended"
                ));
            }
        }
        Ok(())
    }

    fn leave_session(&mut self, n: NodeAt, connection: u64) {
        let host = &mut self.regions[n];
        let life = host.keeper_life;
        let Some(session) = host.sessions.get_mut(&connection).filter(|s| !s.is_left) else { return };
        session.is_left = true;
        if !session.lives() {
            host.sessions.remove(&connection);
        }
        self.faults.fired(Kind::SessionLeft);
        let gone = Box::new(ToKeeper::Gone { client: connection });
        self.after(ON_THE_WAY, Event::ToKeeper { node: n, life, input: gone });
    }

    /// The agent dies, and all connections that were its with it; or users leave.
    pub fn leave_sessions(&mut self, n: NodeAt) {
        self.exec_users.asked.retain(|_, (at, _)| *at != n);
        let open: Vec<u64> = self.regions[n].sessions.keys().copied().collect();
        open.into_iter().for_each(|connection| self.leave_session(n, connection));
    }
}

/// What the keeper's driver does.
impl World {
    pub fn session_begins(&mut self, n: NodeAt, connection: u64, run: RunId) -> Result<(), String> {
        let draws = &mut self.exec_users.draws;
        let fails = draws.below(10) == 0;
        let (code, takes) = match draws.below(4) {
            0 => (0, Span::seconds(120)),
            1 => (0, Span::minutes(60)),
            _ => (draws.below(3) as i32, Span::seconds(3)),
        };
        let (ends_after, left_after) = (draws.span_below(takes), draws.span_below(Span::minutes(2)));
        let has_process = self.process_of(n, run).is_some();
        let host = &mut self.regions[n];
        let life = host.keeper_life;
        let Some(session) = host.sessions.get_mut(&connection).filter(|_| has_process && !fails) else {
            let message = "no such file or directory".to_string();
            let input = Box::new(ToKeeper::SessionFailed { client: connection, message });
            self.after(Span(100_000), Event::ToKeeper { node: n, life, input });
            return Ok(());
        };
        if session.run != run {
            return Err(format!("session {connection} of {n} begins beside another run"));
        }
        session.phase = Phase::Lives;
        let living = host.sessions.values().filter(|s| s.lives() && !s.is_left).count();
        if living > MAX_SESSIONS {
            return Err(format!("{n} has {living} sessions at a time"));
        }
        self.faults.fired(Kind::SessionOpened);
        let event = Box::new(Told::SessionStarted);
        self.after(ON_THE_WAY, Event::FromKeeper { node: n, connection, event });
        self.session_event(n, connection, ends_after, SessionEvent::Ends(ProcessEnd::Exit(code)));
        self.session_event(n, connection, left_after, SessionEvent::Left { is_late: false });
        Ok(())
    }

    pub fn kill_session(&mut self, n: NodeAt, connection: u64) {
        self.session_event(n, connection, KILLED_AFTER, SessionEvent::Ends(ProcessEnd::Signal(9)));
    }

    pub fn hang_up_on_session(&mut self, n: NodeAt, connection: u64) {
        self.session_event(n, connection, ON_THE_WAY, SessionEvent::HungUp);
    }

    fn session_process_ends(&mut self, n: NodeAt, connection: u64, end: ProcessEnd) {
        let host = &mut self.regions[n];
        let life = host.keeper_life;
        let Some(session) = host.sessions.get_mut(&connection).filter(|s| s.lives()) else { return };
        let exit = Exit { status: end.status(), oom_killed: false };
        session.phase = Phase::Ended(exit);
        if session.is_left {
            host.sessions.remove(&connection);
        }
        self.keeper_input(n, life, ToKeeper::SessionEnded { client: connection, exit });
    }

    /// The keeper dies, or becomes another binary.
    pub fn sessions_end_with_their_keeper(&mut self, n: NodeAt) {
        let open = std::mem::take(&mut self.regions[n].sessions);
        let lost = open.values().filter(|session| !session.is_left).count();
        self.faults.fired_times(Kind::SessionLost, lost as u64);
    }
}

/// What must be so.
impl World {
    /// What comes over a connection that is a session's, or was.
    pub fn session_told(&mut self, n: NodeAt, connection: u64, event: Told) -> Result<(), String> {
        let Some(session) = self.regions[n].sessions.get_mut(&connection).filter(|s| !s.is_left) else {
            return Ok(());
        };
        let run = session.run;
        match (event, &session.phase) {
            (Told::Welcome { .. }, Phase::Greeting(spec)) => {
                let spec = spec.clone();
                session.phase = Phase::Asked;
                self.say_to_keeper(n, connection, KeeperCommand::Exec { run, spec, tty: false });
                return Ok(());
            }
            (Told::SessionStarted, Phase::Lives | Phase::Ended(_)) => return Ok(()),
            (Told::SessionEnded { exit }, Phase::Ended(own)) if exit == *own => {
                let with_its_run = exit.status == ExitStatus::Signal(9);
                self.faults.fired(if with_its_run {
                    Kind::SessionEndedWithItsTask
                } else {
                    Kind::SessionEnded
                });
            }
            (Told::Refused { message, .. }, Phase::Greeting(_) | Phase::Asked) => {
                let full = message.contains("the most there can be");
                self.faults.fired(if full { Kind::SessionsFull } else { Kind::SessionRefused });
            }
            (event @ (Told::SessionStarted | Told::SessionEnded { .. } | Told::Refused { .. }), _) => {
                return Err(format!("session {connection} of {n} is told {event:?}"));
            }
            // what a keeper has to say of runs may have been under way when the session began
            _ => return Ok(()),
        }
        self.regions[n].sessions.remove(&connection);
        Ok(())
    }

    /// An agent is told that the run has ended: then nothing of it is left.
    pub fn no_session_is_beside(&self, n: NodeAt, event: &Told) -> Result<(), String> {
        let Told::Exited { run, .. } = event else { return Ok(()) };
        match self.regions[n].sessions.values().any(|s| s.run == *run && s.lives()) {
            true => Err(format!("run {run:?} of {n} is told to have ended, and a session beside it lives")),
            false => Ok(()),
        }
    }

    /// The servers are told that the allocation has ended.
    pub fn no_session_lives_of(&self, n: NodeAt, alloc: AllocId) -> Result<(), String> {
        match self.regions[n].sessions.values().any(|s| s.alloc == alloc && s.lives()) {
            true => Err(format!("{n} reports that {alloc} has ended, and a session of it lives")),
            false => Ok(()),
        }
    }

    /// At rest, when all users have left.
    pub fn check_sessions(&self) -> Result<(), String> {
        let open: usize = self.regions.node_hosts().map(|host| host.sessions.len()).sum();
        match (open, self.exec_users.asked.len()) {
            (0, 0) => Ok(()),
            (open, asked) => Err(format!("{open} sessions live on, {asked} were never answered")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: NodeAt = NodeAt { region: HOME_REGION, node: 0 };

    /// With a session that lives beside a task.
    fn world_with_session() -> (World, u64) {
        let mut world = World::new(1, 1, 1, false);
        world.faults.heal();
        world.start_all().expect("fresh disks open");
        run(&mut world, Span::seconds(20));
        world.register_quietly("quiet-1", 1);
        run(&mut world, Span::seconds(20));
        for _ in 0..40 {
            world.ask_for_session(N);
            run(&mut world, Span::millis(10));
            if let Some((connection, _)) = world.regions[N].sessions.iter().find(|(_, s)| s.lives()) {
                let connection = *connection;
                return (world, connection);
            }
        }
        panic!("some session lives for so long");
    }

    fn run(world: &mut World, span: Span) {
        world.run_until(world.now.after(span)).expect("no fault, no failure");
    }

    fn session(world: &mut World, connection: u64) -> &mut Session {
        world.regions[N].sessions.get_mut(&connection).expect("it is open")
    }

    #[test]
    fn a_session_lasts_as_long_as_its_run_and_its_caller() {
        let (mut world, connection) = world_with_session();
        assert!(world.check_sessions().is_err(), "it lives");
        let run_id = session(&mut world, connection).run;
        world.process_ends(N, run_id, ProcessEnd::Exit(1));
        run(&mut world, Span::seconds(1));
        assert_eq!(world.check_sessions(), Ok(()));
        assert!(world.faults.counts().contains_key(&Kind::SessionEndedWithItsTask));
        let (mut world, connection) = world_with_session();
        world.leave_session(N, connection);
        run(&mut world, Span::seconds(1));
        assert_eq!(world.check_sessions(), Ok(()));
    }

    #[test]
    fn a_session_that_outlives_what_it_is_beside_is_found() {
        let (mut world, connection) = world_with_session();
        let (run, alloc) = (session(&mut world, connection).run, session(&mut world, connection).alloc);
        let exit = Exit { status: ExitStatus::Code(0), oom_killed: false };
        let ended = Told::Exited { run, exit, at: Default::default() };
        assert!(world.no_session_is_beside(N, &ended).is_err());
        assert!(world.no_session_lives_of(N, alloc).is_err());
        session(&mut world, connection).phase = Phase::Ended(exit);
        assert_eq!(world.no_session_is_beside(N, &ended), Ok(()));
        assert_eq!(world.no_session_lives_of(N, alloc), Ok(()));
    }

    #[test]
    fn an_end_that_is_not_the_sessions_own_is_found() {
        let exit = |code| Exit { status: ExitStatus::Code(code), oom_killed: false };
        let (mut world, connection) = world_with_session();
        assert!(world.session_told(N, connection, Told::SessionEnded { exit: exit(0) }).is_err(), "it lives");
        session(&mut world, connection).phase = Phase::Ended(exit(3));
        assert!(world.session_happens(N, connection, SessionEvent::HungUp).is_err(), "nobody was told");
        assert!(world.session_told(N, connection, Told::SessionEnded { exit: exit(0) }).is_err());
        assert_eq!(world.session_told(N, connection, Told::SessionEnded { exit: exit(3) }), Ok(()));
        assert_eq!(world.session_happens(N, connection, SessionEvent::HungUp), Ok(()));
    }

    #[test]
    fn one_session_too_many_is_found() {
        let (mut world, connection) = world_with_session();
        let Session { run, alloc, .. } = *session(&mut world, connection);
        let more = |phase| Session { run, alloc, phase, is_left: false };
        let sessions = &mut world.regions[N].sessions;
        sessions.extend((100..100 + MAX_SESSIONS as u64).map(|n| (n, more(Phase::Lives))));
        let begun: Result<Vec<()>, String> = (200..240)
            .map(|n| {
                world.regions[N].sessions.insert(n, more(Phase::Asked));
                world.session_begins(N, n, run)
            })
            .collect();
        assert!(begun.is_err_and(|e| e.contains("at a time")));
    }
}
