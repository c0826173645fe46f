//! Requests of nodes: registrations, heartbeats, and watches of their allocations (server.md 6). Answers that change
//! something leave with the change's outcome.
//!
//! Refuses to know: what a change of a node means to jobs, which `system_jobs` and evaluations say.

use super::context::Context;
use super::heartbeat::Heartbeats;
use super::metrics::Timed;
use super::pending::{Asker, OnApply};
use super::plans::Plans;
use super::system_jobs::SystemJobs;
use super::watches::{Known, Watches};
use model::alloc::{Allocation, ClientStatus};
use model::id::{AllocId, NodeId, NodeSecret};
use model::job::{JobSpec, TaskGroup};
use model::member::ServerList;
use model::node::{Node, NodeEvent, NodeInfo, NodeStatus};
use model::pool::{self, ALL_POOLS};
use model::time::{Mono, Span, Wall};
use state::checksum::info_digest;
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::change::NodeChange;
use wire::command::Command;
use wire::request::{Refusal, WriteReply};
use wire::rpc::{AllocSet, Assignment, MAX_ASSIGNMENTS, NodeReply};

/// Nodes declared down in one turn; the rest follows in the next.
const EXPIRED_PER_TURN: usize = 16;
/// Watches answered in one turn.
const WATCHES_PER_TURN: usize = 64;

/// Which nodes are alive, and which of them wait to hear of their allocations. A new leader rebuilds it from the state.
pub struct Nodes {
    heartbeats: Heartbeats,
    watches: Watches,
}

impl Nodes {
    /// No node is expected yet. `view`: the state that the leader begins with.
    pub fn new(view: &View, cx: &mut Context<'_>) -> Result<Nodes, Fault> {
        let heartbeats = Heartbeats::new(cx.config.heartbeats, cx.ids.seed());
        let generation = view.founding()?.map(|founding| founding.generation()).unwrap_or_default();
        let known = Known { generation, servers: ServerList::of(&view.members()?).index };
        Ok(Nodes { heartbeats, watches: Watches::new(known, view.index()) })
    }

    /// A node that is not down is expected to be heard of.
    pub fn restore(&mut self, node: &Node, now: Mono) {
        if node.status != NodeStatus::Down {
            self.heartbeats.expect_after_failover(node.info.id, now);
        }
    }

    pub fn apply_change(&mut self, node: &NodeChange, now: Mono) {
        match node.status {
            NodeStatus::Down => self.heartbeats.forget(node.id),
            // checked again at each expiry, until no allocation is within its `lost_after`
            NodeStatus::Disconnected => drop(self.heartbeats.reset_timer(node.id, now)),
            _ => {}
        }
    }

    /// An allocation that the node has to know of has changed.
    pub fn alloc_changed(&mut self, node: NodeId, index: u64) {
        self.watches.changed(node, index);
    }

    /// Tells nodes whose watches are open to ask the next leader.
    pub fn step_down(self, cx: &mut Context<'_>) {
        for watch in self.watches.into_open() {
            cx.answer(watch.asker, NodeReply::NoLeader);
        }
    }

    pub fn register(
        &mut self,
        asker: Asker,
        info: NodeInfo,
        system_jobs: &SystemJobs,
        view: &View,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        if let Some(problem) = registration_problem(&info) {
            cx.answer(asker, refused(problem));
            return Ok(());
        }
        let known = view.node(info.id)?;
        if !cx.space_free {
            if known.is_some_and(|known| known.info.secret == info.secret) {
                self.heartbeats.reset_timer(info.id, cx.now);
            }
            cx.answer(asker, NodeReply::TryLater);
            return Ok(());
        }
        let evals = match &known {
            Some(old) if old.info.secret == info.secret && matters_to_jobs(&old.info, &info) => {
                let mut evals = system_jobs.node_evals(info.id, view, cx)?;
                system_jobs.add_evals((info.id, &info), &mut evals, view, cx)?;
                evals
            }
            _ => vec![],
        };
        // not what the state holds once it is applied: another registration may be applied with it
        let then = OnApply::NodeAlive { asker, node: info.id, info: info_digest(&info) };
        let (info, at) = (Box::new(info), cx.at);
        cx.propose_with_evals(evals, |evals| Command::RegisterNode { info, evals, at }, then);
        Ok(())
    }

