//! The keeper's turns: inputs and the time in, journal bytes and effects out.
//!
//! Refuses to know: how effects are carried out. A turn's later effects can only be had for a `Durable`, which the
//! driver makes once the turn's journal bytes are on disk.

use super::effects::{ClientId, Effect, Input, Restored, Sessions, TurnOutput, Write};
use super::journal::{self, JournalEntry, Process};
use super::mark::Marked;
use super::restore::{self, Runs, UNKNOWN_EXIT};
use super::run::{self, Phase, Run};

use model::id::{RunId, Uuid};
use model::task::Exit;
use model::time::{Mono, Span, Wall};
use std::collections::BTreeSet;
use wire::keeper::{Event, KeeperCommand, MAX_RUNS, PROTOCOL, RunReport, RunSpec};

/// How long after a kill leftovers are looked for again.
const SWEEP_EVERY: Span = Span::millis(20);
/// Processes that even SIGKILL does not end (they hang in the kernel) hold an exit back no longer than this.
const SWEEP_FOR: Span = Span::seconds(10);
/// A main process that outlives its SIGKILL gets another this often.
const KILL_AGAIN: Span = Span::seconds(1);
/// The kill timeout of tasks when the agent that the keeper must not outlive has ended.
const AGENT_GONE_GRACE: Span = Span::millis(500);
const SIGTERM: i32 = 15;
/// A journal below this size is never rewritten.
const COMPACT_ABOVE_BYTES: usize = 64 << 10;
/// A journal that has not grown this many times since its last rewrite is not rewritten.
const COMPACT_FACTOR: usize = 4;

pub struct Keeper {
    boot_id: Uuid,
    pid: u32,
    pub(super) runs: Runs,
    /// Connections that said `Hello`.
    pub(super) clients: BTreeSet<ClientId>,
    pub(super) sessions: Sessions,
    journal_bytes: usize,
    /// The journal is rewritten once it is larger than this.
    compact_above_bytes: usize,
    journal_fault: Option<String>,
    shutting_down: bool,
    exit_told: bool,
    entries: Vec<JournalEntry>,
    pub(super) now: Vec<Effect>,
    later: Vec<Effect>,
}

impl Keeper {
    /// Restores the runs from the journal and from the marks of live processes. `wall`: when runs of another boot count as
    /// ended.
    pub fn restore(
        boot_id: Uuid,
        pid: u32,
        journal: &[u8],
        marked: &[Marked],
        wall: Wall,
    ) -> (Keeper, Restored) {
        let read = journal::read(journal);
        let found = restore::recover(&read.entries, read.lost_bytes > 0, boot_id, marked, wall);
        let (running, ended) = (found.running(), found.ended());
        assert!(!found.runs.values().any(Run::is_starting), "of each run it is known whether it was let go");
        let mut keeper = Keeper {
            boot_id,
            pid,
            runs: found.runs,
            clients: BTreeSet::new(),
            sessions: Sessions::new(),
            journal_bytes: journal.len(),
            compact_above_bytes: COMPACT_ABOVE_BYTES,
            journal_fault: None,
            shutting_down: false,
            exit_told: false,
            entries: Vec::new(),
            now: Vec::new(),
            later: Vec::new(),
        };
        let clean = !found.changed && read.lost_bytes == 0;
        let write = if clean { Write::Nothing } else { keeper.compacted() };
        (keeper, Restored { running, ended, strays: found.strays, write, lost_bytes: read.lost_bytes })
    }

    /// When a turn is due without an input.
    pub fn next_deadline(&self) -> Option<Mono> {
        self.runs.values().filter_map(Run::deadline).min()
    }

    /// No run is between two states: the binary may be replaced.
    pub fn can_upgrade(&self) -> bool {
        !self.runs.values().any(|r| r.is_starting() || matches!(r.phase, Phase::Sweeping { .. }))
    }

    pub fn turn(&mut self, now: Mono, wall: Wall, inputs: Vec<Input>) -> TurnOutput {
        for input in inputs {
            self.handle_input(now, wall, input);
        }
        self.handle_deadlines(now);
        if self.shutting_down && !self.exit_told && self.runs.values().all(Run::has_ended) {
            self.exit_told = true;
            self.later.push(Effect::Exit);
        }
        assert!(
            !self.exit_told || self.runs.values().all(Run::has_ended),
            "a keeper that may exit has no run left"
        );
        let write = self.write();
        let starts = |e: &Effect| matches!(e, Effect::ConfirmJournaled { .. } | Effect::Release { .. });
        let journaled = write != Write::Nothing || !self.later.iter().any(starts);
        assert!(journaled, "a process is released only with a journal entry that says so");
        TurnOutput { now: std::mem::take(&mut self.now), write, later: std::mem::take(&mut self.later) }
    }

