//! A view: the whole state at one index, read-only, for one request or one evaluation.
//!
//! Refuses to know who asks and how long they wait. Every read can fail, because disks can; a damaged row is a fault of
//! that read. Lists are ordered as their doc says, and bounded where the caller says so.

use super::dispatched_spec::{must_read_spec, read_spec};
use super::fault::Fault;
use super::tables::{
    self, AppliedState, CreationKey, JobRow, Kind, NodeInfoRow, NodeRow, Part, Rows, VersionRow,
};
use model::alloc::Allocation;
use model::canonical::DEFAULT_NAMESPACE;
use model::deployment::Deployment;
use model::eval::{EvalStatus, Evaluation};
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId, Uuid};
use model::job::{Job, JobSpec, JobStatus};
use model::job_summary::JobSummary;
use model::key::SigningKey;
use model::namespace::Namespace;
use model::node::Node;
use model::scheduling::Scheduling;
use model::submission::Submission;
use redb::ReadOnlyTable;
use scheduler::SchedulerState;
use scheduler::fleet::FleetSnapshot;
use std::fmt;
use std::sync::{Arc, OnceLock};
use wire::record::{self, Record};

/// The tables whose changes blocking readers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    Jobs = 0,
    Evals = 1,
    Allocs = 2,
    Nodes = 3,
    Namespaces = 4,
    Deployments = 5,
    NodePools = 6,
    ScalingPolicies = 7,
}

pub struct View {
    pub(super) rows: ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub(super) applied: AppliedState,
    fleet: FleetSnapshot,
    fault: OnceLock<Fault>,
    /// Tells the store that somebody reads this database.
    _in_use: Arc<()>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("applied", &self.applied).finish_non_exhaustive()
    }
}

impl View {
    pub(super) fn new(
        rows: ReadOnlyTable<&'static [u8], &'static [u8]>,
        applied: AppliedState,
        fleet: FleetSnapshot,
        in_use: Arc<()>,
    ) -> View {
        View { rows, applied, fleet, fault: OnceLock::new(), _in_use: in_use }
    }

    /// What a snapshot of this state says of itself: its index, its digest, and when each table changed last.
    pub fn applied_state(&self) -> Vec<u8> {
        record::encode(&self.applied)
    }

    /// The last applied entry of the log.
    pub fn index(&self) -> u64 {
        self.applied.index
    }

    /// The entry that last changed something readers see of this table; 0: none did.
    pub fn table_index(&self, table: Table) -> u64 {
        self.applied.tables[table as usize]
    }

    /// As `Store::digest` at this index.
    #[cfg(any(test, feature = "testing"))]
    pub fn digest(&self) -> u64 {
        self.applied.digest
    }
}

/// Keys.
impl View {
    /// Ordered by id.
    pub fn signing_keys(&self) -> Result<Vec<SigningKey>, Fault> {
        let mut out = Vec::new();
        tables::each(&self.rows, &Kind::SigningKey.key(&[]), None, |_, value| {
            out.push(record::decode(value)?);
            Ok(true)
        })?;
        Ok(out)
    }
}

/// The scheduler's half.
impl View {
    /// Every node with what is used of it, at the same index.
    pub fn fleet(&self) -> &FleetSnapshot {
        &self.fleet
    }

    /// The first fault that a read through `scheduler::SchedulerState` met. If there is one, what was decided on this view is
    /// worth nothing.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    fn or_default<T: Default>(&self, read: Result<T, Fault>) -> T {
        read.unwrap_or_else(|fault| {
            // A fault is remembered already: the first one is what matters.
            let _ = self.fault.set(fault);
            T::default()
        })
    }
}

impl SchedulerState for View {
    fn index(&self) -> u64 {
        View::index(self)
    }

    fn job(&self, key: &JobKey) -> Option<Arc<Job>> {
        self.or_default(View::job(self, key))
    }

    fn job_version(&self, key: &JobKey, create_index: u64, version: u64) -> Option<Arc<JobSpec>> {
        self.or_default(self.job_spec(key, create_index, version))
    }

    fn allocs_by_job(&self, key: &JobKey) -> Vec<Allocation> {
        let mut allocs = self.or_default(self.allocs_of_job(key));
        allocs.sort_unstable_by_key(|a| a.id);
        allocs
    }

    fn allocs_by_node(&self, node: NodeId) -> Vec<Allocation> {
        self.or_default(self.allocs_of_node(node))
    }

    fn allocs_up_to_priority(&self, priority: i64, each: &mut dyn FnMut(Allocation)) {
        self.or_default(self.each_alloc_up_to_priority(priority, each));
    }

    fn latest_deployment(&self, key: &JobKey) -> Option<Deployment> {
        self.or_default(View::latest_deployment(self, key))
    }

