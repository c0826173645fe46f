//! Regions that begin with one server, as most sites do: in a third of the seeds of several servers the others are installed later, with
//! empty disks, while the first one serves its users and whatever may fails.
//!
//! Refuses to know how servers join.

use super::faults::Kind;
use super::lost_disks::LEAST_SERVERS;
use super::membership::suffrage;
use super::place::{Daemon, ServerAt};
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::member::Suffrage;
use model::random::Stream;
use model::time::Span;

/// After the first server the others are installed within this.
const INSTALLED_AFTER: (Span, Span) = (Span::seconds(5), Span::seconds(90));

impl World {
    /// Before anything has started.
    pub fn plan_growth(&mut self, seed: u64) {
        let mut draws = Stream::new(seed, 127);
        let servers = self.regions.servers_of(HOME_REGION);
        if servers.len() < LEAST_SERVERS || draws.below(3) > 0 {
            return;
        }
        for at in servers {
            if at.server == 0 {
                let first = &mut self.regions[at];
                (first.expect, first.knows_others) = (1, false);
            } else {
                self.regions[at].installed_after = draws.span_between(INSTALLED_AFTER.0, INSTALLED_AFTER.1);
                self.install_newest_build(at);
            }
        }
    }

    /// The servers that are there from the beginning start; the others when they are installed.
    pub fn start_servers(&mut self) -> Result<(), String> {
        for at in self.regions.servers() {
            match self.regions[at].installed_after {
                Span::ZERO => self.start_server(at)?,
                after => self.after(after, Event::Start(Daemon::Server(at))),
            }
        }
        Ok(())
    }

    /// A server's state says that members have changed: once all those vote that came later, the region has grown.
    pub fn note_growth(&mut self, region: usize) {
        let servers = &self.regions[region].servers;
        let grows = servers.iter().any(|server| server.installed_after > Span::ZERO);
        if !grows || self.faults.counts().contains_key(&Kind::RegionGrown) {
            return;
        }
        let newest = self.regions[region].newest_server().and_then(|server| server.brain.as_ref());
        let voters = newest.map(|server| server.status().voters).unwrap_or_default();
        if servers.iter().all(|server| voters.contains(&server.id())) {
            self.faults.fired(Kind::RegionGrown);
        }
    }

    /// Whether each server of the region votes: before that it would not live on without another one.
    pub fn all_vote(&self) -> bool {
        let votes = |at: ServerAt| suffrage(self, self.regions[at].id()) == Some(Suffrage::Voter);
        self.regions.servers_of(HOME_REGION).into_iter().all(votes)
    }
}

#[test]
fn servers_that_come_later_join_the_first() {
    let grows = |seed: &u64| {
        let mut world = World::new(*seed, 3, 3, false);
        world.plan_growth(*seed);
        world.regions[HOME_REGION].servers.iter().any(|server| server.installed_after > Span::ZERO)
    };
    let seed = (1..20).find(grows).expect("one in three");
    let mut world = World::new(seed, 3, 3, false);
    world.plan_growth(seed);
    world.faults.heal();
    world.start_all().expect("an empty disk opens");
    super::elections::run_for(&mut world, Span::seconds(4));
    let first = ServerAt { region: HOME_REGION, server: 0 };
    assert_eq!(super::elections::leaders(&world), [first], "it leads alone");
    assert!(!world.all_vote());
    assert_eq!(world.faults.counts().get(&Kind::RegionGrown), None, "it is only planned");
    super::elections::run_for(&mut world, Span::minutes(3));
    assert!(world.all_vote(), "each of those that came votes");
    assert_eq!(world.faults.counts().get(&Kind::RegionGrown), Some(&1));
}
