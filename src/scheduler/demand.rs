//! What a group asks of its node beyond amounts: ports, devices and whole cores (scheduler.md 17). Each is assigned on one
//! node, as a number or an id that no other allocation holds there.
//!
//! Refuses to know: which nodes there are, how they are scored, and what cannot be decided on one node.

use super::device::{self, DeviceRequest};
use super::fleet::{Address, OfferedResources, Profile, UniqueProperties};
use super::operand::{ConstraintChecker, ConstraintTarget};
use super::proposal::TakenClaims;
use model::claims::{Claim, HeldDevice, HeldNetwork, HeldPort, Network, Port, TaskHoldings};
use model::job::{Task, TaskGroup};
use model::random::Stream;
use model::resources::{AllocResources, Amount};
use std::collections::BTreeSet;

pub struct Demand<'a> {
    group: &'a TaskGroup,
    /// The group's ports, then its tasks'; in each, static ports first.
    ports: Vec<&'a Port>,
    /// By task.
    devices: Vec<(usize, DeviceRequest<'a>)>,
    cores: bool,
    operands: ConstraintChecker,
}

/// Why a node has no room, by the place in the demand's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Another allocation holds the number, or the node reserves it.
    PortTaken(u16),
    NoAddress(u16),
    /// Every number that a port may get is held or reserved.
    NoPortLeft,
    Devices,
    Cores,
}

/// The ports, devices and cores that a demand gets on one node.
pub struct DemandAssignment {
    /// The number of each port and the place of its address, in the demand's order.
    ports: Vec<(u16, usize)>,
    devices: Vec<Devices>,
    /// By task; empty: the group asks for none.
    cores: Vec<Vec<u16>>,
    /// The score of the devices by the group's affinities.
    pub preference: f64,
}

/// Devices assigned to a task: the places of the task, the device group and its instances.
struct Devices {
    task: usize,
    group: usize,
    instances: Vec<usize>,
}

/// A node, as far as a demand looks at it.
#[derive(Clone, Copy)]
pub struct NodeOffer<'s> {
    pub profile: &'s Profile,
    pub own: &'s UniqueProperties,
    pub taken: TakenClaims<'s>,
}

impl NodeOffer<'_> {
    fn offered(&self) -> &OfferedResources {
        &self.own.offered
    }

    /// The host network that a port names, which may be by way of a property of the node.
    fn host_network<'s>(&'s self, port: &'s Port) -> &'s str {
        ConstraintTarget::parse(&port.host_network).resolve_own(self.profile, self.own).unwrap_or_default()
    }
}

fn all_networks(group: &TaskGroup) -> impl Iterator<Item = &Network> {
    group.networks.iter().chain(group.tasks.iter().flat_map(|t| &t.resources.networks))
}

impl<'a> Demand<'a> {
    /// None: the group asks for nothing but amounts.
    pub fn of(group: &'a TaskGroup) -> Option<Self> {
        let ports: Vec<&Port> = all_networks(group).flat_map(Network::ports).collect();
        let asked = group.tasks.iter().enumerate();
        let devices: Vec<_> = asked
            .flat_map(|(i, t)| t.resources.devices.iter().map(move |d| (i, DeviceRequest::new(d))))
            .collect();
        let cores = group.tasks.iter().any(|t| t.resources.cores > 0);
        let any = cores || !ports.is_empty() || !devices.is_empty();
        any.then(|| Demand { group, ports, devices, cores, operands: ConstraintChecker::default() })
    }

    /// The amounts that the group takes there. A whole core counts as the MHz of one of the node's cores.
    pub fn amount(&self, own: &UniqueProperties) -> Amount {
        let mut resources = self.group.resources();
        if self.cores {
            for task in self.group.tasks.iter().filter(|t| t.resources.cores > 0) {
                if let Some(held) = resources.tasks.get_mut(&task.name) {
                    held.cpu_mhz = cpu_mhz(task, &own.offered);
                }
            }
        }
        resources.total()
    }

