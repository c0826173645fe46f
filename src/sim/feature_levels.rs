//! Servers of several builds: in the seeds each begins with a build of a low or a higher feature level, and now and then comes back with a
//! newer one. The region's level follows the lowest. A server whose build cannot read what its region writes stops with a sentence,
//! and stays down until somebody starts it with a newer build.
//!
//! Refuses to know: what a level is about. A higher level than the shipping one's is a build of the future that knows today's commands.

use super::faults::Kind;
use super::place::ServerAt;
use super::users::HOME_REGION;
use super::world::World;
use model::random::Stream;
use state::fault::Fault;
use wire::change::Change;
use wire::feature_level::{FEATURE_LEVEL, FIRST_FEATURE_LEVEL};

/// The newest of all builds.
const NEWEST: u32 = FEATURE_LEVEL + 2;

/// What the build of that life knows, after one of `before`.
fn feature_level(before: u32, seed: u64, life: u64) -> u32 {
    let mut draws = Stream::new(seed.wrapping_add(life), 114);
    let is_upgraded = draws.below(if life == 1 { 2 } else { 3 }) == 0;
    if is_upgraded { NEWEST.min(before + 1) } else { before }
}

impl World {
    /// What starts at the server's next life.
    pub fn install_build(&mut self, at: ServerAt) {
        let host = &mut self.regions[at];
        host.lives += 1;
        host.too_old = None;
        let before = host.options.feature_level;
        if host.varies {
            host.options.feature_level = feature_level(before, host.seed, host.lives);
        }
        if host.options.feature_level > before {
            self.faults.fired(Kind::ServerUpgraded);
        }
    }

    /// With a new disk a server gets the newest build: of an older one the region may write more by now than it knows.
    pub fn install_newest_build(&mut self, at: ServerAt) {
        let host = &mut self.regions[at];
        if host.varies {
            host.options.feature_level = NEWEST;
        }
    }

    pub fn note_feature_level(&mut self, at: ServerAt, changes: &[Change]) {
        for change in changes {
            if let Change::FeatureLevel { level } = change {
                self.note(|_| format!("{at}  the region's feature level is {level}"));
                self.faults.fired(Kind::FeatureLevelRaised);
            }
        }
    }

    /// The server's build knows too little. It is not started again.
    pub fn server_is_too_old(&mut self, at: ServerAt, fault: &Fault) -> Result<(), String> {
        self.note(|_| format!("{at}  is too old: {fault}"));
        let host = &mut self.regions[at];
        if host.varies {
            return Err(format!("{at} was only ever upgraded, and is too old: {fault}"));
        }
        host.too_old = Some(fault.to_string());
        self.end_server(at);
        Ok(())
    }

