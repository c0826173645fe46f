//! A node's keeper: its brain, its journal, its connection to the agent. It dies, is replaced in place, and waits when its
//! journal cannot be written, as its driver does in life.

use super::faults::Kind;
use super::place::{Daemon, NodeAt};
use super::processes::ProcessEnd;
use super::world::{Event, World};
use ::keeper::brain::Keeper;
use ::keeper::effects as keeper;
use client::effects::Input;
use model::id::RunId;
use model::task::{Exit, ExitStatus};
use model::time::{Mono, Span, Wall};
use std::io;
use wire::keeper::{Event as KeeperEvent, KeeperCommand, PROTOCOL};

/// After a failed write of the journal.
const JOURNAL_RETRY: Span = Span::seconds(1);

pub struct Stalled {
    write: keeper::Write,
    turns: Vec<keeper::TurnOutput>,
}

impl Stalled {
    fn add(&mut self, turn: keeper::TurnOutput) {
        self.write = joined(std::mem::replace(&mut self.write, keeper::Write::Nothing), turn.write.clone());
        self.turns.push(turn);
    }
}

/// One write that does both, in order.
fn joined(first: keeper::Write, second: keeper::Write) -> keeper::Write {
    use keeper::Write::{Append, Nothing, Replace};
    match (first, second) {
        (first, Nothing) => first,
        (_, Replace(all)) => Replace(all),
        (Nothing, second) => second,
        (Replace(mut all), Append { bytes, .. }) => {
            all.extend(bytes);
            Replace(all)
        }
        (Append { mut bytes, sync }, Append { bytes: more, sync: also }) => {
            bytes.extend(more);
            Append { bytes, sync: sync || also }
        }
    }
}

impl World {
    pub fn start_keeper(&mut self, n: NodeAt) {
        self.start_keeper_with(n, vec![]);
    }

    /// `reaped`: ends of its children that it finds as soon as it looks.
    fn start_keeper_with(&mut self, n: NodeAt, reaped: Vec<keeper::Input>) {
        let wall = self.regions[n].clock.at(self.now).wall.unwrap_or(Wall::NEVER);
        let host = &mut self.regions[n];
        host.keeper_life += 1;
        let bytes = host.journal.contents();
        let marked = host.marked(wall);
        let pid = 1000 + host.keeper_life as u32;
        let (brain, restored) = Keeper::restore(host.boot_id(), pid, &bytes, &marked, wall);
        let life = host.keeper_life;
        host.keeper = Some(brain);
        host.keeper_inbox.clear();
        host.keeper_turn_at = None;
        self.note(|_| format!("{n}  keeper starts, life {life}, {} runs adopted", restored.running.len()));
        if self.write_journal(n, &restored.write).is_err() {
            return if self.regions[n].journal.is_dead() { self.power_cut(n) } else { self.crash_keeper(n) };
        }
        for adopted in restored.running {
            let (pid, ticks) = (adopted.process.pid, adopted.process.start_ticks);
            let alive = match self.regions[n].processes.get_mut(&pid) {
                Some(process) if process.start_ticks == ticks => {
                    process.output.open();
                    true
                }
                _ => reaped
                    .iter()
                    .any(|i| matches!(i, keeper::Input::Exited { run, .. } if *run == adopted.run)),
            };
            if !alive {
                let exit = Exit { status: ExitStatus::Unknown, oom_killed: false };
                self.keeper_input(n, life, keeper::Input::Exited { run: adopted.run, exit });
            }
        }
        // what ended runs left behind is killed first
        for (run, _) in restored.ended {
            self.process_ends(n, run, ProcessEnd::Signal(9));
        }
        let ended = restored.strays.iter().filter(|s| self.process_of(n, s.run).is_some()).count();
        self.faults.fired_times(Kind::StrayEnded, ended as u64);
        for input in reaped {
            self.keeper_input(n, life, input);
        }
        self.wake_keeper(n, Span(10_000));
        self.after(Span::millis(1), Event::Connect { node: n });
    }

