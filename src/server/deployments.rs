//! The deployment watcher (reference: server 12): fails what makes no progress or is unhealthy, promotes what may be
//! promoted by itself, and lets failures be placed again. All that it does is an entry with the evaluation that goes on from
//! there. Refuses to know what is placed and stopped.
//!
//! Invariant: it knows the state's active deployments and what is on the way for them; all else it reads when it looks.

use super::{Op, Server};
use crate::model::alloc::{Allocation, Transition};
use crate::model::deployment::{
    Deployment, DeploymentGroup, DeploymentStatus, DeploymentStep, Failure, MARKED_FAILED, TOO_SLOW,
    UNHEALTHY,
};
use crate::model::eval::{Evaluation, Trigger};
use crate::model::gather::Gather;
use crate::model::id::{AllocId, DeploymentId};
use crate::model::job::{Job, JobSpec};
use crate::model::time::{Mono, Now, Span, Wall};
use crate::model::tree::{BTreeMap, BTreeSet};
use crate::state::fault::Fault;
use crate::state::view::View;
use crate::wire::change::DeploymentChange;
use crate::wire::command::{Command, StepDeployment};
use crate::wire::request::{DeploymentWish, Refusal, RefusalKind};

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

    #[cfg(test)]
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
        let step = StepDeployment { deployment, step, eval: Some(eval), tracked_versions, at };
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
        wish: DeploymentWish,
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
        let (goes_on, step) = match wish {
            DeploymentWish::Pause => (false, DeploymentStep::Pause),
            DeploymentWish::Resume => (true, DeploymentStep::Resume),
            DeploymentWish::Promote { groups } => (true, DeploymentStep::Promote { groups }),
            DeploymentWish::Fail => {
                let revert = deployment.is_of(&job) && deployment.groups.values().any(|g| g.auto_revert);
                (true, DeploymentStep::Fail(failure(MARKED_FAILED, &job, revert, view)?))
            }
            DeploymentWish::SetHealth { healthy, unhealthy } => {
                let failure = match fails_by(&deployment, &unhealthy, view)? {
                    Some(revert) => Some(failure(UNHEALTHY, &job, revert && deployment.is_of(&job), view)?),
                    None => None,
                };
                (true, DeploymentStep::SetHealth { healthy, unhealthy, failure })
            }
        };
        let eval = goes_on.then(|| self.made(deployment_eval(&deployment, &job), at));
        let tracked_versions = self.config.tracked_versions;
        let order = StepDeployment { deployment: id, step, eval, tracked_versions, at };
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
        let another = policy.is_some_and(|p| p.allows(&alloc.reschedules, at));
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

