//! Exits as agents are told them: each as it was, or as one that nobody saw where that is so. And when a node may end by itself what it
//! runs.
//!
//! Refuses to know what an agent makes of it.

use super::node_host::{End, NodeHost};
use super::place::NodeAt;
use super::world::World;
use model::id::{AllocId, RunId};
use model::job::JobSpec;
use model::task::ExitStatus;
use server::Server;
use wire::keeper::{Event, RunState};

/// The ends that an event tells of.
fn told(event: &Event) -> Vec<(RunId, ExitStatus)> {
    match event {
        Event::Exited { run, exit, .. } => vec![(*run, exit.status)],
        Event::Welcome { runs, .. } => {
            let ended = |state: &RunState| match state {
                RunState::Exited { exit, .. } => Some(exit.status),
                _ => None,
            };
            runs.iter().filter_map(|r| Some((r.run, ended(&r.state)?))).collect()
        }
        _ => vec![],
    }
}

impl World {
    /// A node that no server answers ends what its group's policy does not want to run alone for so long.
    pub(super) fn may_give_up(&self, n: NodeAt, alloc: AllocId) -> bool {
        let tracked = &self.regions[n.region].tracked;
        let Some(alloc) = tracked.allocs.get(&alloc) else { return false };
        let Some(job) = tracked.jobs.get(&alloc.job) else { return false };
        let alone = self.regions[n].contact.silence(self.now);
        let gives_up = |spec: &JobSpec| {
            let policy = spec.group(&alloc.group).and_then(|g| g.disconnect);
            policy.and_then(|d| d.stop_on_client_after).is_some_and(|after| alone >= after)
        };
        if job.version == alloc.job_version && job.create_index == alloc.job_create_index {
            return gives_up(&job.spec);
        }
        // what its node knows is of its own version
        let (key, create_index, version) = (&alloc.job, alloc.job_create_index, alloc.job_version);
        let of_its_version = |s: &Server| s.reader().view()?.job_spec(key, create_index, version);
        match self.regions[n.region].newest_server().and_then(|server| server.look(of_its_version)) {
            Some(Ok(Some(spec))) => gives_up(&spec),
            _ => true,
        }
    }

    /// A code is the process's own. That nobody saw it is told where its keeper was not there, died before it had told
    /// it, or wrote it into a journal that rotted.
    pub fn check_exits(&self, n: NodeAt, event: &Event) -> Result<(), String> {
        let host = &self.regions[n];
        told(event).into_iter().try_for_each(|(run, status)| {
            let Some(end) = host.ends.get(&run) else {
                return Err(format!("run {run:?} is told to have ended, but it runs or never was"));
            };
            if is_true(host, run, end, status) {
                return Ok(());
            }
            Err(format!("{} ended {:?}, seen {}, and is told as {status:?}", end.label, end.exit, end.seen))
        })
    }

    /// What was told outlives the keeper.
    pub fn note_exits(&mut self, n: NodeAt, event: &Event) {
        for (run, status) in told(event) {
            if let Some(end) = self.regions[n].ends.get_mut(&run) {
                end.told = Some(status);
            }
        }
    }
}

fn is_true(host: &NodeHost, run: RunId, end: &End, status: ExitStatus) -> bool {
    if status != ExitStatus::Unknown {
        return end.seen && status == end.exit.status;
    }
    let was_told = end.told.is_some_and(|told| told != ExitStatus::Unknown);
    let died_before_telling = !was_told && host.keeper_deaths > end.keeper_deaths;
    !end.seen || died_before_telling || host.doubtful.contains(&run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::task::Exit;
    use model::time::{Mono, Wall};

    #[test]
    fn an_exit_that_is_made_up_or_hushed_up_is_found() {
        let n = NodeAt { region: 0, node: 0 };
        let mut world = World::new(3, 1, 1, false);
        let run = RunId::from_random(7);
        let event = |status| Event::Exited { run, exit: Exit { status, oom_killed: false }, at: Wall::NEVER };
        let code = event(ExitStatus::Code(3));
        let unknown = event(ExitStatus::Unknown);
        assert!(world.check_exits(n, &code).is_err(), "nobody's exit");
        let exit = Exit { status: ExitStatus::Code(3), oom_killed: false };
        let label = "a.t".into();
        let end = End { label, exit, seen: true, keeper_deaths: 0, told: None, at: Mono(1), boot: 1 };
        world.regions[n].ends.insert(run, end);
        assert_eq!(world.check_exits(n, &code), Ok(()));
        assert!(world.check_exits(n, &event(ExitStatus::Code(4))).is_err(), "another code");
        assert!(world.check_exits(n, &unknown).is_err(), "its keeper has seen it, and lives");
        world.regions[n].keeper_deaths = 1;
        assert_eq!(world.check_exits(n, &unknown), Ok(()), "its keeper has died with it");
        world.note_exits(n, &code);
        assert!(world.check_exits(n, &unknown).is_err(), "it was told, and so it was in the journal");
        world.regions[n].doubtful.insert(run);
        assert_eq!(world.check_exits(n, &unknown), Ok(()), "the journal has rotted");
    }
}
