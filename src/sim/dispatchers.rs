//! Users who dispatch, and repeat what was not answered, or was, sometimes at the same moment. And what must hold of it: one job
//! for each token, the same in every answer, with what that token brought along, there until it has ended.

use super::faults::Kind;
use super::job_specs::dispatched_job;
use super::users::{HOME_REGION, User};
use super::world::{Event, World};
use model::dispatch::{DispatchRequest, Parameterized, PayloadRule};
use model::eval::EvalStatus;
use model::id::JobKey;
use model::job::{JobSpec, JobStatus};
use model::random::Stream;
use model::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use wire::request::{Refusal, RefusalKind, WriteReply, WriteRequest};

const FORM_JOB: &str = "form";
/// Dispatchers' questions have numbers apart from those of others.
const FIRST_QUESTION: u64 = 1 << 41;

/// What a token came to, as the newest answer has it.
#[derive(Clone, Default)]
struct NamedJob {
    job: String,
    create_index: u64,
    /// How often it was told to be new.
    made: u64,
}

pub struct Dispatchers {
    draws: Stream,
    asked: u64,
    made_up: u64,
    /// Questions without an answer yet, and their tokens; empty for what is no dispatch.
    open: BTreeMap<u64, String>,
    /// Tokens of which nobody knows what they came to.
    unsure: Vec<String>,
    /// By token.
    named: BTreeMap<String, NamedJob>,
    /// Every dispatched job that was ever seen: its token, and how it was last.
    seen: BTreeMap<String, (String, JobStatus)>,
    there: BTreeSet<String>,
}

impl Dispatchers {
    pub fn new(seed: u64) -> Self {
        Dispatchers {
            draws: Stream::new(seed, 105),
            asked: FIRST_QUESTION,
            made_up: 0,
            open: BTreeMap::new(),
            unsure: Vec::new(),
            named: BTreeMap::new(),
            seen: BTreeMap::new(),
            there: BTreeSet::new(),
        }
    }

    /// One that was left unanswered, one that was answered, or a new one.
    fn token(&mut self) -> (Kind, String) {
        let known = self.named.len() as u64;
        match self.draws.below(4) {
            0 | 1 if !self.unsure.is_empty() => (Kind::DispatchRepeatedUnanswered, self.unsure.remove(0)),
            0 if known > 0 => {
                let which = self.draws.below(known) as usize;
                let token = self.named.keys().nth(which).cloned().unwrap_or_default();
                (Kind::DispatchRepeated, token)
            }
            _ => {
                self.made_up += 1;
                (Kind::Dispatched, format!("token-{}", self.made_up))
            }
        }
    }
}

/// What a token brings along, whoever says it.
fn payload(token: &str) -> Vec<u8> {
    token.bytes().rev().collect()
}

impl World {
    /// One step; then, after a while, the next.
    pub fn dispatch(&mut self) -> Result<(), String> {
        if !self.faults.on() {
            return Ok(());
        }
        let form = JobKey::new("default", FORM_JOB);
        let known = self.regions[HOME_REGION].tracked.jobs.contains_key(&form);
        match self.dispatchers.draws.below(30) {
            0 => self.ask_aside(WriteRequest::DeregisterJob {
                job: form,
                purge: true,
                eval_priority: None,
                no_shutdown_delay: false,
            }),
            1 | 2 => self.write_form(&form),
            _ if !known => self.write_form(&form),
            _ => self.dispatch_form(&form),
        }
        let wait = Span(self.dispatchers.draws.below(9_000_000_000) as i64);
        self.after(wait, Event::Dispatch);
        Ok(())
    }

    /// In versions that differ, so that jobs are made of many.
    fn write_form(&mut self, form: &JobKey) {
        let draws = &mut self.dispatchers.draws;
        let priority = 1 + draws.below(100) as i64;
        let milliseconds = 1 + draws.below(5_000);
        let parameterized =
            Parameterized { payload: PayloadRule::Required, meta_required: vec![], meta_optional: vec![] };
        let spec =
            JobSpec { parameterized: Some(parameterized), priority, ..dispatched_job(form, milliseconds) };
        self.ask_aside(WriteRequest::RegisterJob {
            spec: Box::new(spec),
            enforce_index: None,
            eval_priority: None,
            preserve_counts: false,
            submission: None,
        });
    }

    fn ask_aside(&mut self, action: WriteRequest) {
        self.ask_dispatcher(String::new(), action);
    }

    fn dispatch_form(&mut self, form: &JobKey) {
        let (kind, token) = self.dispatchers.token();
        let together = if self.dispatchers.draws.below(4) == 0 { 3 } else { 1 };
        self.faults.fired(if together > 1 { Kind::DispatchedTogether } else { kind });
        for _ in 0..together {
            let request = DispatchRequest {
                job: form.clone(),
                payload: payload(&token),
                meta: BTreeMap::new(),
                prefix: String::new(),
                token: token.clone(),
                priority: 0,
            };
            self.ask_dispatcher(token.clone(), WriteRequest::DispatchJob { request: Box::new(request) });
        }
    }

