//! Whether an allocation of a service, or of a system job's deployment, is healthy: its tasks have run for a while without a new start, before its time was
//! over (client.md 11). Found once for each deployment that it becomes part of. Refuses to know who asks.

use super::alloc::Alloc;
use super::events;
use super::lifecycle::Role;
use super::runner::{Dirty, Turn};
use model::alloc::DesiredStatus;
use model::deployment::Verdict;
use model::id::DeploymentId;
use model::job::{HealthCheck, JobType};
use model::task::{TaskPhase, TaskState};
use model::time::{Mono, Span};
use state::local::{Fate, Found};
use wire::rpc::Assignment;

/// What is measured, beginning anew with each life of the agent: how long tasks ran while nobody looked, no clock tells.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Of which deployment the rest is.
    deployment: Option<DeploymentId>,
    /// Since when it is watched.
    began: Mono,
    /// Since when all tasks run, and how often they had been restarted then.
    up: Option<(Mono, u64)>,
}

/// How long it has to be well, and until when it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub min_healthy_time: Span,
    pub healthy_deadline: Span,
}

impl Rules {
    /// As a part of a deployment it follows `update`, otherwise `migrate`. None: nobody looks.
    pub fn of(assignment: &Assignment) -> Option<Rules> {
        let (check, min_healthy_time, healthy_deadline) = match (assignment.job_type, assignment.deployment) {
            (JobType::Service | JobType::System, Some(_)) => {
                let u = assignment.group.update.as_ref()?;
                (u.health_check, u.min_healthy_time, u.healthy_deadline)
            }
            (JobType::Service, None) => {
                let m = assignment.group.migrate.as_ref()?;
                (m.health_check, m.min_healthy_time, m.healthy_deadline)
            }
            _ => return None,
        };
        (check != HealthCheck::Manual).then_some(Rules { min_healthy_time, healthy_deadline })
    }
}

/// What is found; with the sentence for the tasks that are to blame, if it is not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    Healthy,
    Unhealthy {
        why: String,
        tasks: Vec<usize>,
    },
    /// Nothing before then.
    Open {
        until: Mono,
    },
}

impl Watch {
    pub fn new(now: Mono) -> Watch {
        Watch { deployment: None, began: now, up: None }
    }

    /// Looks at the tasks, in their order. What ran before it became part of a deployment has run.
    pub fn look(
        &mut self,
        deployment: Option<DeploymentId>,
        rules: Rules,
        tasks: &[(Role, &TaskState)],
        now: Mono,
    ) -> Finding {
        if self.deployment != deployment {
            (self.deployment, self.began) = (deployment, now);
        }
        self.measure(tasks, now);
        if let Some(found) = broken(tasks) {
            return found;
        }
        let healthy_at = self.up.map(|(since, _)| since.after(rules.min_healthy_time));
        let deadline = self.began.after(rules.healthy_deadline);
        match healthy_at {
            Some(at) if at <= now => Finding::Healthy,
            _ if deadline <= now => self.late(rules, tasks),
            at => Finding::Open { until: at.unwrap_or(deadline).min(deadline) },
        }
    }

    /// Keeps the time since which all tasks run, without a new start.
    pub fn measure(&mut self, tasks: &[(Role, &TaskState)], now: Mono) {
        let starts = tasks.iter().map(|(_, t)| t.restarts).sum();
        let all_up = tasks.iter().all(|(role, task)| is_up(*role, task));
        self.up = match self.up {
            _ if !all_up => None,
            Some((since, known)) if known == starts => Some((since, known)),
            _ => Some((now, starts)),
        };
    }

    fn late(&self, rules: Rules, tasks: &[(Role, &TaskState)]) -> Finding {
        let (deadline, least) = (rules.healthy_deadline, rules.min_healthy_time);
        let slow = tasks.iter().enumerate().filter(|(_, (role, task))| !is_up(*role, task));
        let slow: Vec<usize> = slow.map(|(i, _)| i).collect();
        if slow.is_empty() {
            let why =
                format!("Task not running for min_healthy_time of {least} by healthy_deadline of {deadline}");
            return Finding::Unhealthy { why, tasks: (0..tasks.len()).collect() };
        }
        Finding::Unhealthy { why: format!("Task not running by healthy_deadline of {deadline}"), tasks: slow }
    }
}

/// It runs, or has nothing to do with how the allocation is, or has done what it was for.
fn is_up(role: Role, task: &TaskState) -> bool {
    role == Role::Poststop || task.phase == TaskPhase::Running || may_end(role, task)
}

/// Those that run before or after the start of the others and end.
fn may_end(role: Role, task: &TaskState) -> bool {
    matches!(role, Role::Prestart | Role::Poststart) && task.successful()
}

/// A task that has failed, or that ended though it was to go on.
fn broken(tasks: &[(Role, &TaskState)]) -> Option<Finding> {
    let counted = || tasks.iter().enumerate().filter(|(_, (role, _))| *role != Role::Poststop);
    let failed: Vec<usize> = counted().filter(|(_, (_, t))| t.failed).map(|(i, _)| i).collect();
    let over = |(role, t): &(Role, &TaskState)| t.phase == TaskPhase::Dead && !may_end(*role, t);
    let dead: Vec<usize> = counted().filter(|(_, t)| over(t)).map(|(i, _)| i).collect();
    let (why, tasks) = match (failed.is_empty(), dead.is_empty()) {
        (false, _) => ("Unhealthy because of failed task", failed),
        (true, false) => ("Unhealthy because of dead task", dead),
        (true, true) => return None,
    };
    Some(Finding::Unhealthy { why: why.to_string(), tasks })
}

