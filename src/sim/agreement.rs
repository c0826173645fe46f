//! What the servers of one region agree on: at most one of them leads in a term; a write does what its answer says, at the index that it
//! says; and at rest all have what the leader has.
//!
//! Refuses to know how they agree.

use super::ledger::WrittenJob;
use super::place::ServerAt;
use super::tracked::{Openness, TrackedState};
use super::users::HOME_REGION;
use super::world::World;
use model::deployment::{Deployment, DeploymentStatus};
use model::id::{AllocId, DeploymentId, JobKey, NodeId};
use model::job::Job;
use model::time::{Mono, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::command::NodeUpdateRequest;
use wire::event::{Events, Object};
use wire::request::{DeploymentRequest, WriteRequest};

/// Within this, at rest, everybody has what anybody has.
const CAUGHT_UP: Span = Span::seconds(30);

/// So many of a hundred answers can be held against the log in every run.
const WITNESSED_PERCENT: u64 = 80;

/// What each thing was after every entry that a server told of; `None`: gone.
type Known<K, V> = BTreeMap<K, BTreeMap<u64, Option<Arc<V>>>>;

/// What was seen of a region's history, whoever showed it.
#[derive(Default)]
pub struct History {
    /// The server that led in each term.
    leaders: BTreeMap<u64, ServerAt>,
    jobs: Known<JobKey, Job>,
    nodes: Known<NodeId, Openness>,
    /// The entries that servers told of, whatever these did. One is missing where all that applied it died before their turn
    /// had ended, or have it from a snapshot.
    told: BTreeSet<u64>,
    /// Answers that say what became of a job or a node.
    pub answers: u64,
    /// Those of them that were held against what their entry did.
    pub witnessed: u64,
}

impl History {
    /// Notes what a server tells of the entries `first..=last`; most tell nothing of jobs and nodes.
    pub fn note_told(&mut self, (first, last): (u64, u64), events: &[Events]) {
        let is_new: Vec<&Events> = events.iter().filter(|entry| !self.told.contains(&entry.index)).collect();
        for entry in is_new {
            for object in &entry.objects {
                match object {
                    Object::Job { job, deleted } => {
                        let is = (!deleted).then(|| job.clone());
                        self.jobs.entry(job.spec.key()).or_default().insert(entry.index, is);
                    }
                    Object::Node(node) => {
                        // what is gone is told of as the entry found it
                        let is = (node.modify_index == entry.index).then(|| Openness::of(node));
                        self.nodes.entry(node.info.id).or_default().insert(entry.index, is);
                    }
                    _ => {}
                }
            }
        }
        self.told.extend(first..=last);
    }

    /// The whole state at an index, where what led to it may have gone untold.
    pub fn note_all(&mut self, index: u64, state: &TrackedState) {
        note_all(&mut self.jobs, index, &state.jobs);
        note_all(&mut self.nodes, index, &state.nodes);
    }

    fn witness_job(&mut self, key: &JobKey, index: u64) -> Option<Option<Arc<Job>>> {
        let is = witness(&self.told, self.jobs.get(key), index);
        self.count_witness(is)
    }

    fn witness_node(&mut self, node: NodeId, index: u64) -> Option<Option<Arc<Openness>>> {
        let is = witness(&self.told, self.nodes.get(&node), index);
        self.count_witness(is)
    }

    fn count_witness<T>(&mut self, is: Option<T>) -> Option<T> {
        self.answers += 1;
        self.witnessed += u64::from(is.is_some());
        is
    }
}

fn note_all<K: Ord + Clone, V>(all: &mut Known<K, V>, index: u64, state: &BTreeMap<K, Arc<V>>) {
    for (key, known) in all.iter_mut() {
        if !state.contains_key(key) {
            known.insert(index, None);
        }
    }
    for (key, is) in state {
        all.entry(key.clone()).or_default().insert(index, Some(is.clone()));
    }
}

/// What something was after that entry, as somebody was told: `Some(None)`: not there. `None`: nobody can tell.
fn witness<V>(
    told: &BTreeSet<u64>,
    known: Option<&BTreeMap<u64, Option<Arc<V>>>>,
    index: u64,
) -> Option<Option<Arc<V>>> {
    let newest = known.and_then(|all| all.range(..=index).next_back());
    let (at, is) = newest.map_or((0, None), |(at, is)| (*at, is.clone()));
    let told = told.range(at.saturating_add(1)..index.saturating_add(1)).count() as u64;
    (told == index - at).then_some(is)
}

/// Whether the node is what that request makes of it.
fn is_as_asked(request: &NodeUpdateRequest, node: Option<&Openness>) -> bool {
    match (request, node) {
        (NodeUpdateRequest::Purge, node) => node.is_none(),
        (_, None) => false,
        (NodeUpdateRequest::Eligible(eligible), Some(node)) => {
            node.eligible == *eligible && !(node.eligible && node.drain.is_some())
        }
        (NodeUpdateRequest::Drain { deadline, ignore_system, .. }, Some(node)) => {
            let drain = node.drain.as_ref();
            let is_it = drain.is_some_and(|d| (d.deadline, d.ignore_system) == (*deadline, *ignore_system));
            is_it && !node.eligible
        }
        (NodeUpdateRequest::EndDrain { mark_eligible, .. }, Some(node)) => {
            node.drain.is_none() && (node.eligible || !mark_eligible)
        }
    }
}

/// Whether that is told of an entry that does that step.
fn tells_of_step(told: Option<&Events>, id: DeploymentId, step: &DeploymentRequest) -> bool {
    let objects = || told.into_iter().flat_map(|entry| entry.objects.iter().rev());
    let has_become = |is: fn(&Deployment) -> bool| {
        let of_it = |object: &Object| match object {
            Object::Deployment(deployment) if deployment.id == id => Some(is(deployment)),
            _ => None,
        };
        objects().find_map(of_it) == Some(true)
    };
    let has_health = |alloc: &AllocId, healthy: bool| {
        objects().any(|object| match object {
            Object::Alloc(is) => is.id == *alloc && is.health.and_then(|h| h.healthy) == Some(healthy),
            _ => false,
        })
    };
    match step {
        DeploymentRequest::Pause => has_become(|d| d.status == DeploymentStatus::Paused),
        DeploymentRequest::Resume => has_become(|d| d.status == DeploymentStatus::Running),
        DeploymentRequest::Fail => has_become(|d| d.status == DeploymentStatus::Failed),
        // no user promotes some groups alone
        DeploymentRequest::Promote { .. } => has_become(|d| d.groups.values().all(|g| !g.awaits_promotion())),
        DeploymentRequest::SetHealth { healthy, unhealthy } => {
            healthy.iter().all(|alloc| has_health(alloc, true))
                && unhealthy.iter().all(|alloc| has_health(alloc, false))
        }
    }
}

impl World {
    /// After a turn in which its state moved.
    pub fn check_term(&mut self, at: ServerAt) -> Result<(), String> {
        let Some(server) = &self.regions[at].brain else { return Ok(()) };
        let status = server.status();
        // by raft, established or not
        if status.leader != Some(status.id) {
            return Ok(());
        }
        let known = *self.regions[at.region].history.leaders.entry(status.term).or_insert(at);
        if known == at { Ok(()) } else { Err(format!("{known} and {at} both lead in term {}", status.term)) }
    }

    /// A write of that job was acknowledged as the entry `index`, with that job modify index.
    pub fn check_witness(
        &mut self,
        job: &JobKey,
        (index, job_modify_index): (u64, u64),
        written: &WrittenJob,
    ) -> Result<(), String> {
        let Some(is) = self.regions[HOME_REGION].history.witness_job(job, index) else { return Ok(()) };
        let agrees = match (written, &is) {
            (WrittenJob::Absent, is) => is.is_none(),
            // stopping what does not exist leaves nothing
            (WrittenJob::Stopped, None) => job_modify_index == 0,
            (WrittenJob::Stopped, Some(is)) => is.spec.stop,
            (WrittenJob::Spec(_), None) => false,
            // of what was so already the job's modify index is told, of any kind (http-api.md 1.1.4)
            (WrittenJob::Spec(spec), Some(is)) => {
                let became = if is.job_modify_index == index {
                    index..=index
                } else {
                    is.job_modify_index..=index - 1
                };
                is.spec == **spec && became.contains(&job_modify_index)
            }
        };
        if agrees {
            return Ok(());
        }
        Err(format!("the answer for {job} says {index}, where it became {is:#?} and not {written:#?}"))
    }

    /// The same of a user's value in a job's meta.
    pub fn check_value_witness(&mut self, job: &JobKey, index: u64, value: u64) -> Result<(), String> {
        let Some(is) = self.regions[HOME_REGION].history.witness_job(job, index) else { return Ok(()) };
        let found = is.as_ref().and_then(|is| is.spec.meta.get("value"));
        if found == Some(&value.to_string()) {
            return Ok(());
        }
        Err(format!(
            "the answer for {job} says that {value} was written at {index}, where it became {found:?}"
        ))
    }

    /// Something that is no job's was acknowledged as the entry `index`.
    pub fn check_done(&mut self, action: &WriteRequest, index: u64) -> Result<(), String> {
        match action {
            WriteRequest::UpdateNode { node, request } => {
                let is = self.regions[HOME_REGION].history.witness_node(*node, index);
                match is.filter(|is| !is_as_asked(request, is.as_deref())) {
                    None => Ok(()),
                    Some(is) => Err(format!("{action:?} was said to be {index}, where it became {is:?}")),
                }
            }
            WriteRequest::StepDeployment { deployment, step } => {
                let told = self.regions[HOME_REGION].told_events.get(&index);
                match told.filter(|entry| !tells_of_step(entry.as_ref(), *deployment, step)) {
                    None => Ok(()),
                    Some(told) => {
                        Err(format!("{action:?} was said to be {index}, which was told as {told:#?}"))
                    }
                }
            }
            WriteRequest::ConfigureScheduler { settings, .. } => {
                self.operators.note_configured(index, *settings);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// At the end: nearly every answer that says what became of a job or a node was held against what its entry did. The others are of
    /// entries that nobody told of, or that came behind such a one.
    pub fn check_witnessed(&self) -> Result<(), String> {
        let History { answers, witnessed, .. } = self.regions[HOME_REGION].history;
        match witnessed * 100 < answers * WITNESSED_PERCENT {
            true => Err(format!("of {answers} answers only {witnessed} were seen in the log")),
            false => Ok(()),
        }
    }

    /// At rest: all servers are up, one leads, and the others have what it had a while ago.
    pub fn check_agreed(&mut self) -> Result<(), String> {
        let newest = self.any_server()?.applied_index();
        self.run_until(self.now.after(CAUGHT_UP))?;
        let servers = &self.regions[HOME_REGION].servers;
        let applied: Vec<u64> = servers.iter().map(|server| server.applied_index()).collect();
        let leaders = servers.iter().filter(|server| server.leads()).count();
        if leaders != 1 || applied.iter().any(|index| *index < newest) {
            return Err(format!(
                "{leaders} servers lead; {newest} was applied, and now they have {applied:?}"
            ));
        }
        self.check_feature_level()
    }
}

#[test]
fn an_answer_that_its_entry_contradicts_is_found() {
    let mut world = super::elections::region_of(1, 1);
    super::elections::run_for(&mut world, Span::seconds(1));
    world.register_quietly("quiet-1", 1);
    world.run_until(Mono(1).after(Span::seconds(20))).expect("no fault, no failure");
    let key = JobKey::new("default", "quiet-1");
    let job = world.regions[HOME_REGION].tracked.jobs.get(&key).cloned().expect("was registered");
    let spec = WrittenJob::Spec(Box::new(job.spec.clone()));
    let index = job.job_modify_index;
    assert_eq!(world.check_witness(&key, (index, index), &spec), Ok(()));
    assert_eq!(world.check_witness(&key, (index + 1, index), &spec), Ok(()), "it was so already");
    let history = &world.regions[HOME_REGION].history;
    assert!(history.answers > 2, "these two, and what users were answered");
    assert_eq!(history.witnessed, history.answers);
    let wrong = |e: String| e.contains("where it became");
    let other = model::job::JobSpec { priority: job.spec.priority + 1, ..job.spec.clone() };
    let other = WrittenJob::Spec(Box::new(other));
    assert!(world.check_witness(&key, (index, index), &other).is_err_and(wrong));
    assert!(world.check_witness(&key, (index, index - 1), &spec).is_err_and(wrong), "another index");
    assert!(world.check_witness(&key, (index - 1, index), &spec).is_err_and(wrong), "not there yet");
    assert_eq!(world.check_witness(&key, (index - 1, 0), &WrittenJob::Absent), Ok(()));
    assert_eq!(world.check_witness(&key, (index - 1, 0), &WrittenJob::Stopped), Ok(()));
    for gone in [WrittenJob::Absent, WrittenJob::Stopped] {
        assert!(world.check_witness(&key, (index, index), &gone).is_err_and(wrong), "{gone:?}");
    }
    assert!(world.check_value_witness(&key, index, 7).is_err_and(wrong));
    assert_eq!(world.check_witnessed(), Ok(()));
    world.regions[HOME_REGION].history.answers *= 2;
    assert!(world.check_witnessed().is_err_and(|e| e.contains("were seen in the log")));
    let history = &mut world.regions[HOME_REGION].history;
    history.told.remove(&(index + 1));
    history.jobs.values_mut().for_each(|known| known.retain(|at, _| *at <= index));
    assert_eq!(world.check_witness(&key, (index + 1, index), &other), Ok(()), "nobody can tell");
    assert_eq!(world.check_witness(&key, (index, index), &spec), Ok(()));
    world.regions[HOME_REGION].history.note_all(index + 1, &TrackedState::default());
    assert!(world.check_witness(&key, (index + 1, index), &spec).is_err_and(wrong), "it went untold");
}

/// Each request to a node is answered, and then held against what the node became; and so is what it did not become.
#[test]
fn an_operators_answer_that_its_entry_contradicts_is_found() {
    use super::broken::{calm, is_found, run_for};
    use NodeUpdateRequest::{Drain, Eligible, EndDrain, Purge};
    let drain = |seconds, ignore_system| Drain {
        deadline: Span::seconds(seconds),
        ignore_system,
        meta: BTreeMap::new(),
    };
    let end = |mark_eligible| EndDrain { mark_eligible, meta: BTreeMap::new() };
    let mut world = calm(1);
    let at = super::place::NodeAt { region: HOME_REGION, node: 0 };
    let node = world.regions[at].id();
    let long = drain(90, false);
    let steps = [
        (Eligible(false), vec![Eligible(true), long.clone(), Purge]),
        (Eligible(true), vec![Eligible(false), long.clone(), Purge]),
        (long.clone(), vec![Eligible(true), end(true), end(false), drain(91, false), drain(90, true), Purge]),
        (end(true), vec![Eligible(false), long.clone(), Purge]),
        (Purge, vec![Eligible(true), long, end(true)]),
    ];
    for (asked, others) in steps {
        let before = world.regions[HOME_REGION].history.witnessed;
        world.ask_for_node(at, asked.clone());
        run_for(&mut world, Span::millis(500));
        let History { answers, witnessed, .. } = world.regions[HOME_REGION].history;
        assert!(witnessed > before && witnessed == answers, "{asked:?} was held against the log");
        let index = world.asks.acknowledged();
        let check = |world: &mut World, request: NodeUpdateRequest| {
            world.check_done(&WriteRequest::UpdateNode { node, request }, index)
        };
        assert_eq!(check(&mut world, asked), Ok(()));
        others.into_iter().for_each(|other| is_found(check(&mut world, other), "where it became"));
    }
}

#[test]
fn a_step_of_a_deployment_that_its_entry_contradicts_is_found() {
    use super::broken::is_found;
    use DeploymentRequest::{Fail, Pause, Promote, Resume, SetHealth};
    use state::samples::{AT, Region as Sample, alloc, deployment, eval_id, node_id, register, spec};
    let mut region = Sample::default();
    region.run(&register(spec("web", 1), None));
    let job = region.job("web");
    let group = model::deployment::DeploymentGroup { desired_canaries: 1, ..Default::default() };
    let running = deployment(1, &job, group);
    let id = running.id;
    let mut world = World::new(1, 1, 1, false);
    let mut found = |objects: Vec<Object>, step: &DeploymentRequest| {
        let told = (!objects.is_empty()).then_some(Events { index: 7, kind: "", objects });
        world.regions[HOME_REGION].told_events.insert(7, told);
        world.check_done(&WriteRequest::StepDeployment { deployment: id, step: step.clone() }, 7)
    };
    let with = |status| vec![Object::Deployment(Arc::new(Deployment { status, ..running.clone() }))];
    let statuses = [DeploymentStatus::Paused, DeploymentStatus::Running, DeploymentStatus::Failed];
    for (step, status) in [Pause, Resume, Fail].iter().zip(statuses) {
        assert_eq!(found(with(status), step), Ok(()));
        let others = statuses.into_iter().filter(|other| *other != status);
        others.for_each(|other| is_found(found(with(other), step), "which was told as"));
        is_found(found(vec![], step), "which was told as");
        let other = Deployment { id: DeploymentId::from_random(9), status, ..running.clone() };
        is_found(found(vec![Object::Deployment(Arc::new(other))], step), "which was told as");
    }
    let mut promoted = running.clone();
    is_found(found(with(DeploymentStatus::Running), &Promote { groups: None }), "which was told as");
    promoted.groups.values_mut().for_each(|group| group.promoted = true);
    assert_eq!(found(vec![Object::Deployment(Arc::new(promoted))], &Promote { groups: None }), Ok(()));
    let health = model::alloc::Health { healthy: Some(true), at: AT, canary: false, modify_index: 7 };
    let judged = model::alloc::Allocation { health: Some(health), ..alloc(1, &job, node_id(1), eval_id(1)) };
    let all = vec![judged.id];
    let well = SetHealth { healthy: all.clone(), unhealthy: vec![] };
    let told = vec![Object::Alloc(Arc::new(judged))];
    assert_eq!(found(told.clone(), &well), Ok(()));
    is_found(found(told, &SetHealth { healthy: vec![], unhealthy: all }), "which was told as");
    is_found(found(vec![], &well), "which was told as");
}

#[test]
fn a_second_leader_of_a_term_is_found() {
    let mut world = super::elections::region_of(3, 1);
    let (leader, _) = super::elections::await_leader(&mut world);
    super::elections::run_for(&mut world, Span::seconds(10));
    assert_eq!(world.check_term(leader), Ok(()));
    let term = world.regions[leader].brain.as_ref().expect("it leads").status().term;
    assert_eq!(world.regions[HOME_REGION].history.leaders.get(&term), Some(&leader));
    let other = ServerAt { server: (leader.server + 1) % 3, ..leader };
    world.regions[HOME_REGION].history.leaders.values_mut().for_each(|at| *at = other);
    assert!(world.check_term(leader).is_err_and(|e| e.contains("both lead")));
}

#[test]
fn a_server_that_stays_behind_is_found() {
    let mut world = super::elections::region_of(3, 1);
    let (leader, _) = super::elections::await_leader(&mut world);
    world.workload.stop();
    super::elections::run_for(&mut world, Span::minutes(2));
    assert_eq!(world.check_agreed(), Ok(()));
    let other = ServerAt { server: (leader.server + 1) % 3, ..leader };
    world.stop_server(other, Span::hours(1));
    assert!(world.check_agreed().is_err());
}