    /// `known`: what the node says that it has.
    pub fn watch(&mut self, asker: Asker, since: u64, known: Known, now: Mono) {
        self.watches.open(asker, since, known, now);
    }

    /// The list of servers has changed.
    pub fn servers_changed(&mut self, index: u64) {
        self.watches.servers_changed(index);
    }

    /// A heartbeat writes nothing, unless the node was not ready; without room it waits for the next one to become that.
    pub fn heartbeat(
        &mut self,
        asker: Asker,
        node: &Node,
        system_jobs: &SystemJobs,
        view: &View,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let id = node.info.id;
        if node.status == NodeStatus::Ready || !cx.space_free {
            let ttl = self.heartbeats.reset_timer(id, cx.now);
            tracing::trace!(target: "nomad.heartbeat", node_id = %id, %ttl, "heartbeat");
            cx.answer(asker, NodeReply::Alive { ttl, info: info_digest(&node.info) });
            return Ok(());
        }
        let at = cx.at;
        if awaits_reports(node, view, at)? {
            let ttl = self.heartbeats.reset_timer(id, cx.now);
            cx.answer(asker, NodeReply::Missed { ttl, info: info_digest(&node.info) });
            return Ok(());
        }
        let (status, message) = match node.status {
            // what it says of its allocations comes before anything is decided on them
            NodeStatus::Disconnected => (NodeStatus::Initializing, Some("Node reconnected by heartbeat")),
            NodeStatus::Down => (NodeStatus::Ready, Some("Node reregistered by heartbeat")),
            _ => (NodeStatus::Ready, None),
        };
        let event = message.map(|message| Box::new(node_event(message, at)));
        let evals = system_jobs.node_evals(id, view, cx)?;
        let then = OnApply::NodeAlive { asker, node: id, info: info_digest(&node.info) };
        let command = |evals| Command::UpdateNodeStatus { node: id, status, event, evals, at };
        cx.propose_with_evals(evals, command, then);
        Ok(())
    }

    /// The entry that changed the node is applied.
    pub fn alive(
        &mut self,
        asker: Asker,
        (id, info): (NodeId, u64),
        result: Result<WriteReply, Refusal>,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        if let Err(refusal) = result {
            cx.answer(asker, refused(refusal.message));
            return Ok(());
        }
        let ttl = self.heartbeats.reset_timer(id, cx.now);
        let missed = cx.view()?.node(id)?.is_some_and(|node| is_reconnecting(&node));
        cx.answer(
            asker,
            if missed { NodeReply::Missed { ttl, info } } else { NodeReply::Alive { ttl, info } },
        );
        Ok(())
    }

    /// Notes a check of the heartbeats while no expiry can be written.
    pub fn note_check(&mut self, now: Mono) {
        self.heartbeats.note_check(now);
    }

    /// Nodes that were silent for too long are down; or disconnected, while a group on it sits that out.
    pub fn mark_expired_nodes_down(
        &mut self,
        system_jobs: &SystemJobs,
        plans: &mut Plans,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let expired = self.heartbeats.take_expired(cx.now, EXPIRED_PER_TURN);
        if expired.is_empty() {
            return Ok(());
        }
        let view = cx.view()?;
        for node in expired {
            let Some(known) = view.node(node)? else { continue };
            if known.status == NodeStatus::Down {
                continue;
            }
            let at = cx.at;
            let may_wait = matches!(known.status, NodeStatus::Ready | NodeStatus::Disconnected);
            let waits = may_wait && has_alloc_within_lost_after(&view, node, at)?;
            if waits && known.status == NodeStatus::Disconnected {
                self.heartbeats.reset_timer(node, cx.now);
                continue;
            }
            let status = if waits { NodeStatus::Disconnected } else { NodeStatus::Down };
            let evals = system_jobs.node_evals(node, &view, cx)?;
            cx.metrics.done(Timed::HeartbeatInvalidate);
            tracing::warn!(target: "nomad.heartbeat", node_id = %node, status = status.as_str(), "node TTL expired");
            let event = Some(Box::new(node_event("Node heartbeat missed", at)));
            let command = |evals| Command::UpdateNodeStatus { node, status, event, evals, at };
            plans.close(node);
            cx.propose_with_evals(evals, command, OnApply::NodeDown { node });
        }
        Ok(())
    }

