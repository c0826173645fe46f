//! The operators: nodes drained with and without a deadline or by force, drains ended, nodes made eligible or not, lost
//! ones purged. And what must hold of it: drains take no more of a group away than it can do without, nothing is placed where
//! it must not be, and what was drained is empty when all heals.

use super::faults::Kind;
use super::place::{NodeAt, ServerAt};
use super::tracked::TrackedState;
use super::users::{HOME_REGION, User};
use super::world::{Event, World};
use model::alloc::{Allocation, Leave};
use model::id::{AllocId, NodeId};
use model::job::Job;
use model::node::NodeStatus;
use model::random::Stream;
use model::scheduling::{SchedulerConfig, SchedulerSettings};
use model::time::Span;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::command::NodeUpdateRequest;
use wire::request::{Refusal, WriteReply, WriteRequest};

/// Operators' questions have numbers apart from those of the jobs' users.
const FIRST_TOKEN: u64 = 1 << 40;

pub struct Operators {
    draws: Stream,
    next_token: u64,
    asked: BTreeSet<u64>,
    /// How the scheduler was told to work, by the index that the answer said.
    configured: BTreeMap<u64, SchedulerSettings>,
    /// Allocations that were asked to leave when there is room.
    leaving: BTreeSet<AllocId>,
    /// The index at which each node was closed, of those that are.
    closed: BTreeMap<NodeId, u64>,
}

impl Operators {
    pub fn new(seed: u64) -> Self {
        Operators {
            draws: Stream::new(seed, 104),
            next_token: FIRST_TOKEN,
            asked: BTreeSet::new(),
            configured: BTreeMap::new(),
            leaving: BTreeSet::new(),
            closed: BTreeMap::new(),
        }
    }

    pub fn draw(&mut self, bound: u64) -> u64 {
        self.draws.below(bound)
    }

    /// Whether the question was theirs.
    pub fn answered(&mut self, token: u64, result: &Result<WriteReply, Refusal>) -> Result<bool, String> {
        if token < FIRST_TOKEN {
            return Ok(false);
        }
        match self.asked.remove(&token) {
            true => Ok(true),
            false => Err(format!("the operators' question {token} was answered twice: {result:?}")),
        }
    }

    /// The scheduler was told to work so, as the entry `index`.
    pub fn note_configured(&mut self, index: u64, settings: SchedulerSettings) {
        self.configured.insert(index, settings);
    }

    /// A server whose state is at `index` shows that configuration.
    pub fn check_settings(&self, index: u64, shown: &SchedulerConfig) -> Result<(), String> {
        let SchedulerConfig { settings, modify_index, .. } = shown;
        if let Some((lost, asked)) = self.configured.range(modify_index + 1..).find(|(at, _)| **at <= index) {
            return Err(format!(
                "at {index} the scheduler is as of {modify_index}, after {asked:?} at {lost}"
            ));
        }
        match self.configured.get(modify_index).filter(|asked| *asked != settings) {
            Some(asked) => {
                Err(format!("the scheduler was told {asked:?} at {modify_index}, and shows {settings:?}"))
            }
            None => Ok(()),
        }
    }

    fn request(&mut self) -> (Kind, NodeUpdateRequest) {
        let meta = BTreeMap::new();
        let drain =
            |deadline| NodeUpdateRequest::Drain { deadline, ignore_system: false, meta: BTreeMap::new() };
        match self.draws.below(9) {
            0 | 1 => (Kind::DrainWithADeadline, drain(Span::seconds(20 + self.draws.below(200) as i64))),
            2 => (Kind::DrainWithoutADeadline, drain(Span::ZERO)),
            3 => (Kind::DrainByForce, drain(Span::seconds(-1))),
            4 | 5 => (Kind::DrainEnded, NodeUpdateRequest::EndDrain { mark_eligible: true, meta }),
            6 => (Kind::NodeMadeIneligible, NodeUpdateRequest::Eligible(false)),
            _ => (Kind::NodeMadeEligible, NodeUpdateRequest::Eligible(true)),
        }
    }
}

