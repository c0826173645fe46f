//! The spec of a dispatched job as it lies in its row: without what its parent's version says. That version stays as long as there is
//! such a job.
//!
//! Refuses to know: who dispatches, and what a spec says.

use super::fault::Fault;
use super::tables::{self, Rows};
use model::child_jobs::whole;
use model::id::JobKey;
use model::job::JobSpec;

/// The whole spec. `None`: that version is not kept.
pub(super) fn read_spec(
    rows: &impl Rows,
    job: &[u8],
    create_index: u64,
    version: u64,
) -> Result<Option<JobSpec>, Fault> {
    let spec: Option<JobSpec> = tables::get(rows, &tables::spec_key(job, create_index, version))?;
    match spec {
        Some(thin) if thin.groups.is_empty() && origin(&thin).is_some() => {
            let parent = read_origin(rows, &thin)?.ok_or_else(|| missing(&thin))?;
            Ok(Some(whole(thin, parent)))
        }
        spec => Ok(spec),
    }
}

pub(super) fn must_read_spec(
    rows: &impl Rows,
    job: &[u8],
    create_index: u64,
    version: u64,
) -> Result<JobSpec, Fault> {
    let missing = || Fault::corrupt("a row of kind job version is missing");
    read_spec(rows, job, create_index, version)?.ok_or_else(missing)
}

/// The parent's version that the job was dispatched from: the parent, its create index, the version.
pub(super) fn origin(spec: &JobSpec) -> Option<(JobKey, u64, u64)> {
    let (create_index, version) = spec.dispatch.as_ref()?.made_of?;
    Some((JobKey::new(spec.namespace.clone(), spec.parent.clone()), create_index, version))
}

pub(super) fn read_origin(rows: &impl Rows, spec: &JobSpec) -> Result<Option<JobSpec>, Fault> {
    let Some((parent, create_index, version)) = origin(spec) else { return Ok(None) };
    tables::get(rows, &tables::spec_key(&tables::job_bytes(&parent), create_index, version))
}

fn missing(spec: &JobSpec) -> Fault {
    Fault::corrupt(format!("the version that {} was made of is missing", spec.key()))
}