    pub fn answer_watches(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let due = self.watches.take_due(cx.now, WATCHES_PER_TURN);
        if due.is_empty() {
            return Ok(());
        }
        let view = cx.view()?;
        for (node, watch) in due {
            let index = self.watches.index_for(node, view.index());
            let wanted = view.alloc_indexes_of_node(node)?;
            let news: Vec<AllocId> =
                wanted.iter().filter(|(_, moved)| *moved > watch.since).map(|(id, _)| *id).collect();
            let assignments = fetched(&view, node, &news)?;
            let set = AllocSet { index, wanted, assignments };
            let list = ServerList::of(&view.members()?);
            let servers = Some(list).filter(|list| list.index > watch.servers);
            let generation = self.watches.generation();
            cx.answer(watch.asker, NodeReply::Watched { generation, set, servers });
        }
        Ok(())
    }

    /// How many nodes are expected to be heard of.
    pub fn expected(&self) -> usize {
        self.heartbeats.expected()
    }

    /// A watch is to be answered in the next turn already.
    pub fn has_work(&self) -> bool {
        self.watches.has_due()
    }

    /// When the next node has been silent for too long.
    pub fn next_expiry(&self) -> Option<Mono> {
        self.heartbeats.next_deadline()
    }

    /// When the next watch has been held for long enough.
    pub fn next_watch(&self) -> Option<Mono> {
        self.watches.next_deadline()
    }
}

/// How long a node that reconnects may take to report its allocations.
const REPORT_TIMEOUT: Span = Span::minutes(1);

/// Whether the node was disconnected, and has not yet reported anything since.
fn is_reconnecting(node: &Node) -> bool {
    node.status == NodeStatus::Initializing && node.last_missed_heartbeat_index > node.last_alloc_update_index
}

/// Whether the node was disconnected, and has not yet said what became of its allocations.
fn awaits_reports(node: &Node, view: &View, at: Wall) -> Result<bool, Fault> {
    let silent = is_reconnecting(node) && !node.status_updated.is_older_than(REPORT_TIMEOUT, at);
    let unknown = |a: &Allocation| a.client == ClientStatus::Unknown && !a.server_terminal();
    Ok(silent && view.allocs_of_node(node.info.id)?.iter().any(unknown))
}

