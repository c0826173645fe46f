//! What a group asks of its node beyond amounts: ports, devices and whole cores (scheduler.md 17). Assigned on a node,
//! each is a number or an id that nobody else holds there.
//!
//! Refuses to know: which nodes there are, how they are scored, and what cannot be decided on one node.

use super::device::{self, Asked};
use super::fleet::{Address, Offered, Profile, UniqueProperties};
use super::operand::{Operands, Target};
use super::proposal::Taken;
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
    devices: Vec<(usize, Asked<'a>)>,
    cores: bool,
    operands: Operands,
}

/// Why a node has no room, by the place in the demand's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The number is held by somebody else, or kept back.
    PortTaken(u16),
    NoAddress(u16),
    /// Every number is.
    NoPortLeft,
    Devices,
    Cores,
}

/// What a demand comes to on one node.
pub struct Assignment {
    /// Number and place of the address, in the demand's order.
    ports: Vec<(u16, usize)>,
    devices: Vec<Devices>,
    /// By task; empty: the group asks for none.
    cores: Vec<Vec<u16>>,
    /// How well the devices are what the group likes.
    pub preference: f64,
}

/// Each by its place.
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
    pub taken: Taken<'s>,
}

impl NodeOffer<'_> {
    fn offered(&self) -> &Offered {
        &self.own.offered
    }

    /// The host network that a port names, which may be by way of a property of the node.
    fn host_network<'s>(&'s self, port: &'s Port) -> &'s str {
        Target::parse(&port.host_network).resolve_own(self.profile, self.own).unwrap_or_default()
    }
}

fn all_networks(group: &TaskGroup) -> impl Iterator<Item = &Network> {
    group.networks.iter().chain(group.tasks.iter().flat_map(|t| &t.resources.networks))
}

impl<'a> Demand<'a> {
    /// None: the group asks for amounts only.
    pub fn of(group: &'a TaskGroup) -> Option<Self> {
        let ports: Vec<&Port> = all_networks(group).flat_map(Network::ports).collect();
        let asked = group.tasks.iter().enumerate();
        let devices: Vec<_> =
            asked.flat_map(|(i, t)| t.resources.devices.iter().map(move |d| (i, Asked::new(d)))).collect();
        let cores = group.tasks.iter().any(|t| t.resources.cores > 0);
        let any = cores || !ports.is_empty() || !devices.is_empty();
        any.then(|| Demand { group, ports, devices, cores, operands: Operands::default() })
    }

    /// The amounts that the group takes there: whole cores are worth what the node's cores are.
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

    /// Which ports, devices and cores are the group's there. `picks`: where the search for free ports begins.
    pub fn assign(&mut self, site: NodeOffer, picks: &mut Stream) -> Result<Assignment, Shortage> {
        let ports = self.assign_ports(site, picks)?;
        let (devices, preference) = self.assign_devices(site)?;
        let cores = self.assign_cores(site)?;
        Ok(Assignment { ports, devices, cores, preference })
    }

    fn assign_ports(&self, site: NodeOffer, picks: &mut Stream) -> Result<Vec<(u16, usize)>, Shortage> {
        let mut laid: Vec<(u16, usize)> = Vec::with_capacity(self.ports.len());
        let fixed: BTreeSet<u16> = self.ports.iter().filter_map(|p| number(p)).collect();
        for (port, i) in self.ports.iter().zip(0..) {
            let name = site.host_network(port);
            let addresses = site.offered().addresses.iter().enumerate().filter(|(_, a)| *a.alias == *name);
            let mut addresses = addresses.peekable();
            if addresses.peek().is_none() {
                return Err(Shortage::NoAddress(i));
            }
            let chosen = match number(port) {
                Some(value) => addresses.find(|(_, a)| free(site, a, value)).map(|(at, _)| (value, at)),
                None => addresses.find_map(|(at, a)| {
                    let unused = |p: u16| !fixed.contains(&p) && laid.iter().all(|(taken, _)| *taken != p);
                    Some((any_free(site, a, picks, unused)?, at))
                }),
            };
            laid.push(chosen.ok_or(if number(port).is_some() {
                Shortage::PortTaken(i)
            } else {
                Shortage::NoPortLeft
            })?);
        }
        Ok(laid)
    }