impl World {
    /// One operator's step; then, after a while, the next.
    pub fn operate(&mut self) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        if self.operators.draws.below(3) == 0 {
            self.configure_scheduler()?;
        } else {
            self.want_of_a_node();
        }
        let wait = Span::seconds(10) + Span(self.operators.draws.below(60_000_000_000) as i64);
        self.after(wait, Event::Operate);
        Ok(())
    }

    fn want_of_a_node(&mut self) {
        let nodes = self.regions.nodes_of(HOME_REGION);
        let n = nodes[self.operators.draws.below(nodes.len() as u64) as usize];
        let down = nodes.into_iter().find(|n| self.is_down(*n));
        let (n, kind, request) = match down.filter(|_| self.operators.draws.below(2) == 0) {
            Some(n) => (n, Kind::LostNodePurged, NodeUpdateRequest::Purge),
            None => {
                let (kind, request) = self.operators.request();
                (n, kind, request)
            }
        };
        self.ask_for_node_as(Some(kind), n, request);
    }

    fn is_down(&mut self, n: NodeAt) -> bool {
        let id = self.regions[n].id();
        let node = self.read(User::Operator, |view| view.node(id)).flatten();
        node.is_some_and(|n| n.status == NodeStatus::Down)
    }

    pub fn ask_for_node(&mut self, n: NodeAt, request: NodeUpdateRequest) {
        self.ask_for_node_as(None, n, request);
    }

    fn ask_for_node_as(&mut self, kind: Option<Kind>, n: NodeAt, request: NodeUpdateRequest) {
        let node = self.regions[n].id();
        self.operator_asks(kind, WriteRequest::UpdateNode { node, request });
    }

    /// `kind`: as what it counts once it is done.
    pub fn operator_asks(&mut self, kind: Option<Kind>, action: WriteRequest) {
        let Some(at) = self.server_of(User::Operator) else { return };
        self.operators.next_token += 1;
        let token = self.operators.next_token;
        self.note(|_| format!("operator {token} {action:?}"));
        if let Some(kind) = kind {
            self.ledger.counts_when_done(token, kind);
        }
        self.operators.asked.insert(token);
        self.ask(User::Operator, at, token, action);
    }

    /// When all is well again: the drains have had their time, and what was drained is empty. Then all nodes are opened.
    pub fn check_drained(&mut self) -> Result<(), String> {
        is_drained(&self.newest_view()?)?;
        for n in self.regions.nodes_of(HOME_REGION) {
            self.ask_for_node(n, NodeUpdateRequest::EndDrain { mark_eligible: true, meta: BTreeMap::new() });
        }
        Ok(())
    }

    /// The leader drains the nodes that the state says.
    pub fn check_led_drains(&self, at: ServerAt) -> Result<(), String> {
        let led = self.regions[at].brain.as_ref().and_then(|s| s.draining());
        let nodes = &self.regions[at.region].tracked.nodes;
        let draining: BTreeSet<NodeId> =
            nodes.iter().filter(|(_, n)| n.drain.is_some()).map(|(id, _)| *id).collect();
        if let Some(led) = led.filter(|led| *led != draining) {
            return Err(format!("the leader drains {led:?}, the state says {draining:?}"));
        }
        Ok(())
    }

    /// Whenever the state has moved.
    pub fn check_drains(&mut self, region: usize, view: &View) -> Result<(), String> {
        if region != HOME_REGION {
            return Ok(());
        }
        let operators = &mut self.operators;
        let tracked = &self.regions[region].tracked;
        let is_closed = |id: &NodeId| tracked.nodes.get(id).is_some_and(|n| !n.eligible);
        operators.closed.retain(|id, _| is_closed(id));
        for (id, _) in tracked.nodes.iter().filter(|(_, n)| !n.eligible) {
            operators.closed.entry(*id).or_insert(view.index());
        }
        let all = &tracked.allocs;
        for alloc in all.values() {
            if operators.closed.get(&alloc.node_id).is_some_and(|at| alloc.create_index > *at) {
                return Err(format!("{} was placed on a node that is closed", alloc.id));
            }
        }
        let newly: BTreeSet<AllocId> = all
            .values()
            .filter(|a| a.transition.migrate == Some(Leave::WhenPlaced) && !a.terminal())
            .map(|a| a.id)
            .collect();
        let mut asked = newly.iter().filter(|id| !operators.leaving.contains(*id));
        asked.try_for_each(|id| all.get(id).map_or(Ok(()), |a| no_more_than_may(view, a, tracked)))?;
        operators.leaving = newly;
        Ok(())
    }
}

