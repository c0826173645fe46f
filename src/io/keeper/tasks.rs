//! The processes, pipes and cgroups of the runs at hand.
//!
//! Refuses to know: the journal, clients, and why anything is started or killed.

use super::cgroup::{Cgroups, Group};
use super::epoll::{Epoll, ReadyToken};
use super::output::{Output, PipeView, TaskOutputFds};
use super::sessions::ExecSessions;
use super::spawn::{self, ExecStatus, SpawnError, Stdio, WaitingChild};
use super::{log, mark, process};
use keeper::effects::Input;
use keeper::mark::value as mark_value;
use keeper::restore::{Adopted, Stray};
use model::id::RunId;
use model::task::{Exit, ExitStatus};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use wire::keeper::RunSpec;

pub struct Tasks {
    cgroups: Cgroups,
    /// The limit of open files that tasks get.
    open_files: libc::rlimit,
    /// The name of the keeper's directory, which the marks of tasks carry.
    home: String,
    strays: BTreeMap<RunId, Stray>,
    live: BTreeMap<u32, Task>,
    slots: BTreeMap<RunId, u32>,
    by_pid: BTreeMap<u32, u32>,
    next_slot: u32,
}

struct Task {
    run: RunId,
    pid: u32,
    /// Start time: with the pid, it names one process for good.
    start_ticks: u64,
    /// The process was reaped, or is known to have ended: the pid may be reused.
    ended: bool,
    /// The child, until it has executed its command.
    waiting: Option<WaitingChild>,
    /// Watches a process that is not this keeper's child.
    pidfd: Option<OwnedFd>,
    output: Option<Output>,
    group: Group,
}

impl Tasks {
    pub fn new(cgroups: Cgroups, open_files: libc::rlimit, home: String) -> Self {
        Tasks {
            cgroups,
            open_files,
            home,
            strays: BTreeMap::new(),
            live: BTreeMap::new(),
            slots: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            next_slot: 0,
        }
    }

    pub fn spawn(&mut self, run: RunId, spec: &RunSpec, epoll: &Epoll, inputs: &mut Vec<Input>) {
        let input = match self.try_spawn(run, spec, epoll) {
            Ok((pid, start_ticks)) => Input::Spawned { run, pid, start_ticks },
            Err(SpawnError { message, retryable }) => {
                self.group(run, &spec.label).remove();
                Input::SpawnFailed { run, message, retryable }
            }
        };
        inputs.push(input);
    }

    /// The mark that a run's processes carry.
    pub fn mark(&self, run: RunId, label: &str) -> String {
        mark_value(&self.home, run, label)
    }

    fn try_spawn(&mut self, run: RunId, spec: &RunSpec, epoll: &Epoll) -> Result<(u32, u64), SpawnError> {
        let prepared = spawn::prepare(spec, &self.mark(run, &spec.label))?;
        let owner = prepared.user.as_ref().map(|u| (u.uid, u.gid));
        let (output, ends) = open_output(spec, owner)?.map_or((None, None), |(o, e)| (Some(o), Some(e)));
        let group = self.group(run, &spec.label);
        let join = spawn::join_files(&group, spec)?;
        let waiting = spawn::fork(&prepared, Stdio::output(ends), join, &self.open_files)?;
        let pid = waiting.pid;
        let Some(stat) = process::stat(pid) else {
            return Err(SpawnError { message: "the new process is gone again".into(), retryable: true });
        };
        let start_ticks = stat.start_ticks;
        let waiting = Some(waiting);
        let task = Task { run, pid, start_ticks, ended: false, waiting, pidfd: None, output, group };
        self.insert(task, epoll).map_err(|message| SpawnError { message, retryable: true })?;
        Ok((pid, start_ticks))
    }