    /// At rest the region's level is what the oldest of its servers knows.
    pub fn check_feature_level(&self) -> Result<(), String> {
        let region = &self.regions[HOME_REGION];
        let oldest = region.servers.iter().map(|server| server.options.feature_level).min();
        let wanted = oldest.unwrap_or(FIRST_FEATURE_LEVEL);
        for server in region.servers.iter().filter_map(|server| server.brain.as_ref()) {
            let status = server.status();
            if status.feature_level != wanted {
                let (id, level) = (status.id, status.feature_level);
                return Err(format!("server {id} has feature level {level}, and all builds know {wanted}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::elections::{await_leader, region_of, run_for, settle};
    use super::super::world::Event;
    use super::*;
    use model::time::Span;

    /// What a region begins with, and what its servers are upgraded to.
    const OLD: u32 = FEATURE_LEVEL;
    const NEW: u32 = FEATURE_LEVEL + 1;

    fn start(world: &mut World, at: ServerAt, level: u32) {
        world.regions[at].options.feature_level = level;
        world.start_server(at).expect("its disk is sound");
    }

    fn restart(world: &mut World, at: ServerAt, level: u32) {
        world.stop_server(at, Span::hours(10));
        start(world, at, level);
    }

    /// As each server that is up knows it.
    fn levels(world: &World) -> Vec<u32> {
        let up = world.regions[HOME_REGION].servers.iter().filter_map(|server| server.brain.as_ref());
        up.map(|server| server.status().feature_level).collect()
    }

    fn server(server: usize) -> ServerAt {
        ServerAt { region: HOME_REGION, server }
    }

    /// A region of three that has risen to the second level.
    fn raised(seed: u64) -> World {
        let mut world = region_of(3, seed);
        await_leader(&mut world);
        for n in 0..3 {
            restart(&mut world, server(n), NEW);
            run_for(&mut world, Span::seconds(30));
        }
        assert_eq!(levels(&world), [NEW; 3]);
        world
    }

    #[test]
    fn the_level_rises_with_the_last_server_that_is_upgraded() {
        for seed in 1..=3 {
            let mut world = region_of(3, seed);
            await_leader(&mut world);
            world.clients.start(Span::millis(400));
            world.after(Span::seconds(3), Event::ClientAsks);
            for (n, wanted) in [(0, OLD), (1, OLD), (2, NEW)] {
                restart(&mut world, server(n), NEW);
                run_for(&mut world, Span::seconds(30));
                assert_eq!(levels(&world), [wanted; 3], "after {} of 3", n + 1);
                assert_eq!(world.check_feature_level(), Ok(()));
            }
            world.clients.stop();
            settle(&mut world);
            assert!(world.clients.acknowledged > 20, "{}", world.clients.acknowledged);
        }
    }

    #[test]
    fn an_older_build_stops_and_a_newer_one_goes_on() {
        let mut world = raised(1);
        let at = server(1);
        restart(&mut world, at, OLD);
        let why = world.regions[at].too_old.clone().expect("it says so");
        assert!(why.contains("install one of them") && why.contains(&format!("level is {NEW}")), "{why}");
        run_for(&mut world, Span::minutes(10));
        assert!(!world.regions[at].is_up(), "nobody opens it again and again");
        start(&mut world, at, NEWEST);
        run_for(&mut world, Span::seconds(30));
        assert_eq!(levels(&world), [NEW; 3], "the others know no more");
        settle(&mut world);
    }

    /// It was upgraded and put back, and was away when the level rose.
    #[test]
    fn an_older_build_stops_at_the_entry_that_it_does_not_know() {
        for seed in 1..=3 {
            let mut world = region_of(3, seed);
            let (leader, _) = await_leader(&mut world);
            let followers: Vec<_> = world.regions.servers().into_iter().filter(|at| *at != leader).collect();
            let [at, other] = followers[..] else { panic!("there are two") };
            restart(&mut world, at, NEW);
            run_for(&mut world, Span::seconds(10));
            world.stop_server(at, Span::hours(10));
            restart(&mut world, other, NEW);
            run_for(&mut world, Span::seconds(10));
            restart(&mut world, leader, NEW);
            run_for(&mut world, Span::seconds(30));
            assert_eq!(levels(&world), [NEW; 2]);
            start(&mut world, at, OLD);
            run_for(&mut world, Span::seconds(30));
            let why = world.regions[at].too_old.clone().expect("it says so");
            assert!(!world.regions[at].is_up(), "{why}");
            start(&mut world, at, NEW);
            run_for(&mut world, Span::seconds(30));
            settle(&mut world);
        }
    }

    #[test]
    fn an_empty_server_that_knows_less_is_not_let_in() {
        let mut world = raised(2);
        let at = server(2);
        world.stop_server(at, Span::hours(10));
        world.regions[at].replace_disk();
        start(&mut world, at, OLD);
        run_for(&mut world, Span::minutes(1));
        assert!(world.regions[at].too_old.is_some() && !world.regions[at].is_up());
        let id = world.regions[at].id();
        let members =
            world.regions[HOME_REGION].newest_server().expect("two are up").look(|server| server.status());
        assert!(members.expect("is up").members.iter().all(|member| member.id != id));
        assert_eq!(levels(&world), [NEW; 2]);
    }

    #[test]
    fn a_build_of_a_seed_that_becomes_too_old_is_found() {
        let mut world = region_of(3, 1);
        let (at, fault) = (server(1), Fault::needs_level(NEWEST, NEW));
        world.regions[at].varies = true;
        let found = world.server_is_too_old(at, &fault);
        assert!(found.is_err_and(|e| e.contains("was only ever upgraded, and is too old")));
        world.regions[at].varies = false;
        assert_eq!(world.server_is_too_old(at, &fault), Ok(()), "tests put older builds back");
        assert!(world.regions[at].too_old.is_some() && !world.regions[at].is_up());
    }

    #[test]
    fn a_level_that_is_not_the_lowest_builds_is_found() {
        let mut world = raised(3);
        assert_eq!(world.check_feature_level(), Ok(()));
        for n in 0..3 {
            world.regions[server(n)].options.feature_level = NEWEST;
        }
        assert!(world.check_feature_level().is_err_and(|e| e.contains(&format!("all builds know {NEWEST}"))));
    }
}