    /// Assigns the ports, devices and cores of the group on this node. `picks`: where the search for free ports begins.
    pub fn assign(&mut self, offer: NodeOffer, picks: &mut Stream) -> Result<DemandAssignment, Shortage> {
        let ports = self.assign_ports(offer, picks)?;
        let (devices, preference) = self.assign_devices(offer)?;
        let cores = self.assign_cores(offer)?;
        Ok(DemandAssignment { ports, devices, cores, preference })
    }

    fn assign_ports(&self, offer: NodeOffer, picks: &mut Stream) -> Result<Vec<(u16, usize)>, Shortage> {
        let mut assigned: Vec<(u16, usize)> = Vec::with_capacity(self.ports.len());
        let fixed: BTreeSet<u16> = self.ports.iter().filter_map(|p| number(p)).collect();
        for (port, i) in self.ports.iter().zip(0..) {
            let name = offer.host_network(port);
            let addresses = offer.offered().addresses.iter().enumerate().filter(|(_, a)| *a.alias == *name);
            let mut addresses = addresses.peekable();
            if addresses.peek().is_none() {
                return Err(Shortage::NoAddress(i));
            }
            let chosen = match number(port) {
                Some(value) => addresses.find(|(_, a)| free(offer, a, value)).map(|(at, _)| (value, at)),
                None => addresses.find_map(|(at, a)| {
                    let unused =
                        |p: u16| !fixed.contains(&p) && assigned.iter().all(|(taken, _)| *taken != p);
                    Some((any_free(offer, a, picks, unused)?, at))
                }),
            };
            assigned.push(chosen.ok_or(if number(port).is_some() {
                Shortage::PortTaken(i)
            } else {
                Shortage::NoPortLeft
            })?);
        }
        Ok(assigned)
    }

    fn assign_devices(&mut self, offer: NodeOffer) -> Result<(Vec<Devices>, f64), Shortage> {
        let mut assigned: Vec<Devices> = Vec::with_capacity(self.devices.len());
        let (mut matched, mut weights) = (0, 0);
        for (task, asked) in &self.devices {
            let groups = &offer.offered().devices;
            let mut best: Option<(i64, usize, Vec<usize>)> = None;
            for (at, group) in groups.iter().enumerate() {
                if !asked.matches(group, &mut self.operands) {
                    continue;
                }
                let here = assigned.iter().filter(|d| d.group == at).flat_map(|d| &d.instances);
                let here: BTreeSet<usize> = here.copied().collect();
                let free = |i: &usize| {
                    !here.contains(i) && !offer.taken.holds(&device::claim(group, &group.instances[*i].id))
                };
                let usable = asked.instances(group, &mut self.operands).into_iter().filter(free);
                let instances: Vec<usize> = usable.take(asked.count()).collect();
                let liked = asked.preference(group, &mut self.operands);
                // of equals the last (scheduler.md 16.2)
                if instances.len() == asked.count() && best.as_ref().is_none_or(|(score, ..)| liked >= *score)
                {
                    best = Some((liked, at, instances));
                }
            }
            let (liked, group, instances) = best.ok_or(Shortage::Devices)?;
            matched += liked;
            weights += asked.weights();
            assigned.push(Devices { task: *task, group, instances });
        }
        Ok((assigned, if weights > 0 { matched as f64 / weights as f64 } else { 0.0 }))
    }

    /// The lowest cores that are free.
    fn assign_cores(&self, offer: NodeOffer) -> Result<Vec<Vec<u16>>, Shortage> {
        if !self.cores {
            return Ok(Vec::new());
        }
        let mut free = offer.offered().cores.iter().filter(|core| !offer.taken.holds(&Claim::Core(**core)));
        let mut assigned = Vec::with_capacity(self.group.tasks.len());
        for task in &self.group.tasks {
            let wanted = usize::try_from(task.resources.cores).unwrap_or(0);
            let cores: Vec<u16> = free.by_ref().take(wanted).copied().collect();
            if cores.len() < wanted {
                return Err(Shortage::Cores);
            }
            assigned.push(cores);
        }
        Ok(assigned)
    }

