//! Two regions in one world: each is whole without the other one, whatever happens to that.

#![cfg(test)]

use super::elections::run_for;
use super::place::{NodeAt, ServerAt};
use super::topologies::Topology;
use super::world::World;
use model::time::Span;
use std::collections::BTreeSet;

const SIZES: [Topology; 2] = [Topology { servers: 3, nodes: 2 }, Topology { servers: 1, nodes: 3 }];

fn running(world: &World, region: usize) -> usize {
    let nodes = world.regions[region].nodes.iter();
    nodes.map(|n| n.processes.values().filter(|p| p.running).count()).sum()
}

fn leader(world: &World, region: usize) -> Option<ServerAt> {
    world.regions.servers_of(region).into_iter().find(|at| world.regions[*at].leads())
}

fn register(world: &mut World, region: usize, id: &str, count: i64) {
    let at = leader(world, region).expect("somebody leads");
    world.register_with_meta(at, id, count, 0);
}

#[test]
fn two_regions_live_beside_each_other() {
    for seed in 1..=3 {
        let mut world = World::of_regions(seed, &SIZES, false);
        world.faults.heal();
        world.start_all().expect("fresh disks open");
        run_for(&mut world, Span::seconds(20));
        let ids: BTreeSet<_> = world.regions.all().iter().filter_map(|region| region.id).collect();
        assert_eq!(ids.len(), 2, "each has begun, as a region of its own");
        for region in [0, 1] {
            register(&mut world, region, "same-name", 2 + region as i64);
        }
        run_for(&mut world, Span::seconds(20));
        assert_eq!((running(&world, 0), running(&world, 1)), (2, 3));

        // all servers of one are gone for an hour: the other one loses nobody, and goes on
        for at in world.regions.servers_of(0) {
            world.stop_server(at, Span::hours(1));
        }
        run_for(&mut world, Span::minutes(5));
        register(&mut world, 1, "meanwhile", 1);
        world.power_cut(NodeAt { region: 1, node: 0 });
        run_for(&mut world, Span::minutes(2));
        assert_eq!((leader(&world, 0), running(&world, 0), running(&world, 1)), (None, 2, 4));

        run_for(&mut world, Span::hours(1));
        register(&mut world, 0, "later", 1);
        run_for(&mut world, Span::seconds(30));
        assert_eq!((running(&world, 0), running(&world, 1)), (3, 4));
    }
}
