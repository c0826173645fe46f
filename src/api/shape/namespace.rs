//! A namespace as JSON.

use super::{Null, hash, list_or_null, map_or_null};
use model::namespace::{Capabilities, Namespace};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NamespaceShape<'a> {
    name: &'a str,
    description: &'a str,
    quota: &'static str,
    capabilities: Option<CapabilitiesShape<'a>>,
    node_pool_configuration: Null,
    meta: Option<&'a BTreeMap<String, String>>,
    hash: String,
    create_index: u64,
    modify_index: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CapabilitiesShape<'a> {
    enabled_task_drivers: Option<&'a [String]>,
    disabled_task_drivers: Option<&'a [String]>,
}

impl<'a> NamespaceShape<'a> {
    pub fn new(namespace: &'a Namespace) -> Self {
        let spec = &namespace.spec;
        NamespaceShape {
            name: &spec.name,
            description: &spec.description,
            quota: "",
            capabilities: spec.capabilities.as_ref().map(CapabilitiesShape::new),
            node_pool_configuration: (),
            meta: map_or_null(&spec.meta),
            hash: hash(&Namespace { create_index: 0, modify_index: 0, ..namespace.clone() }),
            create_index: namespace.create_index,
            modify_index: namespace.modify_index,
        }
    }
}

impl<'a> CapabilitiesShape<'a> {
    fn new(capabilities: &'a Capabilities) -> Self {
        CapabilitiesShape {
            enabled_task_drivers: list_or_null(&capabilities.enabled_task_drivers),
            disabled_task_drivers: list_or_null(&capabilities.disabled_task_drivers),
        }
    }
}
