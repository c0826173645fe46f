//! Scans of rows, some at a time: a new leader reads its region in bounded turns, and all batches of a scan are of one view.
//!
//! Refuses to know: what anybody makes of the rows, and how many are read at a time. Invariant: the batches of a scan together are what one
//! batch without a limit is.

use super::fault::Fault;
use super::job_headers::{skip_scan, split_key};
use super::tables::{self, CreationKey, JobRow, Kind, Part};
use super::view::View;
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::id::{JobKey, NodeId};
use model::job::JobType;
use model::node::Node;
use std::sync::Arc;
use wire::record;

/// How far a scan has come; by default it is at the beginning.
#[derive(Clone, Debug, Default)]
pub struct RangeScan {
    /// The key that was looked at last.
    after: Option<Vec<u8>>,
    is_over: bool,
}

impl RangeScan {
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// A batch that goes on until `limit` more were looked at.
    fn batch(&mut self, limit: usize) -> ScanBatch<'_> {
        self.is_over = true;
        ScanBatch { scan: self, left: limit }
    }
}

/// The part of a scan that one call looks at.
struct ScanBatch<'a> {
    scan: &'a mut RangeScan,
    left: usize,
}

impl ScanBatch<'_> {
    fn after(&self) -> Option<Vec<u8>> {
        self.scan.after.clone()
    }

    /// Whether the row that comes next belongs to this batch.
    fn admits(&mut self, key: &[u8]) -> bool {
        let admits = self.left > 0;
        if admits {
            self.left -= 1;
            self.scan.after = Some(key.to_vec());
        }
        self.scan.is_over = admits;
        admits
    }
}

/// Each of these takes the scan on by at most `limit` of what it looks at, and returns what it found there.
impl View {
    /// Pending and blocked evaluations, by job, then (create index, id). Looks at each job at least twice.
    pub fn scan_open_evals(&self, scan: &mut RangeScan, limit: usize) -> Result<Vec<Evaluation>, Fault> {
        let mut batch = scan.batch(limit);
        let begin = Kind::OfJob.key(&[]);
        let end = tables::after_prefix(&begin).unwrap_or_default();
        let begin = batch.after().map_or(begin, |last| [last.as_slice(), &[0]].concat());
        let mut out = Vec::new();
        skip_scan(&self.rows, begin, &end, |key, _| {
            if !batch.admits(key) {
                return Ok(None);
            }
            let (_, rest) = split_key(key)?;
            let job = &key[..key.len() - rest.len()];
            Ok(match rest.first() {
                Some(part) if *part < Part::OpenEval as u8 => Some([job, &[Part::OpenEval as u8]].concat()),
                Some(part) if *part == Part::OpenEval as u8 => {
                    let place = CreationKey::from_key_end(key)?;
                    out.push(tables::must_get(&self.rows, &tables::eval_key(place))?);
                    Some([key, &[0]].concat())
                }
                _ => tables::after_prefix(job),
            })
        })?;
        Ok(out)
    }