    /// What an allocation with this assignment holds.
    pub fn resources(&self, assigned: &DemandAssignment, own: &UniqueProperties) -> AllocResources {
        let offered = &own.offered;
        let mut ports = self.ports.iter().zip(&assigned.ports).map(|(port, (value, at))| HeldPort {
            label: port.label.clone(),
            value: *value,
            to: port.to,
            host_ip: offered.addresses[*at].ip.to_string(),
            host_network: offered.addresses[*at].alias.to_string(),
            fixed: port.value > 0,
        });
        let mut networks =
            |asked: &[Network]| asked.iter().map(|n| network(n, offered, &mut ports)).collect();
        let mut resources = self.group.resources();
        resources.networks = networks(&self.group.networks);
        for (i, task) in self.group.tasks.iter().enumerate() {
            let Some(of_task) = resources.tasks.get_mut(&task.name) else { continue };
            if task.resources.cores > 0 {
                of_task.cpu_mhz = cpu_mhz(task, offered);
            }
            let devices = assigned.devices.iter().filter(|d| d.task == i);
            of_task.held = TaskHoldings {
                cores: assigned.cores.get(i).cloned().unwrap_or_default(),
                networks: networks(&task.resources.networks),
                devices: devices.map(|d| held_device(offered, d.group, &d.instances)).collect(),
                ..std::mem::take(&mut of_task.held)
            };
        }
        resources
    }

    /// The shortage as metrics name it.
    pub fn text(&self, shortage: Shortage) -> String {
        let port = |i: u16| self.ports[usize::from(i)];
        match shortage {
            Shortage::PortTaken(i) => {
                format!("network: reserved port collision {}={}", port(i).label, port(i).value)
            }
            Shortage::NoAddress(i) => {
                format!("network: no addresses available for {} network", port(i).host_network)
            }
            Shortage::NoPortLeft => "network: dynamic port selection failed".into(),
            Shortage::Devices => "devices: no devices match request".into(),
            Shortage::Cores => "cores".into(),
        }
    }
}

/// None: any will do.
fn number(port: &Port) -> Option<u16> {
    u16::try_from(port.value).ok().filter(|value| *value > 0)
}

fn free(offer: NodeOffer, address: &Address, port: u16) -> bool {
    !offer.offered().reserves(address, port) && !offer.taken.holds(&Claim::Port(address.ip, port))
}

/// The first free number from a random one on, around the range once.
fn any_free(
    offer: NodeOffer,
    address: &Address,
    picks: &mut Stream,
    unused: impl Fn(u16) -> bool,
) -> Option<u16> {
    let range = offer.offered().dynamic;
    let count = u64::from(range.max.saturating_sub(range.min)) + 1;
    let start = picks.below(count);
    let all = (0..count).map(|i| range.min + ((start + i) % count) as u16);
    all.into_iter().find(|port| unused(*port) && free(offer, address, *port))
}

fn cpu_mhz(task: &Task, offered: &OfferedResources) -> i64 {
    offered.core_mhz.saturating_mul(task.resources.cores)
}

/// The node is known by its first address.
fn network(
    asked: &Network,
    offered: &OfferedResources,
    ports: &mut impl Iterator<Item = HeldPort>,
) -> HeldNetwork {
    let first = offered.addresses.first();
    HeldNetwork {
        mode: asked.mode.clone(),
        device: first.map_or_else(String::new, |a| a.device.to_string()),
        ip: first.map_or_else(String::new, |a| a.ip.to_string()),
        ports: ports.take(asked.ports().count()).collect(),
    }
}

fn held_device(offered: &OfferedResources, group: usize, instances: &[usize]) -> HeldDevice {
    let group = &offered.devices[group];
    HeldDevice {
        vendor: group.vendor.clone(),
        kind: group.kind.clone(),
        name: group.name.clone(),
        ids: instances.iter().map(|i| group.instances[*i].id.clone()).collect(),
    }
}

#[cfg(test)]
mod tests;
