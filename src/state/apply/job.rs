//! Jobs: registering, stopping, purging; versions, status and summary (server.md 3.1, server.md 3.2, server.md 8).
//! Refuses to know why a job's allocations and evaluations move: it only counts what they come to.

use super::super::cluster_config;
use super::super::dispatched_spec::must_read_spec;
use super::super::fault::Fault;
use super::super::tables::{self, JobRow, Part, VersionRow};
use super::super::view::{self, Table};
use super::{ApplyTxn, JobEdit, Reply, checked_decrement};
use model::alloc::ClientStatus;
use model::child_jobs::JobRelation;
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::id::JobKey;
use model::job::{JobSpec, JobStatus, JobType};
use model::job_summary::{Children, GroupSummary, JobSummary};
use model::namespace::nonexistent;
use model::submission::Submission;
use model::time::Wall;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::change::Change;
use wire::command::RegisterJobCommand;
use wire::event::Object;
use wire::request::{Refusal, RefusalKind, WriteReply};

/// How a job ends.
pub(super) enum End {
    Stop { tracked_versions: u32 },
    Purge,
}

impl ApplyTxn<'_> {
    pub(super) fn register_job(&mut self, order: RegisterJobCommand) -> Result<Reply, Fault> {
        let RegisterJobCommand {
            mut spec,
            enforce_index,
            preserve_counts,
            submission,
            eval,
            tracked_versions,
            at,
        } = order;
        let key = spec.key();
        let index = self.index();
        if let Some(refusal) = self.check_namespace_and_pool(&spec)? {
            return Ok(Err(refusal));
        }
        let row = self.job(&key)?.cloned();
        let known = row.as_ref().map(|row| self.newest_spec(&key, row)).transpose()?;
        if let Some(known) = &known {
            spec.parent.clone_from(&known.parent);
        }
        if known.as_ref().is_some_and(|known| known.dispatch.is_some()) {
            return Ok(Err(Refusal::new(RefusalKind::Conflict, "field 'Dispatched' is read-only")));
        }
        if let Some(refusal) = conflict(&spec, enforce_index, row.as_ref())? {
            return Ok(Err(refusal));
        }
        if let Some(known) = known.as_ref().filter(|_| preserve_counts) {
            keep_counts(&mut spec, known);
        }
        let answer = match (&row, &known) {
            (Some(row), Some(known)) if *known == spec => row.newest()?.modify_index,
            (Some(_), Some(known)) => self.add_version(&key, known, &spec, tracked_versions, at)?,
            _ => self.create_job(&key, &spec, at)?,
        };
        if answer == index
            && let Some(submission) = submission
        {
            self.put_submission(&key, &submission)?;
        }
        self.evaluate_newest(&key, eval, answer, at)
    }

    /// The namespace and the node pool that the job names must exist.
    pub(super) fn check_namespace_and_pool(&self, spec: &JobSpec) -> Result<Option<Refusal>, Fault> {
        let refuse = |kind, name: &str| {
            Ok(Some(Refusal::new(RefusalKind::Validation, nonexistent(&spec.id, kind, name))))
        };
        if view::read_namespace(&self.rows, &spec.namespace)?.is_none() {
            return refuse("namespace", &spec.namespace);
        }
        if cluster_config::read_node_pool(&self.rows, &spec.node_pool)?.is_none() {
            return refuse("node pool", &spec.node_pool);
        }
        Ok(None)
    }

    /// `answer`: the modify index in the answer to the change.
    pub(super) fn evaluate_newest(
        &mut self,
        key: &JobKey,
        eval: Option<Evaluation>,
        answer: u64,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let index = self.index();
        let (job_modify_index, runs) = match self.job(key)? {
            Some(row) => (row.newest()?.job_modify_index, !row.relation.is_parent()),
            None => (index, true),
        };
        let eval = eval.filter(|_| runs).map(|e| Evaluation { job_modify_index, ..e });
        let id = eval.as_ref().map(|e| e.id);
        self.put_evals(eval.into_iter().collect(), at)?;
        Ok(Ok(WriteReply::Job { eval: id, job_modify_index: answer, index }))
    }

    /// Gives the new job's modify index, as `add_version` does.
    pub(super) fn create_job(&mut self, key: &JobKey, spec: &JobSpec, at: Wall) -> Result<u64, Fault> {
        let index = self.index();
        let relation = JobRelation::of_new(spec, at);
        let children = if relation.is_parent() { self.adopt_orphans(key)? } else { Children::default() };
        let mut row = JobRow {
            create_index: index,
            job_type: spec.job_type,
            stop: spec.stop,
            versions: vec![version(0, index, at)],
            live_allocs: 0,
            summary: JobSummary {
                create_index: index,
                modify_index: index,
                groups: BTreeMap::new(),
                children,
            },
            relation,
        };
        add_groups(&mut row.summary, spec);
        self.update_scaling(key, None, Some(spec))?;
        self.put_spec(&tables::job_bytes(key), index, 0, spec)?;
        self.edit_job(key)?.now = Some(row);
        Ok(index)
    }

    /// `was`: the newest version so far.
    pub(super) fn add_version(
        &mut self,
        key: &JobKey,
        was: &JobSpec,
        spec: &JobSpec,
        tracked_versions: u32,
        at: Wall,
    ) -> Result<u64, Fault> {
        let index = self.index();
        self.update_scaling(key, Some(was), Some(spec))?;
        let Some(row) = self.job(key)? else { return Ok(index) };
        let mut next = version(row.newest()?.version + 1, index, at);
        next.status = row.newest()?.status;
        let (create_index, number) = (row.create_index, next.version);
        row.versions.push(next);
        row.stop = spec.stop;
        // the new version may have other launch times: those in the past count as decided
        row.relation.decide_launches(at);
        add_groups(&mut row.summary, spec);
        let dropped = track_newest(&mut row.versions, tracked_versions);
        let bytes = tables::job_bytes(key);
        for version in dropped {
            self.remove(&tables::submission_key(&bytes, create_index, version))?;
        }
        self.put_spec(&bytes, create_index, number, spec)?;
        Ok(index)
    }

    /// Keeps the text that the newest version was made from.
    pub(super) fn put_submission(&mut self, key: &JobKey, submission: &Submission) -> Result<(), Fault> {
        let Some(row) = self.job(key)? else { return Ok(()) };
        let (create_index, version) = (row.create_index, row.newest()?.version);
        self.put(&tables::submission_key(&tables::job_bytes(key), create_index, version), submission)
    }

    pub(super) fn end_job(
        &mut self,
        key: JobKey,
        end: End,
        eval: Option<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let index = self.index();
        let Some(row) = self.job(&key)?.cloned() else {
            return Ok(Ok(WriteReply::Job { eval: None, job_modify_index: 0, index }));
        };
        match end {
            End::Purge => self.purge_job(&key, &row)?,
            End::Stop { tracked_versions } => {
                let spec = self.newest_spec(&key, &row)?;
                if !spec.stop {
                    let stopped = JobSpec { stop: true, ..spec.clone() };
                    self.add_version(&key, &spec, &stopped, tracked_versions, at)?;
                }
            }
        }
        let eval = eval.filter(|_| !row.relation.is_parent());
        let eval = eval.map(|e| Evaluation { job_modify_index: index, ..e });
        let id = eval.as_ref().map(|e| e.id);
        self.put_evals(eval.into_iter().collect(), at)?;
        Ok(Ok(WriteReply::Job { eval: id, job_modify_index: index, index }))
    }

    /// The job, its versions, its summary and its allocations go; its evaluations stay.
    pub(super) fn purge_job(&mut self, key: &JobKey, row: &JobRow) -> Result<(), Fault> {
        self.remove_allocs_of(key)?;
        self.remove_deployments_of(key)?;
        let bytes = tables::job_bytes(key);
        self.job_event(&bytes, row, true)?;
        let spec = self.newest_spec(key, row)?;
        self.update_scaling(key, Some(&spec), None)?;
        // the job's spec cannot be read once the version that it was made of is removed
        self.remove_dispatch_records(key, &spec)?;
        for v in &row.versions {
            self.remove_spec(&bytes, row.create_index, v.version)?;
            self.remove(&tables::submission_key(&bytes, row.create_index, v.version))?;
        }
        if row.relation.is_parent() {
            self.orphan_children(key, row.summary.children)?;
        }
        self.edit_job(key)?.now = None;
        Ok(())
    }

    pub(super) fn newest_spec(&self, key: &JobKey, row: &JobRow) -> Result<JobSpec, Fault> {
        must_read_spec(&self.rows, &tables::job_bytes(key), row.create_index, row.newest()?.version)
    }

    /// The job's row, to be read or changed; written when the entry ends.
    pub(super) fn job(&mut self, key: &JobKey) -> Result<Option<&mut JobRow>, Fault> {
        Ok(self.edit_job(key)?.now.as_mut())
    }

    fn edit_job(&mut self, key: &JobKey) -> Result<&mut JobEdit, Fault> {
        use std::collections::btree_map::Entry;
        Ok(match self.jobs.entry(key.clone()) {
            Entry::Occupied(e) => e.into_mut(),
            Entry::Vacant(e) => {
                let was: Option<JobRow> =
                    tables::get(&self.rows, &Part::Row.key(&tables::job_bytes(key), &[]))?;
                e.insert(JobEdit { now: was.clone(), was })
            }
        })
    }

    /// Writes every job that the entry touched, with the status that follows from the entry.
    pub(super) fn write_jobs(&mut self) -> Result<(), Fault> {
        // a parent is before its children, and comes once more when they have moved
        while let Some((key, edit)) = self.jobs.pop_first() {
            let bytes = tables::job_bytes(&key);
            let row_key = Part::Row.key(&bytes, &[]);
            let visible = match (edit.was, edit.now) {
                (None, None) => false,
                (Some(was), None) => {
                    self.remove(&row_key)?;
                    self.count_child_in_parent(&key, Some(&was), None)?;
                    true
                }
                (was, Some(mut now)) => {
                    self.drop_unused_versions(&bytes, &mut now)?;
                    self.update_job_status(&bytes, was.as_ref(), &mut now)?;
                    self.put(&row_key, &now)?;
                    self.count_child_in_parent(&key, was.as_ref(), Some(&now))?;
                    let visible = was.is_none_or(|was| visible_fields(&was) != visible_fields(&now));
                    if visible {
                        self.job_event(&bytes, &now, false)?;
                    }
                    visible
                }
            };
            if visible {
                self.set_table_index(Table::Jobs);
                self.changes.push(Change::Job { job: key });
            }
        }
        Ok(())
    }

    fn job_event(&mut self, bytes: &[u8], row: &JobRow, deleted: bool) -> Result<(), Fault> {
        let job = view::read_version(&self.rows, bytes, row, row.newest()?)?;
        self.events.push(Object::Job { job: Arc::new(job), deleted });
        Ok(())
    }

    fn update_job_status(
        &mut self,
        bytes: &[u8],
        was: Option<&JobRow>,
        now: &mut JobRow,
    ) -> Result<(), Fault> {
        let index = self.index();
        let status = self.status_of(bytes, now)?;
        if let Some(newest) = now.versions.last_mut()
            && newest.status != status
        {
            newest.status = status;
            newest.modify_index = index;
        }
        if was.is_some_and(|was| was.summary != now.summary) {
            now.summary.modify_index = index;
        }
        Ok(())
    }

    /// The first matching rule of server.md 3.1.4.
    fn status_of(&self, bytes: &[u8], row: &JobRow) -> Result<JobStatus, Fault> {
        if row.job_type == JobType::System || row.relation.is_parent() {
            return Ok(if row.stop { JobStatus::Dead } else { JobStatus::Running });
        }
        let deployed = |d: Deployment| d.status.is_active();
        if row.live_allocs > 0 || view::read_latest_deployment(&self.rows, bytes)?.is_some_and(deployed) {
            return Ok(JobStatus::Running);
        }
        if tables::any(&self.rows, &Part::OpenEval.key(bytes, &[]))? {
            return Ok(JobStatus::Pending);
        }
        // what was more than pending stays so when its evaluations go
        let evaluated = row.newest()?.status != JobStatus::Pending
            || tables::any(&self.rows, &Part::Eval.key(bytes, &[]))?
            || tables::any(&self.rows, &Part::Alloc.key(bytes, &[]))?;
        Ok(if evaluated { JobStatus::Dead } else { JobStatus::Pending })
    }

    fn drop_unused_versions(&mut self, bytes: &[u8], row: &mut JobRow) -> Result<(), Fault> {
        let unused = |v: &VersionRow| !v.tracked && v.allocs == 0;
        for v in row.versions.iter().filter(|v| unused(v)) {
            self.remove_spec(bytes, row.create_index, v.version)?;
        }
        row.versions.retain(|v| !unused(v));
        let sorted = row.versions.is_sorted_by(|a, b| a.version < b.version);
        if !sorted || !row.newest()?.tracked {
            return Err(Fault::corrupt("a job's versions are out of order"));
        }
        Ok(())
    }
}