/// Of a report: the jobs whose deployments can go on because something has become healthy.
pub(super) fn proven<'a>(
    allocs: impl Iterator<Item = &'a Allocation>,
    view: &View,
) -> Result<Vec<Deployment>, Fault> {
    let ids: BTreeSet<DeploymentId> = allocs.filter_map(|a| a.deployment).gather();
    let mut out = Vec::new();
    for id in ids {
        out.extend(view.deployment(id)?.filter(|d| d.status.is_active()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::alloc::{ClientStatus, Health};
    use crate::model::job::{DelayFunction, ReschedulePolicy};
    use crate::state::samples::{AT, Region, alloc, eval_id, node_id, register, spec};

    /// A job with a deployment, and `allocs` of it with that health.
    fn case(healths: &[(Option<bool>, bool)]) -> (Deployment, Job, Vec<Allocation>) {
        let mut r = Region::new();
        let mut spec = spec("web", 2);
        spec.groups[0].reschedule = Some(ReschedulePolicy {
            attempts: 1,
            interval: Span::hours(1),
            delay: Span::seconds(30),
            delay_function: DelayFunction::Constant,
            max_delay: Span::hours(1),
            unlimited: false,
        });
        r.run(&register(spec, None));
        let job = r.job("web");
        let id = DeploymentId::from_random(1);
        let group = DeploymentGroup {
            auto_revert: true,
            progress_deadline: Span::minutes(10),
            require_progress_by: AT + Span::minutes(10),
            desired_total: 2,
            ..DeploymentGroup::default()
        };
        let deployment = Deployment {
            id,
            job: job.spec.key(),
            job_create_index: job.create_index,
            job_version: 0,
            job_modify_index: job.job_modify_index,
            groups: [("g".to_string(), group)].into(),
            status: DeploymentStatus::Running,
            status_description: String::new(),
            priority: 50,
            create_time: AT,
            modify_time: AT,
            create_index: 1,
            modify_index: 1,
        };
        let one = |(n, (healthy, canary)): (usize, &(Option<bool>, bool))| Allocation {
            client: ClientStatus::Running,
            deployment: Some(id),
            health: Some(Health { healthy: *healthy, canary: *canary, ..Health::default() }),
            ..alloc(n as u128 + 1, &job, node_id(1), eval_id(1))
        };
        let allocs = healths.iter().enumerate().map(one).collect();
        (deployment, job, allocs)
    }

    fn judge(deployment: &Deployment, job: &Job, allocs: &[Allocation], late: bool) -> Verdict {
        let group = "g".to_string();
        let late: Vec<&String> = late.then_some(&group).into_iter().collect();
        verdict(deployment, &job.spec, allocs, &late, AT)
    }

    #[test]
    fn what_is_unhealthy_may_be_tried_again_as_often_as_its_policy_says() {
        let (mut deployment, job, mut allocs) = case(&[(Some(true), false), (Some(false), false)]);
        let bad = allocs[1].id;
        let found = judge(&deployment, &job, &allocs, false);
        assert!(matches!(found, Verdict::Replace(ids) if ids == [bad]));
        allocs[1].transition.reschedule = Some(true);
        assert!(matches!(judge(&deployment, &job, &allocs, false), Verdict::Nothing), "it may already");
        let before = crate::model::reschedule::Reschedule {
            at: AT,
            previous_alloc: bad,
            previous_node: node_id(1),
            delay: Span::ZERO,
        };
        allocs[1].reschedules = vec![before];
        let found = judge(&deployment, &job, &allocs, false);
        assert!(matches!(found, Verdict::Fail { why: UNHEALTHY, revert: true }), "no attempt is left");
        allocs[1].reschedules = vec![];
        deployment.groups.get_mut("g").expect("is there").progress_deadline = Span::ZERO;
        let found = judge(&deployment, &job, &allocs, false);
        assert!(matches!(found, Verdict::Fail { why: UNHEALTHY, .. }), "no time to try again");
    }

    #[test]
    fn a_group_whose_time_is_over_fails_unless_it_has_what_it_wants() {
        let (mut deployment, job, allocs) = case(&[(Some(true), false), (None, false)]);
        assert!(matches!(judge(&deployment, &job, &allocs, false), Verdict::Nothing));
        let found = judge(&deployment, &job, &allocs, true);
        assert!(matches!(found, Verdict::Fail { why: TOO_SLOW, revert: true }));
        let group = deployment.groups.get_mut("g").expect("is there");
        group.healthy = 2;
        assert!(matches!(judge(&deployment, &job, &allocs, true), Verdict::Nothing));
        let group = deployment.groups.get_mut("g").expect("is there");
        (group.healthy, group.desired_canaries) = (1, 1);
        assert!(matches!(judge(&deployment, &job, &allocs, true), Verdict::Nothing), "it waits for a user");
    }

    #[test]
    fn canaries_promote_themselves_once_all_of_them_are_healthy() {
        for (healths, wanted) in [
            (vec![(Some(true), true), (None, true)], false),
            (vec![(Some(true), true), (Some(true), false)], false),
            (vec![(Some(true), true), (Some(true), true)], true),
        ] {
            let (mut deployment, job, allocs) = case(&healths);
            let group = deployment.groups.get_mut("g").expect("is there");
            (group.desired_canaries, group.auto_promote) = (2, true);
            let found = judge(&deployment, &job, &allocs, false);
            assert_eq!(matches!(found, Verdict::Promote), wanted, "{healths:?}");
            let group = deployment.groups.get_mut("g").expect("is there");
            group.auto_promote = false;
            assert!(matches!(judge(&deployment, &job, &allocs, false), Verdict::Nothing));
        }
    }

    #[test]
    fn a_deadline_is_as_far_away_as_it_was_meant_whatever_the_clock_says() {
        let (deployment, ..) = case(&[]);
        let (now, later) = (Mono(0).after(Span::seconds(1)), Mono(0).after(Span::seconds(601)));
        for (wall, due) in [(AT, later), (Wall(1), later), (AT + Span::hours(9), now)] {
            let mut watched = Watched::default();
            watched.follow(deployment.id, true);
            watched.note(&deployment, now, wall);
            assert_eq!(watched.late(deployment.id, due).len(), 1);
            assert_eq!(watched.late(deployment.id, Mono(due.0 - 1)).len(), 0);
            watched.note(&deployment, now.after(Span::seconds(5)), wall + Span::hours(1));
            assert_eq!(watched.late(deployment.id, due).len(), 1, "known already");
        }
    }
}
