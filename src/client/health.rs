//! The health watcher: an allocation of a service, or of a system job's deployment, is healthy when its tasks have run for
//! `min_healthy_time` without a restart before `healthy_deadline` (client.md 11). The verdict is found once for each
//! deployment that the allocation becomes part of.

use super::lifecycle::Role;
use model::id::DeploymentId;
use model::job::{HealthCheck, JobType};
use model::task::{TaskPhase, TaskState};
use model::time::{Mono, Span};
use wire::rpc::Assignment;

/// Measured times. They begin anew when the agent starts: no clock tells how long tasks ran without an agent.
#[derive(Clone, Copy, Debug)]
pub struct HealthWatcher {
    /// The deployment that the measured times belong to.
    deployment: Option<DeploymentId>,
    /// When watching began.
    began: Mono,
    /// Since when all tasks run, and how often they had been restarted then.
    up: Option<(Mono, u64)>,
}

/// The two times of an `update` or `migrate` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthRules {
    pub min_healthy_time: Span,
    pub healthy_deadline: Span,
}

impl HealthRules {
    /// The `update` block's in a deployment, otherwise the `migrate` block's. `None`: health is not watched.
    pub fn of(assignment: &Assignment) -> Option<HealthRules> {
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
        (check != HealthCheck::Manual).then_some(HealthRules { min_healthy_time, healthy_deadline })
    }
}

/// The result of one check; if unhealthy, with the sentence for the tasks that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthCheckResult {
    Healthy,
    Unhealthy {
        why: String,
        tasks: Vec<usize>,
    },
    /// No verdict yet; checked again at `until`.
    Undecided {
        until: Mono,
    },
}

impl HealthWatcher {
    pub fn new(now: Mono) -> HealthWatcher {
        HealthWatcher { deployment: None, began: now, up: None }
    }

    /// Checks the tasks. Time that they ran before the allocation became part of the deployment counts.
    pub fn check(
        &mut self,
        deployment: Option<DeploymentId>,
        rules: HealthRules,
        tasks: &[(Role, &TaskState)],
        now: Mono,
    ) -> HealthCheckResult {
        if self.deployment != deployment {
            (self.deployment, self.began) = (deployment, now);
        }
        self.track(tasks, now);
        if let Some(found) = failed_or_dead(tasks) {
            return found;
        }
        let healthy_at = self.up.map(|(since, _)| since.after(rules.min_healthy_time));
        let deadline = self.began.after(rules.healthy_deadline);
        match healthy_at {
            Some(at) if at <= now => HealthCheckResult::Healthy,
            _ if deadline <= now => self.deadline_exceeded(rules, tasks),
            at => {
                let until = at.unwrap_or(deadline).min(deadline);
                assert!(until > now, "what is undecided is checked again later");
                HealthCheckResult::Undecided { until }
            }
        }
    }

    /// Notes since when all tasks have run without a restart.
    pub fn track(&mut self, tasks: &[(Role, &TaskState)], now: Mono) {
        let starts = tasks.iter().map(|(_, t)| t.restarts).sum();
        let all_up = tasks.iter().all(|(role, task)| is_up(*role, task));
        self.up = match self.up {
            _ if !all_up => None,
            Some((since, known)) if known == starts => Some((since, known)),
            _ => Some((now, starts)),
        };
    }

    fn deadline_exceeded(&self, rules: HealthRules, tasks: &[(Role, &TaskState)]) -> HealthCheckResult {
        let (deadline, least) = (rules.healthy_deadline, rules.min_healthy_time);
        let slow = tasks.iter().enumerate().filter(|(_, (role, task))| !is_up(*role, task));
        let slow: Vec<usize> = slow.map(|(i, _)| i).collect();
        if slow.is_empty() {
            let why =
                format!("Task not running for min_healthy_time of {least} by healthy_deadline of {deadline}");
            return HealthCheckResult::Unhealthy { why, tasks: (0..tasks.len()).collect() };
        }
        HealthCheckResult::Unhealthy {
            why: format!("Task not running by healthy_deadline of {deadline}"),
            tasks: slow,
        }
    }
}

/// Whether the task runs, or does not count for health, or has ended as it should.
fn is_up(role: Role, task: &TaskState) -> bool {
    role == Role::Poststop || task.phase == TaskPhase::Running || may_end(role, task)
}

/// Prestart and poststart tasks may end well.
fn may_end(role: Role, task: &TaskState) -> bool {
    matches!(role, Role::Prestart | Role::Poststart) && task.successful()
}

