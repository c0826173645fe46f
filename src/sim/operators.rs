//! The operators: nodes drained with and without a deadline or by force, drains ended, nodes made eligible or not, lost
//! ones purged. And what must hold of it: drains take no more of a group away than it can do without, nothing is placed where
//! it must not be, and what was drained is empty when all heals.

use super::kept::Kept;
use super::world::{Event, World};
use model::alloc::{Allocation, Leave};
use model::id::{AllocId, NodeId};
use model::job::Job;
use model::node::NodeStatus;
use model::random::Stream;
use model::time::Span;
use server::effects::Input;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::command::NodeUpdateRequest;
use wire::request::{Refusal, WriteReply, WriteRequest};

/// Their questions have numbers apart from those of the jobs' users.
const FIRST_TOKEN: u64 = 1 << 40;

pub struct Operators {
    draws: Stream,
    next_token: u64,
    asked: BTreeSet<u64>,
    /// Allocations that were asked to leave when there is room.
    leaving: BTreeSet<AllocId>,
    /// The index at which each node was closed, of those that are.
    closed: BTreeMap<NodeId, u64>,
}

impl Operators {
    pub fn new(seed: u64) -> Self {
        Operators {
            draws: Stream::new(seed, 104),
            next_token: FIRST_TOKEN,
            asked: BTreeSet::new(),
            leaving: BTreeSet::new(),
            closed: BTreeMap::new(),
        }
    }

    pub fn draw(&mut self, bound: u64) -> u64 {
        self.draws.below(bound)
    }

    /// Whether the question was theirs.
    pub fn answered(&mut self, token: u64, result: &Result<WriteReply, Refusal>) -> Result<bool, String> {
        if token < FIRST_TOKEN {
            return Ok(false);
        }
        match self.asked.remove(&token) {
            true => Ok(true),
            false => Err(format!("the operators' question {token} was answered twice: {result:?}")),
        }
    }

    fn request(&mut self) -> (&'static str, NodeUpdateRequest) {
        let meta = BTreeMap::new();
        let drain =
            |deadline| NodeUpdateRequest::Drain { deadline, ignore_system: false, meta: BTreeMap::new() };
        match self.draws.below(9) {
            0 | 1 => ("drain with a deadline", drain(Span::seconds(20 + self.draws.below(200) as i64))),
            2 => ("drain without a deadline", drain(Span::ZERO)),
            3 => ("drain by force", drain(Span::seconds(-1))),
            4 | 5 => ("drain ended", NodeUpdateRequest::EndDrain { mark_eligible: true, meta }),
            6 => ("node made ineligible", NodeUpdateRequest::Eligible(false)),
            _ => ("node made eligible", NodeUpdateRequest::Eligible(true)),
        }
    }
}

