//! What must always be so, and what must be so once the world is left alone. Each check says in a sentence what it found.

use super::faults::{Faults, Kind};
use super::ledger::WrittenJob;
use super::node_host::End;
use super::node_room::{no_node_is_over_committed, none_is_on_a_down_node};
use super::place::{NodeAt, ServerAt};
use super::rollouts::{all_have_ended, given_up, is_never_promoted, on_trial};
use super::scheduler_config::check_pause;
use super::server_host::ServerHost;
use super::trace::fnv;
use super::tracked::{TrackedState, an_end_is_final};
use super::users::HOME_REGION;
use super::world::{EPOCH, World};
use model::alloc::{Allocation, ClientStatus};
use model::eval::{EvalStatus, Evaluation};
use model::id::{EvalId, JobKey};
use model::job::{Job, JobSpec, JobStatus, JobType, TaskGroup};
use model::node::{NodeInfo, NodeStatus};
use model::task::TaskState;
use model::time::{Span, Wall};
use server::Server;
use state::check;
use state::store::Recovered;
use state::view::View;
use std::collections::{BTreeMap, BTreeSet};
use wire::change::{AllocChange, Change, NodeChange};
use wire::frame::{self, Body, Frame};
use wire::rpc::NodeRequest;

/// The longest kill timeout, and the time that poststop tasks take, with what they are restarted.
const STOPS_WITHIN: Span = Span::minutes(1);
/// Why an allocation was stopped whose successor is of a newer version.
pub const UPDATED: &str = "alloc is being updated due to job update";
/// At every so many indexes every row is read.
const READ_ALL_EVERY: u64 = 64;
/// How soon the workers come to what is asked for, when everything that waits is looked at again at the same time.
const AT_ONCE: Span = Span::seconds(30);

impl World {
    /// After every turn of a server in which its state moved.
    pub fn check_server(&mut self, at: ServerAt, changes: &[Change]) -> Result<(), String> {
        self.regions[at].disk.hold_faults(true);
        let reads = |server: &Server| server.reader().view().and_then(|view| view.members()).is_ok();
        // a store that has failed and does not know it yet tells nothing
        let tells = self.regions[at].brain.as_ref().is_some_and(reads);
        let found = if tells { self.look_at_server(at, changes) } else { Ok(()) };
        self.regions[at].disk.hold_faults(false);
        found
    }

    fn look_at_server(&mut self, at: ServerAt, changes: &[Change]) -> Result<(), String> {
        let Some(server) = &self.regions[at].brain else { return Ok(()) };
        let view = server.reader().view().map_err(|e| e.to_string())?;
        let (index, digest) = (view.index(), view.digest());
        self.trace.number(index);
        self.trace.number(digest);
        let region = &mut self.regions[at.region];
        if region.digests.insert(index, digest).is_some_and(|known| known != digest) {
            return Err(format!("index {index} was applied twice, to different states"));
        }
        self.check_members(at, &view)?;
        self.check_term(at)?;
        let is_new_life = !std::mem::replace(&mut self.regions[at].is_tracked, true);
        if index > self.regions[at.region].tracked_index {
            self.track_state(at, &view, changes, is_new_life)?;
        }
        // a follower that lags shows nothing new
        if index < self.regions[at.region].tracked_index {
            return Ok(());
        }
        self.check_leader(at, &view)
    }

    /// The region's state is newer than ever.
    fn track_state(
        &mut self,
        at: ServerAt,
        view: &View,
        changes: &[Change],
        whole: bool,
    ) -> Result<(), String> {
        let region = &mut self.regions[at.region];
        let index = view.index();
        let before = region.track(view, changes, whole).map_err(|e| e.to_string())?;
        an_end_is_final(&before, &self.regions[at.region].tracked, changes)?;
        self.note_changes(at.region, view, changes)?;
        if whole {
            let region = &mut self.regions[at.region];
            region.history.note_all(index, &region.tracked);
        }
        self.check_forgotten(at.region, &before)?;
        self.check_dispatches(at.region)?;
        self.regions[at.region].note_capacities(view)?;
        let region = &self.regions[at.region];
        no_node_is_over_committed(view, &region.tracked, &region.capacities)?;
        let tracked = &region.tracked;
        no_claim_has_two_holders(tracked)?;
        self.check_deployments(at, view)?;
        if index.is_multiple_of(READ_ALL_EVERY) {
            check::consistent(view)?;
            let whole = TrackedState::read(view).map_err(|e| e.to_string())?;
            self.regions[at.region].tracked.is_as(&whole)?;
        }
        self.check_launches(at, view)?;
        self.check_drains(at.region, view)
    }

