//! The versions of a job and what changed between them (http-api.md 1.2.11).
//!
//! Refuses to know: how differences are found. Finding and writing those of a large job takes seconds, so it is done beside
//! the thread that serves other requests, by as many requests at a time as plans (decision 0060).

use crate::blocking::{self, IndexHeaders};
use crate::page;
use crate::response::Response;
use crate::routes::job;
use crate::shape::MetaShape;
use crate::shape::diff::DiffShape;
use crate::shape::job::JobShape;
use crate::shape::job_answers::VersionsShape;
use crate::watch::WatchKey;
use crate::{Call, RouteOutcome};
use model::diff::JobDiff;
use model::id::JobKey;
use model::job::Job;
use state::view::Table;

/// What each version is compared with.
enum Base {
    /// No differences were requested.
    No,
    /// The next older one.
    Previous,
    One(Box<Job>),
}

/// Newest first.
struct JobVersions {
    jobs: Vec<Job>,
    base: Base,
    mark: IndexHeaders,
    pretty: bool,
}

pub fn versions(call: &Call<'_>, id: &str) -> Result<RouteOutcome, Response> {
    let key = JobKey::new(call.namespace(), id);
    let asked = VersionsQuery::new(call)?;
    let view = call.view()?;
    let jobs = view.job_versions(&key)?;
    // an older one may be called good when the newest has not moved
    let newest = jobs.iter().map(|j| j.modify_index).max();
    let index = newest.unwrap_or_else(|| view.table_index(Table::Jobs));
    if let Some(wait) = blocking::wait(call, index, vec![WatchKey::Job(key)], view.index()) {
        return Ok(RouteOutcome::Wait(wait));
    }
    let mark = IndexHeaders::new(call, index);
    Ok(match found(call, jobs, asked, mark) {
        Err(refusal) => RouteOutcome::Respond(mark.on(refusal)),
        Ok(versions @ JobVersions { base: Base::No, .. }) => RouteOutcome::Respond(versions.response()),
        Ok(versions) => RouteOutcome::Compute(Box::new(move || versions.response())),
    })
}

fn found(
    call: &Call<'_>,
    jobs: Vec<Job>,
    asked: VersionsQuery<'_>,
    mark: IndexHeaders,
) -> Result<JobVersions, Response> {
    if jobs.is_empty() {
        return Err(Response::text(404, "job versions not found"));
    }
    let base = asked.base(&jobs)?;
    let jobs = page::filtered(jobs, |job| job::matches(call, job))?;
    Ok(JobVersions { jobs, base, mark, pretty: call.query.pretty })
}

impl JobVersions {
    fn response(&self) -> Response {
        let diffs = self.diffs();
        let shape = VersionsShape {
            versions: self.jobs.iter().map(JobShape::new).collect(),
            diffs: diffs.as_ref().map(|all| all.iter().map(DiffShape::new).collect()),
            meta: MetaShape::new(self.mark.index, self.mark.known_leader),
        };
        self.mark.on(Response::json(&shape, self.pretty))
    }

    fn diffs(&self) -> Option<Vec<JobDiff>> {
        let between = |old: &Job, new: &Job| JobDiff::between(Some(&old.spec), &new.spec);
        match &self.base {
            Base::No => None,
            Base::Previous => Some(self.jobs.windows(2).map(|pair| between(&pair[1], &pair[0])).collect()),
            Base::One(base) => Some(self.jobs.iter().map(|job| between(base, job)).collect()),
        }
    }
}

/// The version to compare with.
enum VersionsQuery<'a> {
    No,
    Previous,
    Version(i64),
    Tag(&'a str),
}

impl<'a> VersionsQuery<'a> {
    fn new(call: &'a Call<'_>) -> Result<VersionsQuery<'a>, Response> {
        let q = &call.query;
        let diffs = q.flag("diffs", false)?;
        if let Some(tag) = q.text("diff_tag").filter(|tag| !tag.is_empty()) {
            return Ok(VersionsQuery::Tag(tag));
        }
        Ok(match q.integer("diff_version")? {
            Some(version) => VersionsQuery::Version(version),
            None if diffs => VersionsQuery::Previous,
            None => VersionsQuery::No,
        })
    }

    fn base(&self, jobs: &[Job]) -> Result<Base, Response> {
        let (found, what) = match self {
            VersionsQuery::No => return Ok(Base::No),
            VersionsQuery::Previous => return Ok(Base::Previous),
            VersionsQuery::Version(version) => {
                let is = |job: &&Job| i64::try_from(job.version) == Ok(*version);
                (jobs.iter().find(is), format!("job version {version}"))
            }
            VersionsQuery::Tag(name) => {
                let is = |job: &&Job| job.tag.as_ref().is_some_and(|tag| tag.name == *name);
                (jobs.iter().find(is), format!("tag {name:?}"))
            }
        };
        let unknown = || Response::text(404, format!("{what} not found"));
        Ok(Base::One(Box::new(found.ok_or_else(unknown)?.clone())))
    }
}
