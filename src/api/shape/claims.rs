//! Networks, ports, devices and volumes as JSON: as an allocation holds them, and as a node has them.

use super::{Null, map_or_null};
use model::claims::{
    DeviceAttribute, DeviceGroup, DeviceValue, HeldDevice, HeldNetwork, HeldPort, HostVolume, NodeAddress,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// None for an empty list, which Go writes as `null`.
pub fn listed<'a, T, S>(list: &'a [T], shape: fn(&'a T) -> S) -> Option<Vec<S>> {
    (!list.is_empty()).then(|| list.iter().map(shape).collect())
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkShape<'a> {
    pub mode: &'a str,
    pub device: &'a str,
    #[serde(rename = "CIDR")]
    pub cidr: String,
    #[serde(rename = "IP")]
    pub ip: &'a str,
    #[serde(rename = "MBits")]
    pub mbits: i64,
    #[serde(rename = "DNS")]
    pub dns: Null,
    pub reserved_ports: Option<Vec<PortShape<'a>>>,
    pub dynamic_ports: Option<Vec<PortShape<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PortShape<'a> {
    label: &'a str,
    value: i64,
    to: i64,
    host_network: &'a str,
}

impl<'a> NetworkShape<'a> {
    pub fn bare(mode: &'a str, device: &'a str, ip: &'a str) -> Self {
        let (cidr, mbits) = (String::new(), 0);
        NetworkShape { mode, device, cidr, ip, mbits, dns: (), reserved_ports: None, dynamic_ports: None }
    }

    pub fn held(n: &'a HeldNetwork) -> Self {
        let ports = |fixed: bool| -> Option<Vec<PortShape<'a>>> {
            let some = n.ports.iter().any(|p| p.fixed == fixed);
            some.then(|| n.ports.iter().filter(|p| p.fixed == fixed).map(PortShape::held).collect())
        };
        NetworkShape {
            reserved_ports: ports(true),
            dynamic_ports: ports(false),
            ..NetworkShape::bare(&n.mode, &n.device, &n.ip)
        }
    }
}

impl<'a> PortShape<'a> {
    fn held(p: &'a HeldPort) -> Self {
        PortShape { label: &p.label, value: p.value.into(), to: inner_port(p), host_network: &p.host_network }
    }
}

/// `to = -1` asks for the host's port.
fn inner_port(p: &HeldPort) -> i64 {
    if p.to == -1 { p.value.into() } else { p.to }
}

/// A port of an allocation: who connects to it finds it here.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PortMappingShape<'a> {
    label: &'a str,
    value: u16,
    to: i64,
    #[serde(rename = "HostIP")]
    host_ip: &'a str,
}

impl<'a> PortMappingShape<'a> {
    pub fn of(networks: &'a [HeldNetwork]) -> Option<Vec<Self>> {
        let all: Vec<Self> = networks.iter().flat_map(|n| &n.ports).map(Self::new).collect();
        (!all.is_empty()).then_some(all)
    }

    fn new(p: &'a HeldPort) -> Self {
        PortMappingShape { label: &p.label, value: p.value, to: inner_port(p), host_ip: &p.host_ip }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocatedDeviceShape<'a> {
    vendor: &'a str,
    #[serde(rename = "Type")]
    kind: &'a str,
    name: &'a str,
    #[serde(rename = "DeviceIDs")]
    ids: &'a [String],
}

impl<'a> AllocatedDeviceShape<'a> {
    pub fn new(d: &'a HeldDevice) -> Self {
        AllocatedDeviceShape { vendor: &d.vendor, kind: &d.kind, name: &d.name, ids: &d.ids }
    }
}

/// An address of a node's interface.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AddressShape<'a> {
    family: &'static str,
    alias: &'a str,
    address: &'a str,
    reserved_ports: &'a str,
    gateway: &'static str,
}

impl<'a> AddressShape<'a> {
    pub fn new(a: &'a NodeAddress) -> Self {
        AddressShape {
            family: if a.address.contains(':') { "ipv6" } else { "ipv4" },
            alias: &a.alias,
            address: &a.address,
            reserved_ports: &a.reserved_ports,
            gateway: "",
        }
    }
}

/// A name under which a node has addresses.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostNetworkShape<'a> {
    name: &'a str,
    #[serde(rename = "CIDR")]
    cidr: &'static str,
    interface: &'a str,
    reserved_ports: &'a str,
}

impl<'a> HostNetworkShape<'a> {
    pub fn all(addresses: &'a [NodeAddress]) -> Option<BTreeMap<&'a str, Self>> {
        let named = addresses.iter().filter(|a| a.alias != model::claims::DEFAULT_HOST_NETWORK);
        let one = |a: &'a NodeAddress| {
            let (name, interface) = (a.alias.as_str(), a.device.as_str());
            (name, HostNetworkShape { name, cidr: "", interface, reserved_ports: &a.reserved_ports })
        };
        let all: BTreeMap<&str, Self> = named.map(one).collect();
        (!all.is_empty()).then_some(all)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostVolumeShape<'a> {
    name: &'a str,
    path: &'a str,
    read_only: bool,
}

impl<'a> HostVolumeShape<'a> {
    pub fn all(volumes: &'a BTreeMap<String, HostVolume>) -> Option<BTreeMap<&'a str, Self>> {
        let one = |(name, v): (&'a String, &'a HostVolume)| {
            (name.as_str(), HostVolumeShape { name, path: &v.path, read_only: v.read_only })
        };
        (!volumes.is_empty()).then(|| volumes.iter().map(one).collect())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeDeviceShape<'a> {
    vendor: &'a str,
    #[serde(rename = "Type")]
    kind: &'a str,
    name: &'a str,
    instances: Vec<InstanceShape<'a>>,
    attributes: Option<BTreeMap<&'a str, AttributeShape<'a>>>,
}

#[derive(Serialize)]
struct InstanceShape<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    #[serde(rename = "Healthy")]
    healthy: bool,
    #[serde(rename = "HealthDescription")]
    description: &'a str,
    #[serde(rename = "Locality")]
    locality: Null,
}

/// One of the values; the others are left out.
#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct AttributeShape<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    float: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    int: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    string: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bool: Option<bool>,
    unit: &'a str,
}

impl<'a> AttributeShape<'a> {
    fn new(a: &'a DeviceAttribute) -> Self {
        let mut shape = AttributeShape { unit: &a.unit, ..AttributeShape::default() };
        match &a.value {
            DeviceValue::Int(i) => shape.int = Some(*i),
            DeviceValue::Float(f) => shape.float = Some(*f),
            DeviceValue::Bool(b) => shape.bool = Some(*b),
            DeviceValue::Text(t) => shape.string = Some(t),
        }
        shape
    }
}

impl<'a> NodeDeviceShape<'a> {
    pub fn new(d: &'a DeviceGroup) -> Self {
        let instance = |i: &'a model::claims::DeviceInstance| InstanceShape {
            id: &i.id,
            healthy: i.healthy,
            description: &i.description,
            locality: (),
        };
        NodeDeviceShape {
            vendor: &d.vendor,
            kind: &d.kind,
            name: &d.name,
            instances: d.instances.iter().map(instance).collect(),
            attributes: map_or_null(&d.attributes)
                .map(|all| all.iter().map(|(k, v)| (k.as_str(), AttributeShape::new(v))).collect()),
        }
    }
}
