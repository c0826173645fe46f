//! Walks over rows, some at a time: a new leader reads its region in bounded turns, and all pieces of a walk are of one view.
//!
//! Refuses to know: what anybody makes of the rows, and how many are read at a time. Invariant: the pieces of a walk together are what one
//! piece without a limit is.

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

/// How far a walk has come. Begins at the beginning.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// What was looked at last.
    after: Option<Vec<u8>>,
    is_over: bool,
}

impl Walk {
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Goes on until `limit` more were looked at.
    fn piece(&mut self, limit: usize) -> Piece<'_> {
        self.is_over = true;
        Piece { walk: self, left: limit }
    }
}

/// What one call looks at.
struct Piece<'a> {
    walk: &'a mut Walk,
    left: usize,
}

impl Piece<'_> {
    fn after(&self) -> Option<Vec<u8>> {
        self.walk.after.clone()
    }

    /// There is another one: may this piece have it?
    fn admits(&mut self, key: &[u8]) -> bool {
        let admits = self.left > 0;
        if admits {
            self.left -= 1;
            self.walk.after = Some(key.to_vec());
        }
        self.walk.is_over = admits;
        admits
    }
}

/// Each takes the walk on by at most `limit` of what it has to look at, and returns what it found there.
impl View {
    /// The pending and the blocked ones, by job, then (create index, id). Looks at each job at least twice.
    pub fn walk_open_evals(&self, walk: &mut Walk, limit: usize) -> Result<Vec<Evaluation>, Fault> {
        let mut piece = walk.piece(limit);
        let begin = Kind::OfJob.key(&[]);
        let end = tables::after_prefix(&begin).unwrap_or_default();
        let begin = piece.after().map_or(begin, |last| [last.as_slice(), &[0]].concat());
        let mut out = Vec::new();
        skip_scan(&self.rows, begin, &end, |key, _| {
            if !piece.admits(key) {
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

    /// System jobs and periodic ones, of all namespaces. Looks at each job, and decodes none.
    pub fn walk_system_and_periodic_jobs(&self, walk: &mut Walk, limit: usize) -> Result<Vec<JobKey>, Fault> {
        let mut piece = walk.piece(limit);
        let mut out = Vec::new();
        tables::each_job(&self.rows, &[], piece.after().as_deref(), |job, bytes| {
            if !piece.admits(bytes) {
                return Ok(false);
            }
            let periodic = |row: &JobRow| row.kinship.launched().is_some();
            if self.job_row(bytes)?.is_some_and(|row| row.job_type == JobType::System || periodic(&row)) {
                out.push(job.clone());
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// Ordered by id.
    pub fn walk_nodes(&self, walk: &mut Walk, limit: usize) -> Result<Vec<Arc<Node>>, Fault> {
        let mut piece = walk.piece(limit);
        let mut ids = Vec::new();
        tables::each(&self.rows, &Kind::Node.key(&[]), piece.after().as_deref(), |key, _| {
            let admits = piece.admits(key);
            if admits {
                ids.push(NodeId(tables::id_at_end(key)?));
            }
            Ok(admits)
        })?;
        let read = |id| self.node(id)?.ok_or_else(|| Fault::corrupt("a node has no description"));
        ids.into_iter().map(read).collect()
    }

    /// Those that go on, ordered by (create index, id). Looks at all.
    pub fn walk_active_deployments(&self, walk: &mut Walk, limit: usize) -> Result<Vec<Deployment>, Fault> {
        let mut piece = walk.piece(limit);
        let mut out = Vec::new();
        tables::each(&self.rows, &Kind::Deployment.key(&[]), piece.after().as_deref(), |key, value| {
            let admits = piece.admits(key);
            if admits {
                out.push(record::decode(value)?);
            }
            Ok(admits)
        })?;
        out.retain(|deployment: &Deployment| deployment.status.is_active());
        Ok(out)
    }

    /// The pending and the blocked ones, by job, then (create index, id).
    pub fn open_evals(&self) -> Result<Vec<Evaluation>, Fault> {
        self.walk_open_evals(&mut Walk::default(), usize::MAX)
    }

    /// All, ordered by id.
    pub fn nodes(&self) -> Result<Vec<Arc<Node>>, Fault> {
        self.walk_nodes(&mut Walk::default(), usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::*;
    use model::eval::EvalStatus;
    use std::fmt::Debug;
    use wire::command::Command;

    /// All that a walk finds, `limit` at a time.
    fn walked<T>(limit: usize, mut go_on: impl FnMut(&mut Walk, usize) -> Result<Vec<T>, Fault>) -> Vec<T> {
        let (mut walk, mut out) = (Walk::default(), vec![]);
        while !walk.is_over() {
            let piece = go_on(&mut walk, limit).expect("reads");
            assert!(piece.len() <= limit, "{} at a time", piece.len());
            out.extend(piece);
        }
        out
    }

    /// The same, however many at a time.
    fn agrees<T: PartialEq + Debug>(
        mut go_on: impl FnMut(&mut Walk, usize) -> Result<Vec<T>, Fault>,
    ) -> Vec<T> {
        let whole = walked(usize::MAX, &mut go_on);
        for limit in 1..=7 {
            assert_eq!(walked(limit, &mut go_on), whole, "{limit} at a time");
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
        let open = agrees(|walk, limit| view.walk_open_evals(walk, limit));
        let found: Vec<_> = open.into_iter().map(|e| (e.job, e.create_index, e.status)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn pieces_of_a_walk_are_the_whole() {
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
        let jobs = agrees(|walk, limit| view.walk_system_and_periodic_jobs(walk, limit));
        assert_eq!(jobs, [key("job-0"), key("job-3"), key("job-6"), key("job-9")]);
        let nodes = agrees(|walk, limit| view.walk_nodes(walk, limit));
        assert!(nodes.is_sorted_by_key(|node| node.info.id));
        assert_eq!(nodes.len(), 11);
    }
}
