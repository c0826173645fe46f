//! What must always be so, and what must be so once the world is left alone. Each check says in a sentence what it found.

use super::faults::Faults;
use super::kept::Kept;
use super::ledger::Left;
use super::node_host::End;
use super::rollouts::{all_have_ended, given_up};
use super::world::{EPOCH, World};
use model::alloc::{Allocation, ClientStatus};
use model::eval::{EvalStatus, Evaluation};
use model::id::{AllocId, EvalId, JobKey, RunId};
use model::job::{Job, JobSpec, JobStatus, JobType};
use model::node::NodeStatus;
use model::resources::Amount;
use model::task::{Exit, ExitStatus};
use model::time::Span;
use state::check;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::change::{AllocChange, Change, NodeChange};
use wire::keeper::{Event as KeeperEvent, RunState};

/// Why an allocation was stopped whose successor is of a newer version.
pub const UPDATED: &str = "alloc is being updated due to job update";
/// At every so many indexes all allocations are looked at.
const LOOK_EVERY: u64 = 3;
/// And at every so many every row is read.
const READ_ALL_EVERY: u64 = 64;
/// How soon the workers come to what is asked for, when everything that waits is looked at again at the same time.
const AT_ONCE: Span = Span::seconds(30);

impl World {
    /// After every turn in which the state moved.
    pub fn check_server(&mut self, changes: &[Change]) -> Result<(), String> {
        self.server.disk.hold_faults(true);
        let found = self.look_at_server(changes).and_then(|()| self.check_drains());
        self.server.disk.hold_faults(false);
        found
    }

    fn look_at_server(&mut self, changes: &[Change]) -> Result<(), String> {
        let Some(server) = &self.server.server else { return Ok(()) };
        let view = server.reader().view().map_err(|e| e.to_string())?;
        let (index, digest) = (view.index(), view.digest());
        if let Some(known) = self.server.digests.insert(index, digest)
            && known != digest
        {
            return Err(format!("index {index} was applied twice, to different states"));
        }
        let before = self.keep_up(&view, changes).map_err(|e| e.to_string())?;
        self.note_changes(&view, changes)?;
        self.check_forgotten(&before)?;
        self.check_dispatches()?;
        if index.is_multiple_of(LOOK_EVERY) {
            no_node_is_over_committed(&view, &self.kept)?;
            nothing_is_held_by_two(&self.kept)?;
            self.check_deployments(&view)?;
        }
        if index.is_multiple_of(READ_ALL_EVERY) {
            check::consistent(&view)?;
            self.kept.is_as(&Kept::read(&view).map_err(|e| e.to_string())?)?;
        }
        self.check_launches(&view)?;
        let Some(server) = &self.server.server else { return Ok(()) };
        self.check_pause()?;
        if let Some(queued) = server.queued_at_rest() {
            queues_are_what_the_state_says(&self.kept, &queued)?;
        }
        Ok(())
    }

    /// Which allocations the servers want stopped, or know no more.
    fn note_changes(&mut self, view: &View, changes: &[Change]) -> Result<(), String> {
        for change in changes {
            if let Change::Alloc(AllocChange { id, .. }) = change {
                let alloc = self.kept.allocs.get(id).cloned();
                if let Some(alloc) = &alloc {
                    note_unknown(&mut self.faults, alloc);
                    self.check_preempted(view, alloc, changes)?;
                }
                if alloc.is_none_or(|a| a.server_terminal()) {
                    self.stopped.insert(*id);
                }
            }
            if let Change::Node(NodeChange { status: NodeStatus::Disconnected, .. }) = change {
                self.faults.fired("node disconnected");
            }
        }
        Ok(())
    }

    /// An end is told as it was, or as one that nobody saw, if that is so: its keeper was not there, or died before it
    /// could write it down. It is never made up.
    pub fn check_exits(&self, n: usize, event: &KeeperEvent) -> Result<(), String> {
        let check = |run: &RunId, exit: &Exit| {
            let Some(end) = self.nodes[n].ends.get(run) else {
                return Err(format!("run {run:?} is told to have ended, but it runs or never was"));
            };
            let told = exit.status;
            if told == ExitStatus::Unknown || (end.seen && told == end.exit.status) {
                return Ok(());
            }
            Err(format!("{} ended {:?}, seen {}, and is told as {told:?}", end.label, end.exit, end.seen))
        };
        match event {
            KeeperEvent::Exited { run, exit, .. } => check(run, exit),
            KeeperEvent::Welcome { runs, .. } => runs.iter().try_for_each(|r| match &r.state {
                RunState::Exited { exit, .. } => check(&r.run, exit),
                _ => Ok(()),
            }),
            _ => Ok(()),
        }
    }

