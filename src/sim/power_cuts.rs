//! Power cuts of servers at any disk operation while members change and snapshots are installed, counted where they struck. That
//! nothing acknowledged is lost, and what else must be so, is looked at after every turn and when a world settles.
//!
//! Refuses to know: how members change, and how rows travel.

use super::place::ServerAt;
use super::world::World;

/// Where power cuts of servers struck.
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerCuts {
    /// A change of members is under way, a test says.
    pub members_change: bool,
    pub amid_installation: u64,
    /// But not amid an installation.
    pub amid_change: u64,
    pub elsewhere: u64,
}

impl World {
    /// The power of this server's machine has failed at a disk operation of its last turn.
    pub fn count_power_cut(&mut self, at: ServerAt) {
        let host = &self.regions[at];
        let installs =
            host.was_installing || host.brain.as_ref().is_some_and(|server| server.is_installing());
        let cuts = &mut self.power_cuts;
        match (installs, cuts.members_change) {
            (true, _) => cuts.amid_installation += 1,
            (false, true) => cuts.amid_change += 1,
            (false, false) => cuts.elsewhere += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::elections::{await_leader, run_for};
    use super::super::faults::ServerFault;
    use super::super::membership::{end, is_acknowledged, is_removed, replace, suffrage, with_clients};
    use super::*;
    use model::member::Suffrage;
    use model::time::Span;
    use std::env;
    use wire::http::Method;

    /// So many have to strike amid changes of members, a tenth of them amid installations. They take ten seconds.
    const FEW: u64 = 160;
    const STEP: Span = Span::millis(50);
    /// Between two strikes.
    const PAUSE: Span = Span::millis(2_500);
    /// After every eighth one: who is replaced still votes, so that the group needs all others, up and with a leader, to go on.
    const PEACE: Span = Span::seconds(20);
    /// Within this a change comes about, whatever fails meanwhile.
    const LIMIT: Span = Span::minutes(30);
    /// Who joins is struck so often before it is left in peace.
    const STRIKES_OF_ONE: u32 = 12;

    fn wanted() -> u64 {
        env::var("DROVER_SIM_POWER_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(FEW)
    }

    /// Until it is done, one server after the other loses its power: mostly the one that joins.
    fn strike_until(world: &mut World, joining: ServerAt, what: &str, done: impl Fn(&World) -> bool) {
        let (begun, mut strikes, mut all) = (world.now, 0, 0_u64);
        world.power_cuts.members_change = true;
        while !done(world) {
            assert!(world.now.since(begun) < LIMIT, "not within {LIMIT:?}: {what}");
            let servers = world.regions.servers();
            let any = servers[world.faults.draw(servers.len() as u64) as usize];
            let installs = world.regions[joining].look(|server| server.is_installing()) == Some(true);
            let at = if strikes < STRIKES_OF_ONE && installs { joining } else { any };
            strikes += u32::from(at == joining);
            let operations = 1 + world.faults.draw(25);
            world.strike_server(at, ServerFault::PowerCut { operations });
            all += 1;
            let (struck, mut wait) = (world.now, if all % 8 == 0 { PEACE } else { PAUSE });
            while !done(world) && world.now.since(struck) < wait {
                run_for(world, STEP);
                // who is amid an installation is struck at once
                if world.regions[joining].look(|server| server.is_installing()) == Some(true)
                    && strikes < STRIKES_OF_ONE
                {
                    wait = STEP;
                }
            }
        }
        world.power_cuts.members_change = false;
    }

    fn change_a_member(world: &mut World, at: ServerAt) {
        let old = replace(world, at);
        let id = world.regions[at].id();
        strike_until(world, at, "it votes", |world| suffrage(world, id) == Some(Suffrage::Voter));
        let query = format!("id={old}");
        world.clients.operations.clear();
        for ask in 1.. {
            assert!(ask < 400, "it is not removed");
            if is_acknowledged(world) {
                break;
            }
            if let Some(up) = world.regions.servers().into_iter().find(|at| world.regions[*at].is_up()) {
                world.operator_calls(up, Method::Delete, "/v1/operator/raft/peer", &query);
            }
            let (asked, in_peace) = (world.now, ask % 4 == 0);
            let done = |world: &World| is_acknowledged(world) || world.now.since(asked) > Span::seconds(4);
            match in_peace {
                true => run_for(world, PEACE),
                false => strike_until(world, at, "it is removed", done),
            }
        }
        assert!(is_removed(world, old), "so it was said");
    }

    /// `DROVER_SIM_POWER_CUTS=1000` makes it 1,000.
    #[test]
    fn power_cuts_amid_changes_and_snapshots_lose_nothing() {
        let (mut installs, mut changes, mut elsewhere, mut worlds) = (0, 0, 0, 0);
        while installs + changes < wanted() || installs < wanted() / 10 {
            worlds += 1;
            let mut world = with_clients(3, 900 + worlds);
            await_leader(&mut world);
            for _ in 0..4 {
                let servers = world.regions.servers();
                let at = servers[world.faults.draw(servers.len() as u64) as usize];
                change_a_member(&mut world, at);
            }
            let cuts = world.power_cuts;
            installs += cuts.amid_installation;
            changes += cuts.amid_change;
            elsewhere += cuts.elsewhere;
            assert!(world.snapshot_links.installed >= 4);
            end(world);
        }
        println!(
            "{installs} amid installations, {changes} amid other changes, {elsewhere} elsewhere, {worlds} worlds"
        );
    }
}