    pub fn crash_keeper(&mut self, n: NodeAt) {
        self.sessions_end_with_their_keeper(n);
        let host = &mut self.regions[n];
        host.keeper = None;
        host.keeper_deaths += 1;
        host.stalled = None;
        host.journal_must_be_replaced = false;
        host.keeper_inbox.clear();
        // their release pipes end
        let waiting: Vec<RunId> = host.processes.values().filter(|p| !p.running).map(|p| p.run).collect();
        for run in waiting {
            self.process_ends(n, run, ProcessEnd::Exit(126));
        }
        let host = &mut self.regions[n];
        host.processes.values_mut().for_each(|p| p.output.abandon());
        // nobody holds the FIFOs of ended tasks any more
        host.closing.clear();
        if host.connection.take().is_some() {
            self.node_input(n, Input::KeeperDown { why: "the keeper is gone".into() });
        }
        let back_after = self.delay(Span::millis(50), Span::seconds(5));
        self.after(back_after, Event::Start(Daemon::Keeper(n)));
    }

    pub fn connect(&mut self, n: NodeAt) {
        let host = &mut self.regions[n];
        if host.connection.is_some() || host.keeper.is_none() || host.client.is_none() {
            return;
        }
        host.connections += 1;
        host.connection = Some(host.connections);
        self.ask_keeper(n, KeeperCommand::Hello { protocol: PROTOCOL });
        self.node_input(n, Input::KeeperUp);
    }

    pub(super) fn ask_keeper(&mut self, n: NodeAt, command: KeeperCommand) {
        let Some(client) = self.regions[n].connection else { return };
        let life = self.regions[n].keeper_life;
        let input = Box::new(keeper::Input::Command { client, command });
        // a stream: what is sent first arrives first
        self.after(Span(50_000), Event::ToKeeper { node: n, life, input });
    }

    pub fn keeper_input(&mut self, n: NodeAt, life: u64, input: keeper::Input) {
        let host = &mut self.regions[n];
        let from = match input {
            keeper::Input::Command { client, .. } | keeper::Input::Gone { client } => client,
            _ => u64::MAX,
        };
        if host.keeper.is_some() && host.keeper_life == life && from > host.hung_up {
            host.keeper_inbox.push(input);
            self.wake_keeper(n, Span(10_000));
        }
    }

    fn wake_keeper(&mut self, n: NodeAt, delay: Span) {
        let at = self.now.after(delay);
        if self.regions[n].keeper_turn_at.is_none_or(|t| t > at) {
            self.regions[n].keeper_turn_at = Some(at);
            self.at(at, Event::KeeperTurn { node: n, at });
        }
    }

    pub fn keeper_turn(&mut self, n: NodeAt, at: Mono) -> Result<(), String> {
        let wall = self.regions[n].clock.at(self.now).wall.unwrap_or(Wall::NEVER);
        let now = self.now;
        let host = &mut self.regions[n];
        if host.keeper_turn_at != Some(at) {
            return Ok(());
        }
        host.keeper_turn_at = None;
        let inputs = std::mem::take(&mut host.keeper_inbox);
        let Some(brain) = &mut host.keeper else { return Ok(()) };
        self.turns += 1;
        let mut turn = brain.turn(now, wall, inputs);
        for effect in std::mem::take(&mut turn.now) {
            self.execute_keeper_effect(n, effect)?;
        }
        self.finish_keeper_turn(n, turn)?;
        self.check_processes()?;
        if let Some(deadline) = self.regions[n].keeper.as_ref().and_then(Keeper::next_deadline) {
            let wait = deadline.since(self.now).max(Span(10_000));
            self.wake_keeper(n, wait);
        }
        Ok(())
    }

