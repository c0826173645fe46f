//! What differs between worlds and within them, by seed: nodes of several kinds, which join at different times and change; and servers
//! that start with another configuration than before.
//!
//! Refuses to know what comes of it. Tests of single things have the same plain nodes and servers every time.

use super::faults::Kind;
use super::job_groups::DEVICE;
use super::place::NodeAt;
use super::users::HOME_REGION;
use super::world::{Event, World};
use client::effects::Input;
use model::claims::{DeviceGroup, DeviceInstance};
use model::constraint::Constraint;
use model::id::server_id;
use model::job::TaskGroup;
use model::preference::{Affinity, Spread};
use model::random::Stream;
use model::resources::Amount;
use model::time::Span;
use state::store::Options;
use std::collections::BTreeMap;

const CLASSES: [&str; 3] = ["small", "large", ""];
const RACKS: [&str; 3] = ["r0", "r1", "r2"];
/// Between two changes of nodes, at most.
const CHANGE_PAUSE: Span = Span::minutes(3);
/// More have fifty nodes, whose every task costs time.
const MOST_SERVERS_WITH_ALL_SHAPES: usize = 3;

/// The id of a server whose data directory is on that disk, its first or a later one.
pub fn id_of_disk(seed: u64, disks: u64) -> u64 {
    server_id(Stream::new(seed.wrapping_add(disks), 108).next_u64())
}

/// What a node says of itself that others may differ in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTraits {
    pub class: String,
    /// In its meta; empty: it has none.
    pub rack: String,
    pub capacity: Amount,
    /// That tasks may have to themselves.
    pub cores: Vec<u16>,
    /// Devices of one kind, by whether they are healthy.
    pub devices_healthy: Vec<bool>,
    pub joins_after: Span,
}

impl NodeTraits {
    pub fn plain() -> NodeTraits {
        let capacity = Amount { cpu_mhz: 1000, memory_mb: 1000, disk_mb: 10_000, ..Amount::ZERO };
        NodeTraits {
            class: String::new(),
            rack: String::new(),
            capacity,
            cores: vec![],
            devices_healthy: vec![],
            joins_after: Span::ZERO,
        }
    }

    fn draw(draws: &mut Stream) -> NodeTraits {
        let capacity = Amount {
            cpu_mhz: 600 + draws.below(800) as i64,
            memory_mb: 600 + draws.below(800) as i64,
            ..NodeTraits::plain().capacity
        };
        let late = draws.below(3) == 0;
        let joins_after = if late { draws.span_below(Span::minutes(3)) } else { Span::ZERO };
        let (class, rack) = (one_of(CLASSES, draws), one_of(RACKS, draws));
        let cores = if draws.below(3) > 0 { (0..4).collect() } else { vec![] };
        let devices_healthy = (0..draws.below(3)).map(|_| draws.below(4) > 0).collect();
        NodeTraits { class, rack, capacity, cores, devices_healthy, joins_after }
    }

    /// As the node offers them.
    pub fn devices(&self) -> Vec<DeviceGroup> {
        let instance = |(n, healthy): (usize, &bool)| DeviceInstance {
            id: format!("{DEVICE}-{n}"),
            healthy: *healthy,
            description: String::new(),
        };
        let instances: Vec<_> = self.devices_healthy.iter().enumerate().map(instance).collect();
        if instances.is_empty() {
            return vec![];
        }
        let (vendor, name) = ("sim".into(), "one".into());
        vec![DeviceGroup { vendor, kind: DEVICE.into(), name, attributes: BTreeMap::new(), instances }]
    }

    /// Moves the node, renames it, gives it more room, or breaks or mends a device; never less room, which would have to put something
    /// out.
    fn change(&mut self, draws: &mut Stream) {
        let devices = self.devices_healthy.len() as u64;
        match draws.below(if devices > 0 { 4 } else { 3 }) {
            3 => {
                let healthy = &mut self.devices_healthy[draws.below(devices) as usize];
                *healthy = !*healthy;
            }
            0 => self.class = one_of(CLASSES, draws),
            1 => self.rack = one_of(RACKS, draws),
            _ => self.capacity.cpu_mhz += 1 + draws.below(300) as i64,
        }
    }
}

fn one_of<const N: usize>(words: [&str; N], draws: &mut Stream) -> String {
    words[draws.below(N as u64) as usize].to_string()
}

