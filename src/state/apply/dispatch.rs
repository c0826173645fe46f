//! Jobs that are dispatched: each token makes one child, in the order of the log; and the parents' versions that children are made of
//! (server.md 11).
//!
//! Refuses to know: who asks, and how often the same is asked.

use super::super::dispatched_spec;
use super::super::fault::Fault;
use super::super::tables::{self, JobRow, Part};
use super::{ApplyTxn, Reply, checked_decrement};
use model::child_jobs;
use model::dispatch::{self, DispatchRequest};
use model::eval::{Evaluation, Trigger};
use model::id::JobKey;
use model::job::JobSpec;
use model::time::Wall;
use redb::ReadableTable;
use wire::command::DispatchJobCommand;
use wire::request::{Refusal, RefusalKind, WriteReply};

/// Numbers that are tried for a child, when others of the same second have them.
const MAX_ID_ATTEMPTS: u32 = 64;

impl ApplyTxn<'_> {
    pub(super) fn dispatch_job(&mut self, order: DispatchJobCommand) -> Result<Reply, Fault> {
        let DispatchJobCommand { request, eval, at } = order;
        let refuse = |message: String| Ok(Err(Refusal::new(RefusalKind::Validation, message)));
        let Some(row) = self.job(&request.job)?.cloned() else {
            return refuse("parameterized job not found".into());
        };
        let parent = self.newest_spec(&request.job, &row)?;
        if let Some(why) = refusal(&parent, &request) {
            return refuse(why);
        }
        if let Some(known) = self.previous_dispatch(&request)? {
            return Ok(Ok(known));
        }
        let [a, b, c, d, ..] = *eval.0.as_bytes();
        let id = match self.unused_child_id(&request, u32::from_be_bytes([a, b, c, d]), at)? {
            Ok(id) => id,
            Err(why) => return refuse(why),
        };
        let child = child_jobs::dispatched(&parent, id, request, (row.create_index, row.newest()?.version));
        self.put_dispatch_token(&child)?;
        self.count_version_use(&child, true)?;
        let (job_type, priority) = (child.job_type, child.priority);
        let eval = Evaluation::pending(eval, child.key(), job_type, priority, Trigger::JobRegister, at);
        let made = self.make_child(&child, eval, 1, at)?;
        Ok(made.map(|done| match done {
            WriteReply::Job { eval, index, .. } => {
                WriteReply::Dispatched { job: child.id, eval, create_index: index, index }
            }
            other => other,
        }))
    }

    /// The reply to the first dispatch with this token, while its job exists.
    fn previous_dispatch(&mut self, request: &DispatchRequest) -> Result<Option<WriteReply>, Fault> {
        if request.token.is_empty() {
            return Ok(None);
        }
        let Some(known) = self.child_of(&request.job, &request.token)? else { return Ok(None) };
        let Some(row) = self.job(&known)? else { return Ok(None) };
        let (create_index, index) = (row.create_index, row.newest()?.modify_index);
        Ok(Some(WriteReply::Dispatched { job: known.id, eval: None, create_index, index }))
    }

    /// The error is a sentence.
    fn unused_child_id(
        &mut self,
        request: &DispatchRequest,
        number: u32,
        at: Wall,
    ) -> Result<Result<String, String>, Fault> {
        for tried in 0..MAX_ID_ATTEMPTS {
            let id = dispatch::child_id(&request.job.id, &request.prefix, at, number.wrapping_add(tried));
            if let Some(why) = dispatch::refuses_id(&id) {
                return Ok(Err(why));
            }
            if self.job(&JobKey::new(request.job.namespace.clone(), id.clone()))?.is_none() {
                return Ok(Ok(id));
            }
        }
        Ok(Err("too many jobs of the same name were dispatched within a second: try again".into()))
    }

    fn child_of(&self, parent: &JobKey, token: &str) -> Result<Option<JobKey>, Fault> {
        let row = self.rows.get(token_key(parent, token).as_slice())?;
        let damaged = || Fault::corrupt("a token names no job");
        let id = row.map(|row| String::from_utf8(row.value().to_vec()).map_err(|_| damaged()));
        Ok(id.transpose()?.map(|id| JobKey::new(parent.namespace.clone(), id)))
    }

    fn put_dispatch_token(&mut self, child: &JobSpec) -> Result<(), Fault> {
        match token_of(child) {
            Some((parent, token)) => self.put_bytes(&token_key(&parent, token), child.id.as_bytes()),
            None => Ok(()),
        }
    }

    /// A job goes: its token may be used again, and its parent's version loses a user.
    pub(super) fn remove_dispatch_records(&mut self, key: &JobKey, spec: &JobSpec) -> Result<(), Fault> {
        if let Some((parent, token)) = token_of(spec)
            && self.child_of(&parent, token)?.is_some_and(|known| known == *key)
        {
            self.remove(&token_key(&parent, token))?;
        }
        self.count_version_use(spec, false)
    }

    /// Counts one job more, or one less, that was made of the parent's version.
    fn count_version_use(&mut self, child: &JobSpec, more: bool) -> Result<(), Fault> {
        let Some((parent, create_index, version)) = dispatched_spec::origin(child) else { return Ok(()) };
        let bytes = tables::job_bytes(&parent);
        let key = tables::uses_key(&bytes, create_index, version);
        let uses = match self.rows.get(key.as_slice())? {
            Some(uses) => tables::number(uses.value())?,
            None => 0,
        };
        let uses = if more { uses + 1 } else { checked_decrement(uses, 1, "jobs made of a version")? };
        if uses > 0 {
            return self.put_bytes(&key, &uses.to_be_bytes());
        }
        self.remove(&key)?;
        let has = |row: &&mut JobRow| {
            row.create_index == create_index && row.versions.iter().any(|v| v.version == version)
        };
        match self.job(&parent)?.filter(has).is_some() {
            true => Ok(()),
            false => self.remove(&tables::spec_key(&bytes, create_index, version)),
        }
    }

    /// Writes a spec, leaving out what the version that the job was made of says already.
    pub(super) fn put_spec(
        &mut self,
        job: &[u8],
        create_index: u64,
        version: u64,
        spec: &JobSpec,
    ) -> Result<(), Fault> {
        let key = tables::spec_key(job, create_index, version);
        let parent = dispatched_spec::read_origin(&self.rows, spec)?;
        match parent.and_then(|parent| child_jobs::without_parent(spec, &parent)) {
            Some(thin) => self.put(&key, &thin),
            None => self.put(&key, spec),
        }
    }

    /// Removes a spec, unless there are jobs that were made of it.
    pub(super) fn remove_spec(&mut self, job: &[u8], create_index: u64, version: u64) -> Result<(), Fault> {
        let is_used = self.rows.get(tables::uses_key(job, create_index, version).as_slice())?.is_some();
        if is_used { Ok(()) } else { self.remove(&tables::spec_key(job, create_index, version)) }
    }
}

fn refusal(parent: &JobSpec, request: &DispatchRequest) -> Option<String> {
    match &parent.parameterized {
        Some(_) if parent.is_parameterized() && parent.stop => {
            Some(format!("Specified job {:?} is stopped", parent.id))
        }
        Some(rules) if parent.is_parameterized() => rules.refuses(&request.payload, &request.meta),
        _ => Some(format!("Specified job {:?} is not a parameterized job", parent.id)),
    }
}

fn token_of(child: &JobSpec) -> Option<(JobKey, &str)> {
    let token = child.dispatch.as_ref().map(|d| d.token.as_str()).filter(|token| !token.is_empty())?;
    Some((JobKey::new(child.namespace.clone(), child.parent.clone()), token))
}

fn token_key(parent: &JobKey, token: &str) -> Vec<u8> {
    Part::Token.key(&tables::job_bytes(parent), token.as_bytes())
}
