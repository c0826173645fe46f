//! Job headers, which lists show: one scan over the rows reads those of all jobs, without decoding any group.
//!
//! Refuses to know: pages and filters. Invariant: a header says what the whole job says.

use super::fault::Fault;
use super::tables::{self, JobRow, Kind, Part, Rows, VersionRow};
use super::view::View;
use model::child_jobs::JobRelation;
use model::id::JobKey;
use model::job::{JobSpec, JobType};
use model::job_summary::JobSummary;
use serde::Deserialize;
use wire::record;

/// A job without its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct JobHeader {
    pub key: JobKey,
    pub name: String,
    pub job_type: JobType,
    pub priority: i64,
    pub datacenters: Vec<String>,
    pub node_pool: String,
    pub stop: bool,
    pub create_index: u64,
    /// The newest version's row.
    pub version: VersionRow,
    pub summary: JobSummary,
    pub relation: JobRelation,
}

/// The first fields of a `JobSpec`. The rest is not decoded.
#[derive(Deserialize)]
struct JobSpecPrefix<'a> {
    _namespace: &'a str,
    _id: &'a str,
    name: String,
    _region: &'a str,
    job_type: JobType,
    priority: i64,
    _all_at_once: bool,
    datacenters: Vec<String>,
    node_pool: String,
}

/// How many rows are stepped over before the next key is sought in the tree.
const MAX_ROWS_SKIPPED: usize = 16;

impl View {
    /// As `jobs`, in the same order.
    pub fn job_headers(
        &self,
        namespace: Option<&str>,
        prefix: &str,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobHeader>, Fault> {
        let of_namespace = namespace.map(|n| tables::job_prefix_bytes(n, prefix)).unwrap_or_default();
        let begin = Kind::OfJob.key(&[&of_namespace]);
        let end = tables::after_prefix(&begin).unwrap_or_default();
        let start = match after.and_then(|job| after_job(&tables::job_bytes(job))) {
            Some(start) => start.max(begin),
            None => begin,
        };
        let mut out = Vec::new();
        let mut row_of_job = None;
        skip_scan(&self.rows, start, &end, |key, value| {
            let (job, rest) = split_key(key)?;
            let bytes = &key[1..key.len() - rest.len()];
            let next = match row_of_job.take() {
                // the job was purged, and its evaluations may be left
                None if rest.first() != Some(&(Part::Row as u8)) || !job.id.starts_with(prefix) => {
                    after_job(bytes)
                }
                None => {
                    let row: JobRow = record::decode(value)?;
                    let spec = tables::spec_key(bytes, row.create_index, row.newest()?.version);
                    row_of_job = Some((row, spec.clone()));
                    Some(spec)
                }
                Some((row, spec)) if spec == key => {
                    out.push(header(job, row, value)?);
                    after_job(bytes)
                }
                Some(_) => return Err(Fault::corrupt("a row of kind job version is missing")),
            };
            Ok(next.filter(|_| out.len() < limit))
        })?;
        Ok(out)
    }
}

/// The job of a key of `Kind::OfJob`, and what follows it.
pub(super) fn split_key(key: &[u8]) -> Result<(JobKey, &[u8]), Fault> {
    let damaged = || Fault::corrupt("a job's key is damaged");
    tables::split_job(key.get(1..).unwrap_or_default()).ok_or_else(damaged)
}

fn header(key: JobKey, mut row: JobRow, spec: &[u8]) -> Result<JobHeader, Fault> {
    let damaged = || Fault::corrupt("a job has no version");
    let version = row.versions.pop().ok_or_else(damaged)?;
    let spec = decode_prefix(spec)?;
    Ok(JobHeader {
        key,
        name: spec.name,
        job_type: spec.job_type,
        priority: spec.priority,
        datacenters: spec.datacenters,
        node_pool: spec.node_pool,
        stop: row.stop,
        create_index: row.create_index,
        version,
        summary: row.summary,
        relation: row.relation,
    })
}

/// The beginning of a record; one of an older version is read whole.
fn decode_prefix(record: &[u8]) -> Result<JobSpecPrefix<'_>, Fault> {
    if let Some(beginning) = record::decode_prefix::<JobSpec, _>(record)? {
        return Ok(beginning);
    }
    let spec: JobSpec = record::decode(record)?;
    Ok(JobSpecPrefix {
        _namespace: "",
        _id: "",
        name: spec.name,
        _region: "",
        job_type: spec.job_type,
        priority: spec.priority,
        _all_at_once: spec.all_at_once,
        datacenters: spec.datacenters,
        node_pool: spec.node_pool,
    })
}

