//! What nodes ask: to be registered, to be believed alive, to hear of their allocations, to be heard about them
//! (server.md 6). Answers that change something leave with the change's outcome.

use super::{Op, Server, Timed};
use model::alloc::{Allocation, ClientStatus};
use model::eval::{DEFAULT_PRIORITY, Evaluation, Trigger};
use model::id::{AllocId, JobKey, NodeId, NodeSecret};
use model::job::{Job, JobSpec, JobType, TaskGroup};
use model::node::{Node, NodeEvent, NodeInfo, NodeStatus};
use model::pool::{self, ALL_POOLS};
use model::time::{Now, Span, Wall};
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use wire::command::{AllocUpdate, Command};
use wire::frame::{self, Body, Frame};
use wire::request::{Refusal, WriteReply};
use wire::rpc::{AllocSet, Assignment, MAX_ASSIGNMENTS, NodeReply, NodeRequest, Peer};

/// Nodes declared down in one turn; the rest follows in the next.
const SILENT_PER_TURN: usize = 16;
/// Watches answered in one turn.
const WATCHES_PER_TURN: usize = 64;

/// Who asked, and under which number.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    pub peer: Peer,
    pub request: u64,
}

impl Server {
    pub(super) fn frame(&mut self, from: Peer, bytes: &[u8], now: Now) -> Result<(), Fault> {
        let frame = match frame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(%from, %error, "dropped a frame");
                return Ok(());
            }
        };
        let asker = Asker { peer: from, request: frame.request };
        match frame.body {
            Body::Request(request) => self.node_request(asker, request, now),
            Body::Raft(message) => {
                self.log.receive(from, &message);
                Ok(())
            }
            // servers ask nodes nothing
            Body::Reply(_) => Ok(()),
        }
    }

    fn node_request(&mut self, asker: Asker, request: NodeRequest, now: Now) -> Result<(), Fault> {
        if !self.ready {
            let leader = self.log.raft().leader().filter(|&id| id != self.log.raft().id());
            self.answer(asker, NodeReply::NotLeader { leader });
            return Ok(());
        }
        self.measures.node_asked(&request);
        let view = self.log.reader().view()?;
        match request {
            NodeRequest::Register { info } => self.register(asker, *info, &view, now),
            NodeRequest::Heartbeat { node, secret } => {
                let Some(known) = self.authentic(asker, node, secret, &view)? else { return Ok(()) };
                self.heartbeat(asker, &known, &view, now)
            }
            NodeRequest::Watch { node, secret, since } => {
                if self.authentic(asker, node, secret, &view)?.is_some() {
                    self.watches.open(node, asker.peer, asker.request, since, now.mono);
                }
                Ok(())
            }
            NodeRequest::Fetch { node, secret, allocs } => {
                if self.authentic(asker, node, secret, &view)?.is_some() {
                    let assignments = fetched(&view, node, &allocs)?;
                    self.answer(asker, NodeReply::Fetched { assignments });
                }
                Ok(())
            }
            NodeRequest::Report { node, secret, updates, verdicts } => {
                let Some(known) = self.authentic(asker, node, secret, &view)? else { return Ok(()) };
                self.report(asker, &known, updates, verdicts, &view, now)
            }
        }
    }

    /// The node as the state knows it, if the secret is its own; otherwise the asker has been told.
    fn authentic(
        &mut self,
        asker: Asker,
        node: NodeId,
        secret: NodeSecret,
        view: &View,
    ) -> Result<Option<std::sync::Arc<Node>>, Fault> {
        let Some(known) = view.node(node)? else {
            self.answer(asker, NodeReply::UnknownNode);
            return Ok(None);
        };
        if known.info.secret != secret {
            self.answer(asker, refused("node secret ID does not match"));
            return Ok(None);
        }
        Ok(Some(known))
    }

    fn register(&mut self, asker: Asker, info: NodeInfo, view: &View, now: Now) -> Result<(), Fault> {
        if let Some(problem) = registration_problem(&info) {
            self.answer(asker, refused(problem));
            return Ok(());
        }
        let at = self.stamp(now);
        let known = view.node(info.id)?;
        let evals = match &known {
            Some(old) if old.info.secret == info.secret && matters_to_jobs(&old.info, &info) => {
                let mut evals = self.node_evals(info.id, view, at)?;
                self.add_system_evals((info.id, &info), &mut evals, view, at)?;
                evals
            }
            _ => vec![],
        };
        let command = Command::RegisterNode { info: Box::new(info.clone()), evals, at };
        self.propose(&command, Op::Alive { asker, node: info.id });
        Ok(())
    }

    /// A heartbeat writes nothing, unless the node was not ready.
    fn heartbeat(&mut self, asker: Asker, node: &Node, view: &View, now: Now) -> Result<(), Fault> {
        let id = node.info.id;
        if node.status == NodeStatus::Ready {
            let ttl = self.heartbeats.heard(id, now.mono);
            tracing::trace!(target: "nomad.heartbeat", node_id = %id, %ttl, "heartbeat");
            self.answer(asker, NodeReply::Alive { ttl });
            return Ok(());
        }
        let at = self.stamp(now);
        if awaits_reports(node, view, at)? {
            let ttl = self.heartbeats.heard(id, now.mono);
            self.answer(asker, NodeReply::Missed { ttl });
            return Ok(());
        }
        let (status, message) = match node.status {
            // what it says of its allocations comes before anything is decided on them
            NodeStatus::Disconnected => (NodeStatus::Initializing, Some("Node reconnected by heartbeat")),
            NodeStatus::Down => (NodeStatus::Ready, Some("Node reregistered by heartbeat")),
            _ => (NodeStatus::Ready, None),
        };
        let event = message.map(|message| Box::new(node_event(message, at)));
        let evals = self.node_evals(id, view, at)?;
        let command = Command::UpdateNodeStatus { node: id, status, event, evals, at };
        self.propose(&command, Op::Alive { asker, node: id });
        Ok(())
    }

    /// What changed it is applied.
    pub(super) fn alive(
        &mut self,
        asker: Asker,
        id: NodeId,
        result: Result<WriteReply, Refusal>,
        now: Now,
    ) -> Result<(), Fault> {
        if let Err(refusal) = result {
            self.answer(asker, refused(refusal.message));
            return Ok(());
        }
        let ttl = self.heartbeats.heard(id, now.mono);
        let missed = self.log.reader().view()?.node(id)?.is_some_and(|node| was_missed(&node));
        self.answer(asker, if missed { NodeReply::Missed { ttl } } else { NodeReply::Alive { ttl } });
        Ok(())
    }

    /// An ended allocation of a job that is gone has to be cleared away by a scheduler; one that has failed may have to be
    /// placed again.
    pub(super) fn eval_for_update(
        &mut self,
        alloc: &Allocation,
        update: &AllocUpdate,
        view: &View,
        at: Wall,
    ) -> Result<Option<Evaluation>, Fault> {
        if alloc.client == ClientStatus::Unknown && update.client != ClientStatus::Unknown {
            return Ok(view.job(&alloc.job)?.map(|job| self.eval_of(&job, Trigger::Reconnect, at)));
        }
        if !update.client.is_terminal() || alloc.client_terminal() {
            return Ok(None);
        }
        let Some(job) = view.job(&alloc.job)? else {
            let cleared = alloc.client == ClientStatus::Lost || alloc.server_terminal();
            let eval = |id| {
                let (service, priority) = (JobType::Service, DEFAULT_PRIORITY);
                Evaluation::pending(id, alloc.job.clone(), service, priority, Trigger::JobDeregister, at)
            };
            return Ok((!cleared).then(|| eval(self.ids.eval())));
        };
        let failed = update.client == ClientStatus::Failed && alloc.followup_eval.is_none();
        if !failed || !may_reschedule(&job, alloc, at) {
            return Ok(None);
        }
        Ok(Some(self.eval_of(&job, Trigger::AllocFailure, at)))
    }

    fn eval_of(&mut self, job: &Job, trigger: Trigger, at: Wall) -> Evaluation {
        let (key, job_type, priority) = (job.spec.key(), job.spec.job_type, job.spec.priority);
        let eval = Evaluation::pending(self.ids.eval(), key, job_type, priority, trigger, at);
        Evaluation { job_modify_index: job.job_modify_index, ..eval }
    }

    /// One evaluation for each job that has allocations on the node, and for each system job that is wanted there.
    pub(super) fn node_evals(
        &mut self,
        node: NodeId,
        view: &View,
        at: Wall,
    ) -> Result<Vec<Evaluation>, Fault> {
        let mut jobs: Vec<JobKey> = view.allocs_of_node(node)?.into_iter().map(|a| a.job).collect();
        jobs.sort();
        jobs.dedup();
        let index = view.index();
        let mut evals = vec![];
        for key in jobs {
            let job = view.job(&key)?;
            let (job_type, priority, modify) = job.map_or((JobType::Service, DEFAULT_PRIORITY, 0), |j| {
                (j.spec.job_type, j.spec.priority, j.job_modify_index)
            });
            let mut eval =
                Evaluation::pending(self.ids.eval(), key, job_type, priority, Trigger::NodeUpdate, at);
            eval.job_modify_index = modify;
            eval.node_id = Some(node);
            eval.node_modify_index = index;
            evals.push(eval);
        }
        if let Some(known) = view.node(node)? {
            self.add_system_evals((node, &known.info), &mut evals, view, at)?;
        }
        Ok(evals)
    }

    /// Nodes that were silent for too long are down; or disconnected, while a group on it sits that out.
    pub(super) fn bury_silent_nodes(&mut self, now: Now) -> Result<(), Fault> {
        let silent = self.heartbeats.take_silent(now.mono, SILENT_PER_TURN);
        if silent.is_empty() {
            return Ok(());
        }
        let view = self.log.reader().view()?;
        for node in silent {
            let Some(known) = view.node(node)? else { continue };
            if known.status == NodeStatus::Down {
                continue;
            }
            let at = self.stamp(now);
            let may_wait = matches!(known.status, NodeStatus::Ready | NodeStatus::Disconnected);
            let waits = may_wait && someone_waits(&view, node, at)?;
            if waits && known.status == NodeStatus::Disconnected {
                self.heartbeats.heard(node, now.mono);
                continue;
            }
            let status = if waits { NodeStatus::Disconnected } else { NodeStatus::Down };
            let evals = self.node_evals(node, &view, at)?;
            self.measures.done(Timed::HeartbeatInvalidate);
            tracing::warn!(target: "nomad.heartbeat", node_id = %node, status = status.as_str(), "node TTL expired");
            let event = Some(Box::new(node_event("Node heartbeat missed", at)));
            let command = Command::UpdateNodeStatus { node, status, event, evals, at };
            self.propose(&command, Op::Unattended);
        }
        Ok(())
    }

    pub(super) fn answer_watches(&mut self, now: Now) -> Result<(), Fault> {
        let due = self.watches.take_due(now.mono, WATCHES_PER_TURN);
        if due.is_empty() {
            return Ok(());
        }
        let view = self.log.reader().view()?;
        for (node, watch) in due {
            let index = self.watches.index_for(node, view.index());
            let wanted = view.alloc_indexes_of_node(node)?;
            let news: Vec<AllocId> =
                wanted.iter().filter(|(_, moved)| *moved > watch.since).map(|(id, _)| *id).collect();
            let assignments = fetched(&view, node, &news)?;
            let asker = Asker { peer: watch.peer, request: watch.request };
            self.answer(asker, NodeReply::Allocs(AllocSet { index, wanted, assignments }));
        }
        Ok(())
    }

    pub(super) fn answer(&mut self, asker: Asker, reply: NodeReply) {
        let bytes = frame::encode(&Frame { request: asker.request, body: Body::Reply(reply) });
        self.send(asker.peer, bytes);
    }
}

