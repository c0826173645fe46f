//! What may start on a node, and what may be killed there, judged by the processes that live and have lived: each task in its turn within
//! its group, no more than there is room for, and what only one may hold in the hands of one.
//!
//! Refuses to know what client and keeper think of it.

use super::faults::Kind;
use super::node_host::{End, NodeHost};
use super::place::NodeAt;
use super::processes::Process;
use super::task_places::TaskPlace;
use super::world::World;
use model::alloc::ClientStatus;
use model::claims::Claim;
use model::id::{AllocId, RunId};
use model::resources::{Amount, Hook};
use model::task::ExitStatus;
use model::time::{Mono, Span};
use std::collections::BTreeSet;
use wire::command::AllocUpdate;

/// At rest, so long after a leader or the last main task others may live.
const LIVES_ON: Span = Span::minutes(2);

/// The tasks of one allocation on a node: those that live, and how others have ended.
struct AllocTasks<'a> {
    host: &'a NodeHost,
    alloc: String,
    ends: Vec<(&'a RunId, &'a End)>,
}

impl<'a> AllocTasks<'a> {
    fn new(host: &'a NodeHost, alloc: AllocId) -> Self {
        let alloc = alloc.to_string();
        let of_it =
            |label: &str| label.strip_prefix(alloc.as_str()).is_some_and(|task| task.starts_with('.'));
        let ends = host.ends.iter().filter(|(_, end)| of_it(&end.label)).collect();
        AllocTasks { host, alloc, ends }
    }

    fn label(&self, task: &str) -> String {
        format!("{}.{task}", self.alloc)
    }

    fn lives(&self, task: &str) -> bool {
        let label = self.label(task);
        self.host.processes.values().any(|p| p.running && p.label == label)
    }

    fn ends_of(&self, task: &str) -> impl Iterator<Item = (&'a RunId, &'a End)> {
        let label = self.label(task);
        self.ends.iter().copied().filter(move |(_, end)| end.label == label)
    }

    fn has_run(&self, task: &str) -> bool {
        self.lives(task) || self.ends_of(task).next().is_some()
    }

    /// Whether the task's newest process has succeeded, before its keeper's eyes.
    fn has_succeeded(&self, task: &str) -> bool {
        let newest = self.ends_of(task).max_by_key(|(_, end)| end.at);
        newest.is_some_and(|(_, end)| end.seen && end.exit.successful())
    }

    /// Whether the task has succeeded so long ago, and its agent was told so in this boot, by a journal that had not rotted.
    fn is_known_to_have_succeeded(&self, task: &str, before: Mono) -> bool {
        let told = Some(ExitStatus::Code(0));
        self.ends_of(task).any(|(run, end)| {
            let known = end.told == told && end.boot == self.host.boot && !self.host.doubtful.contains(run);
            known && end.at <= before
        })
    }
}

impl World {
    pub fn check_start(&mut self, n: NodeAt, run: RunId) -> Result<(), String> {
        let Some(process) = self.regions[n].processes.values().find(|p| p.run == run) else { return Ok(()) };
        let Some(alloc) = process.alloc() else { return Ok(()) };
        if self.regions[n].reported_ended.contains(&alloc) {
            return Err(format!("{} starts on {n} after its end was reported", process.label));
        }
        self.starts_in_its_turn(n, alloc, process)?;
        self.check_room(n, alloc)?;
        let kinds = self.check_holders(n, alloc)?.into_iter().chain(self.kind_of_start(n, process));
        for kind in kinds.collect::<Vec<_>>() {
            self.faults.fired(kind);
        }
        Ok(())
    }

