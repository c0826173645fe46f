//! The collector: forgets what has ended, is old and is needed by nothing (server.md 14). It goes round at an interval,
//! or when it is asked to, in small steps: a step looks at a bounded number of things, and proposes at most one entry with a bounded
//! number of those that may go. Applying looks at each once more.
//!
//! Refuses to know what may be collected, which `model::garbage` decides. A round's progress is lost with the leader: the next leader
//! begins a new round.

use super::context::Context;
use super::pending::OnApply;
use model::garbage::{Cutoffs, Garbage, GarbageRules};
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use model::node::NodeStatus;
use model::time::{Mono, Span, Wall};
use state::fault::Fault;
use state::garbage::GcDecision;
use state::view::View;
use std::collections::BTreeMap;
use wire::command::{CollectGarbageCommand, Command};

/// Objects that one step looks at.
const SCAN_LIMIT: usize = 256;
/// Objects that one entry removes: some milliseconds' work for the thread that applies it.
const ENTRY_LIMIT: usize = 48;
/// Jobs and dead nodes are checked by what is theirs, which is much more to look at.
const CHECK_LIMIT: usize = 8;
/// A job takes all that belongs to it along.
const JOBS_PER_ENTRY: usize = 2;
/// The pause between two steps, in which others have their turns.
const PAUSE_BETWEEN_STEPS: Span = Span::millis(10);

/// What a round looks at, in this order, and where it goes on. Jobs come twice: one with too many rows has fewer at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GarbageStage {
    Jobs { after: Option<JobKey>, again: bool },
    Allocs(Option<(u64, AllocId)>),
    Evals(Option<(u64, EvalId)>),
    Deployments(Option<(u64, DeploymentId)>),
    Nodes(Option<NodeId>),
}

const FIRST: GarbageStage = GarbageStage::Jobs { after: None, again: false };

struct Round {
    stage: GarbageStage,
    before: Cutoffs,
}

pub struct Collector {
    rules: GarbageRules,
    /// `None`: between two rounds.
    round: Option<Round>,
    /// When the next step is due. `None`: an entry is under way.
    due: Option<Mono>,
    /// A user wants everything to go that can.
    forced: bool,
}

impl Collector {
    pub fn new(rules: GarbageRules, now: Mono) -> Self {
        Collector { rules, round: None, due: Some(now.after(rules.interval)), forced: false }
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.due
    }

    /// A user wants a round now. One under way is given up for one that takes more.
    pub fn force(&mut self, now: Mono) {
        self.forced = true;
        self.due = self.due.map(|due| due.min(now));
    }

    /// The entry that was under way is applied.
    pub fn proposal_done(&mut self, now: Mono) {
        self.due = Some(now.after(PAUSE_BETWEEN_STEPS));
    }

    /// The clock has jumped, and everything may look old: until then only what somebody asks for is collected. Where other servers may
    /// say what the time is, that is for as long as they have not.
    fn clock_unsettled_until(&self, cx: &Context<'_>) -> Option<Mono> {
        let is_asked_for =
            self.forced || self.round.as_ref().is_some_and(|round| round.before == Cutoffs::FORCED);
        let rest = |jumped_at: Mono| match cx.clock.is_in_doubt() {
            true => cx.now.after(self.rules.interval),
            false => jumped_at.after(self.rules.after_leap),
        };
        let until = cx.clock.jumped_at().map(rest);
        until.filter(|until| !is_asked_for && cx.now < *until)
    }

    fn round(&mut self, at: Wall) -> (GarbageStage, Cutoffs) {
        if std::mem::take(&mut self.forced) {
            self.round = Some(Round { stage: FIRST, before: Cutoffs::FORCED });
        }
        let rules = &self.rules;
        let round = self.round.get_or_insert_with(|| Round { stage: FIRST, before: Cutoffs::of(rules, at) });
        (round.stage.clone(), round.before)
    }

    /// A step has led to `stage`; `None`: the round is over.
    fn step(&mut self, stage: Option<GarbageStage>, now: Mono) {
        let next = if stage.is_some() { PAUSE_BETWEEN_STEPS } else { self.rules.interval };
        self.round =
            self.round.take().and_then(|round| stage.map(|stage| Round { stage, before: round.before }));
        self.due = Some(now.after(next));
    }

    /// One step, if it is due.
    pub fn collect(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        if !cx.space_free || self.due.is_none_or(|due| due > cx.now) {
            return Ok(());
        }
        if let Some(until) = self.clock_unsettled_until(cx) {
            (self.round, self.due) = (None, Some(until));
            return Ok(());
        }
        let (at, view) = (cx.at, cx.view()?);
        let (stage, before) = self.round(at);
        let found = find(&view, stage, &before)?;
        self.step(found.next, cx.now);
        if let Some(garbage) = found.garbage {
            let tracked_versions = cx.config.tracked_versions;
            let (what, count) = counted(&garbage);
            tracing::debug!(target: "nomad.core", what, count, "collecting garbage");
            let order = CollectGarbageCommand { garbage, before, tracked_versions, at };
            self.due = None;
            cx.propose(Command::CollectGarbage(Box::new(order)), OnApply::Collected);
        }
        Ok(())
    }
}

fn counted(garbage: &Garbage) -> (&'static str, usize) {
    match garbage {
        Garbage::Jobs(keys) => ("jobs", keys.len()),
        Garbage::Stop(_) => ("jobs", 1),
        Garbage::Allocs(ids) => ("allocations", ids.len()),
        Garbage::Evals(ids) => ("evaluations", ids.len()),
        Garbage::Deployments(ids) => ("deployments", ids.len()),
        Garbage::Nodes(ids) => ("nodes", ids.len()),
    }
}

