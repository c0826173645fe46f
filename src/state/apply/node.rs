//! Nodes: registering them and following their status (server.md 6). Refuses to know heartbeats: a status is
//! what the leader said it is.

use super::super::fault::Fault;
use super::super::tables::{self, Kind, NodeInfoRow, NodeRow};
use super::super::view::{self, Table};
use super::{ApplyTxn, FleetEdit, Reply};
use model::eval::Evaluation;
use model::id::NodeId;
use model::node::{Node, NodeEvent, NodeInfo, NodeStatus, computed_class};
use model::time::Wall;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::change::{Change, NodeChange};
use wire::event::Object;
use wire::request::{Refusal, RefusalKind};

impl ApplyTxn<'_> {
    /// Registers a node; for a known node only the description changes.
    pub(super) fn register_node(
        &mut self,
        info: NodeInfo,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let id = info.id;
        let pool = info.pool.clone();
        let old = view::read_node(&self.rows, id)?;
        if old.as_ref().is_some_and(|old| old.info.secret != info.secret) {
            return Ok(Err(Refusal::new(RefusalKind::Invalid, "node secret ID does not match")));
        }
        let new = match &old {
            Some(old) => Node { computed_class: computed_class(&info), info, ..old.clone() },
            None => self.new_node(info, at),
        };
        self.write_node(old.as_ref(), new)?;
        self.create_missing_node_pool(pool)?;
        self.put_node_evals(id, evals, at)
    }

    fn new_node(&self, info: NodeInfo, at: Wall) -> Node {
        let registered = NodeEvent {
            subsystem: "Cluster".into(),
            message: "Node registered".into(),
            details: BTreeMap::new(),
            at,
            create_index: self.index(),
        };
        Node {
            computed_class: computed_class(&info),
            info,
            status: NodeStatus::Initializing,
            status_description: String::new(),
            status_updated: at,
            eligible: true,
            events: vec![registered],
            last_missed_heartbeat_index: 0,
            last_alloc_update_index: 0,
            create_index: self.index(),
            modify_index: self.index(),
            drain: None,
            last_drain: None,
        }
    }

    pub(super) fn update_node_status(
        &mut self,
        id: NodeId,
        status: NodeStatus,
        event: Option<NodeEvent>,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let Some(old) = view::read_node(&self.rows, id)? else {
            return Ok(Err(Refusal::new(RefusalKind::NotFound, "node not found")));
        };
        let mut new = old.clone();
        if status != old.status {
            new.status = status;
            new.status_updated = at;
            if is_unreachable(status) && !is_unreachable(old.status) {
                new.last_missed_heartbeat_index = self.index();
            }
        }
        if let Some(event) = event {
            let at = if event.at.is_never() { at } else { event.at };
            new.push_event(NodeEvent { create_index: self.index(), at, ..event });
        }
        self.write_node(Some(&old), new)?;
        self.put_node_evals(id, evals, at)
    }

    /// Stores a node's evaluations with the index of the change that made them, which the proposer could not know.
    pub(super) fn put_node_evals(
        &mut self,
        id: NodeId,
        evals: Vec<Evaluation>,
        at: Wall,
    ) -> Result<Reply, Fault> {
        let index = self.index();
        let stamped = evals.into_iter().map(|e| match e.node_id {
            Some(node) if node == id => Evaluation { node_modify_index: index, ..e },
            _ => e,
        });
        self.put_evals(stamped.collect(), at)?;
        Ok(self.noop())
    }

    pub(super) fn write_node(&mut self, old: Option<&Node>, mut new: Node) -> Result<(), Fault> {
        if old == Some(&new) {
            return Ok(());
        }
        if old.is_some_and(|old| old.modify_index > self.index()) {
            return Err(Fault::corrupt(format!("node {} was changed after this entry", new.info.id)));
        }
        new.modify_index = self.index();
        let id = new.info.id;
        let described = NodeInfoRow { info: new.info.clone(), computed_class: new.computed_class.clone() };
        self.put(&tables::node_key(Kind::NodeInfo, id), &described)?;
        self.put(&tables::node_key(Kind::Node, id), &node_row(&new))?;
        self.set_table_index(Table::Nodes);
        let described_anew = old.is_none_or(|old| old.info != new.info);
        let opened = new.ready() && (described_anew || !old.is_some_and(Node::ready));
        self.changes.push(Change::Node(NodeChange {
            id,
            status: new.status,
            computed_class: new.computed_class.clone(),
            opened,
        }));
        self.events.push(Object::Node(Arc::new(new.clone())));
        self.fleet.push(FleetEdit::Node(Box::new(new)));
        Ok(())
    }

    /// The index of the last report of the node's allocations. `None`: no such node.
    pub(super) fn last_alloc_update(&self, id: NodeId) -> Result<Option<u64>, Fault> {
        let row = tables::get::<NodeRow>(&self.rows, &tables::node_key(Kind::Node, id))?;
        Ok(row.map(|row| row.last_alloc_update_index))
    }

    /// Notes that the node's client has reported, as it does after a missed heartbeat. No one waits for that, so no other index moves.
    pub(super) fn note_alloc_update(&mut self, id: NodeId) -> Result<(), Fault> {
        let key = tables::node_key(Kind::Node, id);
        let Some(row) = tables::get::<NodeRow>(&self.rows, &key)? else { return Ok(()) };
        self.put(&key, &NodeRow { last_alloc_update_index: self.index(), ..row })
    }
}

/// Whether the servers do not hear from the node.
fn is_unreachable(status: NodeStatus) -> bool {
    matches!(status, NodeStatus::Down | NodeStatus::Disconnected)
}

fn node_row(node: &Node) -> NodeRow {
    NodeRow {
        status: node.status,
        status_description: node.status_description.clone(),
        status_updated: node.status_updated,
        eligible: node.eligible,
        events: node.events.clone(),
        last_missed_heartbeat_index: node.last_missed_heartbeat_index,
        last_alloc_update_index: node.last_alloc_update_index,
        create_index: node.create_index,
        modify_index: node.modify_index,
        drain: node.drain.clone(),
        last_drain: node.last_drain.clone(),
    }
}