/// How long a node that is heard of again may take to say what became of its allocations.
const REPORT_PATIENCE: Span = Span::minutes(1);

/// It was disconnected, and has not yet reported anything since.
fn was_missed(node: &Node) -> bool {
    node.status == NodeStatus::Initializing && node.last_missed_heartbeat_index > node.last_alloc_update_index
}

/// It was disconnected, and has not yet said what became of its allocations.
fn awaits_reports(node: &Node, view: &View, at: Wall) -> Result<bool, Fault> {
    let silent = was_missed(node) && node.status_updated + REPORT_PATIENCE > at;
    let unknown = |a: &Allocation| a.client == ClientStatus::Unknown && !a.server_terminal();
    Ok(silent && view.allocs_of_node(node.info.id)?.iter().any(unknown))
}

/// Something that is wanted there is not lost yet, though nobody knows how it is.
fn someone_waits(view: &View, node: NodeId, at: Wall) -> Result<bool, Fault> {
    for alloc in view.allocs_of_node(node)?.iter().filter(|a| !a.terminal()) {
        let spec = view.job_spec(&alloc.job, alloc.job_create_index, alloc.job_version)?;
        let policy = spec.as_ref().and_then(|s| s.group(&alloc.group)?.disconnect);
        let Some(lost_after) = policy.and_then(|d| d.lost_after) else { continue };
        let since = alloc.states.last().filter(|s| s.status == ClientStatus::Unknown).map_or(at, |s| s.at);
        if since + lost_after > at {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the failure that is reported at `at` leaves the allocation's policy anything to do.
fn may_reschedule(job: &Job, alloc: &Allocation, at: Wall) -> bool {
    let policy = job.spec.group(&alloc.group).and_then(|g| g.reschedule);
    !alloc.server_terminal() && policy.is_some_and(|p| p.allows(&alloc.reschedules, at))
}

pub(super) fn refused(message: impl Into<String>) -> NodeReply {
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
fn fetched(view: &View, node: NodeId, ids: &[AllocId]) -> Result<Vec<Assignment>, Fault> {
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
