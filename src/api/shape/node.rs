//! Nodes as JSON: the whole node (its secret never leaves) and its stub in lists.

use super::claims::{AddressShape, HostNetworkShape, HostVolumeShape, NetworkShape, NodeDeviceShape, listed};
use super::{Empty, MetaShape, Null, list_or_null, map_or_null, rfc3339};
use model::drain::{Drain, LastDrain};
use model::id::EvalId;
use model::node::{DriverInfo, Node, NodeEvent, NodeInfo, NodeNetwork};
use serde::Serialize;
use std::collections::BTreeMap;

/// A node in a list.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeStub<'a> {
    address: &'a str,
    #[serde(rename = "ID")]
    id: String,
    attributes: Option<BTreeMap<&'a str, &'a str>>,
    datacenter: &'a str,
    name: &'a str,
    node_pool: &'a str,
    node_class: &'a str,
    version: &'a str,
    drain: bool,
    scheduling_eligibility: &'static str,
    status: &'static str,
    status_description: &'a str,
    drivers: BTreeMap<&'a str, DriverShape<'a>>,
    host_volumes: Option<BTreeMap<&'a str, HostVolumeShape<'a>>>,
    node_resources: Option<NodeResourcesShape<'a>>,
    reserved_resources: Option<ReservedShape<'a>>,
    last_drain: Option<LastDrainShape<'a>>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> NodeStub<'a> {
    /// `resources` and `os`: the query parameters of the same names.
    pub fn new(node: &'a Node, resources: bool, os: bool) -> Self {
        let info = &node.info;
        let os_name = || info.attributes.get_key_value("os.name").map(|(k, v)| (k.as_str(), v.as_str()));
        NodeStub {
            address: host_of(info.http().0),
            id: info.id.to_string(),
            attributes: os.then(|| os_name().into_iter().collect()),
            datacenter: &info.datacenter,
            name: &info.name,
            node_pool: &info.pool,
            node_class: &info.class,
            version: info.attributes.get("nomad.version").map_or("", String::as_str),
            drain: node.drain.is_some(),
            scheduling_eligibility: eligibility(node),
            status: node.status.as_str(),
            status_description: &node.status_description,
            drivers: drivers(info),
            host_volumes: HostVolumeShape::all(&info.offers.volumes),
            node_resources: resources.then(|| NodeResourcesShape::new(info)),
            reserved_resources: resources.then(|| ReservedShape::new(info)),
            last_drain: node.last_drain.as_ref().map(LastDrainShape::new),
            create_index: node.create_index,
            modify_index: node.modify_index,
        }
    }
}

/// `10.0.0.5` of `10.0.0.5:4646`, `::1` of `[::1]:4646`.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

fn eligibility(node: &Node) -> &'static str {
    if node.eligible { "eligible" } else { "ineligible" }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeShape<'a> {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "SecretID")]
    secret_id: &'static str,
    datacenter: &'a str,
    name: &'a str,
    cgroup_parent: &'static str,
    #[serde(rename = "HTTPAddr")]
    http_addr: &'a str,
    #[serde(rename = "TLSEnabled")]
    tls_enabled: bool,
    attributes: &'a BTreeMap<String, String>,
    node_resources: NodeResourcesShape<'a>,
    reserved_resources: ReservedShape<'a>,
    links: Empty,
    meta: &'a BTreeMap<String, String>,
    node_class: &'a str,
    node_pool: &'a str,
    computed_class: &'a str,
    drain_strategy: Option<DrainShape>,
    drain: bool,
    scheduling_eligibility: &'static str,
    status: &'static str,
    status_description: &'a str,
    /// Seconds since 1970.
    status_updated_at: i64,
    events: Vec<NodeEventShape<'a>>,
    drivers: BTreeMap<&'a str, DriverShape<'a>>,
    #[serde(rename = "CSIControllerPlugins")]
    csi_controller_plugins: Empty,
    #[serde(rename = "CSINodePlugins")]
    csi_node_plugins: Empty,
    host_volumes: Option<BTreeMap<&'a str, HostVolumeShape<'a>>>,
    host_networks: Option<BTreeMap<&'a str, HostNetworkShape<'a>>>,
    last_drain: Option<LastDrainShape<'a>>,
    node_max_allocs: u16,
    #[serde(rename = "GCVolumesOnNodeGC")]
    gc_volumes_on_node_gc: bool,
    last_missed_heartbeat_index: u64,
    last_alloc_update_index: u64,
    create_index: u64,
    modify_index: u64,
    /// drover's own member: the limits that this node cannot enforce, in sentences.
    not_enforced: &'a [String],
}