/// What a step found.
struct Found {
    garbage: Option<Garbage>,
    /// Where the next one begins; `None`: everything was looked at.
    next: Option<GarbageStage>,
}

/// A function of the view: looks at some things of a stage, the next ones after those that were looked at before.
fn find(view: &View, stage: GarbageStage, before: &Cutoffs) -> Result<Found, Fault> {
    match stage {
        GarbageStage::Jobs { after, again } => jobs(view, after, again, before),
        GarbageStage::Allocs(after) => allocs(view, after, before),
        GarbageStage::Evals(after) => evals(view, after, before),
        GarbageStage::Deployments(after) => deployments(view, after, before),
        GarbageStage::Nodes(after) => nodes(view, after, before),
    }
}

/// A job with too many rows to be purged at once is stopped by an entry of its own.
fn jobs(view: &View, mut after: Option<JobKey>, again: bool, before: &Cutoffs) -> Result<Found, Fault> {
    let keys = view.job_keys(after.as_ref(), CHECK_LIMIT)?;
    let mut more = keys.len() == CHECK_LIMIT;
    let mut collected = Vec::new();
    let mut stops = None;
    for key in keys {
        let decision = view.gc_decision(&key, before)?;
        if collected.len() == JOBS_PER_ENTRY || (decision == GcDecision::StopFirst && !collected.is_empty()) {
            more = true;
            break;
        }
        after = Some(key.clone());
        match decision {
            GcDecision::Keep => {}
            GcDecision::Purge => collected.push(key),
            GcDecision::StopFirst => {
                stops = Some(key);
                more = true;
                break;
            }
        }
    }
    let garbage = match stops {
        Some(key) => Some(Garbage::Stop(key)),
        None => (!collected.is_empty()).then_some(Garbage::Jobs(collected)),
    };
    let next = match (more, again) {
        (true, _) => GarbageStage::Jobs { after, again },
        (false, false) => GarbageStage::Allocs(None),
        (false, true) => GarbageStage::Nodes(None),
    };
    Ok(Found { garbage, next: Some(next) })
}

fn allocs(view: &View, mut after: Option<(u64, AllocId)>, before: &Cutoffs) -> Result<Found, Fault> {
    let rows = view.allocs(after, SCAN_LIMIT)?;
    let mut more = rows.len() == SCAN_LIMIT;
    let (mut collected, mut holders) = (Vec::new(), BTreeMap::new());
    for alloc in rows {
        if collected.len() == ENTRY_LIMIT {
            more = true;
            break;
        }
        after = Some((alloc.create_index, alloc.id));
        if !alloc.terminal() {
            continue;
        }
        if !holders.contains_key(&alloc.job) {
            holders.insert(alloc.job.clone(), view.holder(&alloc.job)?);
        }
        let holder = holders.get(&alloc.job).and_then(Option::as_ref);
        if view.may_collect_alloc(&alloc, holder, before)? {
            collected.push(alloc.id);
        }
    }
    let garbage = (!collected.is_empty()).then_some(Garbage::Allocs(collected));
    let next = if more { GarbageStage::Allocs(after) } else { GarbageStage::Evals(None) };
    Ok(Found { garbage, next: Some(next) })
}

fn evals(view: &View, mut after: Option<(u64, EvalId)>, before: &Cutoffs) -> Result<Found, Fault> {
    let rows = view.evals(after, SCAN_LIMIT)?;
    let mut more = rows.len() == SCAN_LIMIT;
    let mut collected = Vec::new();
    for eval in rows {
        if collected.len() == ENTRY_LIMIT {
            more = true;
            break;
        }
        after = Some((eval.create_index, eval.id));
        if view.may_collect_eval(&eval, before)? {
            collected.push(eval.id);
        }
    }
    let garbage = (!collected.is_empty()).then_some(Garbage::Evals(collected));
    let next = if more { GarbageStage::Evals(after) } else { GarbageStage::Deployments(None) };
    Ok(Found { garbage, next: Some(next) })
}

fn deployments(
    view: &View,
    mut after: Option<(u64, DeploymentId)>,
    before: &Cutoffs,
) -> Result<Found, Fault> {
    let rows = view.deployments(after, SCAN_LIMIT)?;
    let mut more = rows.len() == SCAN_LIMIT;
    let mut collected = Vec::new();
    for deployment in rows {
        if collected.len() == ENTRY_LIMIT {
            more = true;
            break;
        }
        after = Some((deployment.create_index, deployment.id));
        if view.may_collect_deployment(&deployment, before)? {
            collected.push(deployment.id);
        }
    }
    let garbage = (!collected.is_empty()).then_some(Garbage::Deployments(collected));
    let again = GarbageStage::Jobs { after: None, again: true };
    Ok(Found { garbage, next: Some(if more { GarbageStage::Deployments(after) } else { again }) })
}

fn nodes(view: &View, mut after: Option<NodeId>, before: &Cutoffs) -> Result<Found, Fault> {
    let ids = view.node_ids_after(after, SCAN_LIMIT)?;
    let mut more = ids.len() == SCAN_LIMIT;
    let (mut collected, mut checked) = (Vec::new(), 0);
    for id in ids {
        if checked == CHECK_LIMIT {
            more = true;
            break;
        }
        after = Some(id);
        if view.fleet().status(id) == Some(NodeStatus::Down) {
            checked += 1;
            collected.extend(view.may_collect_node(id, before)?.then_some(id));
        }
    }
    let garbage = (!collected.is_empty()).then_some(Garbage::Nodes(collected));
    Ok(Found { garbage, next: more.then_some(GarbageStage::Nodes(after)) })
}

#[cfg(test)]
mod tests;