/// The fields of a job's row that readers see: allocation counts are internal.
fn visible_fields(row: &JobRow) -> (Option<VersionRow>, usize, Option<u64>, &JobSummary, &JobRelation) {
    let newest = row.versions.last().map(|v| VersionRow { allocs: 0, ..v.clone() });
    let tracked = || row.versions.iter().filter(|v| v.tracked);
    let moved = tracked().map(|v| v.modify_index).max();
    (newest, tracked().count(), moved, &row.summary, &row.relation)
}

fn version(version: u64, index: u64, at: Wall) -> VersionRow {
    VersionRow {
        version,
        stable: false,
        tracked: true,
        status: JobStatus::Pending,
        submit_time: at,
        job_modify_index: index,
        modify_index: index,
        allocs: 0,
        tag: None,
    }
}

fn add_groups(summary: &mut JobSummary, spec: &JobSpec) {
    for group in &spec.groups {
        summary.groups.entry(group.name.clone()).or_default();
    }
}

/// Leaves the newest `most` tracked, and the newest stable one whatever its age; those with a name stay beside them. Gives those
/// that no longer are.
fn track_newest(versions: &mut [VersionRow], most: u32) -> Vec<u64> {
    let stable = versions.iter().rposition(|v| v.tracked && v.stable);
    let newest = versions.len().saturating_sub(1);
    let unnamed = |v: &VersionRow| v.tracked && v.tag.is_none();
    let tracked = versions.iter().filter(|v| unnamed(v)).count();
    let excess = tracked.saturating_sub(most as usize);
    let given_up =
        versions.iter_mut().enumerate().filter(|(i, v)| unnamed(v) && Some(*i) != stable && *i != newest);
    let drop = |(_, v): (usize, &mut VersionRow)| {
        v.tracked = false;
        v.version
    };
    let given_up = given_up.take(excess).map(drop).collect();
    let left = versions.iter().filter(|v| unnamed(v)).count();
    assert!(left <= 2.max(most as usize), "beyond the newest versions only a stable one is tracked");
    given_up
}