    /// What the servers call complete, and nobody stopped, has ended with success before its keeper's eyes.
    fn success_was_seen(&self, view: &View) -> Result<(), String> {
        let ends = || self.nodes.iter().flat_map(|n| n.ends.values());
        for alloc in allocs(view)? {
            if alloc.client != ClientStatus::Complete || self.stopped.contains(&alloc.id) {
                continue;
            }
            let label = format!("{}.main", alloc.id);
            let good = |e: &End| e.label == label && e.seen && e.exit.successful();
            if !ends().any(good) {
                return Err(format!("complete, but nobody saw it succeed: {alloc:#?}"));
            }
        }
        Ok(())
    }

    /// A task dies only because its servers, its own policy or its own siblings want it to: an agent or keeper that
    /// died is never a reason. Groups here have one task, so what may be killed is what was stopped or is gone, or what a user
    /// asked to be restarted.
    pub fn check_kill(&self, n: usize, run: RunId) -> Result<(), String> {
        let Some(process) = self.nodes[n].processes.values().find(|p| p.run == run && p.running) else {
            return Ok(());
        };
        let alloc = process.label.split('.').next().and_then(|id| id.parse::<AllocId>().ok());
        let Some(alloc) = alloc else { return Err(format!("{} is no label", process.label)) };
        if self.stopped.contains(&alloc) || self.restarted.contains(&alloc) {
            return Ok(());
        }
        let Some(server) = &self.server.server else {
            return if self.may_give_up(alloc) { Ok(()) } else { Err(unwanted(&process.label)) };
        };
        self.server.disk.hold_faults(true);
        let known = server.reader().view().and_then(|v| v.alloc(alloc));
        self.server.disk.hold_faults(false);
        // a store that has failed and does not know it yet tells nothing
        let Ok(known) = known else { return Ok(()) };
        match known {
            None => Ok(()),
            Some(a) if a.server_terminal() => Ok(()),
            Some(_) => Err(unwanted(&process.label)),
        }
    }

    /// Each task has at most one process, and so has each run.
    pub fn check_processes(&self) -> Result<(), String> {
        for node in &self.nodes {
            let (mut labels, mut runs) = (BTreeSet::new(), BTreeSet::new());
            for process in node.processes.values().filter(|p| p.running) {
                if !runs.insert(process.run) {
                    return Err(format!("run {:?} lives twice on node {}", process.run, node.number));
                }
                if !labels.insert(&process.label) {
                    return Err(format!("{} runs twice on node {}", process.label, node.number));
                }
            }
        }
        Ok(())
    }

    /// Without servers a node ends what its group's policy does not want to run alone for long.
    fn may_give_up(&self, alloc: AllocId) -> bool {
        let Some(alloc) = self.kept.allocs.get(&alloc) else { return false };
        let Some(job) = self.kept.jobs.get(&alloc.job) else { return false };
        let policy = job.spec.group(&alloc.group).and_then(|g| g.disconnect);
        job.version != alloc.job_version || policy.is_some_and(|d| d.stop_on_client_after.is_some())
    }

    /// Without faults and without users, after a while: nothing waits that could be done, and what is wanted is so.
    pub fn check_settled(&self) -> Result<(), String> {
        let Some(server) = &self.server.server else { return Err("the server is not up".into()) };
        let view = server.reader().view().map_err(|e| e.to_string())?;
        check::consistent(&view)?;
        for node in view.nodes().map_err(|e| e.to_string())? {
            if node.status != NodeStatus::Ready {
                return Err(format!("node {} is {}", node.info.name, node.status.as_str()));
            }
        }
        let open = view.open_evals().map_err(|e| e.to_string())?;
        // one that is to come is held by the queues, which are compared with the state; what was asked for just now may still be waiting
        let old = |e: &Evaluation| e.create_time + AT_ONCE < EPOCH + Span(self.now.0 as i64);
        let pending = |e: &&Evaluation| e.status == EvalStatus::Pending && e.wait_until.is_none() && old(e);
        if let Some(eval) = open.iter().find(pending) {
            return Err(format!("evaluation {} of {} is still pending", eval.id, eval.job));
        }
        self.acknowledged_is_there(&view)?;
        self.check_collected(&view)?;
        all_have_ended(&view, self.long_since(), self.last_word)?;
        for job in view.jobs(None, "", None, usize::MAX).map_err(|e| e.to_string())? {
            self.job_is_as_wanted(&view, &job)?;
        }
        self.success_was_seen(&view)?;
        if self.ledger.unanswered() > 0 {
            return Err(format!("{} questions were never answered", self.ledger.unanswered()));
        }
        self.nodes_run_what_is_wanted(&view)
    }