    fn is_pending(&self, eval: EvalId) -> bool {
        self.or_default(self.eval(eval)).is_some_and(|eval| eval.status == EvalStatus::Pending)
    }

    fn scheduling(&self, pool: &str) -> Scheduling {
        self.or_default(self.scheduling_in(pool))
    }
}

/// Jobs.
impl View {
    pub fn job(&self, key: &JobKey) -> Result<Option<Arc<Job>>, Fault> {
        let bytes = tables::job_bytes(key);
        match self.job_row(&bytes)? {
            None => Ok(None),
            Some(row) => Ok(Some(Arc::new(read_version(&self.rows, &bytes, &row, row.newest()?)?))),
        }
    }

    /// Ordered by namespace, then id. `namespace` `None`: of all; `prefix`: of the id; `after`: where the last page
    /// ended.
    pub fn jobs(
        &self,
        namespace: Option<&str>,
        prefix: &str,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>, Fault> {
        let start = namespace.map(|n| tables::job_prefix_bytes(n, prefix)).unwrap_or_default();
        let after = after.map(tables::job_bytes);
        let mut out = Vec::new();
        tables::each_job(&self.rows, &start, after.as_deref(), |job, bytes| {
            if out.len() < limit
                && job.id.starts_with(prefix)
                && let Some(row) = self.job_row(bytes)?
            {
                out.push(Arc::new(read_version(&self.rows, bytes, &row, row.newest()?)?));
            }
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    pub fn job_summary(&self, key: &JobKey) -> Result<Option<JobSummary>, Fault> {
        Ok(self.job_row(&tables::job_bytes(key))?.map(|row| row.summary))
    }

    /// The summary of every job, with the id of its parent, ordered by namespace, then id. Decodes no job.
    pub fn job_summaries(&self) -> Result<Vec<(JobKey, String, JobStatus, JobSummary)>, Fault> {
        let mut out = Vec::new();
        tables::each_job(&self.rows, &[], None, |job, bytes| {
            if let Some(row) = self.job_row(bytes)? {
                let parent = row.relation.parent().to_string();
                out.push((job.clone(), parent, row.newest()?.status, row.summary));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// The tracked versions, newest first.
    pub fn job_versions(&self, key: &JobKey) -> Result<Vec<Job>, Fault> {
        let bytes = tables::job_bytes(key);
        let Some(row) = self.job_row(&bytes)? else { return Ok(Vec::new()) };
        row.versions
            .iter()
            .rev()
            .filter(|v| v.tracked)
            .map(|v| read_version(&self.rows, &bytes, &row, v))
            .collect()
    }

    /// The spec that an allocation names, which is kept as long as the allocation is.
    pub fn job_spec(
        &self,
        key: &JobKey,
        create_index: u64,
        version: u64,
    ) -> Result<Option<Arc<JobSpec>>, Fault> {
        Ok(read_spec(&self.rows, &tables::job_bytes(key), create_index, version)?.map(Arc::new))
    }

    /// The text that this version was made from, if it was kept.
    pub fn submission(&self, job: &Job) -> Result<Option<Submission>, Fault> {
        let bytes = tables::job_bytes(&job.spec.key());
        tables::get(&self.rows, &tables::submission_key(&bytes, job.create_index, job.version))
    }

    pub(super) fn job_row(&self, bytes: &[u8]) -> Result<Option<JobRow>, Fault> {
        tables::get(&self.rows, &Part::Row.key(bytes, &[]))
    }
}

/// Evaluations.
impl View {
    pub fn eval(&self, id: EvalId) -> Result<Option<Evaluation>, Fault> {
        self.by_id(Kind::EvalId, Kind::Eval, id.0)
    }

    /// Ordered by (create index, id), after `after`.
    pub fn evals(&self, after: Option<(u64, EvalId)>, limit: usize) -> Result<Vec<Evaluation>, Fault> {
        self.page(Kind::Eval, after.map(|(create_index, id)| CreationKey { create_index, id: id.0 }), limit)
    }

    /// Ordered by (create index, id).
    pub fn evals_of_job(&self, key: &JobKey) -> Result<Vec<Evaluation>, Fault> {
        self.rows_of_index(&Part::Eval.key(&tables::job_bytes(key), &[]), Kind::Eval)
    }

    /// Ids that begin with these hex digits (dashes are skipped), ordered.
    pub fn eval_ids(&self, prefix: &str, limit: usize) -> Result<Vec<EvalId>, Fault> {
        Ok(self.ids(Kind::EvalId, prefix, limit)?.into_iter().map(EvalId).collect())
    }
}

/// Allocations.
impl View {
    pub fn alloc(&self, id: AllocId) -> Result<Option<Allocation>, Fault> {
        self.by_id(Kind::AllocId, Kind::Alloc, id.0)
    }

    /// Ordered by (create index, id), after `after`.
    pub fn allocs(&self, after: Option<(u64, AllocId)>, limit: usize) -> Result<Vec<Allocation>, Fault> {
        self.page(Kind::Alloc, after.map(|(create_index, id)| CreationKey { create_index, id: id.0 }), limit)
    }

    /// Ordered by (create index, id).
    pub fn allocs_of_job(&self, key: &JobKey) -> Result<Vec<Allocation>, Fault> {
        self.rows_of_index(&Part::Alloc.key(&tables::job_bytes(key), &[]), Kind::Alloc)
    }

    /// Ordered by (create index, id).
    pub fn allocs_of_eval(&self, id: EvalId) -> Result<Vec<Allocation>, Fault> {
        self.rows_of_index(&Kind::AllocOfEval.key(&[id.0.as_bytes()]), Kind::Alloc)
    }

    /// Ordered by id.
    pub fn allocs_of_node(&self, id: NodeId) -> Result<Vec<Allocation>, Fault> {
        let mut out = Vec::new();
        for (alloc, create_index, _) in self.on_node(id)? {
            let place = CreationKey { create_index, id: alloc.0 };
            out.push(tables::must_get(&self.rows, &tables::alloc_key(place))?);
        }
        Ok(out)
    }

    /// Every allocation of the node with its `alloc_modify_index`, ordered by id. Decodes none of them.
    pub fn alloc_indexes_of_node(&self, id: NodeId) -> Result<Vec<(AllocId, u64)>, Fault> {
        Ok(self.on_node(id)?.into_iter().map(|(alloc, _, modified)| (alloc, modified)).collect())
    }

    /// Ids that begin with these hex digits (dashes are skipped), ordered.
    pub fn alloc_ids(&self, prefix: &str, limit: usize) -> Result<Vec<AllocId>, Fault> {
        Ok(self.ids(Kind::AllocId, prefix, limit)?.into_iter().map(AllocId).collect())
    }

    /// (id, create index, alloc modify index)
    fn on_node(&self, id: NodeId) -> Result<Vec<(AllocId, u64, u64)>, Fault> {
        let mut out = Vec::new();
        tables::each(&self.rows, &Kind::AllocOfNode.key(&[id.0.as_bytes()]), None, |key, value| {
            let (create_index, modified) = tables::decode_pair(value)?;
            out.push((AllocId(tables::id_at_end(key)?), create_index, modified));
            Ok(true)
        })?;
        Ok(out)
    }
}

/// Deployments.
impl View {
    pub fn deployment(&self, id: DeploymentId) -> Result<Option<Deployment>, Fault> {
        self.by_id(Kind::DeploymentId, Kind::Deployment, id.0)
    }

    /// Ordered by (create index, id), after `after`.
    pub fn deployments(
        &self,
        after: Option<(u64, DeploymentId)>,
        limit: usize,
    ) -> Result<Vec<Deployment>, Fault> {
        let after = after.map(|(create_index, id)| CreationKey { create_index, id: id.0 });
        self.page(Kind::Deployment, after, limit)
    }

    /// Ordered by (create index, id).
    pub fn deployments_of_job(&self, key: &JobKey) -> Result<Vec<Deployment>, Fault> {
        self.rows_of_index(&Part::Deployment.key(&tables::job_bytes(key), &[]), Kind::Deployment)
    }

    /// The job's newest.
    pub fn latest_deployment(&self, key: &JobKey) -> Result<Option<Deployment>, Fault> {
        read_latest_deployment(&self.rows, &tables::job_bytes(key))
    }

    /// Ordered by (create index, id).
    pub fn allocs_of_deployment(&self, deployment: &Deployment) -> Result<Vec<Allocation>, Fault> {
        let mut allocs = self.allocs_of_job(&deployment.job)?;
        allocs.retain(|a| a.deployment == Some(deployment.id));
        Ok(allocs)
    }

    /// Ids that begin with these hex digits (dashes are skipped), ordered.
    pub fn deployment_ids(&self, prefix: &str, limit: usize) -> Result<Vec<DeploymentId>, Fault> {
        Ok(self.ids(Kind::DeploymentId, prefix, limit)?.into_iter().map(DeploymentId).collect())
    }
}

/// Nodes.
impl View {
    pub fn node(&self, id: NodeId) -> Result<Option<Arc<Node>>, Fault> {
        Ok(read_node(&self.rows, id)?.map(Arc::new))
    }

    /// Ids that begin with these hex digits (dashes are skipped), ordered.
    pub fn node_ids(&self, prefix: &str, limit: usize) -> Result<Vec<NodeId>, Fault> {
        Ok(self.ids(Kind::Node, prefix, limit)?.into_iter().map(NodeId).collect())
    }
}

impl View {
    fn by_id<R: Record>(&self, ids: Kind, rows: Kind, id: Uuid) -> Result<Option<R>, Fault> {
        match tables::creation_key_of(&self.rows, ids, id)? {
            None => Ok(None),
            Some(place) => tables::must_get(&self.rows, &rows.key(&[&place.bytes()])).map(Some),
        }
    }

    fn page<R: Record>(&self, kind: Kind, after: Option<CreationKey>, limit: usize) -> Result<Vec<R>, Fault> {
        let after = after.map(|place| kind.key(&[&place.bytes()]));
        let mut out = Vec::new();
        tables::each(&self.rows, &kind.key(&[]), after.as_deref(), |_, value| {
            if out.len() < limit {
                out.push(record::decode(value)?);
            }
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// The rows of `kind` whose places end the keys that begin with `prefix`.
    pub(super) fn rows_of_index<R: Record>(&self, prefix: &[u8], kind: Kind) -> Result<Vec<R>, Fault> {
        let keys = tables::keys(&self.rows, prefix)?;
        let read = |key: &Vec<u8>| {
            tables::must_get(&self.rows, &kind.key(&[&CreationKey::from_key_end(key)?.bytes()]))
        };
        keys.iter().map(read).collect()
    }

    pub(super) fn ids(&self, kind: Kind, prefix: &str, limit: usize) -> Result<Vec<Uuid>, Fault> {
        let Some((first, last)) = hex_range(prefix) else { return Ok(Vec::new()) };
        let (first, last) = (kind.key(&[&first]), kind.key(&[&last]));
        let mut out = Vec::new();
        for row in self.rows.range(first.as_slice()..=last.as_slice())?.take(limit) {
            out.push(tables::id_at_end(row?.0.value())?);
        }
        Ok(out)
    }
}

/// The least and the greatest id that begin with these hex digits; `None` for what begins no id.
fn hex_range(prefix: &str) -> Option<([u8; 16], [u8; 16])> {
    let (mut first, mut last) = ([0x00; 16], [0xff; 16]);
    for (i, c) in prefix.chars().filter(|c| *c != '-').enumerate() {
        let digit = c.to_digit(16)? as u8;
        let (low, high) = (first.get_mut(i / 2)?, last.get_mut(i / 2)?);
        if i % 2 == 0 {
            *low = digit << 4;
            *high = digit << 4 | 0x0f;
        } else {
            *low |= digit;
            *high = *low;
        }
    }
    Some((first, last))
}

pub(super) fn read_namespace(rows: &impl Rows, name: &str) -> Result<Option<Namespace>, Fault> {
    let stored = tables::get(rows, &tables::namespace_key(name))?;
    Ok(stored.or_else(|| (name == DEFAULT_NAMESPACE).then(Namespace::built_in)))
}

pub(super) fn read_latest_deployment(rows: &impl Rows, job: &[u8]) -> Result<Option<Deployment>, Fault> {
    let begin = Part::Deployment.key(job, &[]);
    let end = tables::after_prefix(&begin).unwrap_or_default();
    let Some(row) = rows.range(begin.as_slice()..end.as_slice())?.next_back() else { return Ok(None) };
    let place = CreationKey::from_key_end(row?.0.value())?;
    tables::must_get(rows, &tables::deployment_key(place)).map(Some)
}

/// The job as of this version.
pub(super) fn read_version(
    rows: &impl Rows,
    bytes: &[u8],
    row: &JobRow,
    v: &VersionRow,
) -> Result<Job, Fault> {
    Ok(Job {
        spec: must_read_spec(rows, bytes, row.create_index, v.version)?,
        version: v.version,
        stable: v.stable,
        status: v.status,
        status_description: String::new(),
        submit_time: v.submit_time,
        create_index: row.create_index,
        modify_index: v.modify_index,
        job_modify_index: v.job_modify_index,
        tag: v.tag.clone(),
    })
}

pub(super) fn read_node(rows: &impl Rows, id: NodeId) -> Result<Option<Node>, Fault> {
    let Some(row) = tables::get::<NodeRow>(rows, &tables::node_key(Kind::Node, id))? else { return Ok(None) };
    let described: NodeInfoRow = tables::must_get(rows, &tables::node_key(Kind::NodeInfo, id))?;
    Ok(Some(Node {
        info: described.info,
        computed_class: described.computed_class,
        status: row.status,
        status_description: row.status_description,
        status_updated: row.status_updated,
        eligible: row.eligible,
        events: row.events,
        last_missed_heartbeat_index: row.last_missed_heartbeat_index,
        last_alloc_update_index: row.last_alloc_update_index,
        create_index: row.create_index,
        modify_index: row.modify_index,
        drain: row.drain,
        last_drain: row.last_drain,
    }))
}