    /// Prestart tasks, then main ones, then poststart, and poststop when all others have ended. What has ended well is done.
    fn starts_in_its_turn(&self, n: NodeAt, alloc: AllocId, process: &Process) -> Result<(), String> {
        let places = self.regions[n].places.get(&alloc).map_or(&[][..], Vec::as_slice);
        let Some(own) = places.iter().find(|place| process.is_of(&place.task)) else { return Ok(()) };
        let tasks = AllocTasks::new(&self.regions[n], alloc);
        let wrong = |why: &str, other: &TaskPlace| {
            Err(format!("{} starts on {n} {why} {}", process.label, other.task))
        };
        for other in places.iter().filter(|other| *other != own) {
            let (task, prestart) = (other.task.as_str(), own.hook == Some(Hook::Prestart));
            match (own.is_poststop(), other.is_poststop()) {
                (true, true) => {}
                (true, false) if tasks.lives(task) => return wrong("beside", other),
                (true, false) => {}
                (false, true) if tasks.has_run(task) => return wrong("after", other),
                (false, true) => {}
                (false, false) if prestart => {}
                _ if other.is_prestart() && (tasks.lives(task) || !tasks.has_succeeded(task)) => {
                    return wrong("before the end of", other);
                }
                _ if other.is_prestart_sidecar() && !tasks.has_run(task) => return wrong("before", other),
                _ if own.is_poststart() && other.is_main() && !tasks.has_run(task) => {
                    return wrong("before", other);
                }
                _ => {}
            }
        }
        let restarted = self.regions[n.region].restarted.contains(&alloc);
        if own.once && !restarted && tasks.is_known_to_have_succeeded(&own.task, self.now) {
            return Err(format!("{} starts on {n} again, after it has ended well", process.label));
        }
        Ok(())
    }

    fn kind_of_start(&self, n: NodeAt, process: &Process) -> Option<Kind> {
        let places = self.regions[n].places.get(&process.alloc()?)?;
        let own = places.iter().find(|place| process.is_of(&place.task))?;
        match own.hook? {
            _ if own.sidecar => Some(Kind::SidecarStarted),
            Hook::Prestart => Some(Kind::PrestartTaskStarted),
            Hook::Poststart => Some(Kind::PoststartTaskStarted),
            Hook::Poststop => Some(Kind::PoststopTaskStarted),
        }
    }

    /// The allocations of which something lives there.
    fn living(&self, n: NodeAt) -> BTreeSet<AllocId> {
        self.regions[n].processes.values().filter(|p| p.running).filter_map(Process::alloc).collect()
    }

    /// What lives on a node fits into it, but for what servers have stopped: that is on its way out. `alloc` is about to start.
    fn check_room(&self, n: NodeAt, alloc: AllocId) -> Result<(), String> {
        let region = &self.regions[n.region];
        let mut here = self.living(n);
        here.insert(alloc);
        let mut sum = Amount::default();
        for id in here.iter().filter(|id| !region.stopped.contains_key(*id)) {
            let Some(known) = region.tracked.allocs.get(id) else { continue };
            sum = sum.plus(known.resources.total());
        }
        let room = Amount { allocs: i64::MAX, ..self.regions[n].traits.capacity };
        match room.lacks(sum) {
            None => Ok(()),
            Some(dimension) => Err(format!("{n} runs {here:?}, too much in {dimension}: {sum:?}")),
        }
    }

    /// Ports, cores and devices have one living holder, also where another one is on its way out. `alloc` is about to start.
    fn check_holders(&self, n: NodeAt, alloc: AllocId) -> Result<Vec<Kind>, String> {
        let claims = &self.regions[n.region].claims;
        let Some(own) = claims.get(&alloc) else { return Ok(vec![]) };
        for other in self.living(n).into_iter().filter(|other| *other != alloc) {
            let theirs = claims.get(&other).map_or(&[][..], Vec::as_slice);
            if let Some(claim) = theirs.iter().find(|claim| own.contains(claim)) {
                return Err(format!("{alloc} starts on {n} while {other} lives, and both hold {claim:?}"));
            }
        }
        let kind = |claim: &Claim| match claim {
            Claim::Port(..) => Kind::PortHeld,
            Claim::Core(_) => Kind::CoreHeld,
            Claim::Device(_) => Kind::DeviceHeld,
        };
        Ok(own.iter().map(kind).collect())
    }