impl Alloc {
    /// Finds out how it is, if that is not known yet and somebody wants to know. What is to end is not judged.
    pub(super) fn judge(&mut self, turn: &Turn<'_>) {
        self.look_at = None;
        let assignment = &self.head.assignment;
        let Some(rules) = Rules::of(assignment).filter(|_| self.is_to_run()) else { return };
        let deployment = assignment.deployment;
        let tasks: Vec<_> = self.tasks.iter().map(|t| (t.role, &t.local.state)).collect();
        if self.found().is_some() {
            return self.watch.measure(&tasks, turn.now.mono);
        }
        match self.watch.look(deployment, rules, &tasks, turn.now.mono) {
            Finding::Open { until } => self.look_at = Some(until),
            // whether the tasks still run, only the keeper knows
            Finding::Healthy if turn.boot.is_none() => {}
            Finding::Healthy => self.find(Found { deployment, healthy: true }),
            Finding::Unhealthy { why, tasks } => {
                for index in tasks.into_iter().filter(|_| deployment.is_some()) {
                    self.tasks[index].tell(events::alloc_unhealthy(turn.now.stamp(), &why));
                }
                self.find(Found { deployment, healthy: false });
            }
        }
    }

    /// Nobody wants it to end.
    fn is_to_run(&self) -> bool {
        let leaves = self.plan.is_some_and(|plan| plan.hurry);
        self.head.assignment.desired == DesiredStatus::Run && self.head.fate == Fate::Kept && !leaves
    }

    fn find(&mut self, found: Found) {
        self.head.found = Some(found);
        self.head_dirty = Dirty::Durable;
    }

    fn told_found(&self) -> Option<Found> {
        self.told.and_then(|t| t.found)
    }

    /// What was found of it as the part of a deployment that it is now.
    pub(super) fn found(&self) -> Option<Found> {
        self.head.found.filter(|f| f.deployment == self.head.assignment.deployment)
    }

    /// The servers have not been told.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let found = self.found().filter(|f| self.told_found() != Some(*f))?;
        Some(Verdict { alloc: self.id(), deployment: found.deployment, healthy: found.healthy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { min_healthy_time: Span::seconds(10), healthy_deadline: Span::seconds(60) };

    fn task(phase: TaskPhase, failed: bool, restarts: u64) -> TaskState {
        TaskState { phase, failed, restarts, ..TaskState::default() }
    }

    fn at(seconds: i64) -> Mono {
        Mono(0).after(Span::seconds(seconds))
    }

    fn look(watch: &mut Watch, tasks: &[(Role, TaskState)], seconds: i64) -> Finding {
        let tasks: Vec<_> = tasks.iter().map(|(role, task)| (*role, task)).collect();
        watch.look(None, RULES, &tasks, at(seconds))
    }

    #[test]
    fn healthy_is_what_runs_long_enough_without_a_new_start() {
        let running = |restarts| [(Role::Main, task(TaskPhase::Running, false, restarts))];
        let mut watch = Watch::new(at(0));
        assert_eq!(look(&mut watch, &running(0), 1), Finding::Open { until: at(11) });
        assert_eq!(look(&mut watch, &running(1), 9), Finding::Open { until: at(19) }, "started anew");
        let waits = [(Role::Main, task(TaskPhase::Pending, false, 2))];
        assert_eq!(look(&mut watch, &waits, 12), Finding::Open { until: at(60) });
        assert_eq!(look(&mut watch, &running(2), 20), Finding::Open { until: at(30) });
        assert_eq!(look(&mut watch, &running(2), 30), Finding::Healthy);
    }

    #[test]
    fn unhealthy_is_what_fails_ends_or_takes_too_long() {
        let main = |phase, failed| [(Role::Main, task(phase, failed, 0))];
        let cases = [
            (main(TaskPhase::Dead, true), 1, "Unhealthy because of failed task"),
            (main(TaskPhase::Dead, false), 1, "Unhealthy because of dead task"),
            (main(TaskPhase::Pending, false), 60, "Task not running by healthy_deadline of 1m0s"),
        ];
        for (tasks, seconds, want) in cases {
            let found = look(&mut Watch::new(at(0)), &tasks, seconds);
            assert_eq!(found, Finding::Unhealthy { why: want.into(), tasks: vec![0] });
        }
        let mut watch = Watch::new(at(0));
        assert_eq!(look(&mut watch, &main(TaskPhase::Running, false), 55), Finding::Open { until: at(60) });
        let late = look(&mut watch, &main(TaskPhase::Running, false), 60);
        let want = "Task not running for min_healthy_time of 10s by healthy_deadline of 1m0s";
        assert_eq!(late, Finding::Unhealthy { why: want.into(), tasks: vec![0] });
    }

    #[test]
    fn tasks_around_the_main_ones_may_end() {
        let done = task(TaskPhase::Dead, false, 0);
        let waits = task(TaskPhase::Pending, false, 0);
        let tasks = [
            (Role::Prestart, done.clone()),
            (Role::Poststart, done),
            (Role::Poststop, waits),
            (Role::Main, task(TaskPhase::Running, false, 0)),
        ];
        let mut watch = Watch::new(at(0));
        assert_eq!(look(&mut watch, &tasks, 0), Finding::Open { until: at(10) });
        assert_eq!(look(&mut watch, &tasks, 10), Finding::Healthy);
    }

    #[test]
    fn a_new_deployment_has_its_own_time_but_what_has_run_has_run() {
        let running = task(TaskPhase::Running, false, 0);
        let tasks = [(Role::Main, &running)];
        let mut watch = Watch::new(at(0));
        watch.measure(&tasks, at(5));
        let deployment = Some(DeploymentId::from_random(1));
        assert_eq!(watch.look(deployment, RULES, &tasks, at(100)), Finding::Healthy);
    }
}