impl<'a> NodeShape<'a> {
    pub fn new(node: &'a Node) -> Self {
        let info = &node.info;
        NodeShape {
            id: info.id.to_string(),
            secret_id: "",
            datacenter: &info.datacenter,
            name: &info.name,
            cgroup_parent: "",
            http_addr: info.http().0,
            tls_enabled: info.http().1,
            attributes: &info.attributes,
            node_resources: NodeResourcesShape::new(info),
            reserved_resources: ReservedShape::new(info),
            links: Empty {},
            meta: &info.meta,
            node_class: &info.class,
            node_pool: &info.pool,
            computed_class: &node.computed_class,
            drain_strategy: node.drain.as_ref().map(DrainShape::new),
            drain: node.drain.is_some(),
            scheduling_eligibility: eligibility(node),
            status: node.status.as_str(),
            status_description: &node.status_description,
            status_updated_at: node.status_updated.unix_seconds(),
            events: node.events.iter().map(NodeEventShape::new).collect(),
            drivers: drivers(info),
            csi_controller_plugins: Empty {},
            csi_node_plugins: Empty {},
            host_volumes: HostVolumeShape::all(&info.offers.volumes),
            host_networks: HostNetworkShape::all(&info.offers.addresses),
            last_drain: node.last_drain.as_ref().map(LastDrainShape::new),
            node_max_allocs: info.max_allocs,
            gc_volumes_on_node_gc: false,
            last_missed_heartbeat_index: node.last_missed_heartbeat_index,
            last_alloc_update_index: node.last_alloc_update_index,
            create_index: node.create_index,
            modify_index: node.modify_index,
            not_enforced: &info.not_enforced,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DrainShape {
    /// Nanoseconds.
    deadline: i64,
    ignore_system_jobs: bool,
    force_deadline: Option<String>,
    started_at: Option<String>,
}

impl DrainShape {
    fn new(drain: &Drain) -> Self {
        DrainShape {
            deadline: drain.deadline.as_nanos(),
            ignore_system_jobs: drain.ignore_system,
            force_deadline: drain.force_at.and_then(rfc3339),
            started_at: rfc3339(drain.started),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LastDrainShape<'a> {
    started_at: Option<String>,
    updated_at: Option<String>,
    status: &'static str,
    #[serde(rename = "AccessorID")]
    accessor_id: &'static str,
    meta: Option<&'a BTreeMap<String, String>>,
}

impl<'a> LastDrainShape<'a> {
    fn new(last: &'a LastDrain) -> Self {
        LastDrainShape {
            started_at: rfc3339(last.started),
            updated_at: rfc3339(last.updated),
            status: last.status.as_str(),
            accessor_id: "",
            meta: map_or_null(&last.meta),
        }
    }
}

/// The answer to a change of eligibility or drain.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeUpdateShape {
    #[serde(rename = "EvalIDs")]
    eval_ids: Option<Vec<String>>,
    eval_create_index: u64,
    node_modify_index: u64,
    index: u64,
}

impl NodeUpdateShape {
    pub fn new(evals: &[EvalId], node_modify_index: u64, index: u64) -> Self {
        NodeUpdateShape {
            eval_ids: ids(evals),
            eval_create_index: if evals.is_empty() { 0 } else { index },
            node_modify_index,
            index,
        }
    }
}

fn ids(evals: &[EvalId]) -> Option<Vec<String>> {
    (!evals.is_empty()).then(|| evals.iter().map(ToString::to_string).collect())
}

/// The answer to an evaluation or a purge of a node.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeEvaluateShape {
    #[serde(rename = "HeartbeatTTL")]
    heartbeat_ttl: i64,
    #[serde(rename = "EvalIDs")]
    eval_ids: Option<Vec<String>>,
    eval_create_index: u64,
    node_modify_index: u64,
    #[serde(rename = "LeaderRPCAddr")]
    leader_rpc_addr: &'static str,
    num_nodes: u64,
    servers: Null,
    #[serde(flatten)]
    meta: MetaShape,
}

impl NodeEvaluateShape {
    pub fn new(evals: &[EvalId], node_modify_index: u64, index: u64) -> Self {
        NodeEvaluateShape {
            heartbeat_ttl: 0,
            eval_create_index: if evals.is_empty() { 0 } else { index },
            eval_ids: ids(evals),
            node_modify_index,
            leader_rpc_addr: "",
            num_nodes: 0,
            servers: (),
            meta: MetaShape::new(index, false),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NodeResourcesShape<'a> {
    cpu: NodeCpuShape<'a>,
    memory: NodeMemoryShape,
    disk: NodeDiskShape,
    devices: Option<Vec<NodeDeviceShape<'a>>>,
    node_networks: Option<Vec<NodeNetworkShape<'a>>>,
    networks: Option<Vec<NetworkShape<'a>>>,
    min_dynamic_port: u16,
    max_dynamic_port: u16,
}

impl<'a> NodeResourcesShape<'a> {
    fn new(info: &'a NodeInfo) -> Self {
        let some = !info.networks.is_empty();
        NodeResourcesShape {
            cpu: NodeCpuShape {
                cpu_shares: info.capacity.cpu_mhz,
                total_cpu_cores: info.cpu_cores,
                reservable_cpu_cores: list_or_null(&info.offers.cores),
            },
            memory: NodeMemoryShape { memory_mb: info.capacity.memory_mb },
            disk: NodeDiskShape { disk_mb: info.capacity.disk_mb },
            devices: listed(&info.offers.devices, NodeDeviceShape::new),
            node_networks: some
                .then(|| info.networks.iter().map(|n| NodeNetworkShape::new(info, n)).collect()),
            networks: info.networks.first().map(|n| vec![primary(n)]),
            min_dynamic_port: info.offers.dynamic_ports.min,
            max_dynamic_port: info.offers.dynamic_ports.max,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NodeCpuShape<'a> {
    cpu_shares: i64,
    total_cpu_cores: u16,
    reservable_cpu_cores: Option<&'a [u16]>,
}

#[derive(Serialize)]
struct NodeMemoryShape {
    #[serde(rename = "MemoryMB")]
    memory_mb: i64,
}

#[derive(Serialize)]
struct NodeDiskShape {
    #[serde(rename = "DiskMB")]
    disk_mb: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NodeNetworkShape<'a> {
    mode: &'static str,
    device: &'a str,
    mac_address: &'a str,
    speed: i64,
    addresses: Vec<AddressShape<'a>>,
}

impl<'a> NodeNetworkShape<'a> {
    fn new(info: &'a NodeInfo, n: &'a NodeNetwork) -> Self {
        let here = info.offers.addresses.iter().filter(|a| a.device == n.device);
        NodeNetworkShape {
            mode: "host",
            device: &n.device,
            mac_address: &n.mac,
            speed: n.speed_mbit,
            addresses: here.map(AddressShape::new).collect(),
        }
    }
}

/// The node is known by its first address.
fn primary(n: &NodeNetwork) -> NetworkShape<'_> {
    let ip = n.addresses.first().map_or("", String::as_str);
    let cidr = match ip {
        "" => String::new(),
        v6 if v6.contains(':') => format!("{v6}/128"),
        v4 => format!("{v4}/32"),
    };
    NetworkShape { cidr, mbits: n.speed_mbit, ..NetworkShape::bare("host", &n.device, ip) }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReservedShape<'a> {
    cpu: ReservedCpuShape<'a>,
    memory: NodeMemoryShape,
    disk: NodeDiskShape,
    networks: ReservedNetworksShape<'a>,
}

impl<'a> ReservedShape<'a> {
    fn new(info: &'a NodeInfo) -> Self {
        let (reserved, offers) = (info.reserved, &info.offers);
        ReservedShape {
            cpu: ReservedCpuShape {
                cpu_shares: reserved.cpu_mhz,
                reserved_cpu_cores: list_or_null(&offers.reserved_cores),
            },
            memory: NodeMemoryShape { memory_mb: reserved.memory_mb },
            disk: NodeDiskShape { disk_mb: reserved.disk_mb },
            networks: ReservedNetworksShape { reserved_host_ports: &offers.reserved_ports },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReservedCpuShape<'a> {
    cpu_shares: i64,
    reserved_cpu_cores: Option<&'a [u16]>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ReservedNetworksShape<'a> {
    reserved_host_ports: &'a str,
}

fn drivers(info: &NodeInfo) -> BTreeMap<&str, DriverShape<'_>> {
    info.drivers.iter().map(|(name, d)| (name.as_str(), DriverShape::new(d))).collect()
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DriverShape<'a> {
    attributes: Option<&'a BTreeMap<String, String>>,
    detected: bool,
    healthy: bool,
    health_description: &'a str,
    update_time: Option<String>,
}

impl<'a> DriverShape<'a> {
    fn new(d: &'a DriverInfo) -> Self {
        DriverShape {
            attributes: map_or_null(&d.attributes),
            detected: d.detected,
            healthy: d.healthy,
            health_description: &d.description,
            update_time: rfc3339(d.updated),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NodeEventShape<'a> {
    message: &'a str,
    subsystem: &'a str,
    details: Option<&'a BTreeMap<String, String>>,
    timestamp: Option<String>,
    create_index: u64,
}

impl<'a> NodeEventShape<'a> {
    fn new(e: &'a NodeEvent) -> Self {
        NodeEventShape {
            message: &e.message,
            subsystem: &e.subsystem,
            details: map_or_null(&e.details),
            timestamp: rfc3339(e.at),
            create_index: e.create_index,
        }
    }
}
