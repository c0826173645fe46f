//! Parent jobs: their launches, each decided once and in the order of the log, and the counts of their children
//! (server.md 3.2, server.md 10). What dispatched ones need besides is in `dispatch`.
//!
//! Refuses to know: what time it is. The moment of a launch is part of the command.

use super::super::fault::Fault;
use super::super::orphaned_children;
use super::super::tables::JobRow;
use super::{ApplyTxn, Reply};
use model::child_jobs;
use model::eval::Evaluation;
use model::id::JobKey;
use model::job::JobSpec;
use model::job_summary::Children;
use model::time::Wall;
use redb::ReadableTable;
use wire::command::LaunchJobCommand;
use wire::request::{Refusal, RefusalKind};

impl ApplyTxn<'_> {
    pub(super) fn launch_job(&mut self, order: LaunchJobCommand) -> Result<Reply, Fault> {
        let refuse = |message: String| Ok(Err(Refusal::new(RefusalKind::Validation, message)));
        let Some(row) = self.job(&order.job)?.cloned() else { return refuse("job not found".into()) };
        let Some(launched) = row.relation.launched() else {
            return refuse("can't force launch non-periodic job".into());
        };
        let spec = self.newest_spec(&order.job, &row)?;
        if spec.stop || !spec.periodic.as_ref().is_some_and(|p| p.enabled) {
            let JobKey { namespace, id } = &order.job;
            return refuse(format!("can't force run non-tracked job {id:?} ({namespace})"));
        }
        let timed = order.timed_by.is_some();
        if timed && !self.decide_launch(&order, &row, &spec, launched)? {
            return Ok(self.noop());
        }
        let child = child_jobs::launched(&spec, order.moment);
        if let Some(refusal) = self.child_id_conflict(&child)? {
            return Ok(Err(refusal));
        }
        self.make_child(&child, order.eval, order.tracked_versions, order.at)
    }

    /// A job with the child's id that the parent did not create belongs to a user.
    fn child_id_conflict(&mut self, child: &JobSpec) -> Result<Option<Refusal>, Fault> {
        let own = |row: &&mut JobRow| {
            (row.relation.parent(), row.job_type) == (child.parent.as_str(), child.job_type)
        };
        let there = self.job(&child.key())?;
        if there.is_none() || there.filter(own).is_some() {
            return Ok(None);
        }
        let (id, parent) = (&child.id, &child.parent);
        let why =
            format!("job {id:?} is there already, and {parent:?} has not launched it: try again in a second");
        Ok(Some(Refusal::new(RefusalKind::Conflict, why)))
    }

    /// Whether the child is created. The launch counts as decided either way.
    fn decide_launch(
        &mut self,
        order: &LaunchJobCommand,
        row: &JobRow,
        spec: &JobSpec,
        launched: Wall,
    ) -> Result<bool, Fault> {
        let current = order.timed_by == Some(row.newest()?.job_modify_index);
        if !current || order.moment <= launched {
            return Ok(false);
        }
        if let Some(row) = self.job(&order.job)? {
            row.relation.decide_launches(order.moment);
        }
        let alone = spec.periodic.as_ref().is_some_and(|p| p.prohibit_overlap);
        let child = child_jobs::launched(spec, order.moment).key();
        Ok(!(alone && row.summary.children.are_alive()) && self.job(&child)?.is_none())
    }

    /// A child that exists already gets a new version.
    pub(super) fn make_child(
        &mut self,
        child: &JobSpec,
        eval: Evaluation,
        tracked_versions: u32,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let key = child.key();
        let answer = match self.job(&key)?.cloned() {
            None => self.create_job(&key, child, at)?,
            Some(row) => match self.newest_spec(&key, &row)? {
                known if known == *child => row.newest()?.modify_index,
                known => self.add_version(&key, &known, child, tracked_versions, at)?,
            },
        };
        let (job_type, priority) = (child.job_type, child.priority);
        self.evaluate_newest(
            &key,
            Some(Evaluation { job: key.clone(), job_type, priority, ..eval }),
            answer,
            at,
        )
    }

    /// Counts a child whose status changed in its parent's summary.
    pub(super) fn count_child_in_parent(
        &mut self,
        child: &JobKey,
        was: Option<&JobRow>,
        now: Option<&JobRow>,
    ) -> Result<(), Fault> {
        let parent = now.or(was).map(|row| row.relation.parent()).unwrap_or_default();
        if parent.is_empty() {
            return Ok(());
        }
        let status = |row: Option<&JobRow>| row?.versions.last().map(|newest| newest.status);
        let (was, now) = (status(was), status(now));
        if was == now {
            return Ok(());
        }
        let parent = JobKey::new(child.namespace.clone(), parent);
        if let Some(row) = self.job(&parent)?.filter(|row| row.relation.is_parent()) {
            row.summary.children.count(was, now);
            return Ok(());
        }
        let mut left = self.orphaned_children(&parent)?;
        left.count(was, now);
        self.orphan_children(&parent, left)
    }

    /// A parent is purged, but its children that have not ended stay: a later job of its id counts them again.
    pub(super) fn orphan_children(&mut self, parent: &JobKey, children: Children) -> Result<(), Fault> {
        let key = orphaned_children::key(parent);
        if children.are_alive() {
            self.put_bytes(&key, &orphaned_children::to_bytes(children))
        } else {
            self.remove(&key)
        }
    }

    /// The children that an earlier job of this id has left, and that have not ended.
    pub(super) fn adopt_orphans(&mut self, parent: &JobKey) -> Result<Children, Fault> {
        let left = self.orphaned_children(parent)?;
        self.remove(&orphaned_children::key(parent))?;
        Ok(left)
    }

    fn orphaned_children(&self, parent: &JobKey) -> Result<Children, Fault> {
        let row = self.rows.get(orphaned_children::key(parent).as_slice())?;
        row.map_or(Ok(Children::default()), |row| orphaned_children::from_bytes(row.value()))
    }
}
