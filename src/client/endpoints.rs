//! Requests about this node and its allocations: answered here, or granted to the agent, which reads the files.
//! An answer leaves with its turn's effects, so everything that it promises is stored.

use super::alloc_runner::AllocRunner;
use super::brain::Client;
use super::driver::{self, StartError};
use super::effects::{Effect, PendingEffects, RequestOutcome};
use super::environment::{self, Environment};
use super::interpolate::lenient;
use super::lifecycle::{LifecycleStage, Role};
use super::signals;
use super::task_runner::TurnContext;
use model::id::AllocId;
use model::job::{Task, no_action};
use model::time::{Now, Wall};
use state::client_store::{WantedRestart, WriteBatch};
use wire::client_rpc::{ClientReply, ClientRequest, RestartScope};
use wire::request::{Refusal, RefusalKind};

impl Client {
    /// `token` names the request in its answer.
    pub(super) fn answer_request(
        &mut self,
        now: Now,
        token: u64,
        ask: &ClientRequest,
        effects: &mut PendingEffects,
        writes: &mut WriteBatch,
    ) {
        let result = self.grant(now, ask, effects, writes);
        effects.push(Effect::Answer { token, result });
    }

    fn grant(
        &mut self,
        now: Now,
        ask: &ClientRequest,
        effects: &mut PendingEffects,
        writes: &mut WriteBatch,
    ) -> Result<RequestOutcome, Refusal> {
        match ask {
            ClientRequest::Logs { alloc, task, .. } => {
                let alloc = self.find_alloc(*alloc)?;
                alloc.task_index(task)?;
                Ok(RequestOutcome::Files { ended: alloc.has_ended() })
            }
            ClientRequest::List { alloc, .. }
            | ClientRequest::Stat { alloc, .. }
            | ClientRequest::File { alloc, .. } => {
                Ok(RequestOutcome::Files { ended: self.find_alloc(*alloc)?.has_ended() })
            }
            ClientRequest::AllocResourceUsage { alloc, task } => {
                let alloc = self.find_alloc(*alloc)?;
                if let Some(task) = task {
                    alloc.task_index(task)?;
                }
                Ok(RequestOutcome::Runs {
                    runs: alloc.running_tasks(task.as_deref()),
                    core_mhz: self.core_mhz(),
                })
            }
            ClientRequest::HostStats => Ok(RequestOutcome::Runs { runs: vec![], core_mhz: self.core_mhz() }),
            ClientRequest::GarbageCollect { alloc: Some(alloc) } => {
                self.run_action(now, *alloc, effects, AllocRunner::garbage_collect_ended)
            }
            ClientRequest::GarbageCollect { alloc: None } => {
                self.garbage_collect(now, 0, effects);
                Ok(RequestOutcome::Answer(ClientReply::Done))
            }
            ClientRequest::Exec { alloc, task, command, .. } => {
                self.session(*alloc, task, &SessionCommand::Command(command))
            }
            ClientRequest::Action { alloc, task, action, .. } => {
                self.session(*alloc, task, &SessionCommand::Action(action))
            }
            ClientRequest::Metadata => Ok(RequestOutcome::Answer(self.metadata())),
            ClientRequest::SetMetadata { changes } => {
                self.may_store()?;
                self.set_metadata(now, changes, writes).map(RequestOutcome::Answer)
            }
            ClientRequest::Restart { alloc, scope } => {
                self.may_store()?;
                self.run_action(now, *alloc, effects, |alloc, ctx| alloc.restart(ctx, scope))
            }
            ClientRequest::Signal { alloc, task, signal } => {
                let number = signals::number(signal).filter(|_| !signal.is_empty()).ok_or_else(|| {
                    let known = "a name like SIGHUP or SIGUSR1 is expected";
                    Refusal::new(RefusalKind::Invalid, format!("{signal:?} is not a signal: {known}"))
                })?;
                if !self.has_keeper() {
                    let why = "the node's keeper is away, nothing can be signalled: try again in a second";
                    return Err(Refusal::new(RefusalKind::Unavailable, why));
                }
                let act = |alloc: &mut AllocRunner, ctx: &mut TurnContext<'_>| {
                    alloc.signal(ctx, task.as_deref(), signal, number)
                };
                self.run_action(now, *alloc, effects, act)
            }
        }
    }

    /// A session runs as the task does, with another command.
    fn session(
        &self,
        alloc: AllocId,
        task: &str,
        what: &SessionCommand<'_>,
    ) -> Result<RequestOutcome, Refusal> {
        if !self.config.remote_exec {
            let why =
                "this node runs no commands beside tasks: its configuration says client.disable_remote_exec";
            return Err(Refusal::new(RefusalKind::Forbidden, why));
        }
        let alloc = self.find_alloc(alloc)?;
        alloc.task_index(task)?;
        let not_running = || Refusal::new(RefusalKind::NotFound, format!("task {task:?} is not running."));
        let living = alloc.running_tasks(Some(task)).pop().ok_or_else(not_running)?;
        let assignment = &alloc.record.assignment;
        let (Some(info), Some(own)) = (&self.info, assignment.group.task(task)) else {
            return Err(not_running());
        };
        let environment = || environment::build(&self.config, info, assignment, own);
        let mut words = match what {
            SessionCommand::Command(words) => words.to_vec(),
            SessionCommand::Action(name) => action_description(own, name, &environment())?,
        }
        .into_iter();
        let Some(program) = words.next().filter(|program| !program.is_empty()) else {
            return Err(Refusal::new(RefusalKind::Invalid, "command is not present"));
        };
        let error = |error: StartError| conflict(error.sentence());
        let mut spec = driver::run_spec(&self.config, info, assignment, own).map_err(error)?;
        (spec.command, spec.args, spec.logs) = (program, words.collect(), None);
        driver::can_be_handed_on(&spec).map_err(error)?;
        Ok(RequestOutcome::Session { run: living.run, spec: Box::new(spec) })
    }

    /// Refuses what could not be stored: an acknowledged change is durable.
    fn may_store(&self) -> Result<(), Refusal> {
        let why = "the node's disk is full, so this could not be kept: free some of it and ask again";
        if self.disk_has_space { Ok(()) } else { Err(Refusal::new(RefusalKind::Unavailable, why)) }
    }

    /// The speed of one of the node's cores.
    fn core_mhz(&self) -> f64 {
        self.info.as_ref().map_or(0.0, |i| i.capacity.cpu_mhz as f64 / f64::from(i.cpu_cores.max(1)))
    }

    fn run_action(
        &mut self,
        now: Now,
        id: AllocId,
        effects: &mut PendingEffects,
        act: impl FnOnce(&mut AllocRunner, &mut TurnContext<'_>) -> Result<(), Refusal>,
    ) -> Result<RequestOutcome, Refusal> {
        self.with_alloc(now, id, effects, act).ok_or_else(|| unknown(id))??;
        Ok(RequestOutcome::Answer(ClientReply::Done))
    }

    fn find_alloc(&self, id: AllocId) -> Result<&AllocRunner, Refusal> {
        self.allocs.get(&id).ok_or_else(|| unknown(id))
    }
}