    /// What a leader holds in memory is what the state says.
    pub(super) fn check_leader(&self, at: ServerAt, view: &View) -> Result<(), String> {
        let Some(server) = &self.regions[at].brain else { return Ok(()) };
        check_pause(server.queued_while_paused())?;
        let tracked = &self.regions[at.region].tracked;
        if let Some(queued) = server.queued_when_idle() {
            queues_are_what_the_state_says(tracked, &queued)?;
        }
        self.check_watched_deployments(at)?;
        self.check_led_drains(at)?;
        self.check_timed_jobs(at, view)
    }

    /// Which allocations the servers want stopped, or know no more.
    fn note_changes(&mut self, region: usize, view: &View, changes: &[Change]) -> Result<(), String> {
        for change in changes {
            if let Change::Alloc(AllocChange { id, .. }) = change {
                let alloc = self.regions[region].tracked.allocs.get(id).cloned();
                if let Some(alloc) = &alloc {
                    note_unknown(&mut self.faults, alloc);
                    self.check_preempted(region, view, alloc, changes)?;
                }
                if alloc.is_none_or(|a| a.server_terminal()) {
                    self.regions[region].stopped.entry(*id).or_insert(self.now);
                }
            }
            if let Change::Node(NodeChange { status: NodeStatus::Disconnected, .. }) = change {
                self.faults.fired(Kind::NodeDisconnected);
            }
            if let Change::Member { .. } = change {
                self.note_growth(region);
            }
        }
        Ok(())
    }

    /// What the servers call complete, and nobody stopped, has ended with success before its keeper's eyes.
    pub(super) fn success_was_seen(&self, region: usize, view: &View) -> Result<(), String> {
        let ends = || self.regions[region].nodes.iter().flat_map(|n| n.ends.values());
        for alloc in allocs(view)? {
            if alloc.client != ClientStatus::Complete || self.regions[region].stopped.contains_key(&alloc.id)
            {
                continue;
            }
            // a task that was killed has not failed: its leader had ended
            let killed = |t: &TaskState| t.events.iter().any(|e| e.kind == "Killed");
            for (task, _) in alloc.task_states.iter().filter(|(_, state)| !killed(state)) {
                let label = format!("{}.{task}", alloc.id);
                if !ends().any(|e: &End| e.label == label && e.seen && e.exit.successful()) {
                    return Err(format!("complete, but nobody saw {task} succeed: {alloc:#?}"));
                }
            }
        }
        Ok(())
    }

    /// A node tells the servers that an allocation has ended only when nothing of it runs: they may start its replacement as
    /// soon as they hear of it. Nothing of it starts afterwards, either (`check_start`).
    pub fn check_report(&mut self, n: NodeAt, frame: &[u8]) -> Result<(), String> {
        let Ok(Frame { body: Body::Request(request), .. }) = frame::decode(frame) else { return Ok(()) };
        let NodeRequest::Report { updates, .. } = request else { return Ok(()) };
        for update in updates.iter().filter(|u| u.client.is_terminal()) {
            let mut processes = self.regions[n].processes.values().filter(|p| p.running);
            if let Some(process) = processes.find(|p| p.alloc() == Some(update.id)) {
                let (label, status) = (&process.label, update.client.as_str());
                return Err(format!("{n} reports an allocation as {status} while {label} runs"));
            }
            self.no_session_lives_of(n, update.id)?;
            self.poststop_has_run(n, update)?;
            self.regions[n].reported_ended.insert(update.id);
            let said =
                |kind: &str| update.task_states.values().flat_map(|t| &t.events).any(|e| e.kind == kind);
            let reasons = [
                ("Sibling Task Failed", Kind::SiblingKilled),
                ("Leader Task Dead", Kind::LeaderEndedOthers),
                ("Main Tasks Dead", Kind::SidecarsEnded),
            ];
            for (_, kind) in reasons.into_iter().filter(|(reason, _)| said(reason)) {
                self.faults.fired(kind);
            }
        }
        Ok(())
    }

