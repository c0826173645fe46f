//! What a node offers beyond amounts, as placing reads it: addresses with their ports, cores, volumes and devices.
//! Refuses to know who asks and who holds what.

use core::net::IpAddr;
use model::claims::{self, DeviceGroup, HostVolume, NodeAddress, PortRange};
use model::node::NodeInfo;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct OfferedResources {
    pub addresses: Box<[Address]>,
    pub dynamic: PortRange,
    /// Reserved on every address.
    reserved: Box<[PortRange]>,
    /// Reservable, ascending.
    pub cores: Box<[u16]>,
    pub core_mhz: i64,
    pub volumes: BTreeMap<String, HostVolume>,
    pub devices: Box<[DeviceGroup]>,
}

#[derive(Debug)]
pub struct Address {
    pub alias: Box<str>,
    pub device: Box<str>,
    pub ip: IpAddr,
    reserved: Box<[PortRange]>,
}

impl OfferedResources {
    /// What cannot be understood is left out: clients check what they say.
    pub fn of(info: &NodeInfo) -> Self {
        let offers = &info.offers;
        let ranges = |text: &str| claims::ports(text).unwrap_or_default().into_boxed_slice();
        let address = |a: &NodeAddress| {
            let (alias, device) = (a.alias.as_str().into(), a.device.as_str().into());
            Some(Address { alias, device, ip: a.address.parse().ok()?, reserved: ranges(&a.reserved_ports) })
        };
        OfferedResources {
            addresses: offers.addresses.iter().filter_map(address).collect(),
            dynamic: offers.dynamic_ports,
            reserved: ranges(&offers.reserved_ports),
            cores: offers.cores.as_slice().into(),
            core_mhz: info.capacity.cpu_mhz / i64::from(info.cpu_cores.max(1)),
            volumes: offers.volumes.clone(),
            devices: offers.devices.clone().into_boxed_slice(),
        }
    }

    /// Whether the port is kept back from tasks.
    pub fn reserves(&self, address: &Address, port: u16) -> bool {
        self.reserved.iter().chain(&address.reserved).any(|range| range.contains(port))
    }
}