    /// A task dies only because its servers, its own policy or its own siblings want it to: an agent or keeper that
    /// died is never a reason. What may be killed was stopped or is gone, or its siblings have ended, or a user asked for its
    /// restart.
    pub fn check_kill(&self, n: NodeAt, run: RunId) -> Result<(), String> {
        let Some(process) = self.regions[n].processes.values().find(|p| p.run == run && p.running) else {
            return Ok(());
        };
        let Some(alloc) = process.alloc() else { return Err(format!("{} is no label", process.label)) };
        let region = &self.regions[n.region];
        let wanted = region.stopped.contains_key(&alloc) || region.restarted.contains(&alloc);
        if wanted || self.siblings_have_ended(n, alloc, process) || self.may_give_up(n, alloc) {
            return Ok(());
        }
        let Some(known) = region.newest_server().and_then(|s| s.look(|s| s.reader().view()?.alloc(alloc)))
        else {
            return Err(unwanted(&process.label));
        };
        // a store that has failed and does not know it yet tells nothing
        let Ok(known) = known else { return Ok(()) };
        match known {
            None => Ok(()),
            Some(a) if a.server_terminal() => Ok(()),
            Some(_) => Err(unwanted(&process.label)),
        }
    }

    /// Whether the leader has ended, or a task that was to go on or has not ended well; or a sidecar has nothing left that lives beside it.
    fn siblings_have_ended(&self, n: NodeAt, alloc: AllocId, process: &Process) -> bool {
        let places = self.regions[n].places.get(&alloc).map_or(&[][..], Vec::as_slice);
        let tasks = AllocTasks::new(&self.regions[n], alloc);
        let others = || places.iter().filter(|place| !process.is_of(&place.task) && !place.is_poststop());
        let done = |place: &TaskPlace| !place.leader && place.once && tasks.has_succeeded(&place.task);
        if others().any(|place| !tasks.lives(&place.task) && !done(place)) {
            return true;
        }
        let sidecar = places.iter().any(|place| process.is_of(&place.task) && place.sidecar);
        sidecar && others().all(|place| place.sidecar || !tasks.lives(&place.task))
    }

    /// What ended is told to have ended once its poststop tasks have run, if anything of it has.
    pub(super) fn poststop_has_run(&self, n: NodeAt, update: &AllocUpdate) -> Result<(), String> {
        let Some(places) = self.regions[n].places.get(&update.id) else { return Ok(()) };
        let tasks = AllocTasks::new(&self.regions[n], update.id);
        if !places.iter().any(|place| !place.is_poststop() && tasks.has_run(&place.task)) {
            return Ok(());
        }
        for place in places.iter().filter(|place| place.is_poststop() && !tasks.has_run(&place.task)) {
            let failed = update.task_states.get(&place.task).is_some_and(|state| state.failed);
            if !failed {
                let status = ClientStatus::as_str(update.client);
                return Err(format!("{} is told to be {status}, and {} never ran", update.id, place.task));
            }
        }
        Ok(())
    }

    /// At rest: nothing lives on whose leader has ended long since, or all that it was beside.
    pub fn check_left_alone(&self) -> Result<(), String> {
        for host in self.regions.node_hosts() {
            for process in host.processes.values().filter(|p| p.running) {
                let Some(alloc) = process.alloc() else { continue };
                let places = host.places.get(&alloc).map_or(&[][..], Vec::as_slice);
                let Some(own) = places.iter().find(|place| process.is_of(&place.task)) else { continue };
                let tasks = AllocTasks::new(host, alloc);
                let before = Mono(self.now.0.saturating_sub(LIVES_ON.0 as u64));
                let over = |place: &&TaskPlace| {
                    let known = tasks.is_known_to_have_succeeded(&place.task, before);
                    place.once && known && !tasks.lives(&place.task)
                };
                let mut others = places.iter().filter(|place| *place != own && !place.is_poststop());
                let beside = places.iter().filter(|place| !place.sidecar && !place.is_poststop());
                let alone = own.sidecar && beside.into_iter().all(|place| over(&place));
                if !own.is_poststop() && (alone || others.any(|place| place.leader && over(&place))) {
                    return Err(format!("{} lives on alone on {}", process.label, host.at));
                }
            }
        }
        Ok(())
    }
}