    fn handle_input(&mut self, now: Mono, wall: Wall, input: Input) {
        match input {
            Input::Command { client, command } => self.command(now, client, command),
            Input::Gone { client } => self.gone(client),
            Input::SessionFailed { client, message } => self.session_failed(client, message),
            Input::SessionEnded { client, exit } => self.session_ended(client, exit),
            Input::Spawned { run, pid, start_ticks } => {
                self.spawned(run, Process { pid, start_ticks, since: wall });
            }
            Input::Journaled { run } => self.journaled(run),
            Input::Executed { run } => self.executed(now, run),
            Input::SpawnFailed { run, message, retryable } => self.spawn_failed(run, message, retryable),
            Input::Exited { run, exit } => self.exited(now, wall, run, exit),
            Input::Swept { run, empty } => self.swept(now, wall, run, empty),
            Input::AgentGone => self.shut_down(now, SIGTERM, AGENT_GONE_GRACE),
            Input::Journal { fault } => self.journal_fault = fault,
        }
    }

    fn command(&mut self, now: Mono, client: ClientId, command: KeeperCommand) {
        if let KeeperCommand::Hello { protocol } = command {
            return self.hello(client, protocol);
        }
        if !self.clients.contains(&client) {
            self.refuse(client, None, "say Hello first");
            return self.later.push(Effect::Disconnect { client });
        }
        match command {
            KeeperCommand::Hello { .. } => {}
            KeeperCommand::Start { run, spec } => self.start(client, run, spec),
            KeeperCommand::Signal { run, signal } => self.signal(client, run, signal),
            KeeperCommand::Stop { run, signal, timeout } => self.stop(now, client, run, signal, timeout),
            KeeperCommand::Forget { run } => self.forget(client, run),
            KeeperCommand::Shutdown { signal, timeout } => self.shut_down(now, signal, timeout),
            KeeperCommand::List => self.welcome(client),
            KeeperCommand::Exec { run, spec, tty } => self.exec(client, run, spec, tty),
        }
    }

    fn hello(&mut self, client: ClientId, protocol: u32) {
        if protocol == PROTOCOL {
            self.clients.insert(client);
            return self.welcome(client);
        }
        self.refuse(
            client,
            None,
            &format!(
                "this keeper speaks protocol {PROTOCOL}, the agent {protocol}: \
                 send SIGUSR2 to the keeper (pid {}) once the new binary is in place, tasks go on",
                self.pid
            ),
        );
        self.later.push(Effect::Disconnect { client });
    }

    fn welcome(&mut self, client: ClientId) {
        let report = |(run, r): (&RunId, &Run)| {
            Some(RunReport { run: *run, label: r.label.clone(), state: run::shortened(r.state()?) })
        };
        let event = Event::Welcome {
            protocol: PROTOCOL,
            boot_id: self.boot_id,
            keeper_pid: self.pid,
            runs: self.runs.iter().filter_map(report).collect(),
        };
        self.later.push(Effect::Send { client, event });
    }

    fn start(&mut self, client: ClientId, run: RunId, spec: Box<RunSpec>) {
        if let Some(known) = self.runs.get(&run) {
            // Still on its way: the answer comes to every client once it is known.
            if let Some(state) = known.state() {
                self.later.push(Effect::Send { client, event: run::event_of(run, state) });
            }
            return;
        }
        if let Some((message, retryable)) = self.start_refusal(&spec) {
            let event = Event::StartFailed { run, message, retryable };
            // Tells of nothing that has to be durable first, and is needed most while nothing can be.
            return self.now.push(Effect::Send { client, event });
        }
        let phase = Phase::Starting { logs: spec.logs.clone(), stop: None };
        self.runs.insert(run, Run { label: spec.label.clone(), phase });
        assert!(self.runs.len() <= MAX_RUNS, "the runs fit into a message");
        self.now.push(Effect::Spawn { run, spec });
    }

    fn start_refusal(&self, spec: &RunSpec) -> Option<(String, bool)> {
        if self.shutting_down {
            return Some(("the keeper is shutting down".into(), true));
        }
        if let Some(fault) = &self.journal_fault {
            return Some((format!("the keeper cannot write its journal: {fault}"), true));
        }
        if self.runs.len() >= MAX_RUNS {
            let text = format!("the keeper holds {MAX_RUNS} runs, the most it can: forget ended ones first");
            return Some((text, true));
        }
        run::check(spec).err().map(|message| (run::truncate(message, run::MAX_FAILURE_BYTES), false))
    }