    fn acknowledged_is_there(&self, view: &View) -> Result<(), String> {
        for (key, may_be) in self.ledger.jobs() {
            let job = view.job(key).map_err(|e| e.to_string())?;
            let is = |left: &Left| match (left, &job) {
                (Left::Nothing, job) => job.is_none(),
                // stopping what does not exist leaves nothing
                (Left::Stopped, job) => job.as_ref().is_none_or(|j| j.spec.stop),
                (Left::Spec(spec), Some(job)) => {
                    let reverts = spec.groups.iter().any(|g| g.update.is_some_and(|u| u.auto_revert));
                    let rolled_back = reverts && job.stable && self.ledger.was_ever_wanted(key, &job.spec);
                    **spec == job.spec || rolled_back || is_stopped_for_good(spec, job)
                }
                // what was done is forgotten in the end
                (Left::Spec(spec), None) => spec.job_type == JobType::Batch,
            };
            if !may_be.iter().any(is) {
                return Err(format!(
                    "{key} is none of the {} things that users were told it is: {job:#?} {may_be:#?}",
                    may_be.len()
                ));
            }
        }
        Ok(())
    }

    fn job_is_as_wanted(&self, view: &View, job: &Job) -> Result<(), String> {
        let key = job.spec.key();
        let live = live(view, &key)?;
        if job.spec.stop {
            let running = live.iter().filter(|a| !a.terminal()).count();
            return if running == 0 {
                Ok(())
            } else {
                Err(format!("{key} is stopped, {running} allocations are not"))
            };
        }
        if job.spec.periodic.is_some() || job.spec.is_parameterized() {
            let none = view.evals_of_job(&key).map_err(|e| e.to_string())?.is_empty() && live.is_empty();
            return none.then_some(()).ok_or(format!("{key} runs something itself"));
        }
        if job.spec.job_type == JobType::System {
            return is_on_every_node(view, job);
        }
        let open = view.open_evals().map_err(|e| e.to_string())?;
        let waits = open.iter().any(|e| e.job == key && e.status == EvalStatus::Blocked);
        let wanted = job.spec.groups.first().map_or(0, |g| g.count) as usize;
        // work that was done before it was told to stop or to make way is not done again
        let batch = job.spec.job_type == JobType::Batch;
        let done = |a: &Allocation| {
            let own = a.job_version == job.version && a.job_create_index == job.create_index;
            batch && own && a.server_terminal() && a.ran_successfully() && !a.was_cut_short()
        };
        let done = view.allocs_of_job(&key).map_err(|e| e.to_string())?.iter().filter(|a| done(a)).count();
        let mine = |a: &Allocation| {
            let own = a.job_version == job.version && a.job_create_index == job.create_index;
            !a.terminal() || (own && (batch || a.client == ClientStatus::Failed))
        };
        let current = live.iter().filter(|a| mine(a)).count();
        if current > wanted || (current + done < wanted && !waits && !given_up(view, job)?) {
            return Err(format!("{key} wants {wanted}, has {current}, and nothing waits: {live:#?}"));
        }
        Ok(())
    }

    fn nodes_run_what_is_wanted(&self, view: &View) -> Result<(), String> {
        for node in &self.nodes {
            let mut wanted = BTreeSet::new();
            for alloc in view.allocs_of_node(node.id()).map_err(|e| e.to_string())? {
                if !alloc.server_terminal() && alloc.client == ClientStatus::Running {
                    wanted.insert(format!("{}.main", alloc.id));
                }
                if alloc.server_terminal() && !alloc.client_terminal() {
                    return Err(format!("{} was stopped and is still {}", alloc.id, alloc.client.as_str()));
                }
            }
            for process in node.processes.values() {
                if !wanted.contains(&process.label) {
                    return Err(format!(
                        "{} runs on node {}, and nobody wants it",
                        process.label, node.number
                    ));
                }
            }
        }
        Ok(())
    }
}