impl World {
    /// One operator's step; then, after a while, the next.
    pub fn operate(&mut self) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        if self.operators.draws.below(3) == 0 {
            self.tell_scheduler();
        } else {
            self.want_of_a_node();
        }
        let wait = Span::seconds(10) + Span(self.operators.draws.below(60_000_000_000) as i64);
        self.after(wait, Event::Operate);
        Ok(())
    }

    fn want_of_a_node(&mut self) {
        let n = self.operators.draws.below(self.nodes.len() as u64) as usize;
        let down = (0..self.nodes.len()).find(|n| self.is_down(*n));
        let (n, kind, request) = match down.filter(|_| self.operators.draws.below(2) == 0) {
            Some(n) => (n, "lost node purged", NodeUpdateRequest::Purge),
            None => {
                let (kind, request) = self.operators.request();
                (n, kind, request)
            }
        };
        self.faults.fired(kind);
        self.ask_for_node(n, request);
    }

    fn is_down(&self, n: usize) -> bool {
        let Some(server) = &self.server.server else { return false };
        self.server.disk.hold_faults(true);
        let node = server.reader().view().ok().and_then(|v| v.node(self.nodes[n].id()).ok().flatten());
        self.server.disk.hold_faults(false);
        node.is_some_and(|n| n.status == NodeStatus::Down)
    }

    pub fn ask_for_node(&mut self, n: usize, request: NodeUpdateRequest) {
        let node = self.nodes[n].id();
        self.operator_asks(WriteRequest::UpdateNode { node, request });
    }

    pub fn operator_asks(&mut self, action: WriteRequest) {
        if !self.server.is_up() {
            return;
        }
        self.operators.next_token += 1;
        let token = self.operators.next_token;
        self.operators.asked.insert(token);
        self.note(|_| format!("operator {token} {action:?}"));
        self.server_input(Input::Request { token, action });
    }

    /// When all is well again: the drains have had their time, and what was drained is empty. Then all nodes are opened.
    pub fn check_drained(&mut self) -> Result<(), String> {
        let Some(server) = &self.server.server else { return Err("the server is not up".into()) };
        let view = server.reader().view().map_err(|e| e.to_string())?;
        for node in view.nodes().map_err(|e| e.to_string())? {
            let here = view.allocs_of_node(node.info.id).map_err(|e| e.to_string())?;
            let left: Vec<_> = here.iter().filter(|a| !a.client_terminal()).collect();
            let name = &node.info.name;
            let timed = node.drain.as_ref().is_some_and(|d| d.deadline != Span::ZERO);
            if timed {
                return Err(format!("the drain of {name} does not end: {left:#?}"));
            }
            // since then it was not opened
            let of_operators = |m: &str| m.starts_with("Node drain") || m.starts_with("Node marked");
            let newest = node.events.iter().rev().find(|e| of_operators(&e.message));
            let drained = newest.is_some_and(|e| e.message == "Node drain complete");
            if drained && !left.is_empty() {
                return Err(format!("{name} was drained, and is not empty: {left:#?}"));
            }
        }
        for n in 0..self.nodes.len() {
            self.ask_for_node(n, NodeUpdateRequest::EndDrain { mark_eligible: true, meta: BTreeMap::new() });
        }
        Ok(())
    }

    /// After every turn in which the state moved.
    pub fn check_drains(&mut self) -> Result<(), String> {
        let Some(server) = &self.server.server else { return Ok(()) };
        let view = server.reader().view().map_err(|e| e.to_string())?;
        let nodes = view.nodes().map_err(|e| e.to_string())?;
        let draining: BTreeSet<NodeId> =
            nodes.iter().filter(|n| n.drain.is_some()).map(|n| n.info.id).collect();
        if let Some(led) = server.draining()
            && led != draining
        {
            return Err(format!("the leader drains {led:?}, the state says {draining:?}"));
        }
        let operators = &mut self.operators;
        let open: BTreeSet<NodeId> = nodes.iter().filter(|n| n.eligible).map(|n| n.info.id).collect();
        operators.closed.retain(|id, _| nodes.iter().any(|n| n.info.id == *id) && !open.contains(id));
        for node in nodes.iter().filter(|n| !n.eligible) {
            operators.closed.entry(node.info.id).or_insert(view.index());
        }
        let all = &self.kept.allocs;
        for alloc in all.values() {
            if operators.closed.get(&alloc.node_id).is_some_and(|at| alloc.create_index > *at) {
                return Err(format!("{} was placed on a node that is closed", alloc.id));
            }
        }
        let newly: BTreeSet<AllocId> = all
            .values()
            .filter(|a| a.transition.migrate == Some(Leave::WhenPlaced) && !a.terminal())
            .map(|a| a.id)
            .collect();
        let mut asked = newly.iter().filter(|id| !operators.leaving.contains(*id));
        asked.try_for_each(|id| all.get(id).map_or(Ok(()), |a| no_more_than_may(&view, a, &self.kept)))?;
        operators.leaving = newly;
        Ok(())
    }
}

/// A drain lets at most `max_parallel` allocations of the group leave at a time. `alloc` was just asked to.
fn no_more_than_may(view: &View, alloc: &Allocation, kept: &Kept) -> Result<(), String> {
    let Some(job) = view.job(&alloc.job).map_err(|e| e.to_string())? else { return Ok(()) };
    let Some(policy) = policy(&job, alloc) else { return Ok(()) };
    let leaves = |a: &&Arc<Allocation>| {
        let waits = a.transition.migrate == Some(Leave::WhenPlaced) && !a.terminal();
        a.job == alloc.job && a.group == alloc.group && waits
    };
    let leaving = kept.allocs.values().filter(leaves).count() as i64;
    // what is beyond the count may go as well
    let same = |a: &&Arc<Allocation>| a.job == alloc.job && a.group == alloc.group && !a.terminal();
    let wanted = job.spec.group(&alloc.group).map_or(0, |g| g.count);
    let surplus = (kept.allocs.values().filter(same).count() as i64 - wanted).max(0);
    if leaving > policy + surplus {
        return Err(format!("{leaving} of {} of {} leave at once", alloc.group, alloc.job));
    }
    Ok(())
}

fn policy(job: &Job, alloc: &Allocation) -> Option<i64> {
    job.spec.group(&alloc.group)?.migrate.map(|m| m.max_parallel)
}