pub(super) fn conflict(
    spec: &JobSpec,
    enforce: Option<u64>,
    row: Option<&JobRow>,
) -> Result<Option<Refusal>, Fault> {
    let present = match row {
        Some(row) => Some(row.newest()?.job_modify_index),
        None => None,
    };
    let refuse = |message: String| Ok(Some(Refusal::new(RefusalKind::Conflict, message)));
    match (enforce, present) {
        (Some(0), Some(_)) => return refuse("Enforcing job modify index 0: job already exists".into()),
        (Some(n), None) if n != 0 => {
            return refuse(format!("Enforcing job modify index {n}: job does not exist"));
        }
        (Some(n), Some(m)) if n != m => {
            return refuse(format!(
                "Enforcing job modify index {n}: job exists with conflicting job modify index: {m}"
            ));
        }
        _ => {}
    }
    let refuses = |row: &JobRow| row.job_type.refuses(spec.job_type).or_else(|| row.relation.refuses(spec));
    row.and_then(refuses).map_or(Ok(None), refuse)
}

/// Moves one allocation of `group` between the summary's counts. `complete` and `failed` only grow
/// (server.md 3.2.1).
pub(super) fn count(
    summary: &mut JobSummary,
    group: &str,
    was: Option<ClientStatus>,
    now: ClientStatus,
) -> Result<(), Fault> {
    if was == Some(now) {
        return Ok(());
    }
    let g = summary.groups.entry(group.to_string()).or_default();
    match was {
        Some(ClientStatus::Complete | ClientStatus::Failed) => {}
        Some(was) => {
            let bucket = bucket(g, was);
            *bucket = checked_decrement(*bucket, 1, "allocations of a group")?;
        }
        None if now == ClientStatus::Pending => g.queued = g.queued.saturating_sub(1),
        None => {}
    }
    *bucket(g, now) += 1;
    Ok(())
}

