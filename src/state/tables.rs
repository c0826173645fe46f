//! The layout of the database: two redb tables, the keys of each kind of row, and the records that only this room
//! reads. Refuses to know what any of it means.
//!
//! `META` holds this replica's own bookkeeping; its log is in `wal`. `STATE` holds every replicated row; the first byte of a key says of which kind. One tree instead
//! of one for each kind: on a small region the rows of a change share pages, and a page is what a disk wears by.
//! Evaluations and allocations lie by (create index, id): what one turn creates is neighbours, and lists in that order need no index.

use super::fault::Fault;
use model::child_jobs::JobRelation;
use model::drain::{Drain, LastDrain};
use model::id::{AllocId, EvalId, JobKey, NodeId, ScalingPolicyId, Uuid};
use model::job::{JobStatus, JobType, VersionTag};
use model::job_summary::JobSummary;
use model::node::{NodeEvent, NodeInfo, NodeStatus};
use model::time::Wall;
use redb::{ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use wire::record::{self, Record};

/// Both tables have the same types, because redb's code is made anew for each pair of types.
pub(super) const META: TableDefinition<&[u8], &[u8]> = TableDefinition::new("book");
pub(super) const STATE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("state");

/// The format version of the store as a whole. Another one is refused.
pub(super) const FORMAT: u32 = 1;

/// Keys of `META`.
pub(super) const META_FORMAT: &[u8] = b"format";
pub(super) const META_APPLIED: &[u8] = b"applied";
/// The members as of the index in `META_APPLIED`, and in one commit with it.
pub(super) const META_MEMBERS: &[u8] = b"members";
/// The `Installation` that this file began with, if it was one.
pub(super) const META_INSTALLED: &[u8] = b"installed";

/// The kinds of rows. A key is the kind's byte and what the comment says; numbers are big endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// - to `Founding`
    Region = 1,
    /// job, `Part` and what that adds: all that is small and belongs to one job, in one place
    OfJob = 2,
    /// create index, id to `Evaluation`
    Eval = 3,
    /// id to create index
    EvalId = 4,
    /// create index, id to `Allocation`
    Alloc = 5,
    /// id to create index
    AllocId = 6,
    /// node, alloc to create index and alloc modify index
    AllocOfNode = 7,
    /// eval, create index, alloc to nothing
    AllocOfEval = 8,
    /// id to `NodeInfoRow`
    NodeInfo = 9,
    /// id to `NodeRow`
    Node = 10,
    /// name to `Namespace`
    Namespace = 11,
    /// id to `SigningKey`
    SigningKey = 12,
    /// create index, id to `Deployment`
    Deployment = 13,
    /// id to create index
    DeploymentId = 14,
    /// to `SchedulerConfig`
    SchedulerConfig = 15,
    /// name to `NodePool`
    NodePool = 16,
    /// id to `ScalingPolicy`
    ScalingPolicy = 17,
    /// raft id to `ServerMember`
    Member = 18,
    /// - to `RegionLevel`; there is none as long as it is the first one
    FeatureLevel = 19,
    /// id to `JoinToken`
    JoinToken = 20,
    /// id of a join token, machine to `Redemption`
    Redemption = 21,
}

impl Kind {
    pub fn key(self, parts: &[&[u8]]) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + parts.iter().map(|p| p.len()).sum::<usize>());
        key.push(self as u8);
        for part in parts {
            key.extend_from_slice(part);
        }
        key
    }
}

/// What of a job a row of `Kind::OfJob` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// to `JobRow`
    Row = 0,
    /// create index, id to nothing: pending and blocked evaluations
    OpenEval = 1,
    /// create index, id to nothing
    Eval = 2,
    /// create index, id to nothing
    Alloc = 3,
    /// create index, version to `JobSpec`
    Spec = 4,
    /// create index, version to `Submission`: of tracked versions only
    Submission = 5,
    /// create index, id to nothing
    Deployment = 6,
    /// create index, version to how many jobs were made of it by dispatching: that version's `JobSpec` stays, whatever becomes of this job
    Uses = 7,
    /// an idempotency token to the id of the job that was dispatched with it
    Token = 8,
    /// group to `ScalingEvents`
    ScalingEvents = 9,
    /// nothing to how many open children a job has that is not there: pending, running
    OrphanedChildren = 10,
}