/// Every drain with a deadline has ended, and left nothing.
fn is_drained(view: &View) -> Result<(), String> {
    for node in view.nodes().map_err(|e| e.to_string())? {
        let here = view.allocs_of_node(node.info.id).map_err(|e| e.to_string())?;
        let left: Vec<_> = here.iter().filter(|a| !a.client_terminal()).collect();
        let name = &node.info.name;
        let timed = node.drain.as_ref().is_some_and(|d| d.deadline != Span::ZERO);
        if timed {
            return Err(format!("the drain of {name} does not end: {left:#?}"));
        }
        // since then it was not opened
        let of_operators = |m: &str| m.starts_with("Node drain") || m.starts_with("Node marked");
        let newest = node.events.iter().rev().find(|e| of_operators(&e.message));
        let drained = newest.is_some_and(|e| e.message == "Node drain complete");
        if drained && !left.is_empty() {
            return Err(format!("{name} was drained, and is not empty: {left:#?}"));
        }
    }
    Ok(())
}

/// A drain lets at most `max_parallel` allocations of the group leave at a time. `alloc` was just asked to.
fn no_more_than_may(view: &View, alloc: &Allocation, tracked: &TrackedState) -> Result<(), String> {
    let Some(job) = view.job(&alloc.job).map_err(|e| e.to_string())? else { return Ok(()) };
    let Some(policy) = policy(&job, alloc) else { return Ok(()) };
    let leaves = |a: &&Arc<Allocation>| {
        let waits = a.transition.migrate == Some(Leave::WhenPlaced) && !a.terminal();
        a.job == alloc.job && a.group == alloc.group && waits
    };
    let leaving = tracked.allocs.values().filter(leaves).count() as i64;
    // what is beyond the count may go as well
    let same = |a: &&Arc<Allocation>| a.job == alloc.job && a.group == alloc.group && !a.terminal();
    let wanted = job.spec.group(&alloc.group).map_or(0, |g| g.count);
    let surplus = (tracked.allocs.values().filter(same).count() as i64 - wanted).max(0);
    if leaving > policy + surplus {
        return Err(format!("{leaving} of {} of {} leave at once", alloc.group, alloc.job));
    }
    Ok(())
}

fn policy(job: &Job, alloc: &Allocation) -> Option<i64> {
    job.spec.group(&alloc.group)?.migrate.map(|m| m.max_parallel)
}

#[cfg(test)]
mod tests {
    use super::super::broken::{calm, is_found, run_for};
    use super::*;
    use model::alloc::alloc_name;
    use model::id::NodeId;
    use model::job::{HealthCheck, MigratePolicy};
    use state::samples::{AT, Region as Sample, alloc, eval_id, node_id, place, register, spec};
    use wire::command::{Command, DrainProgress};

    /// A node with two allocations of a job of which one may leave at a time.
    fn region() -> Sample {
        let mut region = Sample::default();
        region.ready_node(1);
        let mut web = spec("web", 2);
        let migrate = MigratePolicy {
            max_parallel: 1,
            health_check: HealthCheck::TaskStates,
            min_healthy_time: Span::ZERO,
            healthy_deadline: Span::ZERO,
        };
        web.groups.iter_mut().for_each(|group| group.migrate = Some(migrate));
        region.run(&register(web, None));
        let job = region.job("web");
        let named = |n: u128| Allocation {
            name: alloc_name("web", "g", n as u64),
            ..alloc(n, &job, node_id(1), eval_id(1))
        };
        let nodes = place(vec![named(1), named(2)]);
        let (eval, deployment) = (eval_id(1), None);
        region.run(&Command::ApplyPlan { eval, nodes, deployment, updates: vec![], evals: vec![], at: AT });
        region
    }

    fn ask(region: &mut Sample, node: NodeId, request: NodeUpdateRequest) {
        region.run(&Command::UpdateNode { node, request, evals: vec![], at: AT });
    }

    /// A world that has seen the state.
    fn world_at(region: &Sample) -> World {
        let mut world = World::new(1, 1, 1, false);
        world.regions[HOME_REGION].tracked = TrackedState::read(&region.view()).expect("reads");
        world
    }

    #[test]
    fn work_for_a_node_that_is_closed_is_found() {
        let mut region = region();
        let mut world = world_at(&region);
        assert_eq!(world.check_drains(HOME_REGION, &region.view()), Ok(()));
        ask(&mut region, node_id(1), NodeUpdateRequest::Eligible(false));
        let view = region.view();
        world.regions[HOME_REGION].tracked = TrackedState::read(&view).expect("reads");
        assert_eq!(world.check_drains(HOME_REGION, &view), Ok(()), "what was there stays");
        let allocs = &mut world.regions[HOME_REGION].tracked.allocs;
        allocs.values_mut().for_each(|a| Arc::make_mut(a).create_index = view.index() + 1);
        is_found(world.check_drains(HOME_REGION, &view), "was placed on a node that is closed");
        ask(&mut region, node_id(1), NodeUpdateRequest::Eligible(true));
        world.regions[HOME_REGION].tracked.nodes = TrackedState::read(&region.view()).expect("reads").nodes;
        assert_eq!(world.check_drains(HOME_REGION, &region.view()), Ok(()), "it is open again");
    }

