//! A node's processes: they start, write, end by themselves or by a signal, and die with their machine alone. A process
//! outlives the keeper that started it, and then nobody sees how it ends.

use super::faults::Kind;
use super::node_host::End;
use super::output::Output;
use super::place::{Daemon, NodeAt};
use super::task_places::told_places;
use super::world::{Event, World};
use ::keeper::effects as keeper;
use model::id::{AllocId, RunId};
use model::task::{Exit, ExitStatus};
use model::time::Span;
use wire::keeper::RunSpec;

pub const FIRST_PID: u32 = 100;
/// So many numbers there are: more than tasks find room on a node.
const PIDS: u32 = 60;
/// A tick of the clock whose start times tell processes with the same PID apart.
const TICK_NANOS: u64 = 10_000_000;

/// A process that exists.
#[derive(Debug)]
pub struct Process {
    pub run: RunId,
    pub label: String,
    /// The process has become its command.
    pub running: bool,
    /// The life of the keeper whose child it is: only that one sees its exit status.
    parent: u64,
    pub start_ticks: u64,
    stubborn: bool,
    spec: Box<RunSpec>,
    pub output: Output,
}

impl Process {
    /// The keeper's label is `<allocation>.<task>`.
    pub fn alloc(&self) -> Option<AllocId> {
        self.label.split('.').next()?.parse().ok()
    }

    pub fn is_of(&self, task: &str) -> bool {
        self.label.split_once('.').is_some_and(|(_, name)| name == task)
    }
}

/// Why a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// The program is over.
    Exit(i32),
    Signal(i32),
}

impl ProcessEnd {
    pub fn status(self) -> ExitStatus {
        match self {
            ProcessEnd::Exit(code) => ExitStatus::Code(code),
            ProcessEnd::Signal(signal) => ExitStatus::Signal(signal),
        }
    }
}

impl World {
    pub(super) fn spawn(&mut self, n: NodeAt, run: RunId, spec: Box<RunSpec>) {
        let life = self.regions[n].keeper_life;
        if self.faults.one_in(60) {
            let retryable = self.faults.draw(3) > 0;
            self.faults.fired(if retryable { Kind::StartFailed } else { Kind::StartFailedForGood });
            let message = if retryable { "resource temporarily unavailable" } else { "exec format error" };
            let input = Box::new(keeper::Input::SpawnFailed { run, message: message.into(), retryable });
            return self.after(Span(200_000), Event::ToKeeper { node: n, life, input });
        }
        let (pid, start_ticks) = (self.free_pid(n), self.now.0 / TICK_NANOS);
        let label = spec.label.clone();
        let stubborn = spec.args.iter().any(|a| a == "stubborn");
        let (files, bytes) = spec.logs.as_ref().map_or((1, 1 << 20), |l| (l.max_files, l.max_file_bytes));
        let mut output = Output::new(files, bytes);
        output.open();
        let process =
            Process { run, label, running: false, parent: life, start_ticks, stubborn, spec, output };
        if let Some(alloc) = process.alloc() {
            let places = told_places(&process.spec.args);
            self.regions[n].places.insert(alloc, places);
        }
        self.regions[n].ends.remove(&process.run);
        self.regions[n].processes.insert(pid, process);
        let delay = self.delay(Span(200_000), Span::millis(3));
        let spawned = keeper::Input::Spawned { run, pid, start_ticks };
        self.after(delay, Event::ToKeeper { node: n, life, input: Box::new(spawned) });
    }

    /// Numbers come round quickly, so that they are used again.
    fn free_pid(&mut self, n: NodeAt) -> u32 {
        let host = &mut self.regions[n];
        assert!(host.processes.len() <= PIDS as usize, "{n} runs more than there are numbers");
        loop {
            host.next_pid = if host.next_pid < FIRST_PID + PIDS { host.next_pid + 1 } else { FIRST_PID };
            if host.next_pid == FIRST_PID {
                self.faults.fired(Kind::PidsCameRound);
            }
            if !host.processes.contains_key(&host.next_pid) {
                return host.next_pid;
            }
        }
    }

    pub(super) fn process_of(&self, n: NodeAt, run: RunId) -> Option<u32> {
        self.regions[n].processes.iter().find(|(_, p)| p.run == run).map(|(pid, _)| *pid)
    }

    pub(super) fn release(&mut self, n: NodeAt, run: RunId) -> Result<(), String> {
        let Some(pid) = self.process_of(n, run) else { return Ok(()) };
        self.check_start(n, run)?;
        let host = &mut self.regions[n];
        let life = host.keeper_life;
        let Some(process) = host.processes.get_mut(&pid) else { return Ok(()) };
        process.running = true;
        // a journal that lost a run's entries after the run's end cannot know that there was one
        if !host.executed.insert(run) && !host.doubtful.contains(&run) {
            return Err(format!("{} of {n} executes a second time", process.label));
        }
        let number = |at: usize| process.spec.args.get(at).and_then(|a| a.parse::<i64>().ok()).unwrap_or(0);
        let (milliseconds, code) = (number(1), number(2) as i32);
        let label = process.label.clone();
        self.note(|_| format!("{n}  process {pid} runs {label}"));
        if milliseconds > 0 {
            if code != 0 {
                self.faults.fired(if milliseconds < 100 {
                    Kind::TaskCrashesAtOnce
                } else {
                    Kind::TaskCrashed
                });
            }
            self.after(
                Span::millis(milliseconds),
                Event::Process { node: n, run, end: ProcessEnd::Exit(code) },
            );
        }
        self.after(Span::seconds(1), Event::Output { node: n, run });
        let executed = Box::new(keeper::Input::Executed { run });
        self.after(Span(100_000), Event::ToKeeper { node: n, life, input: executed });
        Ok(())
    }