fn unwanted(label: &str) -> String {
    format!("{label} was killed though it was to run")
}

#[cfg(test)]
mod tests {
    use super::super::broken::run_spec;
    use super::*;
    use crate::processes::ProcessEnd;
    use model::claims::Claim;
    use model::task::TaskState;
    use std::collections::BTreeMap;

    const N: NodeAt = NodeAt { region: 0, node: 0 };
    const PLACES: &str = concat!(
        "places=main:leader:once,side:once,init:prestart:once,",
        "proxy:prestart:sidecar,warm:poststart:once,clean:poststop:once"
    );

    struct Stage {
        world: World,
        runs: u128,
    }

    impl Stage {
        fn new() -> Stage {
            let mut world = World::new(1, 1, 1, false);
            world.faults.heal();
            Stage { world, runs: 0 }
        }

        fn alloc(n: u8) -> AllocId {
            AllocId::from_random(n.into())
        }

        /// Its process waits to be let go.
        fn spawn(&mut self, alloc: u8, task: &str) -> RunId {
            self.runs += 1;
            let run = RunId::from_random(self.runs);
            let label = format!("{}.{task}", Self::alloc(alloc));
            self.world.spawn(N, run, run_spec(label, &["run", "0", "0", PLACES]));
            run
        }

        fn start(&mut self, task: &str) -> Result<RunId, String> {
            let run = self.spawn(1, task);
            let started = self.world.release(N, run).map(|()| run);
            if started.is_err() {
                self.world.regions[N].processes.retain(|_, process| process.run != run);
            }
            started
        }

        /// And its agent is told so.
        fn end(&mut self, run: RunId, end: ProcessEnd) {
            self.world.now = self.world.now.after(Span::seconds(1));
            self.world.process_ends(N, run, end);
            if let Some(ended) = self.world.regions[N].ends.get_mut(&run) {
                (ended.seen, ended.told) = (true, Some(ended.exit.status));
            }
        }

        fn succeed(&mut self, task: &str) {
            let run = self.start(task).expect("it is its turn");
            self.end(run, ProcessEnd::Exit(0));
        }