    /// Each task has at most one process, and so has each run.
    pub fn check_processes(&self) -> Result<(), String> {
        for node in self.regions.node_hosts() {
            let (mut labels, mut runs) = (BTreeSet::new(), BTreeSet::new());
            for process in node.processes.values().filter(|p| p.running) {
                if !runs.insert(process.run) {
                    return Err(format!("run {:?} lives twice on {}", process.run, node.at));
                }
                if !labels.insert(&process.label) {
                    return Err(format!("{} runs twice on {}", process.label, node.at));
                }
            }
        }
        Ok(())
    }

    /// The server that is up and has applied most, of the users' region.
    pub(super) fn any_server(&self) -> Result<&ServerHost, String> {
        self.regions[HOME_REGION].newest_server().ok_or("no server is up".into())
    }

    /// And the state that it has.
    pub(super) fn newest_view(&self) -> Result<View, String> {
        let server = self.any_server()?.brain.as_ref().ok_or("no server is up")?;
        server.reader().view().map_err(|e| e.to_string())
    }

    /// Without faults and without users, after a while: nothing waits that could be done, and what is wanted is so.
    pub fn check_settled(&self) -> Result<(), String> {
        let view = self.newest_view()?;
        check::consistent(&view)?;
        for node in view.nodes().map_err(|e| e.to_string())? {
            // one whose disk was lost is down, until nothing is left that was on it
            let is_there = self.regions.node_hosts().any(|host| host.id() == node.info.id);
            let wanted = if is_there { NodeStatus::Ready } else { NodeStatus::Down };
            if node.status != wanted {
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
        none_is_on_a_down_node(&view)?;
        self.nodes_are_known_as_they_are(&view)?;
        self.acknowledged_is_there(&view)?;
        self.check_collected(&view)?;
        self.check_blocked(&view)?;
        all_have_ended(&view, self.long_since(), self.last_word)?;
        for job in view.jobs(None, "", None, usize::MAX).map_err(|e| e.to_string())? {
            self.job_is_as_wanted(&view, &job)?;
        }
        self.success_was_seen(HOME_REGION, &view)?;
        self.check_left_alone()?;
        self.check_sessions()?;
        let unanswered = self.ledger.unanswered() + self.asks.unanswered();
        if unanswered > 0 {
            return Err(format!("{unanswered} questions were never answered"));
        }
        self.nodes_run_what_is_wanted(&view)
    }

    pub(super) fn acknowledged_is_there(&self, view: &View) -> Result<(), String> {
        for (key, may_be) in self.ledger.jobs() {
            let job = view.job(key).map_err(|e| e.to_string())?;
            let is = |left: &WrittenJob| match (left, &job) {
                (WrittenJob::Absent, job) => job.is_none(),
                // stopping what does not exist leaves nothing
                (WrittenJob::Stopped, job) => job.as_ref().is_none_or(|j| j.spec.stop),
                (WrittenJob::Spec(spec), Some(job)) => {
                    let reverts = spec.groups.iter().any(|g| g.update.is_some_and(|u| u.auto_revert));
                    let rolled_back = reverts && job.stable && self.ledger.was_ever_wanted(key, &job.spec);
                    **spec == job.spec || rolled_back || is_stopped_for_good(spec, job)
                }
                // what was done is forgotten in the end
                (WrittenJob::Spec(spec), None) => spec.job_type == JobType::Batch,
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

    pub(super) fn job_is_as_wanted(&self, view: &View, job: &Job) -> Result<(), String> {
        let key = job.spec.key();
        let mut live = live(view, &key)?;
        let trial = on_trial(view, job)?;
        live.retain(|alloc| !trial.contains(&alloc.id));
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
            return is_on_every_node(view, job, self.last_word);
        }
        let open = view.open_evals().map_err(|e| e.to_string())?;
        let now = EPOCH + Span(self.now.0 as i64);
        let was_just_asked = |e: &Evaluation| e.wait_until.is_none() && now < e.create_time + AT_ONCE;
        let waits = |e: &Evaluation| e.status == EvalStatus::Blocked || was_just_asked(e);
        let waits = open.iter().any(|e| e.job == key && waits(e));
        let excused = waits || given_up(view, job)? || is_never_promoted(view, job, self.last_word)?;
        // work that was done before it was told to stop or to make way is not done again
        let batch = job.spec.job_type == JobType::Batch;
        let done = |a: &Allocation| {
            let own = a.job_version == job.version && a.job_create_index == job.create_index;
            batch && own && a.server_terminal() && a.ran_successfully() && !a.was_cut_short()
        };
        let all = view.allocs_of_job(&key).map_err(|e| e.to_string())?;
        let mine = |a: &Allocation| {
            let own = a.job_version == job.version && a.job_create_index == job.create_index;
            !a.terminal() || (own && (batch || a.client == ClientStatus::Failed))
        };
        if let Some(alloc) = live.iter().find(|a| !a.terminal() && job.spec.group(&a.group).is_none()) {
            return Err(format!("{} of {key} is of a group that is no more", alloc.name));
        }
        for group in &job.spec.groups {
            let (name, wanted) = (&group.name, group.count as usize);
            let done = all.iter().filter(|a| a.group == *name && done(a)).count();
            let current = live.iter().filter(|a| a.group == *name && mine(a)).count();
            if current > wanted || (current + done < wanted && !excused) {
                return Err(format!(
                    "{key} wants {wanted} of {name}, has {current}, and nothing waits: {live:#?}"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn nodes_run_what_is_wanted(&self, view: &View) -> Result<(), String> {
        let region = &self.regions[HOME_REGION];
        for node in &region.nodes {
            let (mut wanted, mut leaving) = (BTreeSet::new(), BTreeSet::new());
            for alloc in view.allocs_of_node(node.id()).map_err(|e| e.to_string())? {
                // what was waited for may have found room a moment ago, and made others leave
                let since = region.stopped.get(&alloc.id);
                let stopping = since.is_some_and(|at| self.now.since(*at) < STOPS_WITHIN);
                if stopping {
                    leaving.insert(alloc.id);
                } else if alloc.server_terminal() && !alloc.client_terminal() {
                    return Err(format!("{} was stopped and is still {}", alloc.id, alloc.client.as_str()));
                }
                if !alloc.server_terminal() && alloc.client == ClientStatus::Running {
                    wanted.extend(alloc.task_states.keys().map(|task| format!("{}.{task}", alloc.id)));
                }
            }
            for process in node.processes.values() {
                let leaves = process.alloc().is_some_and(|alloc| leaving.contains(&alloc));
                if !leaves && !wanted.contains(&process.label) {
                    return Err(format!("{} runs on {}, and nobody wants it", process.label, node.at));
                }
            }
        }
        Ok(())
    }
}

/// One of each group on each node that takes new work, unless it has failed there, there is no room, or its canaries wait for a word of
/// users that nobody says; never two, none where there is no node.
pub(super) fn is_on_every_node(view: &View, job: &Job, last_word: Wall) -> Result<(), String> {
    let key = job.spec.key();
    let open = view.open_evals().map_err(|e| e.to_string())?;
    let waits = open.iter().any(|e| e.job == key && e.status == EvalStatus::Blocked);
    let excused = waits || given_up(view, job)? || is_never_promoted(view, job, last_word)?;
    let mut all = view.allocs_of_job(&key).map_err(|e| e.to_string())?;
    for node in view.nodes().map_err(|e| e.to_string())? {
        for group in &job.spec.groups {
            let of_it = |a: &&Allocation| a.node_id == node.info.id && a.group == group.name;
            let here: Vec<&Allocation> = all.iter().filter(of_it).collect();
            let live = here.iter().filter(|a| !a.terminal()).count();
            let failed = here.iter().any(|a| a.client == ClientStatus::Failed && !a.server_terminal());
            let none = group.count == 0;
            let excused = excused || failed || none || lacks(&node.info, group);
            if live > usize::from(!none) || (live == 0 && node.ready() && !excused) {
                let name = &node.info.name;
                return Err(format!("{} of {key} is {live} times on node {name}: {here:#?}", group.name));
            }
        }
        all.retain(|a| a.node_id != node.info.id || job.spec.group(&a.group).is_none());
    }
    match all.iter().find(|a| !a.terminal()) {
        Some(alloc) => Err(format!("{} of {key} is on a node or of a group that is gone", alloc.id)),
        None => Ok(()),
    }
}

/// Whether the node has fewer cores or healthy devices than the group asks for, whoever holds them.
fn lacks(node: &NodeInfo, group: &TaskGroup) -> bool {
    let cores: i64 = group.tasks.iter().map(|t| t.resources.cores).sum();
    let devices: i64 = group.tasks.iter().flat_map(|t| &t.resources.devices).map(|d| d.count).sum();
    let healthy = node.offers.devices.iter().flat_map(|d| &d.instances).filter(|i| i.healthy).count();
    (node.offers.cores.len() as i64) < cores || (healthy as i64) < devices
}

/// What was done is stopped by the collector before it is forgotten.
fn is_stopped_for_good(spec: &JobSpec, job: &Job) -> bool {
    let done = spec.job_type == JobType::Batch && job.status == JobStatus::Dead;
    done && JobSpec { stop: true, ..spec.clone() } == job.spec
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

/// What a server has applied is in its log as it was, or was compacted away; after it, anything may have been lost. `known`: the region's
/// applied entries.
pub fn the_log_keeps_its_promise(
    applied: u64,
    recovered: &Recovered,
    known: &mut BTreeMap<u64, u64>,
) -> Result<(), String> {
    let last = recovered.last_index();
    if last < applied {
        return Err(format!("entry {applied} was applied, but the log ends at {last}"));
    }
    for (index, entry) in recovered.entries.iter().filter(|(index, _)| *index <= applied) {
        let hash = fnv(entry);
        if known.insert(*index, hash).is_some_and(|k| k != hash) {
            return Err(format!("the committed entry {index} has changed"));
        }
    }
    Ok(())
}

/// What nobody knows of an allocation whose node is away, and that it is known again.
fn note_unknown(faults: &mut Faults, alloc: &Allocation) {
    let was_unknown = alloc.states.iter().any(|s| s.status == ClientStatus::Unknown);
    match alloc.client {
        ClientStatus::Unknown => faults.fired(Kind::AllocationUnknown),
        ClientStatus::Running if was_unknown => faults.fired(Kind::AllocationKnownAgain),
        _ => {}
    }
}

/// Ports, cores and devices of all that may run.
pub(super) fn no_claim_has_two_holders(tracked: &TrackedState) -> Result<(), String> {
    let mut held = BTreeMap::new();
    for alloc in tracked.allocs.values().filter(|a| !a.terminal()) {
        for claim in alloc.resources.claims() {
            if let Some(other) = held.insert((alloc.node_id, claim.clone()), alloc.id) {
                return Err(format!("{claim:?} is held by {} and {other:?}", alloc.name));
            }
        }
    }
    Ok(())
}

/// What a new leader would build from the state is what this one has.
pub(super) fn queues_are_what_the_state_says(
    tracked: &TrackedState,
    queued: &BTreeSet<EvalId>,
) -> Result<(), String> {
    let open = tracked.evals.values().filter(|e| !e.status.is_terminal());
    let open: BTreeSet<EvalId> = open.map(|e| e.id).collect();
    if open == *queued {
        return Ok(());
    }
    let missing: Vec<_> = open.difference(queued).collect();
    let surplus: Vec<_> = queued.difference(&open).collect();
    Err(format!("the queues lack {missing:?} and hold {surplus:?} that the state does not know as open"))
}
