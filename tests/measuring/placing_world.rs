//! The fleets and jobs that placing is measured on.

use model::alloc::Allocation;
use model::eval::Evaluation;
use model::job::{JobSpec, JobType};
use model::node::Node;
use model::plan::Decision;
use model::preference::{Affinity, Spread};
use model::random::mix;
use model::resources::{Amount, Holding};
use model::scheduling::Scheduling;
use scheduler::fleet::{Fleet, FleetSnapshot};
use scheduler::testing::{self, NOW, amount, constraint, eval_of, node_with};
use scheduler::why::explain_placement;
use scheduler::{Attempt, schedule};
use std::time::{Duration, Instant};

const INDEX: u64 = 100;
const RACKS: usize = 50;

#[derive(Clone, Copy, Debug)]
pub enum Case {
    Plain,
    /// One on every node that may run it.
    System,
    /// Spread over racks.
    Rack,
    /// Spread over nodes: every node has a value of its own.
    EachNode,
    /// Two spreads, two affinities, a distinct property.
    Mixed,
}

pub struct World {
    fleet: Fleet,
    pub fill: f64,
    nodes: usize,
    /// Less urgent allocations, by job.
    crowd: Vec<(JobSpec, Vec<Allocation>)>,
}

impl World {
    /// Datacenters alternate, racks go round. Of every hundred nodes, `fill` times hundred are full.
    pub fn new(nodes: usize, fill: f64) -> Self {
        let mut fleet = Fleet::default();
        for i in 0..nodes {
            let node = node(i);
            fleet.upsert_node(&node);
            if ((mix(i as u64) % 100) as f64) < fill * 100.0 {
                let amount = Amount { disk_mb: 0, ..node.info.capacity };
                fleet.hold(node.info.id, &Holding { amount, claims: vec![] });
            }
        }
        World { fleet, fill, nodes, crowd: vec![] }
    }

    /// Every node is full of what would make way: so many allocations on each, of fifty jobs.
    pub fn crowded(nodes: usize, each: usize) -> Self {
        let mut world = World::new(nodes, 0.0);
        for j in 0..RACKS {
            let mut spec = testing::spec(&format!("crowd-{j}"), 0);
            spec.priority = 10 + (j % 4) as i64 * 10;
            let task = &mut spec.groups[0].tasks[0];
            (task.cpu_mhz, task.memory_mb) = (14_000 / each as i64, 32_000 / each as i64);
            let job = testing::job_of(spec.clone());
            let mut allocs = vec![];
            for i in (j..nodes * each).step_by(RACKS) {
                let mut alloc = testing::alloc(&job, i as u64, (i / each) as u128);
                alloc.id = testing::alloc_id(mix(i as u64).into());
                world.fleet.hold(alloc.node_id, &alloc.resources.holding());
                allocs.push(alloc);
            }
            world.crowd.push((spec, allocs));
        }
        world
    }

    pub fn filled(&self) -> &'static str {
        if !self.crowd.is_empty() {
            ", full, others leave"
        } else if self.fill > 0.0 {
            ", 95 % full"
        } else {
            ""
        }
    }

    pub fn nodes(&self) -> usize {
        self.nodes
    }

    pub fn job(&self, count: i64, case: Case) -> JobSpec {
        let mut spec = job(count);
        let spread = |attribute: &str| Spread { attribute: attribute.into(), weight: 50, targets: vec![] };
        let affinity =
            |left: &str, right: &str, weight| Affinity { condition: constraint(left, "=", right), weight };
        let group = &mut spec.groups[0];
        match case {
            Case::Plain => {}
            Case::System => {
                group.count = 1;
                spec.job_type = JobType::System;
            }
            Case::Rack => group.spreads = vec![spread("${meta.rack}")],
            Case::EachNode => group.spreads = vec![spread("${node.unique.id}")],
            Case::Mixed => {
                group.spreads = vec![spread("${meta.rack}"), spread("${node.datacenter}")];
                group.affinities =
                    vec![affinity("${meta.rack}", "r3", 50), affinity("${node.datacenter}", "dc-2", -20)];
                let allowed = (count as usize / (RACKS / 2) + 1).to_string();
                group.constraints.push(constraint("${meta.rack}", "distinct_property", &allowed));
            }
        }
        spec
    }

    pub fn prepare(&self, spec: &JobSpec) -> Prepared {
        let mut state = testing::World::of_nodes([]);
        state.register(spec.clone());
        for (spec, allocs) in &self.crowd {
            state.register(spec.clone());
            state.scheduling.preemption.service = true;
            for alloc in allocs {
                state.add(alloc.clone());
            }
        }
        Prepared { state, fleet: self.fleet.snapshot(), eval: eval_of(spec) }
    }

    /// How long it takes to explain the job's group.
    pub fn explain(&self, spec: &JobSpec, seed: u64) -> Duration {
        let fleet = self.fleet.snapshot();
        let began = Instant::now();
        let seen = explain_placement(spec, &spec.groups[0], &fleet, &[], Scheduling::default(), seed);
        let took = began.elapsed();
        assert_eq!(seen.nodes, self.nodes as u64);
        took
    }

    /// How many find a place.
    pub fn place(&self, spec: &JobSpec, seed: u64) -> usize {
        self.prepare(spec).decide(seed).plan.nodes.iter().map(|n| n.places.len()).sum()
    }
}

/// All that one evaluation reads.
pub struct Prepared {
    state: testing::World,
    fleet: FleetSnapshot,
    eval: Evaluation,
}

impl Prepared {
    pub fn decide(&self, seed: u64) -> Decision {
        schedule(&self.state, &self.fleet, &self.eval, Attempt::first(INDEX), NOW, seed)
    }
}

fn node(i: usize) -> Node {
    node_with(i as u128, |info| {
        info.datacenter = format!("dc-{}", i % 2 + 1);
        info.meta.insert("rack".into(), format!("r{}", i % RACKS));
        info.capacity = amount(14_000, 32_000, 1_000_000);
    })
}

/// May run in half of the racks.
fn job(count: i64) -> JobSpec {
    let mut spec = testing::spec("wide", count);
    let group = &mut spec.groups[0];
    let racks: Vec<String> = (0..RACKS / 2).map(|r| format!("r{r}")).collect();
    group.constraints.push(constraint("${meta.rack}", "set_contains_any", &racks.join(",")));
    (group.tasks[0].cpu_mhz, group.tasks[0].memory_mb) = (6_000, 6_000);
    spec
}
