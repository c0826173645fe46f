//! The keeper's loop: what is ready becomes inputs, the brain's effects become system calls.
//!
//! Refuses to know: policy. A turn takes what epoll says, gives it to the brain, obeys what may be done at once, makes the
//! journal durable with at most one sync, and only then releases and tells.

use super::cgroup::Cgroups;
use super::connection::{ClientConnection, ConnectionEnd};
use super::epoll::{Epoll, ReadyToken};
use super::journal::Journal;
use super::output::PipeView;
use super::sessions::ExecSessions;
use super::signals::{KeeperSignals, SignalKind};
use super::tasks::Tasks;
use super::{KeeperOptions, keeper_dir, log, mark, process, upgrade};
use keeper::brain::Keeper;
use keeper::effects::{Durable, Effect, Input, Restored, TurnOutput, Write};
use model::id::RunId;
use model::time::{Mono, Span, Wall};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use wire::keeper::{Event, MAX_SESSIONS, RunSpec};

/// Agents and command lines, and one for each session.
const MAX_CLIENTS: usize = 16 + MAX_SESSIONS;
/// The pause after a failed write of the journal.
const JOURNAL_RETRY: Span = Span::seconds(1);
/// Turns held back while the journal cannot be written.
const MAX_STALLED_TURNS: usize = 20_000;
/// How long unsent events may delay the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs until told to leave. Errors are those of starting.
pub fn run(options: KeeperOptions) -> Result<(), String> {
    let inherited = upgrade::inherited(&options);
    let mut event_loop = EventLoop::start(options)?;
    drop(inherited);
    event_loop.serve().map_err(|e| format!("the keeper cannot go on: {e}"))
}

struct EventLoop {
    options: KeeperOptions,
    exe: PathBuf,
    started: Instant,
    keeper: Keeper,
    epoll: Epoll,
    signals: KeeperSignals,
    listener: UnixListener,
    agent: Option<File>,
    clients: BTreeMap<u32, ClientConnection>,
    next_client: u32,
    tasks: Tasks,
    sessions: ExecSessions,
    journal: Journal,
    /// Turns whose journal bytes could not be written yet, and when to try again.
    stalled: Option<DeferredTurns>,
    inputs: Vec<Input>,
    view: PipeView,
    leaving: ShutdownKind,
    /// Held for as long as this process lives.
    _lock: File,
}

struct DeferredTurns {
    write: Write,
    turns: Vec<TurnOutput>,
    retry: Mono,
}