    fn finish_keeper_turn(&mut self, n: NodeAt, turn: keeper::TurnOutput) -> Result<(), String> {
        if let Some(stalled) = &mut self.regions[n].stalled {
            stalled.add(turn);
            return Ok(());
        }
        match self.write_journal(n, &turn.write) {
            Ok(()) => self.execute_turns(n, vec![turn]),
            Err(_) if self.regions[n].journal.is_dead() => {
                self.power_cut(n);
                Ok(())
            }
            Err(why) => {
                self.note(|_| format!("{n}  journal cannot be written: {why}"));
                self.faults.fired(Kind::KeeperStalled);
                let life = self.regions[n].keeper_life;
                self.keeper_input(n, life, keeper::Input::Journal { fault: Some(why.to_string()) });
                let write = self.write_again(n, turn.write.clone());
                self.regions[n].stalled = Some(Stalled { write, turns: vec![turn] });
                self.after(JOURNAL_RETRY, Event::JournalRetry { node: n, life });
                Ok(())
            }
        }
    }

    pub fn retry_journal(&mut self, n: NodeAt, life: u64) -> Result<(), String> {
        if self.regions[n].keeper_life != life {
            return Ok(());
        }
        let Some(mut stalled) = self.regions[n].stalled.take() else { return Ok(()) };
        match self.write_journal(n, &stalled.write) {
            Ok(()) => {
                self.keeper_input(n, life, keeper::Input::Journal { fault: None });
                self.execute_turns(n, stalled.turns)
            }
            Err(_) if self.regions[n].journal.is_dead() => {
                self.power_cut(n);
                Ok(())
            }
            Err(_) => {
                stalled.write = self.write_again(n, stalled.write);
                self.regions[n].stalled = Some(stalled);
                self.after(JOURNAL_RETRY, Event::JournalRetry { node: n, life });
                Ok(())
            }
        }
    }

    /// After a failed sync the file cannot be trusted any more: the journal is written as a whole.
    fn write_again(&mut self, n: NodeAt, write: keeper::Write) -> keeper::Write {
        let host = &mut self.regions[n];
        match &mut host.keeper {
            Some(keeper) if host.journal_must_be_replaced => keeper.whole_journal(),
            _ => write,
        }
    }

    fn execute_turns(&mut self, n: NodeAt, turns: Vec<keeper::TurnOutput>) -> Result<(), String> {
        for effect in turns.into_iter().flat_map(|t| t.deferred(keeper::Durable)) {
            if self.dies_in_a_start(n, &effect) {
                break;
            }
            self.execute_keeper_effect(n, effect)?;
        }
        Ok(())
    }

    /// kill -9 between the fork and the release, before or after the journal says that the process waits.
    fn dies_in_a_start(&mut self, n: NodeAt, effect: &keeper::Effect) -> bool {
        let starting =
            matches!(effect, keeper::Effect::ConfirmJournaled { .. } | keeper::Effect::Release { .. });
        let dies = starting && self.regions[n].keeper.is_some() && self.faults.one_in(60);
        if dies {
            self.note(|_| format!("{n}  keeper dies before it can {effect:?}"));
            self.faults.fired(Kind::KeeperKilledInAStart);
            self.crash_keeper(n);
        }
        dies || self.regions[n].keeper.is_none()
    }

    /// A failed append leaves the file as it was before, if that can be done at all.
    fn write_journal(&mut self, n: NodeAt, write: &keeper::Write) -> io::Result<()> {
        let host = &mut self.regions[n];
        let journal = &mut host.journal;
        match write {
            keeper::Write::Nothing => Ok(()),
            keeper::Write::Append { bytes, sync } => {
                let before = journal.size_bytes();
                let written = journal.append(bytes);
                let must_be_replaced = &mut host.journal_must_be_replaced;
                let synced = written.and_then(|()| match *sync {
                    true => journal.sync().inspect_err(|_| *must_be_replaced = true),
                    false => Ok(()),
                });
                if synced.is_err() {
                    let _ = journal.shorten(before);
                }
                synced
            }
            keeper::Write::Replace(bytes) => {
                journal.replace(bytes)?;
                host.journal_must_be_replaced = false;
                Ok(())
            }
        }
    }