    #[test]
    fn a_drain_that_takes_too_many_at_once_is_found() {
        let region = region();
        let mut world = world_at(&region);
        let view = region.view();
        let leave = |world: &mut World, n: usize| {
            let allocs = world.regions[HOME_REGION].tracked.allocs.values_mut().take(n);
            allocs.for_each(|a| Arc::make_mut(a).transition.migrate = Some(Leave::WhenPlaced));
            world.check_drains(HOME_REGION, &view)
        };
        assert_eq!(leave(&mut world, 1), Ok(()));
        is_found(leave(&mut world, 2), "2 of g of default/web leave at once");
    }

    #[test]
    fn a_drain_that_does_not_end_or_leaves_something_is_found() {
        let mut region = region();
        assert_eq!(is_drained(&region.view()), Ok(()));
        let (deadline, meta) = (Span::hours(1), BTreeMap::new());
        ask(&mut region, node_id(1), NodeUpdateRequest::Drain { deadline, ignore_system: false, meta });
        is_found(is_drained(&region.view()), "the drain of node-1 does not end");
        let drain = region.view().node(node_id(1)).expect("reads").expect("is there").drain.clone();
        let drain = drain.expect("was begun");
        let step = DrainProgress { node: node_id(1), drain, leaving: vec![], at_once: false, complete: true };
        region.run(&Command::AdvanceDrains { steps: vec![step], evals: vec![], at: AT });
        is_found(is_drained(&region.view()), "node-1 was drained, and is not empty");
    }

    #[test]
    fn a_configuration_that_is_lost_or_anothers_is_found() {
        let mut world = calm(1);
        let shown = |world: &World| {
            let view = world.newest_view().expect("a server is up");
            (view.index(), view.scheduler_config().expect("reads"))
        };
        let (_, first) = shown(&world);
        assert_eq!(world.operators.check_settings(u64::MAX, &first), Ok(()), "nobody has said anything");
        let settings = SchedulerSettings { memory_oversubscription: true, ..first.settings };
        let asked = WriteRequest::ConfigureScheduler { settings, cas: None };
        world.operator_asks(Some(Kind::AlgorithmChanged), asked);
        assert_eq!(world.faults.counts().get(&Kind::AlgorithmChanged), None, "it is not done yet");
        run_for(&mut world, Span::seconds(1));
        assert_eq!(world.faults.counts().get(&Kind::AlgorithmChanged), Some(&1));
        let (index, now) = shown(&world);
        let told = now.modify_index;
        assert_eq!(world.operators.configured.get(&told), Some(&settings));
        assert_eq!(world.operators.check_settings(index, &now), Ok(()));
        assert_eq!(world.operators.check_settings(told - 1, &first), Ok(()), "a server that is behind");
        is_found(world.operators.check_settings(told, &first), "the scheduler is as of 1, after");
        let other = SchedulerConfig { settings: first.settings, ..now };
        is_found(world.operators.check_settings(index, &other), "and shows");
        let newer = SchedulerConfig { modify_index: told + 1, ..other };
        assert_eq!(world.operators.check_settings(index, &newer), Ok(()), "nobody knows who said that");
        assert_eq!(world.end_pause(), Ok(()));
        world.operators.configured.insert(told, first.settings);
        is_found(world.end_pause(), "and shows");
        let refused = Err(Refusal::new(wire::request::RefusalKind::Unavailable, "No cluster leader"));
        is_found(world.operators.answered(FIRST_TOKEN + 1, &refused), "was answered twice");
    }

    #[test]
    fn a_world_in_which_a_drain_goes_on_is_found() {
        let mut world = calm(1);
        world.register_quietly("quiet-1", 1);
        run_for(&mut world, Span::seconds(20));
        assert_eq!(world.check_drained(), Ok(()));
        let (deadline, meta) = (Span::hours(1), BTreeMap::new());
        let drain = NodeUpdateRequest::Drain { deadline, ignore_system: false, meta };
        world.ask_for_node(NodeAt { region: HOME_REGION, node: 0 }, drain);
        run_for(&mut world, Span::seconds(5));
        is_found(world.check_drained(), "the drain of node-0 does not end");
    }
}
