//! Node pools and the scheduler configuration: written; a pool is deleted only when it is empty (server.md 19).
//! Refuses to know who is placed where.

use super::super::cluster_config;
use super::super::fault::Fault;
use super::super::tables::{self, Kind, NodeInfoRow};
use super::super::view::Table;
use super::{ApplyTxn, Reply};
use model::pool::{NodePool, NodePoolSpec, is_built_in};
use model::scheduling::{SchedulerConfig, SchedulerSettings};
use std::sync::Arc;
use wire::change::Change;
use wire::event::Object;
use wire::record;
use wire::request::{Refusal, RefusalKind, WriteReply};

impl ApplyTxn<'_> {
    pub(super) fn configure_scheduler(
        &mut self,
        settings: SchedulerSettings,
        cas: Option<u64>,
    ) -> Result<Reply, Fault> {
        let index = self.index();
        let known = cluster_config::read_scheduler_config(&self.rows)?;
        if cas.is_some_and(|seen| seen != known.modify_index) {
            return Ok(Ok(WriteReply::SchedulerConfig { updated: false, index }));
        }
        let create_index = if known.create_index == 0 { index } else { known.create_index };
        let config = SchedulerConfig { settings, create_index, modify_index: index };
        self.put(&Kind::SchedulerConfig.key(&[]), &config)?;
        self.changes.push(Change::Scheduler);
        Ok(Ok(WriteReply::SchedulerConfig { updated: true, index }))
    }

    /// Writes a node pool, unless it is as before.
    pub(super) fn upsert_node_pool(&mut self, spec: NodePoolSpec) -> Result<Reply, Fault> {
        let index = self.index();
        if is_built_in(&spec.name) {
            let why = format!("modifying node pool {:?} is not allowed", spec.name);
            return Ok(Err(Refusal::new(RefusalKind::Invalid, why)));
        }
        let known = cluster_config::read_node_pool(&self.rows, &spec.name)?;
        if known.as_ref().is_none_or(|known| known.spec != spec) {
            let create_index = known.map_or(index, |known| known.create_index);
            self.put_node_pool(NodePool { spec, create_index, modify_index: index })?;
        }
        Ok(Ok(WriteReply::Written { index }))
    }

    /// A node that registers creates the pool that it names.
    pub(super) fn create_missing_node_pool(&mut self, name: String) -> Result<(), Fault> {
        if cluster_config::read_node_pool(&self.rows, &name)?.is_some() {
            return Ok(());
        }
        let (create_index, modify_index) = (self.index(), self.index());
        let spec = NodePoolSpec { name, ..NodePoolSpec::default() };
        self.put_node_pool(NodePool { spec, create_index, modify_index })
    }

    fn put_node_pool(&mut self, pool: NodePool) -> Result<(), Fault> {
        self.put(&tables::node_pool_key(&pool.spec.name), &pool)?;
        self.node_pool_changed(pool);
        Ok(())
    }

    pub(super) fn delete_node_pool(&mut self, name: &str) -> Result<Reply, Fault> {
        let refuse = |kind, message: String| Ok(Err(Refusal::new(kind, message)));
        if is_built_in(name) {
            return refuse(RefusalKind::Invalid, format!("deleting node pool {name:?} is not allowed"));
        }
        let Some(pool) = cluster_config::read_node_pool(&self.rows, name)? else {
            return refuse(RefusalKind::NotFound, "node pool not found".into());
        };
        if let Some(region) = self.region_of_live_job(&[], |spec| spec.node_pool == name)? {
            let message = format!("node pool {name:?} has non-terminal jobs in regions: [{region}]");
            return refuse(RefusalKind::Invalid, message);
        }
        if self.has_nodes(name)? {
            return refuse(RefusalKind::Invalid, format!("node pool {name:?} has nodes"));
        }
        self.remove(&tables::node_pool_key(name))?;
        self.node_pool_changed(pool);
        Ok(Ok(WriteReply::Written { index: self.index() }))
    }

    fn has_nodes(&self, pool: &str) -> Result<bool, Fault> {
        let mut found = false;
        tables::each(&self.rows, &Kind::NodeInfo.key(&[]), None, |_, value| {
            found = record::decode::<NodeInfoRow>(value)?.info.pool == pool;
            Ok(!found)
        })?;
        Ok(found)
    }

    fn node_pool_changed(&mut self, pool: NodePool) {
        self.set_table_index(Table::NodePools);
        self.changes.push(Change::NodePool);
        self.events.push(Object::NodePool(Arc::new(pool)));
    }
}
