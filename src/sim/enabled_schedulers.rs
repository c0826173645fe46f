//! A region whose servers take evaluations of different types each: whoever leads, each evaluation finds a worker that takes it.
//!
//! Refuses to know: how.

#![cfg(test)]

use super::elections::{await_leader, run_for, settle};
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::job::JobType;
use model::time::Span;

const ENABLED: [&[JobType]; 3] =
    [&[JobType::Service], &[JobType::Batch], &[JobType::System, JobType::Sysbatch, JobType::Batch]];

#[test]
fn each_type_finds_its_server_through_leader_changes() {
    for seed in 1..=3 {
        let mut world = World::new(seed, ENABLED.len(), 3, false);
        world.faults.heal();
        for (host, enabled) in world.regions[HOME_REGION].servers.iter_mut().zip(ENABLED) {
            host.enabled_schedulers = enabled.to_vec();
        }
        world.start_all().expect("fresh disks open");
        world.after(Span::seconds(1), Event::Work);
        for _ in 0..5 {
            let (leader, _) = await_leader(&mut world);
            run_for(&mut world, Span::seconds(30));
            world.stop_server(leader, Span::seconds(5));
            run_for(&mut world, Span::seconds(10));
        }
        settle(&mut world);
        assert!(world.decided_by_followers > 5, "seed {seed}: {}", world.decided_by_followers);
    }
}
