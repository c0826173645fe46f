//! Which version of a job an allocation is placed with: the newest, or, while a deployment holds that back, the one that it
//! replaces. Refuses to know when that is so.

use super::super::feasibility::{Eligibility, Feasibility};
use super::super::proposal::ProposedAllocs;
use super::super::reconcile::Replacement;
use super::super::search::{MAX_LEVELS, Search, SearchOptions};
use super::{EvalContext, Placer};
use model::alloc::Allocation;
use model::deployment::{Deployment, DeploymentStatus};
use model::job::{Job, JobSpec, TaskGroup};
use std::collections::BTreeMap;

/// By number: the older versions that may have to be placed. Read only if the newest may be held back.
pub fn older_versions(
    run: &EvalContext,
    job: Option<&Job>,
    latest: Option<&Deployment>,
    allocs: &[Allocation],
) -> BTreeMap<u64, Job> {
    let mut out = BTreeMap::new();
    let Some(job) = job.filter(|j| !j.spec.stop && may_place_older_version(j, latest)) else { return out };
    let other = |a: &&Allocation| a.job_create_index == job.create_index && a.job_version != job.version;
    for alloc in allocs.iter().filter(other).filter(|a| a.next.is_none()) {
        if out.contains_key(&alloc.job_version) {
            continue;
        }
        let spec = run.view.job_version(&run.eval.job, alloc.job_create_index, alloc.job_version);
        let Some(spec) = spec else { continue };
        let (version, job_modify_index) = (alloc.job_version, alloc.job_modify_index);
        let spec = JobSpec::clone(&spec);
        out.insert(
            version,
            Job { spec, version, job_modify_index, status_description: String::new(), tag: None, ..*job },
        );
    }
    out
}

fn may_place_older_version(job: &Job, latest: Option<&Deployment>) -> bool {
    match latest.filter(|d| d.is_of(job)) {
        Some(d) => d.status != DeploymentStatus::Running || d.groups.values().any(|g| g.awaits_promotion()),
        None => job.spec.groups.iter().any(|g| g.update.is_some_and(|u| u.canary > 0)),
    }
}

impl<'a> Placer<'a> {
    /// The version to place for a replacement, if it is not the newest, and the group of that version.
    pub(super) fn version_for(&self, one: Replacement<'a>) -> (Option<&'a Job>, &'a TaskGroup) {
        let kept = one.keeps_version && one.alloc.job_create_index == self.job.create_index;
        let version = self.older.get(&one.alloc.job_version).filter(|_| kept);
        match version.and_then(|job| Some((job, job.spec.group(&one.group.name)?))) {
            Some((job, group)) => (Some(job), group),
            None => (None, one.group),
        }
    }

    pub(super) fn search(
        &mut self,
        group: &'a TaskGroup,
        version: Option<&'a Job>,
        proposal: &ProposedAllocs<'a>,
    ) -> &mut Search<'a> {
        let (job, run) = (version.unwrap_or(self.job), self.run);
        let (newest, searched, feasibility) = (version.is_none(), &mut self.searched, &mut self.feasibility);
        self.searches.entry((job.version, &group.name)).or_insert_with(|| {
            if newest {
                searched.push(group);
            }
            let algorithm = run.view.scheduling(&job.spec.node_pool).algorithm;
            let rules = SearchOptions { algorithm, seed: run.seed, max_levels: MAX_LEVELS };
            let feasibility = feasibility_of(feasibility, job, run);
            Search::new(&job.spec, group, run.fleet, feasibility, proposal, rules)
        })
    }

    /// The newest version's.
    pub(super) fn feasible(&mut self) -> &mut Feasibility<'a> {
        feasibility_of(&mut self.feasibility, self.job, self.run)
    }

    /// A failed placement may be of an older version: then no class counts as ineligible.
    pub(super) fn eligibility(&mut self) -> Eligibility {
        if self.searches.keys().any(|(version, _)| *version != self.job.version) {
            return Eligibility { escaped: true, ..Eligibility::default() };
        }
        let searched = std::mem::take(&mut self.searched);
        self.feasible().eligibility(&searched)
    }
}

fn feasibility_of<'f, 'a>(
    all: &'f mut BTreeMap<u64, Feasibility<'a>>,
    job: &'a Job,
    run: &EvalContext<'a>,
) -> &'f mut Feasibility<'a> {
    all.entry(job.version).or_insert_with(|| Feasibility::new(&job.spec, run.fleet))
}
