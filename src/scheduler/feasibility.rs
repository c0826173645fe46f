//! Which nodes a group may run on, before anything is counted or scored: datacenters, pool, constraints, drivers. Each
//! condition is one set of nodes, made once per evaluation by checking each distinct profile rather than each node.
//!
//! Refuses to know: resources, scores, allocations.

use super::bitmap::Bitmap;
use super::device::DeviceRequest;
use super::fleet::{FleetSnapshot, Profile, UniqueProperties};
use super::operand::{ConstraintChecker, ConstraintTarget, escapes_class, glob_matches};
use model::claims::HOST_MODE;
use model::constraint::Constraint;
use model::counts::Counts;
use model::job::{JobSpec, TaskGroup};
use model::preference::Affinity;
use std::collections::BTreeMap;
use std::rc::Rc;

pub const MISSING_DRIVERS: &str = "missing drivers";
/// The pool that every node is in.
const ALL_POOLS: &str = "all";

/// One condition that a node meets or does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Check<'a> {
    Constraint(&'a Constraint),
    Driver(&'a str),
    /// The network mode.
    Network(&'a str),
    /// The name of a host network, and the port that is to be there.
    HostNetwork(&'a str, &'a str),
    /// The volume's source, and whether it is read only.
    Volume(&'a str, bool),
    /// The driver of a task that mounts one.
    Mounts(&'a str),
    /// A node has any to give.
    Cores,
    /// The group whose device requests are to be met.
    Devices(&'a str),
}

impl Check<'_> {
    /// The condition as metrics name it.
    fn text(&self) -> String {
        match self {
            Check::Constraint(c) => c.to_string(),
            Check::Driver(_) => MISSING_DRIVERS.into(),
            Check::Network(_) => "missing network".into(),
            Check::HostNetwork(name, port) => format!("missing host network {name:?} for port {port:?}"),
            Check::Volume(..) => "missing compatible host volumes".into(),
            Check::Mounts(driver) => format!("driver {driver} cannot mount volumes"),
            Check::Cores => "cores cannot be reserved: the node does not enforce them yet".into(),
            Check::Devices(_) => "missing devices".into(),
        }
    }
}

/// Nodes that were filtered out, by reason and by node class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    pub nodes: u64,
    pub by_reason: Counts,
    pub by_class: Counts,
}

impl FilterCounts {
    pub fn add(&mut self, reason: &str, class: &str) {
        self.add_many(1, reason, class);
    }

    fn add_many(&mut self, nodes: u64, reason: &str, class: &str) {
        self.nodes += nodes;
        self.by_reason.add(reason, nodes);
        if !class.is_empty() {
            self.by_class.add(class, nodes);
        }
    }

    pub fn remove(&mut self, reason: &str, class: &str) {
        self.nodes = self.nodes.saturating_sub(1);
        self.by_reason.take_one(reason);
        self.by_class.take_one(class);
    }
}

/// What a blocked evaluation remembers of node classes (scheduler.md 4.9).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Eligibility {
    /// Empty when it escaped.
    pub classes: BTreeMap<String, bool>,
    pub escaped: bool,
}

/// One job against one fleet.
pub struct Feasibility<'a> {
    job: &'a JobSpec,
    fleet: &'a FleetSnapshot,
    operands: ConstraintChecker,
    sets: BTreeMap<Check<'a>, Rc<Bitmap>>,
    /// Nodes in one of the job's datacenters and in its pool.
    targeted: Bitmap,
    /// Targeted and ready for new tasks.
    pub ready: Bitmap,
    pub ready_by_datacenter: Counts,
}

/// The job is meant for nodes of this datacenter and pool.
pub fn in_datacenters_and_pool(job: &JobSpec, datacenter: &str, pool: &str) -> bool {
    let in_pool = job.node_pool.is_empty() || job.node_pool == ALL_POOLS || job.node_pool == pool;
    in_pool && job.datacenters.iter().any(|glob| glob_matches(glob, datacenter))
}

impl<'a> Feasibility<'a> {
    pub fn new(job: &'a JobSpec, fleet: &'a FleetSnapshot) -> Self {
        let targets = |p: &Profile| in_datacenters_and_pool(job, &p.datacenter, &p.pool);
        let by_profile: Vec<bool> = fleet.profiles().map(|p| p.is_some_and(targets)).collect();
        let (mut targeted, mut ready) = (Bitmap::none(fleet.slots()), Bitmap::none(fleet.slots()));
        let mut ready_per_profile = vec![0; by_profile.len()];
        for slot in fleet.occupied_slots() {
            let profile = fleet.profile_index_at(slot) as usize;
            if by_profile[profile] {
                targeted.insert(slot);
                if fleet.ready_at(slot) {
                    ready.insert(slot);
                    ready_per_profile[profile] += 1;
                }
            }
        }
        let mut ready_by_datacenter = Counts::default();
        for (profile, nodes) in fleet.profiles().zip(ready_per_profile).filter(|(_, nodes)| *nodes > 0) {
            ready_by_datacenter.add(profile.map_or("", |p| &p.datacenter), nodes);
        }
        let operands = ConstraintChecker::default();
        Feasibility { job, fleet, operands, sets: BTreeMap::new(), targeted, ready, ready_by_datacenter }
    }

    pub fn targeted(&self, slot: u32) -> bool {
        self.targeted.contains(slot)
    }

    /// The ready nodes that the group may run on, and a count of those it may not.
    pub fn candidates(&mut self, group: &'a TaskGroup) -> (Bitmap, FilterCounts) {
        let mut left = self.ready.clone();
        let mut filtered = FilterCounts::default();
        for check in self.job_checks().chain(group_checks(group)) {
            let out = left.split_off_all_but(&self.set(check.clone()));
            self.count_filtered(&out, &check.text(), &mut filtered);
        }
        (left, filtered)
    }

    /// The nodes of the whole fleet that each condition excludes by itself; and whether the condition concerns what nodes have to
    /// offer at all. Another datacenter or pool, and ineligible nodes, come first.
    pub fn excluded(&mut self, group: &'a TaskGroup) -> Vec<(String, bool, Bitmap)> {
        let fleet = self.fleet;
        let mut all = Bitmap::none(fleet.slots());
        fleet.occupied_slots().for_each(|slot| all.insert(slot));
        let but = |kept: &Bitmap| all.clone().split_off_all_but(kept);
        let mut out = vec![("datacenter or node pool".to_string(), false, but(&self.targeted))];
        let mut open = Bitmap::none(fleet.slots());
        fleet.occupied_slots().filter(|slot| fleet.ready_at(*slot)).for_each(|slot| open.insert(slot));
        out.push(("down, draining or not eligible".to_string(), false, but(&open)));
        for check in self.job_checks().chain(group_checks(group)) {
            let of_offers = matches!(check, Check::HostNetwork(..) | Check::Cores | Check::Devices(_));
            out.push((check.text(), of_offers, but(&self.set(check))));
        }
        out
    }

    fn count_filtered(&self, out: &Bitmap, reason: &str, filtered: &mut FilterCounts) {
        let mut by_profile = vec![0; self.fleet.profiles().count()];
        out.iter().for_each(|slot| by_profile[self.fleet.profile_index_at(slot) as usize] += 1);
        for (profile, nodes) in self.fleet.profiles().zip(by_profile).filter(|(_, nodes)| *nodes > 0) {
            filtered.add_many(nodes, reason, profile.map_or("", |p| &p.class));
        }
    }

    /// What the group's affinities make of each of the slots, by slot: the weights of those that it meets, over the sum
    /// of all weights without their signs. Empty: it has none.
    pub fn affinities(&mut self, group: &'a TaskGroup, slots: &[u32]) -> Vec<f64> {
        let of_tasks = group.tasks.iter().flat_map(|t| &t.affinities);
        let all: Vec<&'a Affinity> =
            self.job.affinities.iter().chain(&group.affinities).chain(of_tasks).collect();
        let weights: i64 = all.iter().map(|a| a.weight.abs()).sum();
        let mut by_slot = vec![0.0; if all.is_empty() { 0 } else { self.fleet.slots() }];
        for affinity in all {
            let met = self.set(Check::Constraint(&affinity.condition));
            let meeting = slots.iter().filter(|slot| met.contains(**slot));
            // Whole numbers, so that what cancels out is 0.
            meeting.for_each(|slot| by_slot[*slot as usize] += affinity.weight as f64);
        }
        by_slot.iter_mut().for_each(|sum| *sum /= weights.max(1) as f64);
        by_slot
    }

    /// Whether one node, ready or not, meets all conditions of the group.
    pub fn node_passes(&mut self, group: &'a TaskGroup, slot: u32) -> bool {
        self.job_checks().chain(group_checks(group)).all(|check| self.set(check).contains(slot))
    }

    fn job_checks(&self) -> impl Iterator<Item = Check<'a>> + use<'a> {
        self.job.constraints.iter().map(Check::Constraint)
    }

    fn set(&mut self, check: Check<'a>) -> Rc<Bitmap> {
        if let Some(known) = self.sets.get(&check) {
            return known.clone();
        }
        let set = Rc::new(match &check {
            Check::Driver(name) => self.shared_set(|p, _| p.has_driver(name)),
            Check::Constraint(c) => self.constraint_set(c),
            Check::Network(mode) => self.shared_set(|p, _| p.has_network(mode)),
            Check::Mounts(driver) => self.shared_set(|p, _| p.mounts_for(driver)),
            Check::HostNetwork(name, _) => {
                let target = ConstraintTarget::parse(name);
                self.own_set(&mut |p, own, _| {
                    target.resolve_own(p, own).is_some_and(|name| p.has_host_network(name))
                })
            }
            Check::Volume(source, read_only) => self.own_set(&mut |_, own, _| {
                own.offered.volumes.get(*source).is_some_and(|v| *read_only || !v.read_only)
            }),
            Check::Cores => self.own_set(&mut |_, own, _| !own.offered.cores.is_empty()),
            Check::Devices(group) => self.device_set(group),
        });
        self.sets.insert(check, set.clone());
        set
    }

    fn constraint_set(&mut self, constraint: &'a Constraint) -> Bitmap {
        let (left, right) =
            (ConstraintTarget::parse(&constraint.left), ConstraintTarget::parse(&constraint.right));
        if escapes_class(constraint) {
            return self.own_constraint_set(&constraint.operand, left, right);
        }
        let mut known: BTreeMap<(Option<&str>, Option<&str>), bool> = BTreeMap::new();
        self.shared_set(|profile, operands| {
            let sides = (left.resolve_shared(profile), right.resolve_shared(profile));
            *known.entry(sides).or_insert_with(|| operands.holds(&constraint.operand, sides.0, sides.1))
        })
    }

    /// A set that is decided by the profile alone.
    fn shared_set(&mut self, mut holds: impl FnMut(&'a Profile, &mut ConstraintChecker) -> bool) -> Bitmap {
        let fleet = self.fleet;
        let operands = &mut self.operands;
        let by_profile: Vec<bool> = fleet.profiles().map(|p| p.is_some_and(|p| holds(p, operands))).collect();
        let mut set = Bitmap::none(fleet.slots());
        let holds = |slot: &u32| by_profile[fleet.profile_index_at(*slot) as usize];
        fleet.occupied_slots().filter(holds).for_each(|slot| set.insert(slot));
        set
    }

    fn own_constraint_set(
        &mut self,
        operand: &str,
        left: ConstraintTarget,
        right: ConstraintTarget,
    ) -> Bitmap {
        let fleet = self.fleet;
        let mut set = Bitmap::none(fleet.slots());
        for slot in fleet.occupied_slots() {
            let Some((profile, own)) = fleet.profile_at(slot).zip(fleet.unique_at(slot)) else { continue };
            let id = fleet.id_at(slot);
            let (left, right) = (left.resolve(id, profile, own), right.resolve(id, profile, own));
            if self.operands.holds(operand, left.as_deref(), right.as_deref()) {
                set.insert(slot);
            }
        }
        set
    }

    /// A set that has to be decided node by node.
    fn own_set(
        &mut self,
        holds: &mut dyn FnMut(&Profile, &UniqueProperties, &mut ConstraintChecker) -> bool,
    ) -> Bitmap {
        let mut set = Bitmap::none(self.fleet.slots());
        for slot in self.fleet.occupied_slots() {
            let node = self.fleet.profile_at(slot).zip(self.fleet.unique_at(slot));
            if node.is_some_and(|(profile, own)| holds(profile, own, &mut self.operands)) {
                set.insert(slot);
            }
        }
        set
    }

    /// Each request by itself finds enough healthy devices, whoever holds them.
    fn device_set(&mut self, group: &str) -> Bitmap {
        let tasks = self.job.group(group).map(|g| g.tasks.as_slice()).unwrap_or_default();
        let asked: Vec<DeviceRequest> =
            tasks.iter().flat_map(|t| &t.resources.devices).map(DeviceRequest::new).collect();
        self.own_set(&mut |_, own, operands| {
            asked.iter().all(|a| a.has_enough(&own.offered.devices, operands))
        })
    }

    /// Which classes of ready nodes could ever run one of the `searched` groups. A class that only lacks a driver is left
    /// out: drivers are no part of the class, so a change of them would not be seen as a new class.
    pub fn eligibility(&mut self, searched: &[&'a TaskGroup]) -> Eligibility {
        if constraints_of(self.job).any(escapes_class) {
            return Eligibility { classes: BTreeMap::new(), escaped: true };
        }
        let mut classes: BTreeMap<String, bool> = BTreeMap::new();
        for (class, slots) in self.samples() {
            let slots = slots.as_slice();
            let meets = |f: &mut Self, check: Check<'a>, slot: u32| f.set(check).contains(slot);
            let job_ok = |f: &mut Self, slot: u32| f.job_checks().all(|c| meets(f, c, slot));
            let group_ok = |f: &mut Self, slot: u32| {
                searched.iter().any(|g| group_constraints(g).all(|c| meets(f, Check::Constraint(c), slot)))
            };
            let eligible = slots.iter().any(|slot| job_ok(self, *slot) && group_ok(self, *slot));
            let runs = |f: &mut Self, slot: u32| searched.iter().any(|g| f.node_passes(g, slot));
            if !eligible || slots.iter().any(|slot| runs(self, *slot)) {
                classes.insert(class.to_string(), eligible);
            }
        }
        Eligibility { classes, escaped: false }
    }

    /// For each computed class one ready node of each profile.
    fn samples(&self) -> BTreeMap<&'a str, Vec<u32>> {
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        for slot in self.ready.iter() {
            seen.entry(self.fleet.profile_index_at(slot)).or_insert(slot);
        }
        let mut samples: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for slot in seen.into_values() {
            let class = self.fleet.profile_at(slot).map_or("", |p| &p.computed_class);
            samples.entry(class).or_default().push(slot);
        }
        samples
    }
}

fn group_constraints(group: &TaskGroup) -> impl Iterator<Item = &Constraint> {
    group.constraints.iter().chain(group.tasks.iter().flat_map(|t| &t.constraints))
}

/// Drivers first (scheduler.md 13.2).
fn group_checks(group: &TaskGroup) -> impl Iterator<Item = Check<'_>> {
    let drivers = group.tasks.iter().map(|t| Check::Driver(&t.driver));
    drivers.chain(group_constraints(group).map(Check::Constraint)).chain(offer_checks(group))
}

/// Checks of what the node has to offer at all, free or not.
fn offer_checks(group: &TaskGroup) -> Vec<Check<'_>> {
    let mut checks = Vec::new();
    for volume in group.volumes.values() {
        checks.push(Check::Volume(&volume.source, volume.read_only));
    }
    for network in group.networks.iter().chain(group.tasks.iter().flat_map(|t| &t.resources.networks)) {
        if network.mode() != HOST_MODE {
            checks.push(Check::Network(network.mode()));
        }
        checks.extend(network.ports().map(|p| Check::HostNetwork(&p.host_network, &p.label)));
    }
    for task in &group.tasks {
        if !task.volume_mounts.is_empty() {
            checks.push(Check::Mounts(&task.driver));
        }
        if task.resources.cores > 0 {
            checks.push(Check::Cores);
        }
        if !task.resources.devices.is_empty() {
            checks.push(Check::Devices(&group.name));
        }
    }
    checks
}

fn constraints_of(job: &JobSpec) -> impl Iterator<Item = &Constraint> {
    job.constraints.iter().chain(job.groups.iter().flat_map(group_constraints))
}