impl Part {
    pub fn key(self, job: &[u8], more: &[u8]) -> Vec<u8> {
        Kind::OfJob.key(&[job, &[self as u8], more])
    }
}

/// The key of rows that are ordered by creation: create index and id, 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CreationKey {
    pub create_index: u64,
    pub id: Uuid,
}

impl CreationKey {
    pub const BYTES: usize = 24;

    pub(super) fn bytes(self) -> [u8; CreationKey::BYTES] {
        let mut out = [0; CreationKey::BYTES];
        out[..8].copy_from_slice(&self.create_index.to_be_bytes());
        out[8..].copy_from_slice(self.id.as_bytes());
        out
    }

    /// The last bytes of a key.
    pub(super) fn from_key_end(key: &[u8]) -> Result<CreationKey, Fault> {
        let (_, tail) = key.split_last_chunk::<16>().ok_or_else(|| damaged("a key is too short"))?;
        let before = &key[..key.len() - 16];
        let (_, index) = before.split_last_chunk::<8>().ok_or_else(|| damaged("a key is too short"))?;
        Ok(CreationKey { create_index: u64::from_be_bytes(*index), id: Uuid::from_bytes(*tail) })
    }
}

pub(super) fn id_at_end(key: &[u8]) -> Result<Uuid, Fault> {
    let (_, id) = key.split_last_chunk::<16>().ok_or_else(|| damaged("a key is too short for an id"))?;
    Ok(Uuid::from_bytes(*id))
}

fn damaged(what: &str) -> Fault {
    Fault::corrupt(what)
}

/// A job's key as bytes that sort as `JobKey` does and are no prefix of another's: a zero ends each half, a zero within
/// is followed by 255, which UTF-8 never has.
pub(super) fn job_bytes(job: &JobKey) -> Vec<u8> {
    let mut out = namespace_bytes(&job.namespace);
    escape(&mut out, &job.id);
    out.push(0);
    out
}

pub(super) fn namespace_bytes(namespace: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(namespace.len() + 24);
    escape(&mut out, namespace);
    out.push(0);
    out
}

/// Every job of the namespace whose id begins with `prefix` begins with these bytes.
pub(super) fn job_prefix_bytes(namespace: &str, prefix: &str) -> Vec<u8> {
    let mut out = namespace_bytes(namespace);
    escape(&mut out, prefix);
    out
}

fn escape(out: &mut Vec<u8>, text: &str) {
    for &b in text.as_bytes() {
        out.push(b);
        if b == 0 {
            out.push(0xff);
        }
    }
}

/// The job at the start of `bytes`, and what follows it.
pub(super) fn split_job(bytes: &[u8]) -> Option<(JobKey, &[u8])> {
    let (namespace, rest) = unescape(bytes)?;
    let (id, rest) = unescape(rest)?;
    Some((JobKey { namespace, id }, rest))
}

fn unescape(bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut text = Vec::new();
    let mut at = 0;
    loop {
        let b = *bytes.get(at)?;
        at += 1;
        if b == 0 {
            if bytes.get(at) != Some(&0xff) {
                return Some((String::from_utf8(text).ok()?, &bytes[at..]));
            }
            at += 1;
        }
        text.push(b);
    }
}

/// The least key above every key that begins with `prefix`; `None` when there is none.
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            return Some(end);
        }
        end.pop();
    }
    None
}

/// A table whose keys and values are bytes, read within a write or a read transaction.
pub(super) trait Rows: ReadableTable<&'static [u8], &'static [u8]> {}
impl<T: ReadableTable<&'static [u8], &'static [u8]>> Rows for T {}

pub(super) fn get<R: Record>(rows: &impl Rows, key: &[u8]) -> Result<Option<R>, Fault> {
    match rows.get(key)? {
        None => Ok(None),
        Some(bytes) => Ok(Some(record::decode(bytes.value())?)),
    }
}

/// A row that an index or another row says is there.
pub(super) fn must_get<R: Record>(rows: &impl Rows, key: &[u8]) -> Result<R, Fault> {
    get(rows, key)?.ok_or_else(|| Fault::corrupt(format!("a row of kind {} is missing", R::NAME)))
}

