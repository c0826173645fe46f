//! Resources beside cpu, memory and disk: ports, cores, devices and volumes, as jobs ask for them, as nodes offer them
//! and as allocations hold them. What only one allocation of a node can hold at a time is a `Claim`.
//!
//! Refuses to know: which node, port, core or device is chosen.

use super::constraint::Constraint;
use super::preference::Affinity;
use super::schema::services::{CNI, DNS, MOUNT_OPTIONS};
use super::schema::{DecodeHook, ValueKind, block, maybe, named, nullable, one, plain, soon, zeroed};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The network mode of a group or task that names none.
pub const HOST_MODE: &str = "host";
/// The host network of a port that names none.
pub const DEFAULT_HOST_NETWORK: &str = "default";
/// `to` of a port whose number inside is the one outside.
pub const SAME_PORT: i64 = -1;

block! {
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Network in named("network", "Network").hooked(DecodeHook::Network) => {
        /// As written; empty is `host`.
        pub mode: String => zeroed("mode", "Mode").empty_means(HOST_MODE);
        /// Has no effect.
        pub mbits: i64 => nullable("mbits", "MBits");
        pub reserved: Vec<Port> => nullable("reserved_ports", "ReservedPorts").diff_name("Static Port").unordered();
        pub dynamic: Vec<Port> => nullable("port", "DynamicPorts").diff_name("Dynamic Port").unordered();
    }
    and [
        soon(plain("device", "Device", ValueKind::Text)),
        soon(plain("cidr", "CIDR", ValueKind::Text)),
        soon(plain("ip", "IP", ValueKind::Text)),
        soon(plain("hostname", "Hostname", ValueKind::Text)).by_hand(),
        soon(one("dns", "DNS", &DNS)),
        soon(one("cni", "CNI", &CNI)).omitted().by_hand(),
    ]
}

impl Network {
    pub fn mode(&self) -> &str {
        if self.mode.is_empty() { HOST_MODE } else { &self.mode }
    }

    /// Fixed ones first.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.reserved.iter().chain(&self.dynamic)
    }
}

block! {
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub struct Port in named("port", "Port").labelled("Label") => {
        pub label: String => zeroed("", "Label");
        /// 0: whichever is free.
        pub value: i64 => zeroed("static", "Value").zero_is_no_difference();
        /// Inside a network of its own. 0: the same in host mode; `SAME_PORT`.
        pub to: i64 => zeroed("to", "To");
        pub host_network: String = DEFAULT_HOST_NETWORK.into() => zeroed("host_network", "HostNetwork");
    }
    and [soon(plain("ignore_collision", "IgnoreCollision", ValueKind::Bool)).omitted().by_hand()]
}

block! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct DeviceAsk in named("device", "Device").labelled("Name") => {
        /// `type`, `vendor/type` or `vendor/type/name`.
        pub name: String => zeroed("name", "Name");
        pub count: i64 = 1 => nullable("count", "Count");
        pub constraints: Vec<Constraint> => nullable("constraint", "Constraints");
        pub affinities: Vec<Affinity> => nullable("affinity", "Affinities");
    }
}

impl DeviceAsk {
    /// Vendor, type and name, as far as they are said.
    pub fn parts(&self) -> (Option<&str>, &str, Option<&str>) {
        match self.name.splitn(3, '/').collect::<Vec<_>>()[..] {
            [vendor, kind, name] => (Some(vendor), kind, Some(name)),
            [vendor, kind] => (Some(vendor), kind, None),
            _ => (None, &self.name, None),
        }
    }
}

block! {
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct VolumeAsk in named("volume", "Volume").labelled("Name") => {
        pub kind: String => zeroed("type", "Type");
        pub source: String => zeroed("source", "Source");
        pub read_only: bool => zeroed("read_only", "ReadOnly");
    }
    and [
        plain("", "Name", ValueKind::Text),
        soon(plain("sticky", "Sticky", ValueKind::Bool)),
        soon(plain("per_alloc", "PerAlloc", ValueKind::Bool)),
        soon(plain("access_mode", "AccessMode", ValueKind::Text)),
        soon(plain("attachment_mode", "AttachmentMode", ValueKind::Text)),
        soon(one("mount_options", "MountOptions", &MOUNT_OPTIONS)),
    ]
}

block! {
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct VolumeMount in named("volume_mount", "VolumeMount") => {
        pub volume: String => nullable("volume", "Volume");
        pub destination: String => nullable("destination", "Destination");
        pub read_only: bool => nullable("read_only", "ReadOnly");
        pub propagation_mode: String = "private".into() => nullable("propagation_mode", "PropagationMode");
    }
    and [soon(maybe("selinux_label", "SELinuxLabel", ValueKind::Text)).zero_for_none()]
}