/// Now and then, where a group may run, where it would rather, and over what it is spread.
pub fn place_somewhere(group: &mut TaskGroup, draws: &mut Stream) {
    let is = |left: &str, operand: &str, right: String| Constraint {
        left: left.into(),
        operand: operand.into(),
        right,
    };
    match draws.below(10) {
        0 => group.constraints.push(is("${node.class}", "=", one_of(CLASSES, draws))),
        1 => group.constraints.push(is("${meta.rack}", "!=", one_of(RACKS, draws))),
        2 => {
            let condition = is("${meta.rack}", "=", one_of(RACKS, draws));
            let weight = if draws.below(2) == 0 { 50 } else { -50 };
            group.affinities.push(Affinity { condition, weight });
        }
        3 => group.spreads.push(Spread { attribute: "${meta.rack}".into(), weight: 50, targets: vec![] }),
        4 => group.constraints.push(is("", "distinct_hosts", "true".into())),
        _ => {}
    }
}

/// What a server's life begins with.
pub fn options(before: Options, seed: u64, life: u64) -> Options {
    let mut draws = Stream::new(seed.wrapping_add(life), 111);
    let mut of = |all: [u64; 3]| all[draws.below(3) as usize];
    Options {
        segment_bytes: of([16 << 10, 48 << 10, 256 << 10]),
        unsaved_rows: of([50, 500, 2_000]) as usize,
        cache_bytes: of([32 << 10, 64 << 10, 512 << 10]) as usize,
        ..before
    }
}

/// How many workers a server has in that life, and from how many ready evaluations for each worker on others help.
pub fn workers(seed: u64, life: u64) -> (usize, usize) {
    let mut draws = Stream::new(seed.wrapping_add(life), 112);
    (1 + draws.below(3) as usize, draws.below(3) as usize)
}

/// How many rows of the state a server reads in a turn when it becomes leader in that life: most leaders are many turns on their way.
pub fn rows_per_turn(seed: u64, life: u64) -> usize {
    1 + Stream::new(seed.wrapping_add(life), 116).below(40) as usize
}

impl World {
    /// Before anything has started.
    pub fn vary(&mut self, seed: u64) {
        let mut draws = Stream::new(seed, 113);
        for n in self.regions.nodes() {
            self.regions[n].traits = NodeTraits::draw(&mut draws);
        }
        // somebody is there from the beginning
        self.regions[NodeAt { region: HOME_REGION, node: 0 }].traits.joins_after = Span::ZERO;
        for at in self.regions.servers() {
            self.regions[at].varies = true;
        }
        self.changes = draws;
        self.users.ask_nodes(seed, &self.regions.nodes_of(HOME_REGION));
        self.clients.ask_nodes(seed, 3);
        if self.regions.servers().len() <= MOST_SERVERS_WITH_ALL_SHAPES {
            self.workload.draw_all_shapes();
        }
        self.share_machines(seed);
        self.plan_growth(seed);
        self.plan_lost_disks(seed);
        self.plan_server_operations(seed);
        self.after(Span::minutes(1), Event::ChangeANode);
    }

    /// Somebody changes a node; then, after a while, another one.
    pub fn change_a_node(&mut self) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        let nodes = self.regions.nodes_of(HOME_REGION);
        let n = nodes[self.changes.below(nodes.len() as u64) as usize];
        let mut traits = self.regions[n].traits.clone();
        traits.change(&mut self.changes);
        self.note(|_| format!("{n}  becomes {traits:?}"));
        self.faults.fired(Kind::NodeChanged);
        self.regions[n].traits = traits;
        let info = Box::new(self.regions[n].info());
        self.node_input(n, Input::Fingerprint(info));
        let pause = self.changes.span_below(CHANGE_PAUSE);
        self.after(pause, Event::ChangeANode);
        Ok(())
    }
}

#[test]
fn nodes_differ_and_change_without_losing_room() {
    let mut draws = Stream::new(1, 1);
    let mut all: Vec<NodeTraits> = (0..50).map(|_| NodeTraits::draw(&mut draws)).collect();
    assert!(
        all.iter().any(|t| t.joins_after > Span::ZERO) && all.iter().any(|t| t.joins_after == Span::ZERO)
    );
    for traits in &mut all {
        let before = traits.capacity;
        (0..20).for_each(|_| traits.change(&mut draws));
        assert!(traits.capacity.lacks(before).is_none());
    }
    assert!(CLASSES.iter().all(|class| all.iter().any(|t| t.class == *class)));
}

#[test]
fn new_leaders_read_some_rows_in_a_turn() {
    let rows: Vec<usize> = (1..=200).map(|seed| rows_per_turn(seed, 1)).collect();
    assert!(rows.iter().all(|n| (1..=40).contains(n)));
    assert!((1..=40).filter(|n| rows.contains(n)).count() > 30, "{rows:?}");
    assert!((1..=9).any(|life| rows_per_turn(1, life) != rows[0]), "another life, another configuration");
}