/// One on each node that takes new work, unless it has failed there or there is no room; never two, none where there is no node.
fn is_on_every_node(view: &View, job: &Job) -> Result<(), String> {
    let key = job.spec.key();
    let open = view.open_evals().map_err(|e| e.to_string())?;
    let waits = open.iter().any(|e| e.job == key && e.status == EvalStatus::Blocked);
    let mut all = view.allocs_of_job(&key).map_err(|e| e.to_string())?;
    for node in view.nodes().map_err(|e| e.to_string())? {
        let here: Vec<&Allocation> = all.iter().filter(|a| a.node_id == node.info.id).collect();
        let live = here.iter().filter(|a| !a.terminal()).count();
        let failed = here.iter().any(|a| a.client == ClientStatus::Failed && !a.server_terminal());
        let none = job.spec.groups.iter().all(|g| g.count == 0);
        let excused = failed || waits || none || given_up(view, job)?;
        if live > usize::from(!none) || (live == 0 && node.ready() && !excused) {
            return Err(format!("{key} is {live} times on node {}: {here:#?}", node.info.name));
        }
        all.retain(|a| a.node_id != node.info.id);
    }
    match all.iter().find(|a| !a.terminal()) {
        Some(alloc) => Err(format!("{} of {key} is on a node that is gone", alloc.id)),
        None => Ok(()),
    }
}

/// What was done is stopped by the collector before it is forgotten.
fn is_stopped_for_good(spec: &JobSpec, job: &Job) -> bool {
    let done = spec.job_type == JobType::Batch && job.status == JobStatus::Dead;
    done && JobSpec { stop: true, ..spec.clone() } == job.spec
}

fn unwanted(label: &str) -> String {
    format!("{label} was killed though it was to run")
}

fn allocs(view: &View) -> Result<Vec<Allocation>, String> {
    view.allocs(None, usize::MAX).map_err(|e| e.to_string())
}

/// What the servers want to run, or what ended by itself.
fn live(view: &View, key: &JobKey) -> Result<Vec<Allocation>, String> {
    let mut all = view.allocs_of_job(key).map_err(|e| e.to_string())?;
    all.retain(|a| !a.server_terminal() && a.client != ClientStatus::Lost);
    Ok(all)
}

fn no_node_is_over_committed(view: &View, kept: &Kept) -> Result<(), String> {
    let mut used: BTreeMap<_, Amount> = BTreeMap::new();
    for alloc in kept.allocs.values().filter(|a| !a.terminal()) {
        let sum = used.entry(alloc.node_id).or_default();
        *sum = sum.plus(alloc.resources.total());
    }
    for node in view.nodes().map_err(|e| e.to_string())? {
        let sum = used.get(&node.info.id).copied().unwrap_or_default();
        if let Some(dimension) = node.available().lacks(sum) {
            return Err(format!("node {} is over-committed in {dimension}: {sum:?}", node.info.name));
        }
    }
    Ok(())
}

/// What nobody knows of an allocation whose node is away, and that it is known again.
fn note_unknown(faults: &mut Faults, alloc: &Allocation) {
    let was_unknown = alloc.states.iter().any(|s| s.status == ClientStatus::Unknown);
    match alloc.client {
        ClientStatus::Unknown => faults.fired("allocation unknown"),
        ClientStatus::Running if was_unknown => faults.fired("allocation known again"),
        _ => {}
    }
}

/// Ports, cores and devices of all that may run.
fn nothing_is_held_by_two(kept: &Kept) -> Result<(), String> {
    let mut held = BTreeMap::new();
    for alloc in kept.allocs.values().filter(|a| !a.terminal()) {
        for claim in alloc.resources.claims() {
            if let Some(other) = held.insert((alloc.node_id, claim.clone()), alloc.id) {
                return Err(format!("{claim:?} is held by {} and {other:?}", alloc.name));
            }
        }
    }
    Ok(())
}

/// What a new leader would build from the state is what this one has.
fn queues_are_what_the_state_says(kept: &Kept, queued: &BTreeSet<EvalId>) -> Result<(), String> {
    let open = kept.evals.values().filter(|e| !e.status.is_terminal());
    let open: BTreeSet<EvalId> = open.map(|e| e.id).collect();
    if open == *queued {
        return Ok(());
    }
    let missing: Vec<_> = open.difference(queued).collect();
    let surplus: Vec<_> = queued.difference(&open).collect();
    Err(format!("the queues lack {missing:?} and hold {surplus:?} that the state does not know as open"))
}