/// The least key above all of this job.
fn after_job(job: &[u8]) -> Option<Vec<u8>> {
    tables::after_prefix(&Kind::OfJob.key(&[job]))
}

/// Calls `visit` with the first row at or above `target` and below `end`, then with the first one at or above the key that it
/// gave, until it gives none.
pub(super) fn skip_scan(
    rows: &impl Rows,
    mut target: Vec<u8>,
    end: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<Option<Vec<u8>>, Fault>,
) -> Result<(), Fault> {
    while target.as_slice() < end {
        let from = target.clone();
        let mut skipped = 0;
        for row in rows.range(from.as_slice()..end)? {
            let (key, value) = row?;
            if key.value() >= target.as_slice() {
                match visit(key.value(), value.value())? {
                    Some(next) => target = next,
                    None => return Ok(()),
                }
                skipped = 0;
            } else if skipped == MAX_ROWS_SKIPPED {
                break;
            } else {
                skipped += 1;
            }
        }
        if skipped < MAX_ROWS_SKIPPED {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;
    use wire::command::Command;

    #[test]
    fn job_headers_agree_with_whole_jobs() {
        let mut region = Region::default();
        region.run(&node_pool("pool"));
        for (n, id) in ["a", "aa", "b", "c"].into_iter().enumerate() {
            let mut spec = spec(id, 3);
            (spec.name, spec.priority) = (format!("name of {id}"), n as i64 + 1);
            (spec.node_pool, spec.job_type) = ("pool".into(), JobType::Batch);
            region.run(&register(spec.clone(), None));
            spec.stop = n == 2;
            spec.datacenters.push("more".into());
            region.run(&register(spec, None));
        }
        // more and fewer than are skipped over one by one, and evaluations of a job that is not there
        let of = |job: &str, first: u128, count: u128| (first..first + count).map(|n| eval(n, job)).collect();
        for evals in [of("a", 100, 40), of("b", 200, MAX_ROWS_SKIPPED as u128), of("bb", 300, 3)] {
            region.run(&Command::UpdateEvals { evals, at: AT });
        }
        let view = region.view();
        for (namespace, prefix, after, limit) in [
            (None, "", None, 100),
            (Some("default"), "", None, 100),
            (Some("default"), "a", None, 100),
            (None, "b", None, 100),
            (None, "", Some("a"), 2),
            (None, "", Some("aa"), 1),
            (Some("other"), "", None, 100),
            (None, "", Some("c"), 100),
        ] {
            let after = after.map(key);
            let headers = view.job_headers(namespace, prefix, after.as_ref(), limit).expect("reads");
            let jobs = view.jobs(namespace, prefix, after.as_ref(), limit).expect("reads");
            assert_eq!(headers.len(), jobs.len(), "{prefix} {after:?}");
            for (header, job) in headers.iter().zip(jobs) {
                let spec = &job.spec;
                assert_eq!((&header.key, &header.name), (&spec.key(), &spec.name));
                assert_eq!(
                    (header.job_type, header.priority, header.stop),
                    (spec.job_type, spec.priority, spec.stop)
                );
                assert_eq!((&header.datacenters, &header.node_pool), (&spec.datacenters, &spec.node_pool));
                let version = &header.version;
                assert_eq!((version.status, version.submit_time), (job.status, job.submit_time));
                let indexes = (header.create_index, version.modify_index, version.job_modify_index);
                assert_eq!(indexes, (job.create_index, job.modify_index, job.job_modify_index));
                assert_eq!(Some(&header.summary), view.job_summary(&header.key).expect("reads").as_ref());
            }
        }
        assert_eq!(view.job_headers(None, "", None, 100).expect("reads").len(), 4);
    }
}
