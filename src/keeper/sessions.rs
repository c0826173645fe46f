//! Sessions: processes that somebody runs beside a run, in its control group, for as long as their connection stands. Nothing
//! of them is journaled: they end with their connection, with their run, and with this keeper.
//!
//! Refuses to know: what flows through a session. Its descriptors go to whoever asked for it.

use super::brain::Keeper;
use super::effects::{ClientId, Effect};
use super::run::{self, Phase};
use model::id::RunId;
use model::task::Exit;
use wire::keeper::{Event, MAX_SESSIONS, RunSpec};

impl Keeper {
    pub(super) fn exec(&mut self, client: ClientId, run: RunId, spec: Box<RunSpec>, tty: bool) {
        if let Err(message) = self.check_exec(client, run, &spec) {
            let event = Event::Refused { run: Some(run), message };
            return self.now.push(Effect::Send { client, event });
        }
        self.sessions.insert(client, run);
        assert!(self.sessions.len() <= MAX_SESSIONS, "no more sessions live than may");
        assert!(self.clients.contains(&client), "a session belongs to a connection");
        self.now.push(Effect::Exec { client, run, spec, tty });
    }

    fn check_exec(&self, client: ClientId, run: RunId, spec: &RunSpec) -> Result<(), String> {
        if self.sessions.contains_key(&client) {
            return Err("this connection has its session: open another".into());
        }
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(format!("there are {MAX_SESSIONS} sessions, the most there can be: end one first"));
        }
        match self.runs.get(&run).map(|r| &r.phase) {
            Some(Phase::Running { .. }) => run::check(spec),
            _ => Err("the run has no running process".into()),
        }
    }

    /// There is no process: the command could not be executed.
    pub(super) fn session_failed(&mut self, client: ClientId, message: String) {
        if self.sessions.remove(&client).is_some() {
            let message = run::truncate(message, run::MAX_FAILURE_BYTES);
            self.now.push(Effect::Send { client, event: Event::Refused { run: None, message } });
            self.now.push(Effect::Disconnect { client });
        }
    }

    pub(super) fn session_ended(&mut self, client: ClientId, exit: Exit) {
        if self.sessions.remove(&client).is_some() {
            self.now.push(Effect::Send { client, event: Event::SessionEnded { exit } });
            self.now.push(Effect::Disconnect { client });
        }
    }

    /// A connection is gone, and its session with it.
    pub(super) fn gone(&mut self, client: ClientId) {
        self.clients.remove(&client);
        if self.sessions.remove(&client).is_some() {
            self.now.push(Effect::EndSession { client });
        }
    }

    /// Ends the sessions beside `run`, or all of them. Their exits are sent when they have ended.
    pub(super) fn end_sessions(&mut self, beside: Option<RunId>) {
        let meant = self.sessions.iter().filter(|(_, run)| beside.is_none_or(|b| b == **run));
        self.now.extend(meant.map(|(client, _)| Effect::EndSession { client: *client }));
    }
}
