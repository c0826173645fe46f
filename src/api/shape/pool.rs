//! A node pool as JSON.

use super::{hash, map_or_null};
use model::pool::NodePool;
use model::scheduling::PoolScheduling;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodePoolShape<'a> {
    name: &'a str,
    description: &'a str,
    meta: Option<&'a BTreeMap<String, String>>,
    scheduler_configuration: Option<SchedulingShape>,
    hash: String,
    create_index: u64,
    modify_index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SchedulingShape {
    /// Empty: as in the whole region.
    scheduler_algorithm: &'static str,
    memory_oversubscription_enabled: Option<bool>,
}

impl<'a> NodePoolShape<'a> {
    pub fn new(pool: &'a NodePool) -> Self {
        let spec = &pool.spec;
        let timeless = NodePool { create_index: 0, modify_index: 0, ..pool.clone() };
        NodePoolShape {
            name: &spec.name,
            description: &spec.description,
            meta: map_or_null(&spec.meta),
            scheduler_configuration: spec.scheduling.as_ref().map(SchedulingShape::new),
            hash: hash(&timeless),
            create_index: pool.create_index,
            modify_index: pool.modify_index,
        }
    }
}

impl SchedulingShape {
    fn new(said: &PoolScheduling) -> Self {
        SchedulingShape {
            scheduler_algorithm: said.algorithm.map_or("", |a| a.as_str()),
            memory_oversubscription_enabled: said.memory_oversubscription,
        }
    }
}