    /// System jobs and periodic ones of all namespaces. Looks at each job, and decodes none.
    pub fn scan_system_and_periodic_jobs(
        &self,
        scan: &mut RangeScan,
        limit: usize,
    ) -> Result<Vec<JobKey>, Fault> {
        let mut batch = scan.batch(limit);
        let mut out = Vec::new();
        tables::each_job(&self.rows, &[], batch.after().as_deref(), |job, bytes| {
            if !batch.admits(bytes) {
                return Ok(false);
            }
            let periodic = |row: &JobRow| row.relation.launched().is_some();
            if self.job_row(bytes)?.is_some_and(|row| row.job_type == JobType::System || periodic(&row)) {
                out.push(job.clone());
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// Ordered by id.
    pub fn scan_nodes(&self, scan: &mut RangeScan, limit: usize) -> Result<Vec<Arc<Node>>, Fault> {
        let mut batch = scan.batch(limit);
        let mut ids = Vec::new();
        tables::each(&self.rows, &Kind::Node.key(&[]), batch.after().as_deref(), |key, _| {
            let admits = batch.admits(key);
            if admits {
                ids.push(NodeId(tables::id_at_end(key)?));
            }
            Ok(admits)
        })?;
        let read = |id| self.node(id)?.ok_or_else(|| Fault::corrupt("a node has no description"));
        ids.into_iter().map(read).collect()
    }

    /// Active deployments, ordered by (create index, id). Looks at all deployments.
    pub fn scan_active_deployments(
        &self,
        scan: &mut RangeScan,
        limit: usize,
    ) -> Result<Vec<Deployment>, Fault> {
        let mut batch = scan.batch(limit);
        let mut out = Vec::new();
        tables::each(&self.rows, &Kind::Deployment.key(&[]), batch.after().as_deref(), |key, value| {
            let admits = batch.admits(key);
            if admits {
                out.push(record::decode(value)?);
            }
            Ok(admits)
        })?;
        out.retain(|deployment: &Deployment| deployment.status.is_active());
        Ok(out)
    }

    /// Pending and blocked evaluations, by job, then (create index, id).
    #[cfg(any(test, feature = "testing"))]
    pub fn open_evals(&self) -> Result<Vec<Evaluation>, Fault> {
        self.scan_open_evals(&mut RangeScan::default(), usize::MAX)
    }

    /// All nodes, ordered by id.
    pub fn nodes(&self) -> Result<Vec<Arc<Node>>, Fault> {
        self.scan_nodes(&mut RangeScan::default(), usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;
    use model::eval::EvalStatus;
    use std::fmt::Debug;
    use wire::command::Command;

    /// All that a scan finds, `limit` at a time.
    fn scanned<T>(
        limit: usize,
        mut go_on: impl FnMut(&mut RangeScan, usize) -> Result<Vec<T>, Fault>,
    ) -> Vec<T> {
        let (mut scan, mut out) = (RangeScan::default(), vec![]);
        while !scan.is_over() {
            let batch = go_on(&mut scan, limit).expect("reads");
            assert!(batch.len() <= limit, "{} at a time", batch.len());
            out.extend(batch);
        }
        out
    }

    /// The same, however many at a time.
    fn agrees<T: PartialEq + Debug>(
        mut go_on: impl FnMut(&mut RangeScan, usize) -> Result<Vec<T>, Fault>,
    ) -> Vec<T> {
        let whole = scanned(usize::MAX, &mut go_on);
        for limit in 1..=7 {
            assert_eq!(scanned(limit, &mut go_on), whole, "{limit} at a time");
        }
        whole
    }

    #[test]
    fn every_open_evaluation_is_found_once() {
        let mut region = Region::default();
        let mut expected = vec![];
        for (n, status) in
            [EvalStatus::Pending, EvalStatus::Complete, EvalStatus::Blocked].into_iter().enumerate()
        {
            for job in ["b", "a", "with\0zero", "c"] {
                let number = expected.len() as u128 * 3 + n as u128 + 1;
                let evals = vec![Evaluation { status, ..eval(number, job) }];
                region.run(&Command::UpdateEvals { evals, at: AT });
                expected.push((key(job), region.view().index(), status));
            }
        }
        expected.retain(|(_, _, status)| *status != EvalStatus::Complete);
        expected.sort_by_key(|(job, index, _)| (job.clone(), *index));
        let view = region.view();
        let open = agrees(|scan, limit| view.scan_open_evals(scan, limit));
        let found: Vec<_> = open.into_iter().map(|e| (e.job, e.create_index, e.status)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn batches_of_a_scan_are_the_whole() {
        let mut region = Region::default();
        for n in 0..11_u128 {
            let mut spec = spec(&format!("job-{n}"), 1);
            if n % 3 == 0 {
                spec.job_type = JobType::System;
            }
            region.run(&register(spec, None));
            region.ready_node(n + 1);
        }
        let view = region.view();
        let jobs = agrees(|scan, limit| view.scan_system_and_periodic_jobs(scan, limit));
        assert_eq!(jobs, [key("job-0"), key("job-3"), key("job-6"), key("job-9")]);
        let nodes = agrees(|scan, limit| view.scan_nodes(scan, limit));
        assert!(nodes.is_sorted_by_key(|node| node.info.id));
        assert_eq!(nodes.len(), 11);
    }
}