    /// Takes up a run of an earlier keeper, or of this process before it replaced its binary.
    pub fn adopt(&mut self, adopted: Adopted, epoll: &Epoll, inputs: &mut Vec<Input>) {
        let Adopted { run, label, process: known, logs } = adopted;
        let pid = known.pid;
        let output = logs.and_then(|logs| match Output::reopen(&logs) {
            Ok(output) => Some(output),
            Err(e) => {
                log(format_args!("the output of {label} is lost: {}: {e}", logs.dir));
                None
            }
        });
        // The descriptor first, then the comparison: what it stands for cannot change in between.
        let pidfd = process::watch(pid);
        let same = process::stat(pid).filter(|s| s.start_ticks == known.start_ticks);
        let ours = same.is_some_and(|s| s.parent == std::process::id());
        let group = self.group(run, &label);
        let gone = same.is_none() || (pidfd.is_none() && !ours);
        if gone && same.is_some() {
            log(format_args!(
                "{label} lives, but this kernel cannot watch it (pidfd: Linux 5.3): it is ended"
            ));
        }
        let pidfd = pidfd.filter(|_| !ours && !gone);
        let start_ticks = known.start_ticks;
        let task = Task { run, pid, start_ticks, ended: gone, waiting: None, pidfd, output, group };
        if let Err(e) = self.insert(task, epoll) {
            log(format_args!("{label} cannot be watched: {e}"));
        }
        if gone {
            self.by_pid.remove(&pid);
            let exit = Exit { status: ExitStatus::Unknown, oom_killed: false };
            inputs.push(Input::Exited { run, exit });
        }
    }

    /// Ends whatever an ended run of this boot still has.
    pub fn clear(&mut self, run: RunId, label: &str) {
        let group = self.group(run, label);
        if group.exists() {
            group.kill();
            group.remove();
        }
    }

    /// A stray to be swept.
    pub fn add_stray(&mut self, stray: Stray) {
        self.strays.insert(stray.run, stray);
    }

    fn group(&self, run: RunId, label: &str) -> Group {
        super::group_of(&self.cgroups, run, label)
    }

    fn insert(&mut self, task: Task, epoll: &Epoll) -> Result<(), String> {
        let slot = self.next_slot;
        self.next_slot = self.next_slot.wrapping_add(1);
        let watched = task.watch(epoll, slot);
        self.slots.insert(task.run, slot);
        self.by_pid.insert(task.pid, slot);
        self.live.insert(slot, task);
        watched.map_err(|e| format!("epoll: {e}"))
    }

    fn task(&mut self, run: RunId) -> Option<&mut Task> {
        self.live.get_mut(self.slots.get(&run)?)
    }

    pub fn release(&mut self, run: RunId) {
        if let Some(waiting) = self.task(run).and_then(|t| t.waiting.as_mut()) {
            waiting.release();
        }
    }

    /// The child executed its command, or said why not.
    pub fn executed(&mut self, slot: u32, epoll: &Epoll, inputs: &mut Vec<Input>) {
        let Some(task) = self.live.get_mut(&slot) else { return };
        let Some(waiting) = &mut task.waiting else { return };
        let run = task.run;
        match waiting.executed() {
            ExecStatus::NotYet => return,
            ExecStatus::Yes => inputs.push(Input::Executed { run }),
            ExecStatus::No(SpawnError { message, retryable }) => {
                task.ended = true;
                // the child is about to exit; once it has left, its cgroup can go too
                if self.by_pid.remove(&task.pid).is_some() {
                    process::kill_and_wait(task.pid);
                }
                inputs.push(Input::SpawnFailed { run, message, retryable });
            }
        }
        if let Some(waiting) = task.waiting.take() {
            epoll.unwatch(&waiting.exec);
        }
    }

    /// A process that is not our child ended.
    pub fn process_ended(&mut self, slot: u32, inputs: &mut Vec<Input>) {
        if let Some(task) = self.live.get_mut(&slot)
            && task.pidfd.take().is_some()
        {
            self.by_pid.remove(&task.pid);
            task.end(ExitStatus::Unknown, inputs);
        }
    }

    /// Waits for every child that ended: the tasks, sessions, and what was left to us by them.
    pub fn reap(&mut self, epoll: &Epoll, sessions: &mut ExecSessions, inputs: &mut Vec<Input>) {
        while let Some((pid, status)) = process::reap() {
            let Some(slot) = self.by_pid.remove(&pid) else {
                inputs.extend(sessions.reaped(pid, status));
                continue;
            };
            self.executed(slot, epoll, inputs);
            if let Some(task) = self.live.get_mut(&slot) {
                task.end(status, inputs);
            }
        }
    }

    /// The control group of a run at hand, and the limit of open files that what runs in it gets.
    pub fn session_context(&mut self, run: RunId) -> Option<(&Group, libc::rlimit)> {
        let open_files = self.open_files;
        self.task(run).map(|task| (&task.group, open_files))
    }

    pub fn signal(&mut self, run: RunId, signal: i32) {
        if let Some(task) = self.task(run) {
            task.signal(signal);
        }
    }

    pub fn kill(&mut self, run: RunId) {
        if let Some(task) = self.task(run) {
            task.kill_others();
            task.signal(libc::SIGKILL);
        }
    }