/// The create index that an id's row holds.
pub(super) fn creation_key_of(rows: &impl Rows, kind: Kind, id: Uuid) -> Result<Option<CreationKey>, Fault> {
    match rows.get(kind.key(&[id.as_bytes()]).as_slice())? {
        None => Ok(None),
        Some(bytes) => Ok(Some(CreationKey { create_index: number(bytes.value())?, id })),
    }
}

pub(super) fn number(bytes: &[u8]) -> Result<u64, Fault> {
    let bytes = bytes.try_into().map_err(|_| damaged("a number has not eight bytes"))?;
    Ok(u64::from_be_bytes(bytes))
}

/// Is there a row whose key begins with `prefix`?
pub(super) fn any(rows: &impl Rows, prefix: &[u8]) -> Result<bool, Fault> {
    let mut found = false;
    each(rows, prefix, None, |_, _| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

/// The keys that begin with `prefix`.
pub(super) fn keys(rows: &impl Rows, prefix: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
    let mut out = Vec::new();
    each(rows, prefix, None, |key, _| {
        out.push(key.to_vec());
        Ok(true)
    })?;
    Ok(out)
}

/// Calls `visit` with each row whose key begins with `prefix` and lies after `after`, until it says `false`.
pub(super) fn each(
    rows: &impl Rows,
    prefix: &[u8],
    after: Option<&[u8]>,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let start = match after {
        Some(after) if after > prefix => Excluded(after),
        _ => Included(prefix),
    };
    let end = after_prefix(prefix);
    let end = end.as_deref().map_or(Unbounded, Excluded);
    if let (Excluded(a), Excluded(b)) = (start, end)
        && a >= b
    {
        return Ok(());
    }
    for row in rows.range::<&[u8]>((start, end))? {
        let (key, value) = row?;
        if !visit(key.value(), value.value())? {
            break;
        }
    }
    Ok(())
}

/// Calls `visit` with the key bytes of every job that has any row, in order, from the first that begins with `prefix`
/// and lies after `after`, until it says `false`. Costs a seek for each, however many rows it has.
pub(super) fn each_job(
    rows: &impl Rows,
    prefix: &[u8],
    after: Option<&[u8]>,
    mut visit: impl FnMut(&JobKey, &[u8]) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let begin = Kind::OfJob.key(&[prefix]);
    let end = after_prefix(&begin).unwrap_or_default();
    let mut start = match after.and_then(|job| after_prefix(&Kind::OfJob.key(&[job]))) {
        Some(next) => next.max(begin),
        None => begin,
    };
    while start < end {
        let Some(row) = rows.range(start.as_slice()..end.as_slice())?.next() else { break };
        let row = row?;
        let found = row.0.value().get(1..).unwrap_or_default();
        let (key, rest) = split_job(found).ok_or_else(|| damaged("a job's key is damaged"))?;
        let job = &found[..found.len() - rest.len()];
        if !visit(&key, job)? {
            break;
        }
        start = after_prefix(&Kind::OfJob.key(&[job])).unwrap_or_else(|| end.clone());
    }
    Ok(())
}

/// One version of a job, without its spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRow {
    pub version: u64,
    pub stable: bool,
    /// Listed as one of the job's versions. Others are kept for the allocations that name them.
    pub tracked: bool,
    /// The job's status while this version was the newest.
    pub status: JobStatus,
    pub submit_time: Wall,
    pub job_modify_index: u64,
    pub modify_index: u64,
    /// Allocations that name this version.
    pub allocs: u64,
    pub tag: Option<VersionTag>,
}

/// A job without its specs. Small, because it changes with every allocation's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobRow {
    pub create_index: u64,
    pub job_type: JobType,
    /// The newest version's `stop`.
    pub stop: bool,
    /// Oldest first; the last one is the job.
    pub versions: Vec<VersionRow>,
    /// Allocations that are neither server-terminal nor client-terminal.
    pub live_allocs: u64,
    pub summary: JobSummary,
    pub relation: JobRelation,
}

impl JobRow {
    pub fn newest(&self) -> Result<&VersionRow, Fault> {
        self.versions.last().ok_or_else(|| damaged("a job has no version"))
    }
}