/// What a task holds beyond cpu and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHoldings {
    /// 0: its memory is all it may use; -1: all there is.
    pub memory_max_mb: i64,
    pub cores: Vec<u16>,
    pub networks: Vec<HeldNetwork>,
    pub devices: Vec<HeldDevice>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldNetwork {
    pub mode: String,
    pub device: String,
    pub ip: String,
    pub ports: Vec<HeldPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPort {
    pub label: String,
    pub value: u16,
    pub to: i64,
    pub host_ip: String,
    pub host_network: String,
    /// The job names the number.
    pub fixed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldDevice {
    pub vendor: String,
    pub kind: String,
    pub name: String,
    pub ids: Vec<String>,
}

/// What a node offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOffers {
    /// That it can put tasks into, ordered.
    pub network_modes: Vec<String>,
    pub addresses: Vec<NodeAddress>,
    pub dynamic_ports: PortRange,
    /// On every address: `22,8000-8100`.
    pub reserved_ports: String,
    /// Cores that tasks may have to themselves; none where that cannot be enforced.
    pub cores: Vec<u16>,
    pub reserved_cores: Vec<u16>,
    pub volumes: BTreeMap<String, HostVolume>,
    /// Drivers that can mount volumes into tasks, ordered.
    pub mounting_drivers: Vec<String>,
    pub devices: Vec<DeviceGroup>,
}

/// One address under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// The host network.
    pub alias: String,
    /// The interface.
    pub device: String,
    pub address: String,
    pub reserved_ports: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRange {
    pub min: u16,
    pub max: u16,
}

impl Default for PortRange {
    fn default() -> Self {
        PortRange { min: 20_000, max: 32_000 }
    }
}

impl PortRange {
    pub fn contains(self, port: u16) -> bool {
        (self.min..=self.max).contains(&port)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostVolume {
    pub path: String,
    pub read_only: bool,
}

/// Devices that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceGroup {
    pub vendor: String,
    pub kind: String,
    pub name: String,
    pub attributes: BTreeMap<String, DeviceAttribute>,
    pub instances: Vec<DeviceInstance>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceAttribute {
    pub value: DeviceValue,
    /// Empty: a plain value.
    pub unit: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DeviceValue {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInstance {
    pub id: String,
    pub healthy: bool,
    pub description: String,
}

/// What only one allocation of a node can hold at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Claim {
    Port(IpAddr, u16),
    Core(u16),
    /// `vendor/type/name/id`
    Device(String),
}

impl HeldNetwork {
    /// A port without a proper address is on none: nothing collides with it.
    pub fn claims(&self) -> impl Iterator<Item = Claim> {
        self.ports.iter().filter_map(|p| Some(Claim::Port(p.host_ip.parse().ok()?, p.value)))
    }
}

impl TaskHoldings {
    pub fn claims(&self) -> impl Iterator<Item = Claim> {
        let ports = self.networks.iter().flat_map(HeldNetwork::claims);
        let devices = self.devices.iter().flat_map(|d| d.ids.iter().map(|id| d.claim(id)));
        ports.chain(self.cores.iter().map(|core| Claim::Core(*core))).chain(devices)
    }
}

impl HeldDevice {
    fn claim(&self, id: &str) -> Claim {
        device_claim(&self.vendor, &self.kind, &self.name, id)
    }
}

pub fn device_claim(vendor: &str, kind: &str, name: &str, id: &str) -> Claim {
    Claim::Device(format!("{vendor}/{kind}/{name}/{id}"))
}

/// `22,80,8000-8100` as ranges, both ends included.
pub fn ports(text: &str) -> Result<Vec<PortRange>, String> {
    let one = |part: &str| {
        let (min, max) = part.split_once('-').unwrap_or((part, part));
        match (min.trim().parse(), max.trim().parse()) {
            (Ok(min), Ok(max)) if min <= max => Ok(PortRange { min, max }),
            _ => Err(format!("{part:?} is no port and no range of ports such as 8000-8100")),
        }
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ports_are_ranges() {
        let range = |min, max| PortRange { min, max };
        assert_eq!(ports(" 22, 8000-8100 ,,5"), Ok(vec![range(22, 22), range(8_000, 8_100), range(5, 5)]));
        assert_eq!(ports(""), Ok(vec![]));
        for bad in ["x", "9-8", "70000", "1-", "-1"] {
            assert!(ports(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_device_is_asked_for_by_as_much_of_its_name_as_matters() {
        let parts = |name: &str| {
            let ask = DeviceAsk { name: name.into(), ..DeviceAsk::default() };
            let (vendor, kind, name) = ask.parts();
            (vendor.map(str::to_string), kind.to_string(), name.map(str::to_string))
        };
        let some = |s: &str| Some(s.to_string());
        assert_eq!(parts("gpu"), (None, "gpu".into(), None));
        assert_eq!(parts("nvidia/gpu"), (some("nvidia"), "gpu".into(), None));
        assert_eq!(parts("nvidia/gpu/GTX 1080/x"), (some("nvidia"), "gpu".into(), some("GTX 1080/x")));
    }
}