/// Whether an allocation that is wanted on the node is still within its group's `lost_after`.
fn has_alloc_within_lost_after(view: &View, node: NodeId, at: Wall) -> Result<bool, Fault> {
    for alloc in view.allocs_of_node(node)?.iter().filter(|a| !a.terminal()) {
        let spec = view.job_spec(&alloc.job, alloc.job_create_index, alloc.job_version)?;
        let policy = spec.as_ref().and_then(|s| s.group(&alloc.group)?.disconnect);
        let Some(lost_after) = policy.and_then(|d| d.lost_after) else { continue };
        let since = alloc.states.last().filter(|s| s.status == ClientStatus::Unknown).map_or(at, |s| s.at);
        if !since.is_older_than(lost_after, at) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The answer to a caller that knows the node, but not its secret.
pub const WRONG_SECRET: &str = "node secret ID does not match";

/// The answer to a node that asks in the name of another one.
pub const OTHER_NODE: &str = "a node asks for itself alone: this connection is another node's";

/// Why a caller is not accepted as the node that it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAuthentic {
    Unknown,
    WrongSecret,
}

/// The node as the state knows it, if the secret is its own.
pub fn authenticate(
    node: NodeId,
    secret: NodeSecret,
    view: &View,
) -> Result<Result<Arc<Node>, NotAuthentic>, Fault> {
    let known = view.node(node)?;
    Ok(known
        .ok_or(NotAuthentic::Unknown)
        .and_then(|known| (known.info.secret == secret).then_some(known).ok_or(NotAuthentic::WrongSecret)))
}

pub fn refused(message: impl Into<String>) -> NodeReply {
    NodeReply::Refused { message: message.into() }
}

fn node_event(message: &str, at: Wall) -> NodeEvent {
    NodeEvent {
        subsystem: "Cluster".into(),
        message: message.into(),
        details: BTreeMap::new(),
        at,
        create_index: 0,
    }
}

fn registration_problem(info: &NodeInfo) -> Option<String> {
    let missing = if info.datacenter.is_empty() {
        Some("missing datacenter for client registration")
    } else if info.name.is_empty() {
        Some("missing node name for client registration")
    } else if info.attributes.is_empty() {
        Some("missing attributes for client registration")
    } else if info.pool == ALL_POOLS {
        Some("node is not allowed to register in node pool \"all\"")
    } else {
        None
    };
    let pool =
        || pool::name_problem(&info.pool).map(|why| format!("invalid node pool {:?}: {why}", info.pool));
    missing.map(str::to_string).or_else(pool)
}

/// A change of these may let a job run where it could not, or forbid it.
fn matters_to_jobs(old: &NodeInfo, new: &NodeInfo) -> bool {
    old.datacenter != new.datacenter
        || old.name != new.name
        || old.class != new.class
        || old.pool != new.pool
        || old.attributes != new.attributes
        || old.meta != new.meta
        || drivers_up(old) != drivers_up(new)
        || old.offers != new.offers
}

fn drivers_up(info: &NodeInfo) -> Vec<(&str, bool)> {
    info.drivers.iter().map(|(name, d)| (name.as_str(), d.detected && d.healthy)).collect()
}

/// The node's allocations of these ids in full, as many as one message may hold.
pub fn fetched(view: &View, node: NodeId, ids: &[AllocId]) -> Result<Vec<Assignment>, Fault> {
    let mut out = vec![];
    for id in ids.iter().take(MAX_ASSIGNMENTS) {
        let Some(alloc) = view.alloc(*id)?.filter(|a| a.node_id == node) else { continue };
        out.extend(assignment(view, &alloc)?);
    }
    Ok(out)
}

fn assignment(view: &View, alloc: &Allocation) -> Result<Option<Assignment>, Fault> {
    let Some(spec) = view.job_spec(&alloc.job, alloc.job_create_index, alloc.job_version)? else {
        return Ok(None);
    };
    let Some(group) = spec.group(&alloc.group).cloned() else { return Ok(None) };
    let (job_meta, payload) = dispatched_with(&spec, &group);
    Ok(Some(Assignment {
        id: alloc.id,
        name: alloc.name.clone(),
        job: alloc.job.clone(),
        job_name: spec.name.clone(),
        job_type: spec.job_type,
        job_version: alloc.job_version,
        job_meta,
        region: spec.region.clone(),
        group,
        resources: alloc.resources.clone(),
        desired: alloc.desired,
        previous: alloc.previous,
        alloc_modify_index: alloc.alloc_modify_index,
        deployment: alloc.deployment,
        job_parent: spec.parent.clone(),
        payload,
        preempted: alloc.preempted.clone(),
        no_shutdown_delay: alloc.transition.no_shutdown_delay == Some(true),
    }))
}

/// The meta that tasks see: what a dispatch might have said and did not is there, and empty. The payload if a task wants it.
fn dispatched_with(spec: &JobSpec, group: &TaskGroup) -> (BTreeMap<String, String>, Vec<u8>) {
    let Some(dispatch) = &spec.dispatch else { return (spec.meta.clone(), vec![]) };
    let mut meta = BTreeMap::new();
    for key in spec.parameterized.iter().flat_map(|rules| &rules.meta_optional) {
        meta.insert(key.clone(), String::new());
    }
    meta.extend(spec.meta.clone());
    let wanted = group.tasks.iter().any(|task| task.dispatch_payload.is_some());
    (meta, if wanted { dispatch.payload.clone() } else { vec![] })
}

#[cfg(test)]
mod tests;
