//! The deployment watcher (server.md 12): fails what makes no progress or is unhealthy, promotes what may be
//! promoted by itself, and lets failures be placed again. All that it does is an entry with the evaluation that goes on from
//! there. Refuses to know what is placed and stopped.
//!
//! Invariant: it knows the state's active deployments and what is on the way for them; all else it reads when it looks.

use super::{Op, Server};
use model::alloc::{Allocation, Transition};
use model::deployment::{
    Deployment, DeploymentGroup, DeploymentStatus, DeploymentStep, Failure, MARKED_FAILED, TOO_SLOW,
    UNHEALTHY,
};
use model::eval::{Evaluation, Trigger};
use model::id::{AllocId, DeploymentId};
use model::job::{Job, JobSpec, JobType};
use model::time::{Mono, Now, Span, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::change::DeploymentChange;
use wire::command::{Command, StepDeploymentCommand};
use wire::request::{DeploymentRequest, Refusal, RefusalKind};

/// Deployments looked at in one turn; the rest follows in the next.
const LOOKS_PER_TURN: usize = 16;

/// What the watcher keeps in mind. A new leader rebuilds it from the state.
#[derive(Default)]
pub struct Watched {
    known: BTreeMap<DeploymentId, Deadlines>,
    /// To be looked at.
    moved: BTreeSet<DeploymentId>,
    /// An entry of ours is on its way: looked at again once it is applied.
    busy: BTreeSet<DeploymentId>,
    queue: BTreeSet<(Mono, DeploymentId)>,
}

/// By group: what the state says of its deadline, and when that is by the leader's own clock.
type Deadlines = BTreeMap<String, (Wall, Mono)>;

impl Watched {
    /// It came to be, or something of it has changed.
    pub fn follow(&mut self, id: DeploymentId, active: bool) {
        if active {
            self.known.entry(id).or_default();
            self.moved.insert(id);
        } else {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: DeploymentId) {
        self.known.remove(&id);
        self.moved.remove(&id);
        self.busy.remove(&id);
        self.queue.retain(|(_, d)| *d != id);
    }

    fn takes_place(&mut self, id: DeploymentId) {
        self.busy.insert(id);
    }

    /// The entry that was on its way has been applied.
    pub fn settle(&mut self, id: DeploymentId) {
        if self.busy.remove(&id) && self.known.contains_key(&id) {
            self.moved.insert(id);
        }
    }

    pub fn has_moved(&self) -> bool {
        self.moved.iter().any(|id| !self.busy.contains(id))
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.queue.first().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Mono) -> Vec<DeploymentId> {
        while self.queue.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, id)) = self.queue.pop_first()
        {
            self.moved.insert(id);
        }
        let free = |id: &&DeploymentId| !self.busy.contains(id);
        let taken: Vec<_> = self.moved.iter().filter(free).take(LOOKS_PER_TURN).copied().collect();
        self.moved.retain(|id| !taken.contains(id));
        taken
    }

    /// Notes the deadlines that the state knows. A deadline that was set while this server led is as far away as it was
    /// meant; of one that was found, the wall clock says what is left, within what was meant.
    fn note(&mut self, deployment: &Deployment, now: Mono, wall: Wall) {
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
        // what is over already is seen to by the look that this is a part of
        let next = deadlines.values().map(|(_, at)| *at).filter(|at| *at > now).min();
        self.queue.extend(next.map(|at| (at, id)));
        self.known.insert(id, deadlines);
    }

    /// The groups whose time is over.
    fn late(&self, id: DeploymentId, now: Mono) -> Vec<&String> {
        let deadlines = self.known.get(&id).into_iter().flatten();
        deadlines.filter(|(_, (_, at))| *at <= now).map(|(name, _)| name).collect()
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn known(&self) -> impl Iterator<Item = DeploymentId> {
        self.known.keys().copied()
    }
}

/// What has to be done about a deployment.
enum Verdict {
    Nothing,
    Fail {
        why: &'static str,
        revert: bool,
    },
    Promote,
    /// These have failed, and may be placed again.
    Replace(Vec<AllocId>),
}

impl Server {
    pub(super) fn follow_deployment(&mut self, change: &DeploymentChange) {
        self.watched.follow(change.id, change.active);
    }

    /// Looks at what has moved or is late.
    pub(super) fn watch_deployments(&mut self, now: Now) -> Result<(), Fault> {
        if !self.ready || !self.space_free {
            return Ok(());
        }
        let due = self.watched.take(now.mono);
        if due.is_empty() {
            return Ok(());
        }
        let view = self.log.reader().view()?;
        for id in due {
            let found = view.deployment(id)?.filter(|d| d.status.is_active());
            let Some(deployment) = found else {
                self.watched.forget(id);
                continue;
            };
            self.watched.note(&deployment, now.mono, self.stamp(now));
            if deployment.status == DeploymentStatus::Running {
                self.watch(&deployment, &view, now)?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, deployment: &Deployment, view: &View, now: Now) -> Result<(), Fault> {
        let Some(job) = view.job(&deployment.job)?.filter(|j| deployment.is_of(j)) else {
            // a newer version cancels it as soon as it is evaluated
            return Ok(());
        };
        let at = self.stamp(now);
        let allocs = view.allocs_of_deployment(deployment)?;
        let late = self.watched.late(deployment.id, now.mono);
        let verdict = verdict(deployment, &job.spec, &allocs, &late, at);
        let eval = || deployment_eval(deployment, &job);
        match verdict {
            Verdict::Nothing => {}
            Verdict::Replace(ids) => {
                let again = Transition { reschedule: Some(true), ..Transition::default() };
                let allocs = ids.into_iter().map(|id| (id, again)).collect();
                let eval = self.made(eval(), at);
                self.watch_with(deployment.id, &Command::UpdateTransitions { allocs, evals: vec![eval], at });
            }
            Verdict::Promote => {
                let eval = self.made(eval(), at);
                let step = DeploymentStep::Promote { groups: None };
                self.step(deployment.id, step, eval, at);
            }
            Verdict::Fail { why, revert } => {
                let failure = failure(why, &job, revert, view)?;
                let eval = self.made(eval(), at);
                self.step(deployment.id, DeploymentStep::Fail(failure), eval, at);
            }
        }
        Ok(())
    }

    fn step(&mut self, deployment: DeploymentId, step: DeploymentStep, eval: Evaluation, at: Wall) {
        let tracked_versions = self.config.tracked_versions;
        let step = StepDeploymentCommand { deployment, step, eval: Some(eval), tracked_versions, at };
        self.watch_with(deployment, &Command::StepDeployment(Box::new(step)));
    }

    fn watch_with(&mut self, deployment: DeploymentId, command: &Command) {
        self.watched.takes_place(deployment);
        self.propose(command, Op::Watched { deployment });
    }

    /// With an id of its own.
    pub(super) fn made(&mut self, draft: Evaluation, at: Wall) -> Evaluation {
        Evaluation { id: self.ids.eval(), create_time: at, modify_time: at, ..draft }
    }
}

impl Server {
    /// What a user wants of a deployment. Whether it comes too late is told in log order.
    pub(super) fn step_for_user(
        &mut self,
        token: u64,
        id: DeploymentId,
        request: DeploymentRequest,
        view: &View,
        at: Wall,
    ) -> Result<(), Fault> {
        let found = match view.deployment(id)? {
            Some(deployment) => view.job(&deployment.job)?.map(|job| (deployment, job)),
            None => None,
        };
        let Some((deployment, job)) = found else {
            self.reply(token, Err(Refusal::new(RefusalKind::Validation, "deployment not found")));
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
        let eval = goes_on.then(|| self.made(deployment_eval(&deployment, &job), at));
        let tracked_versions = self.config.tracked_versions;
        let order = StepDeploymentCommand { deployment: id, step, eval, tracked_versions, at };
        self.propose(&Command::StepDeployment(Box::new(order)), Op::Reply { token });
        Ok(())
    }
}

/// It fails as soon as a user calls something of it unhealthy. `Some`: whether the job reverts.
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
pub(super) fn deployment_eval(deployment: &Deployment, job: &Job) -> Evaluation {
    let (key, priority) = (deployment.job.clone(), deployment.priority);
    let (trigger, job_type) = (Trigger::DeploymentWatcher, job.spec.job_type);
    let eval = Evaluation::pending(Default::default(), key, job_type, priority, trigger, Wall::NEVER);
    let job_modify_index = job.job_modify_index;
    Evaluation { deployment: Some(deployment.id), job_modify_index, ..eval }
}

/// How it ends, if it fails now; said with what becomes of the job.
pub(super) fn failure(why: &str, job: &Job, revert: bool, view: &View) -> Result<Failure, Fault> {
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

fn verdict(
    deployment: &Deployment,
    spec: &JobSpec,
    allocs: &[Allocation],
    late: &[&String],
    at: Wall,
) -> Verdict {
    let mut again = Vec::new();
    for alloc in allocs.iter().filter(|a| is_unhealthy(a) && !a.server_terminal() && a.next.is_none()) {
        let Some(group) = deployment.groups.get(&alloc.group) else { continue };
        let policy = spec.group(&alloc.group).and_then(|g| g.reschedule);
        let another = match policy {
            Some(policy) => policy.allows(&alloc.reschedules, at),
            None => spec.job_type == JobType::System && may_be_tried_again(alloc, allocs),
        };
        if group.progress_deadline <= Span::ZERO || !another {
            return Verdict::Fail { why: UNHEALTHY, revert: group.auto_revert };
        }
        if alloc.transition.reschedule != Some(true) {
            again.push(alloc.id);
        }
    }
    let too_slow = |name: &&&String| deployment.groups.get(**name).is_some_and(|g| !g.is_in_time());
    let slow: Vec<_> = late.iter().filter(too_slow).collect();
    if !slow.is_empty() {
        let reverts = |name: &&&String| deployment.groups.get(**name).is_some_and(|g| g.auto_revert);
        return Verdict::Fail { why: TOO_SLOW, revert: slow.iter().any(reverts) };
    }
    if !again.is_empty() {
        return Verdict::Replace(again);
    }
    if promotes_itself(deployment, allocs) { Verdict::Promote } else { Verdict::Nothing }
}

/// What is for one node only is tried once more there, if it has ended: its client has tried it as often as its restart policy
/// says already, twice as often is enough to tell an accident from a bad version.
fn may_be_tried_again(alloc: &Allocation, allocs: &[Allocation]) -> bool {
    let here = |a: &&Allocation| a.node_id == alloc.node_id && a.group == alloc.group && is_unhealthy(a);
    alloc.client_terminal() && allocs.iter().filter(here).count() < 2
}

fn is_unhealthy(alloc: &Allocation) -> bool {
    alloc.health.is_some_and(|h| h.healthy == Some(false))
}

/// Every group with canaries wants it, and has all of them, healthy.
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

/// The jobs of a report whose deployments can go on because something has become healthy.
pub(super) fn proven<'a>(
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