    fn ask_dispatcher(&mut self, token: String, action: WriteRequest) {
        let Some(server) = self.server_of(User::Dispatcher) else {
            self.dispatchers.unsure.extend(Some(token).filter(|token| !token.is_empty()));
            return;
        };
        self.dispatchers.asked += 1;
        let question = self.dispatchers.asked;
        self.note(|_| format!("user    {question} dispatches {token:?}"));
        self.dispatchers.open.insert(question, token);
        self.ask(User::Dispatcher, server, question, action);
    }

    /// Whether the question was theirs.
    pub fn dispatch_answered(
        &mut self,
        question: u64,
        result: &Result<WriteReply, Refusal>,
    ) -> Result<bool, String> {
        if question <= FIRST_QUESTION {
            return Ok(false);
        }
        let Some(token) = self.dispatchers.open.remove(&question) else {
            return Err(format!("the dispatchers' question {question} was answered twice: {result:?}"));
        };
        let known = &mut self.dispatchers;
        let (job, create_index, new) = match result {
            _ if token.is_empty() => return Ok(true),
            Ok(WriteReply::Dispatched { job, eval, create_index, .. }) => {
                (job.clone(), *create_index, eval.is_some())
            }
            Ok(other) => return Err(format!("{token} was answered {other:?}")),
            Err(refusal) => {
                let later = matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::Busy);
                known.unsure.extend(Some(token).filter(|_| later));
                return Ok(true);
            }
        };
        if known.seen.get(&job).is_none_or(|(of, _)| *of != token) {
            return Err(format!("{token} is told {job}, which never was, or is another's"));
        }
        let before = known.named.get(&token).cloned().unwrap_or_default();
        // an answer that was long under way
        if create_index < before.create_index {
            return Ok(true);
        }
        if before.job != job && known.there.contains(&before.job) {
            return Err(format!("{token} is told {job}, and was told {}, which is still there", before.job));
        }
        let made = if before.job == job { before.made } else { 0 } + u64::from(new);
        if made > 1 {
            return Err(format!("{token} made {job} twice"));
        }
        known.named.insert(token, NamedJob { job, create_index, made });
        Ok(true)
    }

    /// After every turn in which the state moved: the jobs as they are were just read.
    pub fn check_dispatches(&mut self, region: usize) -> Result<(), String> {
        if region != HOME_REGION {
            return Ok(());
        }
        let (mut tokens, mut there) = (BTreeSet::new(), BTreeSet::new());
        for (key, job) in self.regions[region].tracked.jobs.iter().filter(|(key, _)| is_child(key)) {
            let dispatch = job.spec.dispatch.as_ref().ok_or(format!("{key} was not dispatched"))?;
            if dispatch.payload != payload(&dispatch.token) || job.spec.groups.is_empty() {
                return Err(format!("{key} is not what {} brought along", dispatch.token));
            }
            if !tokens.insert(dispatch.token.clone()) {
                return Err(format!("{} has made two jobs, one of them {key}", dispatch.token));
            }
            there.insert(key.id.clone());
            self.dispatchers.seen.insert(key.id.clone(), (dispatch.token.clone(), job.status));
        }
        for gone in self.dispatchers.there.iter().filter(|id| !there.contains(*id)) {
            if self.dispatchers.seen.get(gone).is_some_and(|(_, status)| *status != JobStatus::Dead) {
                return Err(format!("{gone} is gone, and had not ended"));
            }
            self.faults.fired(Kind::DispatchedJobForgotten);
        }
        self.dispatchers.there = there;
        Ok(())
    }

    /// Without faults, after a while: whatever was dispatched has come to its end, but for what waits for room, or found it only now.
    pub fn check_dispatched(&self) -> Result<(), String> {
        let view = self.newest_view()?;
        let open = view.open_evals().map_err(|e| e.to_string())?;
        let dead = |id: &&String| self.dispatchers.seen.get(*id).is_some_and(|(_, s)| *s == JobStatus::Dead);
        for id in self.dispatchers.there.iter().filter(|id| !dead(id)) {
            let key = JobKey::new("default", id.clone());
            let waits = open.iter().any(|e| e.job == key && e.status == EvalStatus::Blocked);
            let allocs = view.allocs_of_job(&key).map_err(|e| e.to_string())?;
            if !waits && !allocs.iter().any(|a| a.create_time > self.long_since()) {
                return Err(format!("{id} has not ended"));
            }
        }
        Ok(())
    }
}

fn is_child(key: &JobKey) -> bool {
    key.namespace == "default" && key.id.starts_with("form/")
}