impl AllocRunner {
    pub fn restart(&mut self, ctx: &TurnContext<'_>, scope: &RestartScope) -> Result<(), Refusal> {
        let at = ctx.now.stamp();
        if self.is_ending() {
            return Err(conflict("the allocation has ended or is being stopped: it cannot be restarted"));
        }
        match scope {
            RestartScope::Task(name) => {
                let task = self.task_index(name)?;
                if !self.tasks[task].restart(at, WantedRestart::Alone, "User requested task to restart") {
                    return Err(conflict("Task not running"));
                }
            }
            RestartScope::Running => {
                for task in self.tasks.iter_mut().filter(|t| t.role != Role::Poststop) {
                    task.restart(at, WantedRestart::Alone, "User requested running tasks to restart");
                }
            }
            RestartScope::All => self.restart_all(at),
        }
        Ok(())
    }

    /// Running tasks are killed, then all tasks start again in the order of their lifecycle.
    fn restart_all(&mut self, at: Wall) {
        const WHY: &str = "User requested all tasks to restart";
        for task in self.tasks.iter_mut().filter(|t| t.role != Role::Poststop) {
            if task.is_dead() {
                task.revive(at, WHY);
            } else {
                task.restart(at, WantedRestart::WithAll, WHY);
            }
        }
        self.stage = LifecycleStage::Prestart;
    }

    /// `task`: `None` is every task that runs.
    pub fn signal(
        &mut self,
        ctx: &mut TurnContext<'_>,
        task: Option<&str>,
        name: &str,
        signal: i32,
    ) -> Result<(), Refusal> {
        let meant = match task {
            Some(task) => Some(self.task_index(task)?),
            None => None,
        };
        let tasks = self.tasks.iter_mut().enumerate().filter(|(at, _)| meant.is_none_or(|m| m == *at));
        if tasks.filter_map(|(_, t)| t.signal(ctx, name, signal).then_some(())).count() == 0 {
            return Err(conflict("Task not running"));
        }
        Ok(())
    }

    /// The index of the task with that name.
    pub fn task_index(&self, name: &str) -> Result<usize, Refusal> {
        self.tasks
            .iter()
            .position(|t| t.name == name)
            .ok_or_else(|| Refusal::new(RefusalKind::Invalid, format!("unknown task name {name:?}")))
    }
}

/// What an exec session runs beside a task.
enum SessionCommand<'a> {
    Command(&'a [String]),
    /// One of the task's actions, by its name.
    Action(&'a str),
}

/// An unknown variable stays as it is written: it may be the shell's.
fn action_description(task: &Task, name: &str, known: &Environment) -> Result<Vec<String>, Refusal> {
    let unknown = || Refusal::new(RefusalKind::NotFound, no_action(name, &[task]));
    let action = task.action(name).ok_or_else(unknown)?;
    let words = std::iter::once(&action.command).chain(&action.args);
    Ok(words.map(|word| lenient(word, known.names())).collect())
}

fn conflict(message: &str) -> Refusal {
    Refusal::new(RefusalKind::Conflict, message)
}

fn unknown(id: AllocId) -> Refusal {
    Refusal::new(RefusalKind::NotFound, format!("state for allocation {id} not found on client"))
}
