//! Scaling: a group's count, the policies that limit it, and the events that record it (server.md 13).
//! Refuses to know why anybody scales.

use super::super::fault::Fault;
use super::super::tables;
use super::super::view::{self, Table};
use super::job::conflict;
use super::{ApplyTxn, Reply};
use model::id::{EvalId, JobKey};
use model::job::JobSpec;
use model::scaling::policies::{self, refuses_count};
use model::scaling::{ScalingEvent, ScalingEvents, ScalingPolicy};
use model::time::Wall;
use model::validate::{Limits, names};
use std::collections::BTreeSet;
use wire::change::Change;
use wire::command::ScaleJobCommand;
use wire::command::ScaleRequest;
use wire::request::{Refusal, RefusalKind};

impl ApplyTxn<'_> {
    pub(super) fn scale_job(&mut self, order: ScaleJobCommand) -> Result<Reply, Fault> {
        let ScaleJobCommand { request, eval, tracked_versions, at } = order;
        let (key, group) = (&request.job, &request.group);
        let Some(row) = self.job(key)?.cloned() else {
            let unknown = format!("job {:?} not found", key.id);
            return Ok(Err(Refusal::new(RefusalKind::NotFound, unknown)));
        };
        let spec = self.newest_spec(key, &row)?;
        let Some(place) = spec.groups.iter().position(|g| g.name == *group) else {
            let group = names::shown(group);
            let unknown = format!("task group \"{group}\" specified for scaling does not exist in job");
            return Ok(Err(Refusal::new(RefusalKind::Invalid, unknown)));
        };
        let previous_count = spec.groups[place].count;
        let Some(count) = request.count else {
            self.add_scaling_event(&request, previous_count, None, at)?;
            return self.evaluate_newest(key, None, row.newest()?.modify_index, at);
        };
        if let Some(text) = refuses_count(&spec, &spec.groups[place], count, Limits::default().max_count) {
            return Ok(Err(Refusal::new(RefusalKind::Invalid, text)));
        }
        let deployment = view::read_latest_deployment(&self.rows, &tables::job_bytes(key))?;
        if deployment.is_some_and(|d| d.status.is_active()) {
            let blocked = "job scaling blocked due to active deployment";
            return Ok(Err(Refusal::new(RefusalKind::Invalid, blocked)));
        }
        if let Some(refusal) = conflict(&spec, request.enforce_index, Some(&row))? {
            return Ok(Err(refusal));
        }
        let mut scaled = spec.clone();
        scaled.groups[place].count = count;
        let answer = self.add_version(key, &spec, &scaled, tracked_versions, at)?;
        let eval = eval.filter(|_| !row.relation.is_parent());
        self.add_scaling_event(&request, previous_count, eval.as_ref().map(|e| e.id), at)?;
        self.evaluate_newest(key, eval, answer, at)
    }

    fn add_scaling_event(
        &mut self,
        request: &ScaleRequest,
        previous_count: i64,
        eval: Option<EvalId>,
        at: Wall,
    ) -> Result<(), Fault> {
        let key = tables::scaling_events_key(&tables::job_bytes(&request.job), &request.group);
        let mut events: ScalingEvents = tables::get(&self.rows, &key)?.unwrap_or_default();
        events.add(ScalingEvent {
            at,
            count: request.count,
            previous_count,
            message: request.message.clone(),
            error: request.error,
            meta: request.meta.clone(),
            eval,
            create_index: self.index(),
        });
        // nothing else of the job need move
        self.changes.push(Change::Job { job: request.job.clone() });
        self.put(&key, &events)
    }

    /// Scaling policies and events of a job that changed from `was` to `now`. Policies are there while it is not stopped, events while it has their group.
    pub(super) fn update_scaling(
        &mut self,
        key: &JobKey,
        was: Option<&JobSpec>,
        now: Option<&JobSpec>,
    ) -> Result<(), Fault> {
        let groups = now.map(JobSpec::groups_by_name).unwrap_or_default();
        for group in was.into_iter().flat_map(|spec| &spec.groups) {
            if !groups.contains_key(group.name.as_str()) {
                self.remove(&tables::scaling_events_key(&tables::job_bytes(key), &group.name))?;
            }
        }
        let index = self.index();
        let all = |spec: Option<&JobSpec>| spec.map(|spec| policies::of_job(spec, index)).unwrap_or_default();
        let wanted = all(now);
        let mut kept = BTreeSet::new();
        kept.extend(wanted.iter().map(ScalingPolicy::id));
        for gone in all(was).iter().map(ScalingPolicy::id).filter(|id| !kept.contains(id)) {
            self.remove(&tables::scaling_policy_key(gone))?;
            self.set_table_index(Table::ScalingPolicies);
        }
        wanted.into_iter().try_for_each(|policy| self.put_policy(policy))
    }

    /// Writes a policy, unless it says the same as before.
    fn put_policy(&mut self, mut policy: ScalingPolicy) -> Result<(), Fault> {
        let place = tables::scaling_policy_key(policy.id());
        let known: Option<ScalingPolicy> = tables::get(&self.rows, &place)?;
        if let Some(known) = known {
            if known.scaling == policy.scaling {
                return Ok(());
            }
            policy.create_index = known.create_index;
        }
        self.set_table_index(Table::ScalingPolicies);
        self.put(&place, &policy)
    }
}