#[cfg(test)]
mod tests {
    use super::super::broken::is_found;
    use super::*;
    use crate::tracked::TrackedState;
    use model::dispatch::Dispatch;
    use model::job::Job;
    use state::samples::{Region as Sample, register, spec};
    use std::sync::Arc;

    fn child(id: &str, token: &str) -> JobSpec {
        let dispatch = Dispatch { payload: payload(token), token: token.into(), made_of: None };
        JobSpec { dispatch: Some(dispatch), ..spec(id, 1) }
    }

    /// A world that has seen these jobs.
    fn world_with(specs: &[JobSpec]) -> World {
        let mut region = Sample::default();
        specs.iter().for_each(|spec| drop(region.run(&register(spec.clone(), None))));
        let mut world = World::new(1, 1, 1, false);
        world.regions[HOME_REGION].tracked = TrackedState::read(&region.view()).expect("reads");
        world
    }

    #[test]
    fn a_dispatched_job_that_is_another_is_found() {
        let (one, two) = (child("form/1", "a"), child("form/2", "b"));
        let found = |specs: &[JobSpec]| world_with(specs).check_dispatches(HOME_REGION);
        assert_eq!(found(&[one.clone(), two]), Ok(()));
        is_found(found(&[JobSpec { dispatch: None, ..one.clone() }]), "form/1 was not dispatched");
        let other = Dispatch { payload: payload("b"), token: "a".into(), made_of: None };
        is_found(found(&[JobSpec { dispatch: Some(other), ..one.clone() }]), "is not what a brought along");
        is_found(found(&[JobSpec { groups: vec![], ..one.clone() }]), "is not what a brought along");
        is_found(found(&[one, child("form/2", "a")]), "a has made two jobs");
    }

    #[test]
    fn a_dispatched_job_that_goes_before_its_end_is_found() {
        let mut world = world_with(&[child("form/1", "a")]);
        let key = JobKey::new("default", "form/1");
        assert_eq!(world.check_dispatches(HOME_REGION), Ok(()));
        let job = world.regions[HOME_REGION].tracked.jobs.remove(&key).expect("was seen");
        is_found(world.check_dispatches(HOME_REGION), "form/1 is gone, and had not ended");
        let ended = Arc::new(Job { status: JobStatus::Dead, ..Job::clone(&job) });
        world.regions[HOME_REGION].tracked.jobs.insert(key.clone(), ended);
        assert_eq!(world.check_dispatches(HOME_REGION), Ok(()));
        world.regions[HOME_REGION].tracked.jobs.remove(&key);
        assert_eq!(world.check_dispatches(HOME_REGION), Ok(()));
    }

    #[test]
    fn a_dispatched_job_that_does_not_end_is_found() {
        let mut world = World::new(1, 1, 1, false);
        world.faults.heal();
        world.start_all().expect("fresh disks open");
        assert_eq!(world.check_dispatched(), Ok(()));
        world.dispatchers.there.insert("form/1".into());
        is_found(world.check_dispatched(), "form/1 has not ended");
        world.dispatchers.seen.insert("form/1".into(), ("a".into(), JobStatus::Dead));
        assert_eq!(world.check_dispatched(), Ok(()));
    }

    #[test]
    fn a_token_with_two_jobs_or_with_anothers_is_found() {
        let mut world = World::new(1, 1, 1, false);
        let answer = |world: &mut World, token: &str, job: &str, create_index, new: bool| {
            let question = FIRST_QUESTION + 1;
            world.dispatchers.open.insert(question, token.into());
            let eval = new.then(Default::default);
            let reply = WriteReply::Dispatched { job: job.into(), eval, create_index, index: 9 };
            world.dispatch_answered(question, &Ok(reply))
        };
        is_found(answer(&mut world, "a", "form/1", 5, true), "which never was, or is another's");
        for job in ["form/1", "form/2"] {
            world.dispatchers.seen.insert(job.into(), ("a".into(), JobStatus::Running));
            world.dispatchers.there.insert(job.into());
        }
        is_found(answer(&mut world, "b", "form/1", 5, true), "which never was, or is another's");
        assert_eq!(answer(&mut world, "a", "form/1", 5, true), Ok(true));
        assert_eq!(answer(&mut world, "a", "form/1", 5, false), Ok(true), "it was there already");
        is_found(answer(&mut world, "a", "form/1", 5, true), "a made form/1 twice");
        is_found(answer(&mut world, "a", "form/2", 6, true), "which is still there");
        is_found(world.dispatch_answered(FIRST_QUESTION + 1, &unavailable()), "answered twice");
    }

    fn unavailable() -> Result<WriteReply, Refusal> {
        Err(Refusal::new(RefusalKind::Unavailable, "No cluster leader"))
    }
}
