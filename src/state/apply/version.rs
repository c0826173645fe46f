//! Older versions of a job: reverting to one, and which of them are stable (server.md 8.3).
//! Refuses to know who found a version stable, and why a job is reverted.

use super::super::dispatched_spec::{must_read_spec, read_spec};
use super::super::fault::Fault;
use super::super::tables::{self, JobRow};
use super::{ApplyTxn, Reply};
use model::id::JobKey;
use model::job::{JobSpec, VersionTag};
use model::submission::Submission;
use model::time::Wall;
use wire::command::{RevertJobCommand, TagVersionCommand};
use wire::request::{Refusal, RefusalKind, WriteReply};

impl ApplyTxn<'_> {
    /// Reverts a job for a user. A version that was stopped stops the job again.
    pub(super) fn revert_for_user(&mut self, order: RevertJobCommand) -> Result<Reply, Fault> {
        let RevertJobCommand { job: key, version, enforce_prior_version, eval, tracked_versions, at } = order;
        let refuse = |message: String| Ok(Err(Refusal::new(RefusalKind::Validation, message)));
        let Some(row) = self.job(&key)?.cloned() else {
            return refuse(format!("job {:?} not found", key.id));
        };
        let current = row.newest()?.version;
        if version == current {
            return refuse("can't revert to current version".into());
        }
        if !is_tracked(&row, version) {
            return refuse(unknown_version(&key, version));
        }
        if let Some(enforced) = enforce_prior_version.filter(|n| *n != current) {
            return refuse(format!("Current job has version {current}; enforcing version {enforced}"));
        }
        let spec = must_read_spec(&self.rows, &tables::job_bytes(&key), row.create_index, version)?;
        if let Some(refusal) = self.check_namespace_and_pool(&spec)? {
            return Ok(Err(refusal));
        }
        let answer = match self.add_reverted_version(&key, &row, version, &spec, tracked_versions, at)? {
            true => self.index(),
            false => row.newest()?.modify_index,
        };
        self.evaluate_newest(&key, eval, answer, at)
    }

    /// The job gets the spec of that version once more, as its newest, and runs. False: it has that spec, or the version is not kept.
    pub(super) fn revert_job(
        &mut self,
        key: &JobKey,
        version: u64,
        tracked_versions: u32,
        at: Wall,
    ) -> Result<bool, Fault> {
        let Some(row) = self.job(key)?.cloned() else { return Ok(false) };
        let spec = read_spec(&self.rows, &tables::job_bytes(key), row.create_index, version)?;
        let Some(spec) = spec.map(|spec| JobSpec { stop: false, ..spec }) else { return Ok(false) };
        self.add_reverted_version(key, &row, version, &spec, tracked_versions, at)
    }

    /// `spec`, with the text of that version, as the newest. False: it is the newest already.
    fn add_reverted_version(
        &mut self,
        key: &JobKey,
        row: &JobRow,
        version: u64,
        spec: &JobSpec,
        tracked_versions: u32,
        at: Wall,
    ) -> Result<bool, Fault> {
        let newest = self.newest_spec(key, row)?;
        if newest == *spec {
            return Ok(false);
        }
        let text = tables::submission_key(&tables::job_bytes(key), row.create_index, version);
        let submission: Option<Submission> = tables::get(&self.rows, &text)?;
        self.add_version(key, &newest, spec, tracked_versions, at)?;
        if let Some(submission) = submission {
            self.put_submission(key, &submission)?;
        }
        Ok(true)
    }

    /// A version has one name at most, and a name one version.
    pub(super) fn tag_version(&mut self, order: TagVersionCommand) -> Result<Reply, Fault> {
        let TagVersionCommand { job: key, name, version, description, at } = order;
        let refuse = |kind, message: String| Ok(Err(Refusal::new(kind, message)));
        let index = self.index();
        let Some(row) = self.job(&key)? else {
            return refuse(RefusalKind::Validation, format!("job {:?} not found", key.id));
        };
        let named = row.versions.iter().find(|v| v.tag.as_ref().is_some_and(|tag| tag.name == name));
        let named = named.map(|v| v.version);
        let Some(description) = description else {
            let Some(version) = named else {
                let unknown = format!("tag {name:?} not found on job {:?}", key.id);
                return refuse(RefusalKind::NotFound, unknown);
            };
            set_tag(row, version, None, index);
            return Ok(Ok(WriteReply::Tagged { at, index }));
        };
        let version = version.unwrap_or(row.newest()?.version);
        if !is_tracked(row, version) {
            return refuse(RefusalKind::Validation, unknown_version(&key, version));
        }
        if named.is_some_and(|named| named != version) {
            let taken = format!("tag {name:?} already exists on a different version of job {:?}", key.id);
            return refuse(RefusalKind::Validation, taken);
        }
        let others = row.versions.iter().filter(|v| v.tag.is_some() && v.version != version);
        if others.count() >= VersionTag::MOST {
            let full = format!("{} versions of a job may have tags: unset one", VersionTag::MOST);
            return refuse(RefusalKind::Validation, full);
        }
        set_tag(row, version, Some(VersionTag { name, description, at }), index);
        Ok(Ok(WriteReply::Tagged { at, index }))
    }

    pub(super) fn set_stability(&mut self, key: &JobKey, version: u64, stable: bool) -> Result<Reply, Fault> {
        let refuse = |message: String| Ok(Err(Refusal::new(RefusalKind::Validation, message)));
        let index = self.index();
        let Some(row) = self.job(key)?.cloned() else {
            return refuse(format!("job {:?} not found", key.id));
        };
        if !is_tracked(&row, version) {
            return refuse(unknown_version(key, version));
        }
        self.mark(key, row.create_index, version, stable)?;
        Ok(Ok(WriteReply::Job { eval: None, job_modify_index: row.newest()?.job_modify_index, index }))
    }

    /// A version to come back to.
    pub(super) fn mark_stable(&mut self, key: &JobKey, create_index: u64, version: u64) -> Result<(), Fault> {
        self.mark(key, create_index, version, true)
    }

    fn mark(&mut self, key: &JobKey, create_index: u64, version: u64, stable: bool) -> Result<(), Fault> {
        let index = self.index();
        let Some(row) = self.job(key)?.filter(|row| row.create_index == create_index) else {
            return Ok(());
        };
        if let Some(found) = row.versions.iter_mut().find(|v| v.version == version && v.stable != stable) {
            found.stable = stable;
            found.modify_index = index;
        }
        Ok(())
    }
}

fn set_tag(row: &mut JobRow, version: u64, tag: Option<VersionTag>, index: u64) {
    for found in row.versions.iter_mut().filter(|v| v.version == version) {
        found.tag.clone_from(&tag);
        found.modify_index = index;
    }
}

fn is_tracked(row: &JobRow, version: u64) -> bool {
    row.versions.iter().any(|v| v.version == version && v.tracked)
}

fn unknown_version(key: &JobKey, version: u64) -> String {
    format!("job {:?} in namespace {:?} at version {version} not found", key.id, key.namespace)
}