    /// Kills what the main process left behind, or all of a stray. Whether nothing is left.
    pub fn sweep(&mut self, run: RunId) -> bool {
        if let Some(stray) = self.strays.get(&run) {
            let killed = self.group(run, &stray.label).kill();
            return mark::end(&self.home, run, &stray.processes) && !killed;
        }
        self.task(run).is_none_or(|task| !task.kill_others())
    }

    pub fn close(&mut self, run: RunId, epoll: &Epoll, view: &mut PipeView) {
        if let Some(stray) = self.strays.remove(&run) {
            return self.group(run, &stray.label).remove();
        }
        let Some(mut task) = self.slots.remove(&run).and_then(|slot| self.live.remove(&slot)) else { return };
        if let Some(waiting) = task.waiting.take() {
            epoll.unwatch(&waiting.exec);
        }
        if let Some(output) = task.output.take() {
            epoll.unwatch(&output.stdout);
            epoll.unwatch(&output.stderr);
            output.close(view);
        }
        task.group.remove();
    }

    /// Kills children that belong to no known run. With cgroups there are none.
    pub fn end_strays(&self) {
        for stray in process::children_of(std::process::id()) {
            process::signal(stray.pid, libc::SIGKILL);
        }
    }

    pub fn pump_stdout(&mut self, slot: u32, view: &mut PipeView) {
        if let Some(output) = self.live.get_mut(&slot).and_then(|t| t.output.as_mut()) {
            output.pump_stdout(view);
        }
    }

    pub fn pump_stderr(&mut self, slot: u32, view: &mut PipeView) {
        if let Some(output) = self.live.get_mut(&slot).and_then(|t| t.output.as_mut()) {
            output.pump_stderr(view);
        }
    }
}

fn open_output(
    spec: &RunSpec,
    owner: Option<(u32, u32)>,
) -> Result<Option<(Output, TaskOutputFds)>, SpawnError> {
    let Some(logs) = &spec.logs else { return Ok(None) };
    let opened = Output::create(logs, owner);
    opened
        .map(Some)
        .map_err(|e| SpawnError { message: format!("the log directory {}: {e}", logs.dir), retryable: true })
}

impl Task {
    fn watch(&self, epoll: &Epoll, slot: u32) -> rustix::io::Result<()> {
        if let Some(output) = &self.output {
            epoll.watch(&output.stdout, ReadyToken::Stdout(slot))?;
            epoll.watch(&output.stderr, ReadyToken::Stderr(slot))?;
        }
        if let Some(waiting) = &self.waiting {
            epoll.watch(&waiting.exec, ReadyToken::Exec(slot))?;
        }
        match &self.pidfd {
            Some(pidfd) => epoll.watch(pidfd, ReadyToken::Process(slot)),
            None => Ok(()),
        }
    }

    fn end(&mut self, status: ExitStatus, inputs: &mut Vec<Input>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let oom_killed = status != ExitStatus::Code(0) && self.group.oom_kills() > 0;
        inputs.push(Input::Exited { run: self.run, exit: Exit { status, oom_killed } });
    }

    fn signal(&self, signal: i32) {
        match &self.pidfd {
            _ if self.ended => {}
            Some(pidfd) => process::pidfd_signal(pidfd, signal),
            None => process::signal(self.pid, signal),
        }
    }

    /// SIGKILL to everything of the run but its main process. Whether there was anything.
    fn kill_others(&self) -> bool {
        if self.group.exists() {
            return self.group.kill();
        }
        self.kill_strays() | self.kill_descendants()
    }

    /// Orphans that were reparented to the keeper and still write to the pipes of this run.
    fn kill_strays(&self) -> bool {
        let Some(output) = &self.output else { return false };
        let strays = process::children_of(std::process::id()).into_iter();
        let strays = strays.filter(|p| p.pid != self.pid && !p.zombie && output.is_open_in(p.pid));
        strays.map(|p| process::signal(p.pid, libc::SIGKILL)).count() > 0
    }

    fn kill_descendants(&self) -> bool {
        // A number is not given out again while a group or session bears it: if another bears it now, ours is empty.
        if process::stat(self.pid).is_some_and(|s| s.start_ticks != self.start_ticks) {
            return false;
        }
        let others = process::descendants(self.pid).into_iter().filter(|p| p.pid != self.pid && !p.zombie);
        others.map(|p| process::signal(p.pid, libc::SIGKILL)).count() > 0
    }
}
