//! From committed commands to rows: deterministic, without a clock and without side effects. What a command changed
//! comes back as changes; what it refuses, it refuses before it writes.
//!
//! Refuses to know: transactions (it gets a table to write in), raft, and who waits. Rows go through `ApplyTxn::put`,
//! `ApplyTxn::put_bytes`, `ApplyTxn::write_bytes` and `ApplyTxn::remove` only: they keep the digest. A job's row is edited in memory
//! and written once an entry, because its status follows from everything else the entry did.

mod alloc;
mod child_jobs;
mod deployment;
mod dispatch;
mod drain;
mod eval;
mod garbage;
mod job;
mod join_token;
mod key;
mod member;
mod namespace;
mod node;
mod plan;
mod pool;
mod scaling;
mod version;

use super::digest;
use super::fault::Fault;
use super::tables::{AppliedState, JobRow};
use super::view::Table;
use job::End;
use model::id::{JobKey, NodeId};
use model::node::Node;
use model::resources::Holding;
use model::time::Wall;
use redb::ReadableTable;
use std::collections::BTreeMap;
use wire::change::Change;
use wire::command::Command;
use wire::event::{Events, Object};
use wire::feature_level::decode_command;
use wire::record::{self, Record};
use wire::request::{Refusal, WriteReply};

/// A committed entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct Committed<'a> {
    pub index: u64,
    /// `None`: the entry concerns raft alone, and changes nothing.
    pub command: Option<&'a [u8]>,
    /// The members from this entry on, where it changes them.
    pub conf_state: Option<&'a [u8]>,
}

/// What became of one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyResult {
    pub index: u64,
    /// The command's stamp, if it has one.
    pub at: Option<Wall>,
    pub reply: Result<WriteReply, Refusal>,
    pub changes: Vec<Change>,
    /// `None`: nothing that has events changed.
    pub events: Option<Events>,
}

type Reply = Result<WriteReply, Refusal>;

/// What the fleet's projection has to follow, in order, once the rows are committed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FleetEdit {
    Node(Box<Node>),
    Gone(NodeId),
    Hold(NodeId, Holding),
    Release(NodeId, Holding),
}

/// What applying some entries made of a write transaction that is not committed yet.
pub(super) struct Applying {
    pub outcomes: Vec<ApplyResult>,
    pub applied: AppliedState,
    pub fleet: Vec<FleetEdit>,
    /// How many rows were written or removed.
    pub rows_changed: usize,
}

type WriteTable<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// Applies `entries`, which must follow `applied` without a gap, as a build of that level.
pub(super) fn apply(
    rows: WriteTable<'_>,
    applied: AppliedState,
    entries: &[Committed<'_>],
    feature_level: u32,
) -> Result<Applying, Fault> {
    let mut txn = ApplyTxn {
        rows,
        applied,
        jobs: BTreeMap::new(),
        changes: vec![],
        events: vec![],
        fleet: vec![],
        rows_changed: 0,
    };
    let mut outcomes = Vec::with_capacity(entries.len());
    for entry in entries {
        if entry.index != txn.applied.index + 1 {
            let (index, last) = (entry.index, txn.applied.index);
            return Err(Fault::corrupt(format!("entry {index} of the log was to be applied after {last}")));
        }
        txn.applied.index = entry.index;
        let decode = |bytes| decode_command(bytes, feature_level);
        let command: Option<Command> = entry.command.map(decode).transpose()?;
        let (kind, at) = command.as_ref().map_or(("", None), |c| (c.event_kind(), c.at()));
        let reply = match command {
            Some(command) => txn.command(command, entry.conf_state.is_some())?,
            None => txn.noop(),
        };
        assert!(reply.is_ok() || txn.changes.is_empty(), "what is refused is refused before it is written");
        txn.write_jobs()?;
        outcomes.push(txn.outcome(kind, at, reply));
    }
    Ok(Applying { outcomes, applied: txn.applied, fleet: txn.fleet, rows_changed: txn.rows_changed })
}

struct ApplyTxn<'t> {
    rows: WriteTable<'t>,
    /// `index` is the entry at hand.
    applied: AppliedState,
    jobs: BTreeMap<JobKey, JobEdit>,
    changes: Vec<Change>,
    events: Vec<Object>,
    fleet: Vec<FleetEdit>,
    rows_changed: usize,
}

/// A job's row as the entry found it and as it leaves it.
struct JobEdit {
    was: Option<JobRow>,
    now: Option<JobRow>,
}

