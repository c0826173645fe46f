//! Requests of users about nodes (eligibility, drains, purges), and the steps of drains (server.md 6.3, server.md 7). Refuses to
//! know which allocations may move when: the leader has decided.

use super::super::fault::Fault;
use super::super::tables::{self, Kind};
use super::super::view::{self, Table};
use super::{ApplyTxn, FleetEdit, Reply};
use model::alloc::{Leave, Transition};
use model::drain::{Drain, DrainStatus, LastDrain};
use model::eval::Evaluation;
use model::id::{AllocId, NodeId};
use model::node::{Node, NodeEvent, NodeStatus};
use model::time::{Span, Wall};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::change::{Change, NodeChange};
use wire::command::{DrainProgress, NodeUpdateRequest};
use wire::event::Object;
use wire::request::{Refusal, RefusalKind};

const NODE_IS_DRAINING: &str = "can not set node's scheduling eligibility to eligible while it is draining";

impl ApplyTxn<'_> {
    pub(super) fn update_node(
        &mut self,
        id: NodeId,
        request: NodeUpdateRequest,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let refused = |why| Ok(Err(Refusal::new(RefusalKind::Validation, why)));
        let Some(old) = view::read_node(&self.rows, id)? else { return refused("node not found") };
        let mut new = old.clone();
        match request {
            NodeUpdateRequest::Eligible(true) if old.drain.is_some() => return refused(NODE_IS_DRAINING),
            NodeUpdateRequest::Eligible(eligible) => self.set_eligible(&mut new, eligible, at),
            NodeUpdateRequest::Drain { deadline, ignore_system, meta } => {
                self.begin_drain(&mut new, deadline, ignore_system, meta, at);
            }
            NodeUpdateRequest::EndDrain { mark_eligible, meta } => {
                self.cancel_drain(&mut new, mark_eligible, meta, at)?;
            }
            NodeUpdateRequest::Purge => {
                self.remove_node(old)?;
                return self.put_node_evals(id, evals, at);
            }
        }
        self.write_node(Some(&old), new)?;
        self.put_node_evals(id, evals, at)
    }

    fn set_eligible(&self, node: &mut Node, eligible: bool, at: Wall) {
        if node.eligible != eligible {
            node.eligible = eligible;
            let now = if eligible { "eligible" } else { "ineligible" };
            node.push_event(self.event("Cluster", format!("Node marked as {now} for scheduling"), at));
        }
    }

    fn begin_drain(
        &self,
        node: &mut Node,
        deadline: Span,
        ignore_system: bool,
        meta: BTreeMap<String, String>,
        at: Wall,
    ) {
        let started = node.drain.as_ref().map_or(at, |d| d.started);
        let verb = if node.drain.is_some() { "updated" } else { "set" };
        let force_at = (deadline > Span::ZERO).then(|| at + deadline);
        node.drain = Some(Drain { deadline, ignore_system, started, force_at });
        node.eligible = false;
        node.last_drain = Some(LastDrain { started, updated: at, status: DrainStatus::Draining, meta });
        node.push_event(self.event("Drain", format!("Node drain strategy {verb}"), at));
    }

    /// Allocations that waited for room elsewhere stay; those that had to leave at once do so all the same.
    fn cancel_drain(
        &mut self,
        node: &mut Node,
        mark_eligible: bool,
        meta: BTreeMap<String, String>,
        at: Wall,
    ) -> Result<(), Fault> {
        if node.drain.take().is_none() {
            if mark_eligible {
                self.set_eligible(node, true, at);
            }
            return Ok(());
        }
        node.eligible = mark_eligible;
        node.push_event(self.event("Drain", "Node drain disabled".into(), at));
        if let Some(last) = &mut node.last_drain {
            (last.status, last.updated) = (DrainStatus::Canceled, at);
            if !meta.is_empty() {
                last.meta = meta;
            }
        }
        let here = Kind::AllocOfNode.key(&[node.info.id.0.as_bytes()]);
        for key in tables::keys(&self.rows, &here)? {
            self.set_migrate(AllocId(tables::id_at_end(&key)?), Leave::No, at)?;
        }
        Ok(())
    }

    pub(super) fn advance_drains(
        &mut self,
        steps: Vec<DrainProgress>,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        for step in steps {
            self.advance_drain(step, at)?;
        }
        self.put_evals(evals, at)?;
        Ok(self.noop())
    }

    fn advance_drain(&mut self, step: DrainProgress, at: Wall) -> Result<(), Fault> {
        let Some(old) = view::read_node(&self.rows, step.node)? else { return Ok(()) };
        if old.drain.as_ref() != Some(&step.drain) {
            return Ok(());
        }
        let how = if step.at_once { Leave::AtOnce } else { Leave::WhenPlaced };
        for id in step.leaving {
            self.set_migrate(id, how, at)?;
        }
        if !step.complete {
            return Ok(());
        }
        let mut new = old.clone();
        new.drain = None;
        if let Some(last) = &mut new.last_drain {
            (last.status, last.updated) = (DrainStatus::Complete, at);
        }
        let mut event = self.event("Drain", "Node drain complete".into(), at);
        if step.at_once {
            event.details.insert("deadline_reached".into(), "true".into());
        }
        new.push_event(event);
        self.write_node(Some(&old), new)
    }

    /// Asks an allocation to leave. One that was told to leave at once does, whatever a drain says later; one that ended is not asked.
    fn set_migrate(&mut self, id: AllocId, how: Leave, at: Wall) -> Result<(), Fault> {
        let Some(old) = self.alloc(id)?.filter(|a| !a.terminal()) else { return Ok(()) };
        let asked = old.transition.migrate;
        let waits = asked == Some(Leave::WhenPlaced);
        if asked == Some(Leave::AtOnce) || (how == Leave::No && !waits) {
            return Ok(());
        }
        let mut new = old.clone();
        new.transition = Transition { migrate: Some(how), ..old.transition };
        if new.transition == old.transition {
            return Ok(());
        }
        (new.modify_index, new.modify_time) = (self.index(), at);
        self.write_alloc(Some(&old), new)
    }

    /// The node's allocations stay until a scheduler has seen that it is gone.
    pub(super) fn remove_node(&mut self, node: Node) -> Result<(), Fault> {
        let id = node.info.id;
        self.remove(&tables::node_key(Kind::Node, id))?;
        self.remove(&tables::node_key(Kind::NodeInfo, id))?;
        self.set_table_index(Table::Nodes);
        self.changes.push(Change::Node(NodeChange {
            id,
            status: NodeStatus::Down,
            computed_class: node.computed_class.clone(),
            opened: false,
        }));
        self.events.push(Object::Node(Arc::new(node)));
        self.fleet.push(FleetEdit::Gone(id));
        Ok(())
    }

    fn event(&self, subsystem: &str, message: String, at: Wall) -> NodeEvent {
        NodeEvent {
            subsystem: subsystem.into(),
            message,
            details: BTreeMap::new(),
            at,
            create_index: self.index(),
        }
    }
}