    fn assign_devices(&mut self, site: NodeOffer) -> Result<(Vec<Devices>, f64), Shortage> {
        let mut laid: Vec<Devices> = Vec::with_capacity(self.devices.len());
        let (mut matched, mut weights) = (0, 0);
        for (task, asked) in &self.devices {
            let groups = &site.offered().devices;
            let mut best: Option<(i64, usize, Vec<usize>)> = None;
            for (at, group) in groups.iter().enumerate() {
                if !asked.matches(group, &mut self.operands) {
                    continue;
                }
                let here = laid.iter().filter(|d| d.group == at).flat_map(|d| &d.instances);
                let here: BTreeSet<usize> = here.copied().collect();
                let free = |i: &usize| {
                    !here.contains(i) && !site.taken.holds(&device::claim(group, &group.instances[*i].id))
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
            laid.push(Devices { task: *task, group, instances });
        }
        Ok((laid, if weights > 0 { matched as f64 / weights as f64 } else { 0.0 }))
    }

    /// The lowest that are free.
    fn assign_cores(&self, site: NodeOffer) -> Result<Vec<Vec<u16>>, Shortage> {
        if !self.cores {
            return Ok(Vec::new());
        }
        let mut free = site.offered().cores.iter().filter(|core| !site.taken.holds(&Claim::Core(**core)));
        let mut laid = Vec::with_capacity(self.group.tasks.len());
        for task in &self.group.tasks {
            let wanted = usize::try_from(task.resources.cores).unwrap_or(0);
            let cores: Vec<u16> = free.by_ref().take(wanted).copied().collect();
            if cores.len() < wanted {
                return Err(Shortage::Cores);
            }
            laid.push(cores);
        }
        Ok(laid)
    }

    /// What an allocation holds that is laid there so.
    pub fn resources(&self, laid: &Assignment, own: &UniqueProperties) -> AllocResources {
        let offered = &own.offered;
        let mut ports = self.ports.iter().zip(&laid.ports).map(|(port, (value, at))| HeldPort {
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
            let devices = laid.devices.iter().filter(|d| d.task == i);
            of_task.held = TaskHoldings {
                cores: laid.cores.get(i).cloned().unwrap_or_default(),
                networks: networks(&task.resources.networks),
                devices: devices.map(|d| held_device(offered, d.group, &d.instances)).collect(),
                ..std::mem::take(&mut of_task.held)
            };
        }
        resources
    }

    /// As metrics name it.
    pub fn text(&self, lack: Shortage) -> String {
        let port = |i: u16| self.ports[usize::from(i)];
        match lack {
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

fn free(site: NodeOffer, address: &Address, port: u16) -> bool {
    !site.offered().reserves(address, port) && !site.taken.holds(&Claim::Port(address.ip, port))
}

/// The first from a random one on, around the range once.
fn any_free(
    site: NodeOffer,
    address: &Address,
    picks: &mut Stream,
    unused: impl Fn(u16) -> bool,
) -> Option<u16> {
    let range = site.offered().dynamic;
    let count = u64::from(range.max.saturating_sub(range.min)) + 1;
    let start = picks.below(count);
    let all = (0..count).map(|i| range.min + ((start + i) % count) as u16);
    all.into_iter().find(|port| unused(*port) && free(site, address, *port))
}

fn cpu_mhz(task: &Task, offered: &Offered) -> i64 {
    offered.core_mhz.saturating_mul(task.resources.cores)
}

/// The node is known by its first address.
fn network(asked: &Network, offered: &Offered, ports: &mut impl Iterator<Item = HeldPort>) -> HeldNetwork {
    let first = offered.addresses.first();
    HeldNetwork {
        mode: asked.mode.clone(),
        device: first.map_or_else(String::new, |a| a.device.to_string()),
        ip: first.map_or_else(String::new, |a| a.ip.to_string()),
        ports: ports.take(asked.ports().count()).collect(),
    }
}

fn held_device(offered: &Offered, group: usize, instances: &[usize]) -> HeldDevice {
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