    pub(super) fn signal(&mut self, n: NodeAt, run: RunId, signal: i32) {
        let Some(pid) = self.process_of(n, run) else { return };
        if self.regions[n].processes.get(&pid).is_some_and(|p| p.stubborn) {
            return self.faults.fired(Kind::TaskIgnoredItsSignal);
        }
        let delay = self.delay(Span(10_000), Span::millis(500));
        self.after(delay, Event::Process { node: n, run, end: ProcessEnd::Signal(signal) });
    }

    pub(super) fn kill(&mut self, n: NodeAt, run: RunId) {
        self.after(Span(20_000), Event::Process { node: n, run, end: ProcessEnd::Signal(9) });
    }

    pub fn process_ends(&mut self, n: NodeAt, run: RunId, end: ProcessEnd) {
        let Some(pid) = self.process_of(n, run) else { return };
        let Some(process) = self.regions[n].processes.remove(&pid) else { return };
        let status = end.status();
        let life = self.regions[n].keeper_life;
        let up = self.regions[n].keeper.is_some();
        let seen = up && process.parent == life;
        self.note(|_| format!("{n}  process {pid} ends {status:?}, seen {seen}"));
        let exit = Exit { status, oom_killed: false };
        if up {
            let told = if seen { exit } else { Exit { status: ExitStatus::Unknown, oom_killed: false } };
            self.keeper_input(n, life, keeper::Input::Exited { run, exit: told });
            // what the FIFO still holds can be read until the keeper closes it
            self.regions[n].closing.insert(run, process.output);
        }
        let host = &mut self.regions[n];
        let (keeper_deaths, boot) = (host.keeper_deaths, host.boot);
        let end = End { label: process.label, exit, seen, keeper_deaths, told: None, at: self.now, boot };
        host.ends.insert(run, end);
    }

    /// A task writes some lines, and the keeper, if it is there, takes them in.
    pub fn writes_lines(&mut self, n: NodeAt, run: RunId) -> Result<(), String> {
        let Some(pid) = self.process_of(n, run) else { return Ok(()) };
        let (lines, next) = (self.draws.below(16), self.delay(Span::seconds(1), Span::seconds(40)));
        let Some(process) = self.regions[n].processes.get_mut(&pid) else { return Ok(()) };
        process.output.write(lines);
        let pumped = process.output.pump().map_err(|e| format!("{}: {e}", process.label));
        self.after(next, Event::Output { node: n, run });
        pumped
    }

    pub(super) fn close_output(&mut self, n: NodeAt, run: RunId) -> Result<(), String> {
        match self.regions[n].closing.remove(&run) {
            Some(mut output) => output.pump().map_err(|e| format!("run {run:?}: {e}")),
            None => Ok(()),
        }
    }

    /// The machine loses its power: every process, every unsynced byte.
    pub(super) fn node_loses_power(&mut self, n: NodeAt) {
        self.note(|_| format!("{n}  power cut"));
        self.faults.fired(Kind::NodePowerCut);
        self.stop_agent(n);
        self.sessions_end_with_their_keeper(n);
        let unset = self.faults.one_in(3);
        let host = &mut self.regions[n];
        host.keeper = None;
        host.keeper_deaths += 1;
        host.stalled = None;
        host.keeper_inbox.clear();
        host.closing.clear();
        host.connection = None;
        host.boot += 1;
        host.disk.cut_power();
        host.disk.power_on();
        host.journal.cut_power();
        for (_, process) in std::mem::take(&mut host.processes) {
            let exit = Exit { status: ExitStatus::Unknown, oom_killed: false };
            let (keeper_deaths, boot, at) = (host.keeper_deaths, host.boot, self.now);
            let end = End { label: process.label, exit, seen: false, keeper_deaths, told: None, at, boot };
            host.ends.insert(process.run, end);
        }
        let back_after = self.delay(Span::seconds(1), Span::seconds(20));
        if unset {
            self.regions[n].clock.lose();
            self.faults.fired(Kind::BootIn1970);
            let set_after = back_after + self.delay(Span::ZERO, Span::minutes(2));
            self.after(set_after, Event::ClockSet { node: n });
        }
        self.after(back_after, Event::Start(Daemon::Keeper(n)));
        self.after(back_after, Event::Start(Daemon::Agent(n)));
    }
}