        fn fails_to_start(&mut self, task: &str, why: &str) {
            let found = self.start(task).expect_err("it is not its turn");
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn a_task_that_starts_out_of_its_turn_is_found() {
        let mut stage = Stage::new();
        stage.fails_to_start("main", "before the end of init");
        let init = stage.start("init").expect("it is first");
        stage.fails_to_start("main", "before the end of init");
        stage.end(init, ProcessEnd::Exit(1));
        stage.fails_to_start("main", "before the end of init");
        stage.succeed("init");
        stage.fails_to_start("main", "before proxy");
        let proxy = stage.start("proxy").expect("it begins beside init");
        stage.fails_to_start("init", "again, after it has ended well");
        stage.fails_to_start("warm", "before main");
        let main = stage.start("main").expect("its turn has come");
        stage.succeed("side");
        stage.succeed("warm");
        stage.fails_to_start("clean", "beside main");
        stage.end(main, ProcessEnd::Exit(0));
        stage.fails_to_start("clean", "beside proxy");
        stage.end(proxy, ProcessEnd::Signal(15));
        stage.succeed("clean");
        stage.fails_to_start("proxy", "after clean");
        stage.fails_to_start("main", "after clean");
    }

    #[test]
    fn a_user_who_restarts_lets_tasks_begin_anew() {
        let mut stage = Stage::new();
        stage.succeed("init");
        stage.fails_to_start("init", "again, after it has ended well");
        stage.world.regions[0].restarted.insert(Stage::alloc(1));
        stage.succeed("init");
    }

    #[test]
    fn a_kill_without_an_end_that_asks_for_it_is_found() {
        let mut stage = Stage::new();
        let kill = |stage: &Stage, run| stage.world.check_kill(N, run).is_ok();
        stage.succeed("init");
        let proxy = stage.start("proxy").expect("its turn");
        let main = stage.start("main").expect("its turn");
        let side = stage.start("side").expect("its turn");
        let warm = stage.start("warm").expect("its turn");
        assert!(!kill(&stage, proxy) && !kill(&stage, main) && !kill(&stage, side));
        stage.end(warm, ProcessEnd::Exit(0));
        assert!(!kill(&stage, proxy) && !kill(&stage, main), "what ends well is no reason");
        stage.end(side, ProcessEnd::Exit(0));
        assert!(!kill(&stage, proxy) && !kill(&stage, main), "main lives");
        let side = stage.spawn(1, "side");
        stage.end(side, ProcessEnd::Exit(1));
        assert!(kill(&stage, proxy) && kill(&stage, main), "a sibling has failed");
        stage.world.regions[N].ends.remove(&side);
        stage.end(main, ProcessEnd::Exit(0));
        assert!(kill(&stage, proxy), "its leader has ended");
    }

    #[test]
    fn what_lives_on_alone_is_found() {
        let mut stage = Stage::new();
        stage.succeed("init");
        stage.start("proxy").expect("its turn");
        stage.succeed("main");
        assert_eq!(stage.world.check_left_alone(), Ok(()), "it has just ended");
        stage.world.now = stage.world.now.after(LIVES_ON);
        assert!(stage.world.check_left_alone().is_err_and(|e| e.contains("proxy lives on alone")));
    }

    #[test]
    fn an_end_without_poststop_tasks_is_found() {
        let mut stage = Stage::new();
        let mut update = AllocUpdate {
            id: Stage::alloc(1),
            client: ClientStatus::Complete,
            client_description: String::new(),
            task_states: BTreeMap::new(),
        };
        assert_eq!(stage.world.poststop_has_run(N, &update), Ok(()), "nothing has run");
        stage.succeed("init");
        assert!(stage.world.poststop_has_run(N, &update).is_err_and(|e| e.contains("clean never ran")));
        let failed = TaskState { failed: true, ..TaskState::default() };
        update.task_states.insert("clean".into(), failed);
        assert_eq!(stage.world.poststop_has_run(N, &update), Ok(()), "it could not start");
        update.task_states.clear();
        stage.succeed("clean");
        assert_eq!(stage.world.poststop_has_run(N, &update), Ok(()));
    }

    #[test]
    fn a_second_living_holder_is_found() {
        for claim in [Claim::Core(1), Claim::Device("a/b/c/d".into())] {
            let mut stage = Stage::new();
            let claims = &mut stage.world.regions[0].claims;
            claims.insert(Stage::alloc(1), vec![claim.clone()]);
            claims.insert(Stage::alloc(2), vec![Claim::Core(7), claim]);
            let init = stage.start("init").expect("nobody else holds it");
            let other = stage.spawn(2, "init");
            let found = stage.world.check_start(N, other);
            assert!(found.is_err_and(|e| e.contains("both hold")));
            let held = stage.world.check_holders(N, Stage::alloc(2));
            assert!(held.is_err_and(|e| e.contains("both hold")));
            stage.end(init, ProcessEnd::Exit(0));
            assert_eq!(stage.world.check_start(N, other), Ok(()));
        }
    }

    #[test]
    fn what_a_node_has_no_room_for_is_found() {
        use state::samples::{Region, alloc, eval_id, node_id, register, spec};
        let mut stage = Stage::new();
        let mut region = Region::default();
        region.run(&register(spec("web", 1), None));
        let mut known = alloc(1, &region.job("web"), node_id(1), eval_id(1));
        known.id = Stage::alloc(1);
        let room = stage.world.regions[N].traits.capacity;
        known.resources.tasks.values_mut().for_each(|task| task.cpu_mhz = room.cpu_mhz);
        stage.world.regions[0].tracked.allocs.insert(known.id, known.clone().into());
        assert_eq!(stage.world.check_room(N, known.id), Ok(()));
        stage.world.regions[N].traits.capacity.cpu_mhz -= 1;
        assert!(stage.world.check_room(N, known.id).is_err_and(|e| e.contains("too much in cpu")));
        stage.world.regions[0].stopped.insert(known.id, Mono(1));
        assert_eq!(stage.world.check_room(N, known.id), Ok(()), "it is on its way out");
    }
}
