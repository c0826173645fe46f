//! What operators do to the servers of a seed that live: another one is to lead, now and then; and in half of the seeds one server is taken
//! out of service, and joins again with an empty disk. In the other half one loses its disk (`lost_disks`): a region of three that
//! is without one of its voters would not live on without another.
//!
//! Refuses to know how leadership is handed on, and how servers leave and join.

use super::faults::Kind;
use super::lost_disks::{ASKS_EVERY, LEAST_SERVERS};
use super::place::ServerAt;
use super::users::HOME_REGION;
use super::world::{Event, World};
use model::random::Stream;
use model::time::Span;
use wire::http::Method;

/// Between two transfers.
const TRANSFER_PAUSE: (Span, Span) = (Span::seconds(20), Span::minutes(2));
const RETIRES_AFTER: (Span, Span) = (Span::minutes(2), Span::minutes(7));

/// Whether a server of the seed's region is taken out of service.
pub fn is_retired_from(seed: u64) -> bool {
    Stream::new(seed, 124).below(2) == 0
}

impl World {
    /// Before anything has started.
    pub fn plan_server_operations(&mut self, seed: u64) {
        let mut draws = Stream::new(seed, 125);
        let servers = self.regions.servers_of(HOME_REGION);
        if servers.len() < LEAST_SERVERS {
            return;
        }
        self.after(draws.span_between(TRANSFER_PAUSE.0, TRANSFER_PAUSE.1), Event::TransferLeadership);
        if is_retired_from(seed) {
            let at = servers[draws.below(servers.len() as u64) as usize];
            self.after(draws.span_between(RETIRES_AFTER.0, RETIRES_AFTER.1), Event::RetireServer(at));
        }
    }

    /// Any server is asked, for any other one or for one by its ID.
    pub fn transfer_leadership(&mut self) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        let servers = self.regions.servers_of(HOME_REGION);
        let mut one_of = |all: &[ServerAt]| all[self.changes.below(all.len() as u64) as usize];
        let (asked, wanted) = (one_of(&servers), one_of(&servers));
        if self.regions[asked].is_up() {
            let query = match self.changes.below(2) {
                0 => String::new(),
                _ => format!("id={}", self.regions[wanted].id()),
            };
            let path = "/v1/operator/raft/transfer-leadership";
            self.operator_calls_for(Some(Kind::LeadershipTransferred), asked, Method::Put, path, &query);
        }
        let pause = self.changes.span_between(TRANSFER_PAUSE.0, TRANSFER_PAUSE.1);
        self.after(pause, Event::TransferLeadership);
        Ok(())
    }

    pub fn retire_server(&mut self, at: ServerAt) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        if !self.all_vote() {
            self.after(ASKS_EVERY, Event::RetireServer(at));
            return Ok(());
        }
        let id = self.regions[at].id();
        self.note(|_| format!("{at}  is to be taken out of service"));
        self.remove_server(id)
    }

    /// The server with this ID is no member any more. One that lives begins anew with an empty disk.
    pub fn server_is_removed(&mut self, id: u64) {
        let lives = self.regions.servers_of(HOME_REGION).into_iter().find(|at| self.regions[*at].id() == id);
        let Some(at) = lives else { return self.faults.fired(Kind::LostServerRemoved) };
        self.faults.fired(Kind::LiveServerRemoved);
        self.note(|_| format!("{at}  is removed, and begins anew"));
        self.replace_server(at);
    }
}

#[test]
fn a_live_server_that_is_removed_joins_with_an_empty_disk() {
    let mut world = super::elections::region_of(3, 1);
    super::elections::await_leader(&mut world);
    super::elections::run_for(&mut world, Span::seconds(20));
    let at = ServerAt { region: HOME_REGION, server: 1 };
    let id = world.regions[at].id();
    // operators act while faults may strike
    world.faults = super::faults::Faults::new(1);
    assert_eq!(world.retire_server(at), Ok(()));
    world.faults.heal();
    super::elections::run_for(&mut world, Span::minutes(3));
    assert_ne!(world.regions[at].id(), id);
    assert_eq!(world.faults.counts().get(&Kind::LiveServerRemoved), Some(&1));
    assert_eq!(world.check_replaced(), Ok(()));
}

#[test]
fn half_of_the_seeds_take_a_server_out_of_service() {
    let retired = (1..=200).filter(|seed| is_retired_from(*seed)).count();
    assert!((80..=120).contains(&retired), "{retired}");
}