    /// The keeper's binary is replaced in place: same process, so its children stay its own; all else goes through the
    /// journal. It waits for the moment when no run is on its way.
    pub fn upgrade_keeper(&mut self, n: NodeAt) {
        let host = &mut self.regions[n];
        let Some(keeper) = &host.keeper else { return };
        if host.stalled.is_some() || !keeper.can_upgrade() {
            return self.after(Span::millis(100), Event::Upgrade { node: n });
        }
        self.note(|_| format!("{n}  keeper is upgraded"));
        self.faults.fired(Kind::KeeperUpgraded);
        self.sessions_end_with_their_keeper(n);
        let host = &mut self.regions[n];
        host.keeper = None;
        // what has ended since waits to be reaped, and is seen by the new binary
        host.keeper_inbox.retain(|i| matches!(i, keeper::Input::Exited { .. }));
        host.processes.values_mut().for_each(|p| p.output.abandon());
        host.hung_up = host.connections;
        if host.connection.take().is_some() {
            self.node_input(n, Input::KeeperDown { why: "the keeper was replaced".into() });
        }
        let reaped = std::mem::take(&mut self.regions[n].keeper_inbox);
        // the same process goes on under its old number
        self.regions[n].keeper_life -= 1;
        self.start_keeper_with(n, reaped);
    }

    fn execute_keeper_effect(&mut self, n: NodeAt, effect: keeper::Effect) -> Result<(), String> {
        use keeper::Effect as E;
        match effect {
            E::Spawn { run, spec } => self.spawn(n, run, spec),
            E::ConfirmJournaled { run } => {
                let life = self.regions[n].keeper_life;
                self.keeper_input(n, life, keeper::Input::Journaled { run });
            }
            E::Release { run } => self.release(n, run)?,
            E::Signal { run, signal } => {
                self.check_kill(n, run)?;
                self.signal(n, run, signal);
            }
            E::Kill { run } => {
                self.check_kill(n, run)?;
                self.kill(n, run);
            }
            E::Sweep { run } => {
                let life = self.regions[n].keeper_life;
                let empty = self.process_of(n, run).is_none();
                if !empty {
                    self.kill(n, run);
                }
                let input = Box::new(keeper::Input::Swept { run, empty });
                self.after(Span(30_000), Event::ToKeeper { node: n, life, input });
            }
            E::Send { client, event } => {
                let event = Box::new(event);
                self.after(Span(50_000), Event::FromKeeper { node: n, connection: client, event });
            }
            E::Disconnect { client } => {
                if self.regions[n].connection == Some(client) {
                    self.regions[n].connection = None;
                    self.node_input(n, Input::KeeperDown { why: "disconnected".into() });
                    self.after(Span::seconds(1), Event::Connect { node: n });
                } else {
                    self.hang_up_on_session(n, client);
                }
            }
            E::Close { run } => self.close_output(n, run)?,
            E::Exec { client, run, .. } => self.session_begins(n, client, run)?,
            E::EndSession { client } => self.kill_session(n, client),
            E::Exit => self.crash_keeper(n),
        }
        Ok(())
    }

    pub fn keeper_told(&mut self, n: NodeAt, connection: u64, event: KeeperEvent) -> Result<(), String> {
        if self.regions[n].connection == Some(connection) {
            self.note(|_| format!("{n}  keeper tells {}", brief(&event)));
            self.no_session_is_beside(n, &event)?;
            self.check_exits(n, &event)?;
            self.note_exits(n, &event);
            self.node_input(n, Input::Keeper(event));
            return Ok(());
        }
        self.session_told(n, connection, event)
    }
}

fn brief(event: &KeeperEvent) -> String {
    match event {
        KeeperEvent::Welcome { runs, .. } => format!("welcome, {} runs", runs.len()),
        other => format!("{other:?}"),
    }
}
