//! The deployment watcher (server.md 12): fails what makes no progress or is unhealthy, promotes what may be
//! promoted by itself, and lets failures be placed again. Each of its actions is one log entry with the evaluation
//! that continues the deployment. Refuses to know what is placed and stopped.
//!
//! Invariant: it keeps the ids of active deployments and of pending entries in memory; everything else it reads from the state.

use super::context::Context;
use super::pending::OnApply;
use model::alloc::{Allocation, Transition};
use model::deployment::{
    Deployment, DeploymentGroup, DeploymentStatus, DeploymentStep, Failure, MARKED_FAILED, TOO_SLOW,
    UNHEALTHY,
};
use model::eval::{Evaluation, Trigger};
use model::id::{AllocId, DeploymentId};
use model::job::{Job, JobSpec, JobType};
use model::time::{Mono, Span, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::command::{Command, StepDeploymentCommand};
use wire::request::{DeploymentRequest, RefusalKind};

/// Deployments looked at in one turn; the rest follows in the next.
const DEPLOYMENTS_PER_TURN: usize = 16;
/// A step that raft did not take is tried again after this: a transfer of leadership takes about a second.
const RETRY_AFTER: Span = Span::millis(200);

/// What the watcher keeps in memory. A new leader rebuilds it from the state.
#[derive(Default)]
pub struct DeploymentWatcher {
    known: BTreeMap<DeploymentId, Deadlines>,
    /// Deployments to be looked at.
    changed: BTreeSet<DeploymentId>,
    /// Deployments with a pending entry of the watcher; they are checked again once it is applied.
    in_flight: BTreeSet<DeploymentId>,
    queue: BTreeSet<(Mono, DeploymentId)>,
}

/// By group: what the state says of its deadline, and when that is by the leader's own clock.
type Deadlines = BTreeMap<String, (Wall, Mono)>;

impl DeploymentWatcher {
    /// A deployment was created, or something of it has changed.
    pub fn apply_change(&mut self, id: DeploymentId, active: bool) {
        if active {
            self.known.entry(id).or_default();
            self.changed.insert(id);
        } else {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: DeploymentId) {
        self.known.remove(&id);
        self.changed.remove(&id);
        self.in_flight.remove(&id);
        self.queue.retain(|(_, d)| *d != id);
    }

    /// The entry that was on its way is applied.
    pub fn proposal_done(&mut self, id: DeploymentId) {
        if self.in_flight.remove(&id) && self.known.contains_key(&id) {
            self.changed.insert(id);
        }
    }

    /// Raft refused that entry: the deployment is checked again after a pause, and that check queues its deadline again.
    pub fn proposal_refused(&mut self, id: DeploymentId, now: Mono) {
        if self.in_flight.remove(&id) && self.known.contains_key(&id) {
            self.queue.retain(|(_, d)| *d != id);
            self.queue.insert((now.after(RETRY_AFTER), id));
        }
    }

    /// A deployment is to be looked at in the next turn already.
    pub fn has_work(&self) -> bool {
        self.changed.iter().any(|id| !self.in_flight.contains(id))
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.queue.first().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Mono) -> Vec<DeploymentId> {
        while self.queue.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, id)) = self.queue.pop_first()
        {
            assert!(self.known.contains_key(&id), "only an active deployment is queued");
            self.changed.insert(id);
        }
        let is_free = |id: &&DeploymentId| !self.in_flight.contains(id);
        let taken: Vec<_> = self.changed.iter().filter(is_free).take(DEPLOYMENTS_PER_TURN).copied().collect();
        self.changed.retain(|id| !taken.contains(id));
        debug_assert!(
            self.changed.iter().chain(&self.in_flight).all(|id| self.known.contains_key(id)),
            "only active deployments are looked at, or have steps"
        );
        taken
    }

    /// Notes the deadlines in the state. One that was set while this server led keeps its full length; for one from before, the
    /// wall clock says how much is left, at most the full length.
    fn set_deadlines(&mut self, deployment: &Deployment, now: Mono, wall: Wall) {
        let id = deployment.id;
        let Some(before) = self.known.get(&id) else { return };
        let runs = |g: &DeploymentGroup| !g.require_progress_by.is_never() && !g.is_in_time();
        let running = deployment.status == DeploymentStatus::Running;
        let mut deadlines = Deadlines::new();
        for (name, group) in deployment.groups.iter().filter(|(_, g)| running && runs(g)) {
            let by = group.require_progress_by;
            let known = before.get(name).filter(|(known, _)| *known == by).map(|(_, at)| *at);
            let left = (by - wall).min(group.progress_deadline).max(Span::ZERO);
            deadlines.insert(name.clone(), (by, known.unwrap_or_else(|| now.after(left))));
        }
        self.queue.retain(|(_, d)| *d != id);
        // deadlines that have passed are handled by the check that called this
        let next = deadlines.values().map(|(_, at)| *at).filter(|at| *at > now).min();
        self.queue.extend(next.map(|at| (at, id)));
        self.known.insert(id, deadlines);
        assert!(self.queue.len() <= self.known.len(), "a deployment is queued once");
    }

    /// The groups whose time is over.
    fn overdue(&self, id: DeploymentId, now: Mono) -> Vec<&String> {
        let deadlines = self.known.get(&id).into_iter().flatten();
        deadlines.filter(|(_, (_, at))| *at <= now).map(|(name, _)| name).collect()
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn known(&self) -> impl Iterator<Item = DeploymentId> {
        self.known.keys().copied()
    }
}

/// What has to be done about a deployment.
enum WatcherAction {
    Nothing,
    Fail {
        why: &'static str,
        revert: bool,
    },
    Promote,
    /// Failed allocations that may be placed again.
    Replace(Vec<AllocId>),
}

impl DeploymentWatcher {
    /// Looks at what has changed or is late, unless there is no room to write down what follows.
    pub fn watch(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let due = if cx.space_free { self.take(cx.now) } else { vec![] };
        if due.is_empty() {
            return Ok(());
        }
        let view = cx.view()?;
        for id in due {
            let found = view.deployment(id)?.filter(|d| d.status.is_active());
            let Some(deployment) = found else {
                self.forget(id);
                continue;
            };
            self.set_deadlines(&deployment, cx.now, cx.at);
            if deployment.status == DeploymentStatus::Running {
                self.watch_one(&deployment, &view, cx)?;
            }
        }
        Ok(())
    }

    fn watch_one(&mut self, deployment: &Deployment, view: &View, cx: &mut Context<'_>) -> Result<(), Fault> {
        let Some(job) = view.job(&deployment.job)?.filter(|j| deployment.is_of(j)) else {
            // a newer version cancels it as soon as it is evaluated
            return Ok(());
        };
        let at = cx.at;
        let allocs = view.allocs_of_deployment(deployment)?;
        let late = self.overdue(deployment.id, cx.now);
        let eval = || deployment_eval(deployment, &job);
        match next_action(deployment, &job.spec, &allocs, &late, at) {
            WatcherAction::Nothing => {}
            WatcherAction::Replace(ids) => {
                let again = Transition { reschedule: Some(true), ..Transition::default() };
                let allocs = ids.into_iter().map(|id| (id, again)).collect();
                let eval = cx.new_eval(eval());
                self.propose(deployment.id, Command::UpdateTransitions { allocs, evals: vec![eval], at }, cx);
            }
            WatcherAction::Promote => {
                let eval = cx.new_eval(eval());
                let step = DeploymentStep::Promote { groups: None };
                self.step(deployment.id, step, eval, cx);
            }
            WatcherAction::Fail { why, revert } => {
                let failure = failure(why, &job, revert, view)?;
                let eval = cx.new_eval(eval());
                self.step(deployment.id, DeploymentStep::Fail(failure), eval, cx);
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        deployment: DeploymentId,
        step: DeploymentStep,
        eval: Evaluation,
        cx: &mut Context<'_>,
    ) {
        let tracked_versions = cx.config.tracked_versions;
        let step = StepDeploymentCommand { deployment, step, eval: Some(eval), tracked_versions, at: cx.at };
        self.propose(deployment, Command::StepDeployment(Box::new(step)), cx);
    }

    fn propose(&mut self, deployment: DeploymentId, command: Command, cx: &mut Context<'_>) {
        assert!(self.known.contains_key(&deployment), "only an active deployment has steps");
        assert!(self.in_flight.insert(deployment), "a deployment has one step at a time");
        cx.propose(command, OnApply::DeploymentStepped { deployment });
    }
}

/// A step that a user asks for. Whether it comes too late is decided in log order.
pub fn step_for_user(
    token: u64,
    id: DeploymentId,
    request: DeploymentRequest,
    view: &View,
    cx: &mut Context<'_>,
) -> Result<(), Fault> {
    let found = match view.deployment(id)? {
        Some(deployment) => view.job(&deployment.job)?.map(|job| (deployment, job)),
        None => None,
    };
    let Some((deployment, job)) = found else {
        cx.refuse(token, RefusalKind::Validation, "deployment not found");
        return Ok(());
    };
    let (goes_on, step) = match request {
        DeploymentRequest::Pause => (false, DeploymentStep::Pause),
        DeploymentRequest::Resume => (true, DeploymentStep::Resume),
        DeploymentRequest::Promote { groups } => (true, DeploymentStep::Promote { groups }),
        DeploymentRequest::Fail => {
            let revert = deployment.is_of(&job) && deployment.groups.values().any(|g| g.auto_revert);
            (true, DeploymentStep::Fail(failure(MARKED_FAILED, &job, revert, view)?))
        }
        DeploymentRequest::SetHealth { healthy, unhealthy } => {
            let failure = match fails_by(&deployment, &unhealthy, view)? {
                Some(revert) => Some(failure(UNHEALTHY, &job, revert && deployment.is_of(&job), view)?),
                None => None,
            };
            (true, DeploymentStep::SetHealth { healthy, unhealthy, failure })
        }
    };
    let eval = goes_on.then(|| cx.new_eval(deployment_eval(&deployment, &job)));
    let tracked_versions = cx.config.tracked_versions;
    let order = StepDeploymentCommand { deployment: id, step, eval, tracked_versions, at: cx.at };
    cx.propose(Command::StepDeployment(Box::new(order)), OnApply::Reply { token });
    Ok(())
}

/// A deployment fails as soon as a user marks one of its allocations as unhealthy. `Some`: whether the job reverts.
fn fails_by(deployment: &Deployment, unhealthy: &[AllocId], view: &View) -> Result<Option<bool>, Fault> {
    let mut fails = None;
    for id in unhealthy {
        let Some(alloc) = view.alloc(*id)? else { continue };
        let Some(group) = deployment.groups.get(&alloc.group) else { continue };
        fails = Some(fails.unwrap_or(false) || group.auto_revert);
    }
    Ok(fails)
}

/// The evaluation that goes on with a deployment, but for its id and time.
pub fn deployment_eval(deployment: &Deployment, job: &Job) -> Evaluation {
    let (key, priority) = (deployment.job.clone(), deployment.priority);
    let (trigger, job_type) = (Trigger::DeploymentWatcher, job.spec.job_type);
    let eval = Evaluation::pending(Default::default(), key, job_type, priority, trigger, Wall::NEVER);
    let job_modify_index = job.job_modify_index;
    Evaluation { deployment: Some(deployment.id), job_modify_index, ..eval }
}

/// How the deployment ends if it fails now; its description says what becomes of the job.
fn failure(why: &str, job: &Job, revert: bool, view: &View) -> Result<Failure, Fault> {
    if !revert {
        return Ok(Failure { description: why.to_string(), revert: None });
    }
    let Some(stable) = stable_version(job, view)? else {
        let description = format!("{why} - no stable job version to auto revert to");
        return Ok(Failure { description, revert: None });
    };
    let version = stable.version;
    if stable.spec == job.spec {
        let description = format!(
            "{why} - not rolling back to stable job version {version} as current job has same specification"
        );
        return Ok(Failure { description, revert: None });
    }
    Ok(Failure {
        description: format!("{why} - rolling back to job version {version}"),
        revert: Some(version),
    })
}

/// The newest version that a deployment has brought in well.
fn stable_version(job: &Job, view: &View) -> Result<Option<Job>, Fault> {
    Ok(view.job_versions(&job.spec.key())?.into_iter().find(|v| v.stable))
}

fn next_action(
    deployment: &Deployment,
    spec: &JobSpec,
    allocs: &[Allocation],
    late: &[&String],
    at: Wall,
) -> WatcherAction {
    let mut again = Vec::new();
    for alloc in allocs.iter().filter(|a| is_unhealthy(a) && !a.server_terminal() && a.next.is_none()) {
        let Some(group) = deployment.groups.get(&alloc.group) else { continue };
        let policy = spec.group(&alloc.group).and_then(|g| g.reschedule);
        let another = match policy {
            Some(policy) => policy.allows(&alloc.reschedules, at),
            None => spec.job_type == JobType::System && may_be_tried_again(alloc, allocs),
        };
        if group.progress_deadline <= Span::ZERO || !another {
            return WatcherAction::Fail { why: UNHEALTHY, revert: group.auto_revert };
        }
        if alloc.transition.reschedule != Some(true) {
            again.push(alloc.id);
        }
    }
    let too_slow = |name: &&&String| deployment.groups.get(**name).is_some_and(|g| !g.is_in_time());
    let slow: Vec<_> = late.iter().filter(too_slow).collect();
    if !slow.is_empty() {
        let reverts = |name: &&&String| deployment.groups.get(**name).is_some_and(|g| g.auto_revert);
        return WatcherAction::Fail { why: TOO_SLOW, revert: slow.iter().any(reverts) };
    }
    if !again.is_empty() {
        return WatcherAction::Replace(again);
    }
    if promotes_itself(deployment, allocs) { WatcherAction::Promote } else { WatcherAction::Nothing }
}

/// A system job's allocation that has ended is tried once more on its node: its client has restarted it as often as its policy allows,
/// and a second allocation is enough to tell an accident from a bad version.
fn may_be_tried_again(alloc: &Allocation, allocs: &[Allocation]) -> bool {
    let here = |a: &&Allocation| a.node_id == alloc.node_id && a.group == alloc.group && is_unhealthy(a);
    alloc.client_terminal() && allocs.iter().filter(here).count() < 2
}

fn is_unhealthy(alloc: &Allocation) -> bool {
    alloc.health.is_some_and(|h| h.healthy == Some(false))
}

/// Whether every group that awaits promotion has `auto_promote`, and all of its canaries healthy.
fn promotes_itself(deployment: &Deployment, allocs: &[Allocation]) -> bool {
    let mut waiting = deployment.groups.iter().filter(|(_, g)| g.awaits_promotion()).peekable();
    let good =
        |a: &&Allocation| !a.terminal() && a.health.is_some_and(|h| h.healthy == Some(true) && h.canary);
    waiting.peek().is_some()
        && waiting.all(|(name, group)| {
            let there = allocs.iter().filter(|a| a.group == *name).filter(good).count() as u64;
            group.auto_promote && there >= group.desired_canaries
        })
}

/// The active deployments of these allocations.
pub fn active_deployments<'a>(
    allocs: impl Iterator<Item = &'a Allocation>,
    view: &View,
) -> Result<Vec<Deployment>, Fault> {
    let ids: BTreeSet<DeploymentId> = allocs.filter_map(|a| a.deployment).collect();
    let mut out = Vec::new();
    for id in ids {
        out.extend(view.deployment(id)?.filter(|d| d.status.is_active()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
