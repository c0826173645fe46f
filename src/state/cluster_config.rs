//! Reads for operators: namespaces, node pools, system jobs, the scheduler's configuration, and evaluations that may be deleted.
//! Refuses to know what follows from any of it.

use super::fault::Fault;
use super::tables::{self, CreationKey, Kind, Part, Rows};
use super::view::{View, read_namespace, read_version};
use model::alloc::{Allocation, ClientStatus};
use model::eval::Evaluation;
use model::id::JobKey;
use model::namespace::Namespace;
use model::pool::NodePool;
use model::scheduling::{SchedulerConfig, Scheduling};
use model::time::Wall;
use wire::record;

/// Namespaces.
impl View {
    pub fn namespace(&self, name: &str) -> Result<Option<Namespace>, Fault> {
        read_namespace(&self.rows, name)
    }

    /// Namespaces whose names begin with `prefix`, ordered by name.
    pub fn namespaces(&self, prefix: &str) -> Result<Vec<Namespace>, Fault> {
        let mut out = Vec::new();
        tables::each(&self.rows, &tables::namespace_key(prefix), None, |_, value| {
            out.push(record::decode::<Namespace>(value)?);
            Ok(true)
        })?;
        let built_in = Namespace::built_in();
        let at = out.partition_point(|n| n.spec.name < built_in.spec.name);
        let stored = out.get(at).is_some_and(|n| n.spec.name == built_in.spec.name);
        if !stored && built_in.spec.name.starts_with(prefix) {
            out.insert(at, built_in);
        }
        Ok(out)
    }
}

impl View {
    /// Allocations of all jobs whose newest version has at most this priority; jobs of which nothing lives are left out.
    pub fn each_alloc_up_to_priority(
        &self,
        priority: i64,
        each: &mut dyn FnMut(Allocation),
    ) -> Result<(), Fault> {
        tables::each_job(&self.rows, &[], None, |_, bytes| {
            let Some(row) = self.job_row(bytes)?.filter(|row| row.live_allocs > 0) else { return Ok(true) };
            if read_version(&self.rows, bytes, &row, row.newest()?)?.spec.priority <= priority {
                let allocs: Vec<Allocation> =
                    self.rows_of_index(&Part::Alloc.key(bytes, &[]), Kind::Alloc)?;
                allocs.into_iter().for_each(&mut *each);
            }
            Ok(true)
        })
    }

    /// Up to when the launches of a periodic job are decided.
    pub fn launched(&self, key: &JobKey) -> Result<Option<Wall>, Fault> {
        Ok(self.job_row(&tables::job_bytes(key))?.and_then(|row| row.relation.launched()))
    }

    pub fn node_pool(&self, name: &str) -> Result<Option<NodePool>, Fault> {
        read_node_pool(&self.rows, name)
    }

    /// Node pools whose names begin with `prefix`, ordered by name.
    pub fn node_pools(&self, prefix: &str) -> Result<Vec<NodePool>, Fault> {
        let mut out = Vec::new();
        tables::each(&self.rows, &tables::node_pool_key(prefix), None, |_, value| {
            out.push(record::decode::<NodePool>(value)?);
            Ok(true)
        })?;
        for built_in in NodePool::built_in().into_iter().filter(|p| p.spec.name.starts_with(prefix)) {
            let at = out.partition_point(|p| p.spec.name < built_in.spec.name);
            out.insert(at, built_in);
        }
        Ok(out)
    }

    pub fn scheduler_config(&self) -> Result<SchedulerConfig, Fault> {
        read_scheduler_config(&self.rows)
    }

    pub fn scheduling_in(&self, pool: &str) -> Result<Scheduling, Fault> {
        let pool = self.node_pool(pool)?;
        let said = pool.as_ref().and_then(|p| p.spec.scheduling.as_ref());
        Ok(self.scheduler_config()?.settings.in_pool(said))
    }

    /// Whether the evaluation may not be deleted, even if a user wants it.
    pub fn needs(&self, eval: &Evaluation) -> Result<bool, Fault> {
        let row = self.job_row(&tables::job_bytes(&eval.job))?;
        is_eval_needed(&self.rows, eval, row.is_some_and(|row| !row.stop))
    }
}

pub(super) fn read_node_pool(rows: &impl Rows, name: &str) -> Result<Option<NodePool>, Fault> {
    match NodePool::built_in().into_iter().find(|p| p.spec.name == name) {
        None => tables::get(rows, &tables::node_pool_key(name)),
        built_in => Ok(built_in),
    }
}

pub(super) fn read_scheduler_config(rows: &impl Rows) -> Result<SchedulerConfig, Fault> {
    Ok(tables::get(rows, &Kind::SchedulerConfig.key(&[]))?.unwrap_or_default())
}

/// Whether an allocation of the evaluation is live or, if the job is wanted, may yet be rescheduled.
pub(super) fn is_eval_needed(rows: &impl Rows, eval: &Evaluation, wanted: bool) -> Result<bool, Fault> {
    for key in tables::keys(rows, &Kind::AllocOfEval.key(&[eval.id.0.as_bytes()]))? {
        let alloc: Allocation = tables::must_get(rows, &tables::alloc_key(CreationKey::from_key_end(&key)?))?;
        let done = alloc.server_terminal() || alloc.next.is_some();
        if !alloc.terminal() || (wanted && alloc.client == ClientStatus::Failed && !done) {
            return Ok(true);
        }
    }
    Ok(false)
}
