//! Evaluations that wait for room when all is at rest: each is scheduled once more, and must find none.
//!
//! Refuses to know what room is; the scheduler says that.

use super::users::HOME_REGION;
use super::world::{EPOCH, World};
use model::alloc::Allocation;
use model::eval::{EvalStatus, Evaluation};
use model::time::{Span, Wall};
use scheduler::Attempt;
use state::view::View;

impl World {
    /// At rest, nothing waits that could be done.
    pub fn check_blocked(&self, view: &View) -> Result<(), String> {
        let now = self.any_server()?.clock.at(self.now).wall.unwrap_or(EPOCH);
        let open = view.open_evals().map_err(|e| e.to_string())?;
        // one that was released a moment ago is about to be scheduled
        let mut servers = self.regions[HOME_REGION].servers.iter().filter_map(|server| server.brain.as_ref());
        let leader = servers.find(|server| server.status().ready).ok_or("no server leads")?;
        let waits = |e: &&Evaluation| e.status == EvalStatus::Blocked && leader.waits_for_room(e.id);
        let mut blocked = open.iter().filter(waits);
        blocked.try_for_each(|eval| places_nothing(view, eval, now, self.now.0))
    }
}

fn places_nothing(view: &View, eval: &Evaluation, now: Wall, seed: u64) -> Result<(), String> {
    let again = Evaluation { status: EvalStatus::Pending, ..eval.clone() };
    let attempt = Attempt::first(view.index());
    let decision = scheduler::schedule(view, view.fleet(), &again, attempt, now, seed);
    // what failed is placed again by its own evaluation, or by another one in the second before that is due
    let has_its_own = |alloc: &&Allocation| {
        let failed = alloc.previous.and_then(|id| view.alloc(id).ok()?);
        let followup = failed.and_then(|failed| view.eval(failed.followup_eval?).ok()?);
        let is_due = |eval: &Evaluation| eval.wait_until.is_some_and(|at| at - now <= Span::seconds(1));
        followup.is_some_and(|eval| eval.status == EvalStatus::Pending && is_due(&eval))
    };
    match decision.plan.nodes.iter().flat_map(|n| &n.places).find(|alloc| !has_its_own(alloc)) {
        None => Ok(()),
        Some(alloc) => Err(format!("{} of {} waits, and could be placed: {eval:#?}", alloc.name, eval.job)),
    }
}

#[test]
fn what_waits_and_could_be_placed_is_found() {
    use state::samples::{AT, Region, eval, register, spec};
    let mut region = Region::default();
    let blocked = Evaluation { status: EvalStatus::Blocked, ..eval(1, "web") };
    region.run(&register(spec("web", 1), Some(blocked.clone())));
    assert_eq!(places_nothing(&region.view(), &blocked, AT, 1), Ok(()), "there is no node");
    region.ready_node(1);
    assert!(places_nothing(&region.view(), &blocked, AT, 1).is_err_and(|e| e.contains("could be placed")));
}