impl DeferredTurns {
    /// Keeps a turn for later. With too many, the keeper ends rather than forget one; the tasks outlive it.
    fn add(&mut self, turn: TurnOutput) -> io::Result<()> {
        self.write = merge_writes(std::mem::replace(&mut self.write, Write::Nothing), turn.write.clone());
        if !turn.is_idle() {
            self.turns.push(turn);
        }
        if self.turns.len() > MAX_STALLED_TURNS {
            return Err(io::Error::other("its journal could not be written for too long"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ShutdownKind {
    No,
    /// The keeper ends and the tasks live on.
    Terminate,
    /// Every task has ended, and so does the keeper.
    Exit,
    /// The binary is replaced as soon as no start is half done.
    Upgrade,
}

impl EventLoop {
    fn start(options: KeeperOptions) -> Result<EventLoop, String> {
        let dir = super::dir(&options.data_dir);
        let failed = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
        keeper_dir::create(&dir).map_err(failed("the keeper's directory"))?;
        let lock = keeper_dir::lock(&dir)?;
        let name = keeper_dir::name(&dir).map_err(failed("the keeper's directory"))?;
        let exe = std::env::current_exe().map_err(failed("the path of this binary"))?;
        let signals = KeeperSignals::new().map_err(failed("signals"))?;
        process::adopt_orphans();
        let open_files = process::raise_open_files().map_err(failed("the limit of open files"))?;
        let boot_id = keeper_dir::boot_id()?;
        let (mut journal, content) = Journal::open(dir.join("journal")).map_err(failed("the journal"))?;
        let wall = wall_now();
        let marked = mark::scan(&name, wall);
        let (keeper, restored) = Keeper::restore(boot_id, std::process::id(), &content, &marked, wall);
        log_damage(&restored);
        journal.write(&restored.write).map_err(failed("the journal"))?;
        let epoll = Epoll::new().map_err(|e| format!("epoll: {e}"))?;
        let mut cgroups = Cgroups::detect();
        if let Err(e) = cgroups.prepare() {
            log(format_args!("{e}; tasks run without limits"));
            cgroups = Cgroups::none();
        }
        let view = PipeView::new().map_err(failed("a pipe"))?;
        let mut tasks = Tasks::new(cgroups, open_files, name);
        let inputs = restore(&mut tasks, &epoll, restored);
        let listener = keeper_dir::listen(&options)?;
        // SAFETY: the number was given on the command line as ours to own; nothing else here uses it.
        let agent = options.dev_fd.map(|fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
        let mut event_loop = EventLoop {
            options,
            exe,
            started: Instant::now(),
            keeper,
            epoll,
            signals,
            listener,
            agent,
            clients: BTreeMap::new(),
            next_client: 0,
            tasks,
            sessions: ExecSessions::default(),
            journal,
            stalled: None,
            inputs,
            view,
            leaving: ShutdownKind::No,
            _lock: lock,
        };
        event_loop.watch().map_err(|e| format!("epoll: {e}"))?;
        event_loop.tasks.reap(&event_loop.epoll, &mut event_loop.sessions, &mut event_loop.inputs);
        Ok(event_loop)
    }

    fn watch(&mut self) -> io::Result<()> {
        self.epoll.watch(&self.listener, ReadyToken::Listener)?;
        self.epoll.watch(&self.signals, ReadyToken::Signals)?;
        if let Some(agent) = &self.agent {
            self.epoll.watch(agent, ReadyToken::Agent)?;
        }
        Ok(())
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            if self.leaving == ShutdownKind::Upgrade && self.can_upgrade() {
                self.sessions.kill_all();
                // Comes back only if the new binary could not be executed.
                let error = upgrade::replace(&self.exe, &self.options, &self.listener, self.agent.as_ref());
                log(format_args!("{} cannot be executed: {error}; this binary goes on", self.exe.display()));
                self.leaving = ShutdownKind::No;
            }
            if matches!(self.leaving, ShutdownKind::Terminate | ShutdownKind::Exit) && self.inputs.is_empty()
            {
                return self.leave();
            }
            for token in self.epoll.wait(self.epoll_timeout())? {
                self.ready(token);
            }
            self.turn()?;
        }
    }

    /// Until when epoll may wait; `None`: for ever.
    fn epoll_timeout(&self) -> Option<Span> {
        if !self.inputs.is_empty() {
            return Some(Span::ZERO);
        }
        let retry = self.stalled.as_ref().map(|s| s.retry);
        let due = [self.keeper.next_deadline(), retry].into_iter().flatten().min()?;
        // One more, because a wait that ends a little early would spin.
        Some(due.since(self.now()) + Span::millis(1))
    }

    fn can_upgrade(&self) -> bool {
        self.inputs.is_empty() && self.stalled.is_none() && self.keeper.can_upgrade()
    }

    fn now(&self) -> Mono {
        Mono(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn ready(&mut self, token: ReadyToken) {
        match token {
            ReadyToken::Listener => self.accept(),
            ReadyToken::Signals => self.handle_signals(),
            ReadyToken::Agent => self.agent_gone(),
            ReadyToken::Client(id) => self.serve_client(id),
            ReadyToken::Process(slot) => self.tasks.process_ended(slot, &mut self.inputs),
            ReadyToken::Exec(slot) => self.tasks.executed(slot, &self.epoll, &mut self.inputs),
            ReadyToken::Stdout(slot) => self.tasks.pump_stdout(slot, &mut self.view),
            ReadyToken::Stderr(slot) => self.tasks.pump_stderr(slot, &mut self.view),
        }
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        if self.clients.len() >= MAX_CLIENTS {
            return log(format_args!("a connection was refused: there are {MAX_CLIENTS} already"));
        }
        match ClientConnection::accept(stream) {
            Ok(client) => {
                self.next_client = self.next_client.wrapping_add(1);
                let id = self.next_client;
                match self.epoll.watch(&client, ReadyToken::Client(id)) {
                    Ok(()) => drop(self.clients.insert(id, client)),
                    Err(e) => log(format_args!("a connection was refused: {e}")),
                }
            }
            Err(e) => log(format_args!("a connection was refused: {e}; it must come from this user or root")),
        }
    }

    fn handle_signals(&mut self) {
        for told in self.signals.read() {
            match told {
                SignalKind::Child => self.tasks.reap(&self.epoll, &mut self.sessions, &mut self.inputs),
                SignalKind::Terminate => self.leaving = ShutdownKind::Terminate,
                SignalKind::Upgrade => self.leaving = ShutdownKind::Upgrade,
            }
        }
    }

    fn agent_gone(&mut self) {
        // Nothing is ever written to that pipe: readable means closed.
        self.agent = None;
        self.inputs.push(Input::AgentGone);
    }

    fn serve_client(&mut self, id: u32) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        match client.receive() {
            Ok(commands) => {
                let input = |command| Input::Command { client: u64::from(id), command };
                self.inputs.extend(commands.into_iter().map(input));
                self.flush(id);
            }
            Err(ConnectionEnd::Closed) => self.disconnect(id),
            Err(ConnectionEnd::Protocol(message)) => {
                let event = Event::Refused { run: None, message };
                if !client.send(&event) || client.flush().is_err() {
                    log(format_args!("a client that broke the protocol could not be told so"));
                }
                self.disconnect(id);
            }
        }
    }

    fn flush(&mut self, id: u32) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let going = match client.flush() {
            Ok(true) if client.closing => false,
            Ok(empty) => self.epoll.watch_writable(&*client, ReadyToken::Client(id), !empty).is_ok(),
            Err(_) => false,
        };
        if !going {
            self.disconnect(id);
        }
    }

    fn disconnect(&mut self, id: u32) {
        if self.clients.remove(&id).is_some() {
            self.inputs.push(Input::Gone { client: u64::from(id) });
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = self.now();
        if self.stalled.as_ref().is_some_and(|s| s.retry <= now) {
            self.retry_journal();
        }
        if self.inputs.is_empty() && self.keeper.next_deadline().is_none_or(|due| due > now) {
            return Ok(());
        }
        let inputs = std::mem::take(&mut self.inputs);
        let mut turn = self.keeper.turn(now, wall_now(), inputs);
        self.execute_all(std::mem::take(&mut turn.now));
        if let Some(stalled) = &mut self.stalled {
            return stalled.add(turn);
        }
        match self.journal.write(&turn.write) {
            Ok(()) => self.execute_all(turn.deferred(Durable)),
            Err(e) => self.defer_turn(turn, &e),
        }
        Ok(())
    }

    fn defer_turn(&mut self, turn: TurnOutput, error: &io::Error) {
        log(format_args!("the journal cannot be written: {error}; starts wait until it can"));
        self.inputs.push(Input::Journal { fault: Some(error.to_string()) });
        let retry = self.now().after(JOURNAL_RETRY);
        let write = self.write_again(turn.write.clone());
        self.stalled = Some(DeferredTurns { write, turns: vec![turn], retry });
    }

    /// The journal as a whole, where the file that it was in can no longer be trusted.
    fn write_again(&mut self, write: Write) -> Write {
        match self.journal.must_be_replaced() {
            true => self.keeper.whole_journal(),
            false => write,
        }
    }

    fn retry_journal(&mut self) {
        let Some(mut stalled) = self.stalled.take() else { return };
        if self.journal.write(&stalled.write).is_err() {
            stalled.write = self.write_again(stalled.write);
            stalled.retry = self.now().after(JOURNAL_RETRY);
            self.stalled = Some(stalled);
            return;
        }
        log(format_args!("the journal can be written again"));
        self.inputs.push(Input::Journal { fault: None });
        for turn in stalled.turns {
            self.execute_all(turn.deferred(Durable));
        }
    }

    fn execute_all(&mut self, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        for effect in effects {
            self.execute(effect);
        }
        let waiting: Vec<u32> = self.clients.keys().copied().collect();
        waiting.into_iter().for_each(|id| self.flush(id));
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Spawn { run, spec } => self.tasks.spawn(run, &spec, &self.epoll, &mut self.inputs),
            Effect::ConfirmJournaled { run } => self.inputs.push(Input::Journaled { run }),
            Effect::Release { run } => self.tasks.release(run),
            Effect::Exec { client, run, spec, tty } => self.exec(client, run, &spec, tty),
            Effect::EndSession { client } => self.sessions.kill(client),
            Effect::Signal { run, signal } => self.tasks.signal(run, signal),
            Effect::Kill { run } => self.tasks.kill(run),
            Effect::Sweep { run } => {
                let empty = self.tasks.sweep(run);
                self.inputs.push(Input::Swept { run, empty });
            }
            Effect::Close { run } => self.tasks.close(run, &self.epoll, &mut self.view),
            Effect::Send { client, event } => self.send(client as u32, &event),
            Effect::Disconnect { client } => {
                if let Some(client) = self.clients.get_mut(&(client as u32)) {
                    client.closing = true;
                }
            }
            Effect::Exit => self.leaving = ShutdownKind::Exit,
        }
    }

    fn exec(&mut self, client: u64, run: RunId, spec: &RunSpec, tty: bool) {
        let none = || Err("the run has no process".to_string());
        let mark = self.tasks.mark(run, &spec.label);
        let started = self.tasks.session_context(run).map_or_else(none, |(group, open_files)| {
            self.sessions.start(client, group, spec, &mark, tty, &open_files).map_err(|f| f.message)
        });
        let handed = started.and_then(|fds| match self.clients.get_mut(&(client as u32)) {
            Some(to) => to.hand_over(&Event::SessionStarted, &fds).map_err(|e| e.to_string()),
            None => Err("nobody is there to have it".into()),
        });
        if let Err(message) = handed {
            self.sessions.kill(client);
            self.inputs.push(Input::SessionFailed { client, message });
        }
    }

    fn send(&mut self, id: u32, event: &Event) {
        if let Some(client) = self.clients.get_mut(&id)
            && !client.send(event)
        {
            log(format_args!("a client that does not read was cut off"));
            self.disconnect(id);
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        let until = Instant::now() + FLUSH_TIMEOUT;
        while Instant::now() < until {
            let unsent = self.clients.values_mut().filter_map(|c| c.flush().ok()).any(|empty| !empty);
            if !unsent {
                break;
            }
            self.epoll.wait(Some(Span::millis(10)))?;
        }
        if self.leaving == ShutdownKind::Exit {
            self.tasks.end_strays();
            fs::remove_file(super::socket_path(&self.options.data_dir))?;
            super::remove_ephemeral_dir(&self.options, self.agent.is_some());
        }
        Ok(())
    }
}

fn log_damage(restored: &Restored) {
    if restored.lost_bytes > 0 {
        log(format_args!("{} bytes of the journal were damaged and are left out", restored.lost_bytes));
    }
    for stray in &restored.strays {
        let pids: Vec<u32> = stray.processes.iter().map(|p| p.pid).collect();
        log(format_args!("{} lives (pid {pids:?}), but its journal entry is lost: it is ended", stray.label));
    }
}

/// Adopts the runs of this boot in the journal; a process that has ended is reported with an unknown exit status.
fn restore(tasks: &mut Tasks, epoll: &Epoll, restored: Restored) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (run, label) in restored.ended {
        tasks.clear(run, &label);
    }
    for adopted in restored.running {
        tasks.adopt(adopted, epoll, &mut inputs);
    }
    restored.strays.into_iter().for_each(|stray| tasks.add_stray(stray));
    inputs
}

/// One write with the bytes of both, in order.
fn merge_writes(first: Write, second: Write) -> Write {
    match (first, second) {
        (first, Write::Nothing) => first,
        (_, Write::Replace(all)) => Write::Replace(all),
        (Write::Nothing, second) => second,
        (Write::Replace(mut all), Write::Append { bytes, .. }) => {
            all.extend(bytes);
            Write::Replace(all)
        }
        (Write::Append { mut bytes, sync }, Write::Append { bytes: more, sync: also }) => {
            bytes.extend(more);
            Write::Append { bytes, sync: sync || also }
        }
    }
}

pub fn wall_now() -> Wall {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalled_writes_are_joined_in_order() {
        let append = |b: &[u8], sync| Write::Append { bytes: b.to_vec(), sync };
        for (first, second, want) in [
            (Write::Nothing, append(b"a", false), append(b"a", false)),
            (append(b"a", true), Write::Nothing, append(b"a", true)),
            (append(b"a", false), append(b"b", true), append(b"ab", true)),
            (append(b"a", true), Write::Replace(b"x".to_vec()), Write::Replace(b"x".to_vec())),
            (Write::Replace(b"x".to_vec()), append(b"b", false), Write::Replace(b"xb".to_vec())),
        ] {
            assert_eq!(merge_writes(first, second), want);
        }
    }
}