impl ApplyTxn<'_> {
    /// The result of the entry, with all changes and events noted for it.
    fn outcome(&mut self, kind: &'static str, at: Option<Wall>, reply: Reply) -> ApplyResult {
        assert!(
            self.jobs.is_empty(),
            "the jobs that an entry touched are written before its outcome is told"
        );
        let (index, objects) = (self.index(), std::mem::take(&mut self.events));
        assert!(objects.is_empty() || !self.changes.is_empty(), "what has an event has changed");
        let events = (!objects.is_empty()).then_some(Events { index, kind, objects });
        ApplyResult { index, at, reply, changes: std::mem::take(&mut self.changes), events }
    }

    /// `changes_members`: the entry has changed raft's members.
    fn command(&mut self, command: Command, changes_members: bool) -> Result<Reply, Fault> {
        match command {
            Command::Init(founding) => self.init(&founding),
            Command::ChangeMember(change) => self.change_member(*change, changes_members),
            Command::RaiseFeatureLevel { level } => self.raise_feature_level(level),
            Command::RegisterJob(order) => self.register_job(*order),
            Command::StopJob { job, no_shutdown_delay, eval, tracked_versions, at } => {
                if no_shutdown_delay {
                    self.skip_shutdown_delays(&job, at)?;
                }
                self.end_job(job, End::Stop { tracked_versions }, eval.map(|e| *e), at)
            }
            Command::PurgeJob { job, eval, at } => self.end_job(job, End::Purge, eval.map(|e| *e), at),
            Command::RegisterNode { info, evals, at } => self.register_node(*info, evals, at),
            Command::UpdateNodeStatus { node, status, event, evals, at } => {
                self.update_node_status(node, status, event.map(|e| *e), evals, at)
            }
            Command::UpdateEvals { evals, at } => {
                self.put_evals(evals, at)?;
                Ok(self.noop())
            }
            Command::ApplyPlan { eval, nodes, deployment, updates, evals, at } => {
                self.advance_rollout(deployment.map(|d| *d), updates, at)?;
                self.apply_plan(eval, nodes, evals, at)
            }
            Command::StepDeployment(step) => self.step_deployment(*step),
            Command::UpdateAllocs { node, seen, updates, verdicts, evals, at } => {
                self.update_allocs((node, seen), updates, verdicts, evals, at)
            }
            Command::UpdateTransitions { allocs, evals, at } => self.update_transitions(allocs, evals, at),
            Command::UpsertNamespace { namespace } => self.upsert_namespace(*namespace),
            Command::DeleteNamespace { name } => self.delete_namespace(&name),
            Command::UpdateNode { node, request, evals, at } => self.update_node(node, request, evals, at),
            Command::AdvanceDrains { steps, evals, at } => self.advance_drains(steps, evals, at),
            Command::AddSigningKey { key } => self.add_signing_key(*key),
            Command::ConfigureScheduler { settings, cas } => self.configure_scheduler(settings, cas),
            Command::DeleteEvals { ids, skip_needed } => self.delete_evals(&ids, skip_needed),
            Command::UpsertNodePool { pool } => self.upsert_node_pool(*pool),
            Command::DeleteNodePool { name } => self.delete_node_pool(&name),
            Command::RevertJob(order) => self.revert_for_user(*order),
            Command::LaunchJob(order) => self.launch_job(*order),
            Command::DispatchJob(order) => self.dispatch_job(*order),
            Command::ScaleJob(order) => self.scale_job(*order),
            Command::TagVersion(order) => self.tag_version(*order),
            Command::SetStability { job, version, stable } => self.set_stability(&job, version, stable),
            Command::CollectGarbage(order) => self.collect_garbage(*order),
            Command::CreateJoinToken { token, at } => self.create_join_token(*token, at),
            Command::RevokeJoinToken { id } => self.revoke_join_token(id),
            Command::RedeemJoinToken(order) => self.redeem_join_token(*order),
        }
    }

    fn index(&self) -> u64 {
        self.applied.index
    }

    fn noop(&self) -> Reply {
        Ok(WriteReply::Nothing { index: self.index() })
    }

    fn set_table_index(&mut self, table: Table) {
        assert!(self.applied.tables[table as usize] <= self.index(), "a table's index only grows");
        self.applied.tables[table as usize] = self.index();
    }

    fn put<R: Record>(&mut self, key: &[u8], row: &R) -> Result<(), Fault> {
        self.put_bytes(key, &record::encode(row))
    }

    /// Writes nothing when the row is there already.
    fn put_bytes(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let is_there = self.rows.get(key)?.is_some_and(|old| old.value() == value);
        if is_there { Ok(()) } else { self.write_bytes(key, value) }
    }

    /// Writes a row that is new, or another than what is there, without looking first.
    fn write_bytes(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let old = self.rows.insert(key, value)?.map(|old| digest::row_hash(key, old.value()));
        self.rows_changed += 1;
        let digest = self.applied.digest.wrapping_sub(old.unwrap_or(0));
        self.applied.digest = digest.wrapping_add(digest::row_hash(key, value));
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Fault> {
        let old = self.rows.remove(key)?.map(|old| digest::row_hash(key, old.value()));
        if let Some(hash) = old {
            self.rows_changed += 1;
            self.applied.digest = self.applied.digest.wrapping_sub(hash);
        }
        Ok(())
    }
}

/// A count of what there is, with some of it gone. It never comes to less than nothing: every one that goes was counted when it
/// came. Counts lie on the disk, so one that is too small is damage.
fn checked_decrement(count: u64, by: u64, what: &str) -> Result<u64, Fault> {
    let damaged = || Fault::corrupt(format!("{by} {what} go, but only {count} are counted"));
    count.checked_sub(by).ok_or_else(damaged)
}

#[cfg(test)]
mod tests;