/// Removes an allocation from the counts; complete and failed ones stay counted.
pub(super) fn uncount(summary: &mut JobSummary, group: &str, was: ClientStatus) -> Result<(), Fault> {
    if let Some(g) = summary.groups.get_mut(group)
        && !was.is_terminal()
    {
        let bucket = bucket(g, was);
        *bucket = checked_decrement(*bucket, 1, "allocations of a group")?;
    }
    Ok(())
}

fn bucket(g: &mut GroupSummary, status: ClientStatus) -> &mut u64 {
    match status {
        ClientStatus::Pending => &mut g.starting,
        ClientStatus::Running => &mut g.running,
        ClientStatus::Complete => &mut g.complete,
        ClientStatus::Failed => &mut g.failed,
        ClientStatus::Lost => &mut g.lost,
        ClientStatus::Unknown => &mut g.unknown,
    }
}

/// Groups that the job has already keep their count, as far as their new limits let them.
fn keep_counts(spec: &mut JobSpec, old: &JobSpec) {
    let known = old.groups_by_name();
    for group in &mut spec.groups {
        if let Some(old) = known.get(group.name.as_str()) {
            let limits = group.scaling.as_ref().map_or((0, i64::MAX), |s| (s.min, s.max));
            group.count = old.count.max(limits.0).min(limits.1);
        }
    }
}
