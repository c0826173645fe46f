//! The health of one allocation: checked until there is a verdict for its present deployment, which is reported once.

use super::AllocRunner;
use crate::events;
use crate::health::{HealthCheckResult, HealthRules};
use crate::task_runner::{Dirty, TurnContext};
use model::alloc::DesiredStatus;
use model::deployment::Verdict;
use state::client_store::{HealthResult, Retention};

impl AllocRunner {
    /// Checks health if there is no verdict yet. An allocation that is being stopped has none.
    pub(crate) fn check_health(&mut self, ctx: &TurnContext<'_>) {
        self.health_check_at = None;
        let assignment = &self.record.assignment;
        let Some(rules) = HealthRules::of(assignment).filter(|_| self.is_to_run()) else { return };
        let deployment = assignment.deployment;
        let tasks: Vec<_> = self.tasks.iter().map(|t| (t.role, &t.local.state)).collect();
        if self.health_result().is_some() {
            return self.health_watcher.track(&tasks, ctx.now.mono);
        }
        match self.health_watcher.check(deployment, rules, &tasks, ctx.now.mono) {
            HealthCheckResult::Undecided { until } => self.health_check_at = Some(until),
            // only the keeper knows whether the tasks still run
            HealthCheckResult::Healthy if ctx.boot.is_none() => {}
            HealthCheckResult::Healthy => self.set_health(HealthResult { deployment, healthy: true }),
            HealthCheckResult::Unhealthy { why, tasks } => {
                for index in tasks.into_iter().filter(|_| deployment.is_some()) {
                    self.tasks[index].add_event(events::alloc_unhealthy(ctx.now.stamp(), &why));
                }
                self.set_health(HealthResult { deployment, healthy: false });
            }
        }
    }

    /// Whether the allocation is not being stopped.
    fn is_to_run(&self) -> bool {
        let leaves = self.plan.is_some_and(|plan| plan.skip_delays);
        self.record.assignment.desired == DesiredStatus::Run
            && self.record.retention == Retention::Kept
            && !leaves
    }

    fn set_health(&mut self, found: HealthResult) {
        self.record.health = Some(found);
        self.record_dirty = Dirty::Durable;
    }

    fn acknowledged_health(&self) -> Option<HealthResult> {
        self.acknowledged.and_then(|t| t.health)
    }

    /// The verdict for the allocation's present deployment.
    pub(crate) fn health_result(&self) -> Option<HealthResult> {
        self.record.health.filter(|f| f.deployment == self.record.assignment.deployment)
    }

    /// The verdict, if the servers have not acknowledged it.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let found = self.health_result().filter(|f| self.acknowledged_health() != Some(*f))?;
        Some(Verdict { alloc: self.id(), deployment: found.deployment, healthy: found.healthy })
    }
}