    fn spawned(&mut self, run: RunId, process: Process) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        let Phase::Starting { logs, stop } = &mut held.phase else { return };
        let (logs, stop) = (logs.take(), stop.take());
        let (boot_id, label) = (self.boot_id, held.label.clone());
        self.entries.push(JournalEntry::Waiting { run, boot_id, label, process, logs: logs.clone() });
        held.phase = Phase::Waiting { logs, process, stop };
        self.later.push(Effect::ConfirmJournaled { run });
    }

    /// Two steps: a keeper that dies between them leaves a journal that says that the process waited, and not that it may have
    /// executed.
    fn journaled(&mut self, run: RunId) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        let Phase::Waiting { logs, process, stop } = &mut held.phase else { return };
        held.phase = Phase::Released { logs: logs.take(), process: *process, stop: *stop };
        self.entries.push(JournalEntry::Released { run });
        self.later.push(Effect::Release { run });
    }

    fn executed(&mut self, now: Mono, run: RunId) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        let Phase::Released { logs, process, stop } = &mut held.phase else { return };
        let (logs, process, stop) = (logs.take(), *process, *stop);
        let kill_at = stop.map(|(_, timeout)| now.after(timeout));
        held.phase = Phase::Running { logs, process, kill_at };
        self.broadcast(Event::Started { run, pid: process.pid, at: process.since });
        if let Some((signal, _)) = stop {
            self.now.push(Effect::Signal { run, signal });
        }
    }

    fn spawn_failed(&mut self, run: RunId, message: String, retryable: bool) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        if !held.is_starting() {
            return;
        }
        let message = run::truncate(message, run::MAX_FAILURE_BYTES);
        if retryable {
            // The same request may come again, and then has to be tried again.
            self.runs.remove(&run);
            self.entries.push(JournalEntry::Forgotten { run });
        } else {
            held.phase = Phase::Failed { message: message.clone(), retryable };
            let label = held.label.clone();
            self.entries.push(JournalEntry::Failed { run, label, message: message.clone(), retryable });
        }
        self.now.push(Effect::Close { run });
        self.broadcast(Event::StartFailed { run, message, retryable });
    }

    fn exited(&mut self, now: Mono, wall: Wall, run: RunId, exit: Exit) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        let Phase::Running { process, .. } = held.phase else { return };
        held.phase = Phase::Sweeping {
            process,
            exit,
            at: wall,
            next: now.after(SWEEP_EVERY),
            give_up: now.after(SWEEP_FOR),
        };
        self.entries.push(JournalEntry::Ended { run, label: held.label.clone(), exit, at: wall });
        self.end_sessions(Some(run));
        self.now.push(Effect::Sweep { run });
    }

    fn swept(&mut self, now: Mono, wall: Wall, run: RunId, empty: bool) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        let (exit, at) = match held.phase {
            Phase::Sweeping { exit, at, give_up, .. } if empty || now >= give_up => (exit, at),
            Phase::Stray { .. } if empty => {
                self.entries.push(JournalEntry::Ended {
                    run,
                    label: held.label.clone(),
                    exit: UNKNOWN_EXIT,
                    at: wall,
                });
                (UNKNOWN_EXIT, wall)
            }
            _ => return,
        };
        held.phase = Phase::Ended { exit, at };
        self.now.push(Effect::Close { run });
        self.broadcast(Event::Exited { run, exit, at });
    }

    fn signal(&mut self, client: ClientId, run: RunId, signal: i32) {
        match self.runs.get(&run).map(|r| &r.phase) {
            _ if !run::is_signal(signal) => {
                self.refuse(client, Some(run), &format!("{signal} is no signal: 1 to 64"))
            }
            Some(Phase::Running { .. }) => self.now.push(Effect::Signal { run, signal }),
            Some(_) => self.refuse(client, Some(run), "the run has no running process to signal"),
            None => self.refuse(client, Some(run), "the run is not known"),
        }
    }

    fn stop(&mut self, now: Mono, client: ClientId, run: RunId, signal: i32, timeout: Span) {
        if !run::is_signal(signal) {
            return self.refuse(client, Some(run), &format!("{signal} is no signal: 1 to 64"));
        }
        let Some(held) = self.runs.get_mut(&run) else {
            return self.refuse(client, Some(run), "the run is not known");
        };
        match &mut held.phase {
            Phase::Starting { stop, .. } | Phase::Waiting { stop, .. } | Phase::Released { stop, .. } => {
                *stop = Some((signal, timeout));
            }
            Phase::Running { kill_at, .. } => {
                let at = now.after(timeout);
                *kill_at = Some(kill_at.map_or(at, |earlier| earlier.min(at)));
                self.now.push(Effect::Signal { run, signal });
            }
            // the run's exit is sent once it is swept
            Phase::Sweeping { .. } | Phase::Stray { .. } => {}
            Phase::Ended { .. } | Phase::Failed { .. } => {
                let event = held.state().map(|state| run::event_of(run, state));
                self.later.extend(event.map(|event| Effect::Send { client, event }));
            }
        }
    }

    fn forget(&mut self, client: ClientId, run: RunId) {
        match self.runs.get(&run) {
            // the run was forgotten already: nothing to do
            None => {}
            Some(held) if held.has_ended() => {
                self.runs.remove(&run);
                self.entries.push(JournalEntry::Forgotten { run });
            }
            Some(_) => self.refuse(client, Some(run), "the run has not ended: stop it first"),
        }
    }

    fn shut_down(&mut self, now: Mono, signal: i32, timeout: Span) {
        let signal = if run::is_signal(signal) { signal } else { SIGTERM };
        self.shutting_down = true;
        self.end_sessions(None);
        let at = now.after(timeout);
        for (run, held) in &mut self.runs {
            match &mut held.phase {
                Phase::Starting { stop, .. } | Phase::Waiting { stop, .. } | Phase::Released { stop, .. } => {
                    *stop = Some((signal, timeout));
                }
                Phase::Running { kill_at, .. } => {
                    *kill_at = Some(kill_at.map_or(at, |earlier| earlier.min(at)));
                    self.now.push(Effect::Signal { run: *run, signal });
                }
                Phase::Sweeping { .. } | Phase::Stray { .. } | Phase::Ended { .. } | Phase::Failed { .. } => {
                }
            }
        }
    }

    fn handle_deadlines(&mut self, now: Mono) {
        for (run, held) in &mut self.runs {
            match &mut held.phase {
                Phase::Running { kill_at: Some(at), .. } if *at <= now => {
                    *at = now.after(KILL_AGAIN);
                    self.now.push(Effect::Kill { run: *run });
                }
                Phase::Sweeping { next, .. } | Phase::Stray { next, .. } if *next <= now => {
                    held.schedule_sweep(now, SWEEP_EVERY);
                    self.now.push(Effect::Sweep { run: *run });
                }
                _ => {}
            }
        }
    }

    /// Clients with a session get the events of that session only.
    fn broadcast(&mut self, event: Event) {
        let send = |client: &ClientId| Effect::Send { client: *client, event: event.clone() };
        let others = self.clients.iter().filter(|client| !self.sessions.contains_key(client));
        self.later.extend(others.map(send));
    }

    fn refuse(&mut self, client: ClientId, run: Option<RunId>, message: &str) {
        let event = Event::Refused { run, message: message.into() };
        self.later.push(Effect::Send { client, event });
    }

    fn write(&mut self) -> Write {
        if self.entries.is_empty() {
            return Write::Nothing;
        }
        let entries = std::mem::take(&mut self.entries);
        let sync = entries.iter().any(JournalEntry::must_outlive_the_boot);
        let mut bytes = Vec::new();
        entries.iter().for_each(|e| journal::append(&mut bytes, e));
        self.journal_bytes += bytes.len();
        if self.journal_bytes > self.compact_above_bytes {
            return self.compacted();
        }
        Write::Append { bytes, sync }
    }

    /// Says all that the journal has to say, in turns whose bytes were not written as well.
    pub fn whole_journal(&mut self) -> Write {
        self.compacted()
    }

    fn compacted(&mut self) -> Write {
        let bytes = self.snapshot();
        self.journal_bytes = bytes.len();
        self.compact_above_bytes = COMPACT_ABOVE_BYTES.max(COMPACT_FACTOR * bytes.len());
        Write::Replace(bytes)
    }

    /// The shortest journal for the present state.
    fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (run, held) in &self.runs {
            let (run, label) = (*run, held.label.clone());
            let entry = match &held.phase {
                Phase::Starting { .. } | Phase::Stray { .. } => continue,
                Phase::Waiting { logs, process, .. } => {
                    let (boot_id, process) = (self.boot_id, *process);
                    JournalEntry::Waiting { run, boot_id, label, process, logs: logs.clone() }
                }
                Phase::Released { logs, process, .. } | Phase::Running { logs, process, .. } => {
                    let (boot_id, process) = (self.boot_id, *process);
                    JournalEntry::Started { run, boot_id, label, process, logs: logs.clone() }
                }
                Phase::Sweeping { exit, at, .. } | Phase::Ended { exit, at } => {
                    JournalEntry::Ended { run, label, exit: *exit, at: *at }
                }
                Phase::Failed { message, retryable } => {
                    JournalEntry::Failed { run, label, message: message.clone(), retryable: *retryable }
                }
            };
            journal::append(&mut bytes, &entry);
        }
        bytes
    }
}
