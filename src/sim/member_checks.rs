//! What must always be so of a region's servers: there is one region, one leader in each term, the servers that the state lists are
//! those that raft knows, and no server that was removed leads.
//!
//! Refuses to know how servers come and go.

use super::place::ServerAt;
use super::world::World;
use state::check::members_are;
use state::view::View;

impl World {
    /// For a server whose state has moved.
    pub fn check_members(&mut self, at: ServerAt, view: &View) -> Result<(), String> {
        let Some(server) = &self.regions[at].brain else { return Ok(()) };
        let status = server.status();
        members_are(view, &status.voters, &status.learners).map_err(|why| format!("{at}: {why}"))?;
        let Some(founding) = view.founding().map_err(|e| e.to_string())? else {
            return Err(format!("{at} has a state of no region"));
        };
        let region = &mut self.regions[at.region];
        let known = *region.id.get_or_insert(founding.region_id);
        if known != founding.region_id {
            return Err(format!("{at} belongs to region {}, others to {known}", founding.region_id));
        }
        if !status.ready {
            return Ok(());
        }
        if status.is_removed {
            return Err(format!("{at} leads, and was told that it is removed"));
        }
        match region.leaders.insert(status.term, status.id) {
            Some(other) if other != status.id => Err(format!(
                "{at}, which is {}, leads in term {}, and {other} has led in it",
                status.id, status.term
            )),
            _ => Ok(()),
        }
    }
}