/// The verdict for a task that has failed, or that ended though it was to go on.
fn failed_or_dead(tasks: &[(Role, &TaskState)]) -> Option<HealthCheckResult> {
    let counted = || tasks.iter().enumerate().filter(|(_, (role, _))| *role != Role::Poststop);
    let failed: Vec<usize> = counted().filter(|(_, (_, t))| t.failed).map(|(i, _)| i).collect();
    let over = |(role, t): &(Role, &TaskState)| t.phase == TaskPhase::Dead && !may_end(*role, t);
    let dead: Vec<usize> = counted().filter(|(_, t)| over(t)).map(|(i, _)| i).collect();
    let (why, tasks) = match (failed.is_empty(), dead.is_empty()) {
        (false, _) => ("Unhealthy because of failed task", failed),
        (true, false) => ("Unhealthy because of dead task", dead),
        (true, true) => return None,
    };
    Some(HealthCheckResult::Unhealthy { why: why.to_string(), tasks })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: HealthRules =
        HealthRules { min_healthy_time: Span::seconds(10), healthy_deadline: Span::seconds(60) };

    fn task(phase: TaskPhase, failed: bool, restarts: u64) -> TaskState {
        TaskState { phase, failed, restarts, ..TaskState::default() }
    }

    fn at(seconds: i64) -> Mono {
        Mono(0).after(Span::seconds(seconds))
    }

    fn check(
        health_watcher: &mut HealthWatcher,
        tasks: &[(Role, TaskState)],
        seconds: i64,
    ) -> HealthCheckResult {
        let tasks: Vec<_> = tasks.iter().map(|(role, task)| (*role, task)).collect();
        health_watcher.check(None, RULES, &tasks, at(seconds))
    }

    #[test]
    fn healthy_after_min_healthy_time_without_a_restart() {
        let running = |restarts| [(Role::Main, task(TaskPhase::Running, false, restarts))];
        let mut health_watcher = HealthWatcher::new(at(0));
        assert_eq!(
            check(&mut health_watcher, &running(0), 1),
            HealthCheckResult::Undecided { until: at(11) }
        );
        assert_eq!(
            check(&mut health_watcher, &running(1), 9),
            HealthCheckResult::Undecided { until: at(19) },
            "started anew"
        );
        let waits = [(Role::Main, task(TaskPhase::Pending, false, 2))];
        assert_eq!(check(&mut health_watcher, &waits, 12), HealthCheckResult::Undecided { until: at(60) });
        assert_eq!(
            check(&mut health_watcher, &running(2), 20),
            HealthCheckResult::Undecided { until: at(30) }
        );
        assert_eq!(check(&mut health_watcher, &running(2), 30), HealthCheckResult::Healthy);
    }

    #[test]
    fn unhealthy_after_a_failure_an_end_or_the_deadline() {
        let main = |phase, failed| [(Role::Main, task(phase, failed, 0))];
        let cases = [
            (main(TaskPhase::Dead, true), 1, "Unhealthy because of failed task"),
            (main(TaskPhase::Dead, false), 1, "Unhealthy because of dead task"),
            (main(TaskPhase::Pending, false), 60, "Task not running by healthy_deadline of 1m0s"),
        ];
        for (tasks, seconds, want) in cases {
            let found = check(&mut HealthWatcher::new(at(0)), &tasks, seconds);
            assert_eq!(found, HealthCheckResult::Unhealthy { why: want.into(), tasks: vec![0] });
        }
        let mut health_watcher = HealthWatcher::new(at(0));
        assert_eq!(
            check(&mut health_watcher, &main(TaskPhase::Running, false), 55),
            HealthCheckResult::Undecided { until: at(60) }
        );
        let late = check(&mut health_watcher, &main(TaskPhase::Running, false), 60);
        let want = "Task not running for min_healthy_time of 10s by healthy_deadline of 1m0s";
        assert_eq!(late, HealthCheckResult::Unhealthy { why: want.into(), tasks: vec![0] });
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
        let mut health_watcher = HealthWatcher::new(at(0));
        assert_eq!(check(&mut health_watcher, &tasks, 0), HealthCheckResult::Undecided { until: at(10) });
        assert_eq!(check(&mut health_watcher, &tasks, 10), HealthCheckResult::Healthy);
    }

    #[test]
    fn a_new_deployment_has_its_own_time_but_what_has_run_has_run() {
        let running = task(TaskPhase::Running, false, 0);
        let tasks = [(Role::Main, &running)];
        let mut health_watcher = HealthWatcher::new(at(0));
        health_watcher.track(&tasks, at(5));
        let deployment = Some(DeploymentId::from_random(1));
        assert_eq!(health_watcher.check(deployment, RULES, &tasks, at(100)), HealthCheckResult::Healthy);
    }
}