/// What a client said of its machine, with the class that follows from it. Apart from `NodeRow`, because it is large
/// and seldom changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct NodeInfoRow {
    pub info: NodeInfo,
    pub computed_class: String,
}

/// What the servers know of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeRow {
    pub status: NodeStatus,
    pub status_description: String,
    pub status_updated: Wall,
    pub eligible: bool,
    pub events: Vec<NodeEvent>,
    pub last_missed_heartbeat_index: u64,
    pub last_alloc_update_index: u64,
    pub create_index: u64,
    pub modify_index: u64,
    pub drain: Option<Drain>,
    pub last_drain: Option<LastDrain>,
}

/// How far this replica has applied the log, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AppliedState {
    pub index: u64,
    /// Sum of `row_hash` over all rows of `STATE`.
    pub digest: u64,
    /// The index of the last change, by `view::Table`.
    pub tables: [u64; 8],
}

/// The members of the region, as raft encodes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredMembers {
    pub conf_state: Vec<u8>,
}

wire::records! {
    AppliedState = "applied index" 1;
    StoredMembers = "members" 1;
    JobRow = "job row" 1;
    NodeInfoRow = "node description" 1;
    NodeRow = "node row" 1;
}

pub(super) fn eval_key(place: CreationKey) -> Vec<u8> {
    Kind::Eval.key(&[&place.bytes()])
}

pub(super) fn alloc_key(place: CreationKey) -> Vec<u8> {
    Kind::Alloc.key(&[&place.bytes()])
}

pub(super) fn deployment_key(place: CreationKey) -> Vec<u8> {
    Kind::Deployment.key(&[&place.bytes()])
}

pub(super) fn spec_key(job: &[u8], create_index: u64, version: u64) -> Vec<u8> {
    version_key(Part::Spec, job, create_index, version)
}

pub(super) fn submission_key(job: &[u8], create_index: u64, version: u64) -> Vec<u8> {
    version_key(Part::Submission, job, create_index, version)
}

pub(super) fn uses_key(job: &[u8], create_index: u64, version: u64) -> Vec<u8> {
    version_key(Part::Uses, job, create_index, version)
}

fn version_key(part: Part, job: &[u8], create_index: u64, version: u64) -> Vec<u8> {
    part.key(job, &[create_index.to_be_bytes(), version.to_be_bytes()].concat())
}

pub(super) fn namespace_key(name: &str) -> Vec<u8> {
    Kind::Namespace.key(&[name.as_bytes()])
}

pub(super) fn member_key(id: u64) -> Vec<u8> {
    Kind::Member.key(&[&id.to_be_bytes()])
}

pub(super) fn node_pool_key(name: &str) -> Vec<u8> {
    Kind::NodePool.key(&[name.as_bytes()])
}

pub(super) fn scaling_policy_key(id: ScalingPolicyId) -> Vec<u8> {
    Kind::ScalingPolicy.key(&[id.0.as_bytes()])
}

pub(super) fn scaling_events_key(job: &[u8], group: &str) -> Vec<u8> {
    Part::ScalingEvents.key(job, group.as_bytes())
}

pub(super) fn node_key(kind: Kind, id: NodeId) -> Vec<u8> {
    kind.key(&[id.0.as_bytes()])
}

pub(super) fn alloc_of_node_key(node: NodeId, alloc: AllocId) -> Vec<u8> {
    Kind::AllocOfNode.key(&[node.0.as_bytes(), alloc.0.as_bytes()])
}

pub(super) fn alloc_of_eval_key(eval: EvalId, place: CreationKey) -> Vec<u8> {
    Kind::AllocOfEval.key(&[eval.0.as_bytes(), &place.bytes()])
}

/// Two numbers in 16 bytes: what the log was cut to and its term; an allocation's create index and alloc modify index.
pub(super) fn decode_pair(bytes: &[u8]) -> Result<(u64, u64), Fault> {
    let (first, second) =
        bytes.split_at_checked(8).ok_or_else(|| damaged("a pair of numbers is too short"))?;
    Ok((number(first)?, number(second)?))
}

pub(super) fn encode_pair(first: u64, second: u64) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&first.to_be_bytes());
    out[8..].copy_from_slice(&second.to_be_bytes());
    out
}

#[cfg(test)]
mod tests;
