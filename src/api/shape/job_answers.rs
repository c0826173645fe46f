//! Answers about jobs besides the job itself: stubs in lists, summaries, versions, and the responses to registration,
//! deregistration and validation.

use super::diff::DiffShape;
use super::dispatch::ChildrenShape;
use super::job::JobShape;
use super::{MetaShape, Null, list_or_null, map_or_null};
use model::alloc::Allocation;
use model::deployment::Deployment;
use model::id::JobKey;
use model::job::Job;
use model::job_summary::{GroupSummary, JobSummary};
use model::submission::Submission;
use model::validate::Validation;
use serde::{Serialize, Serializer};
use state::job_headers::JobHeader;
use std::collections::BTreeMap;

/// A job in a list.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobStub<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    #[serde(rename = "ParentID")]
    parent_id: &'a str,
    name: &'a str,
    namespace: &'a str,
    datacenters: Option<&'a [String]>,
    node_pool: &'a str,
    multiregion: Null,
    #[serde(rename = "Type")]
    job_type: &'static str,
    priority: i64,
    periodic: bool,
    parameterized_job: bool,
    stop: bool,
    status: &'static str,
    status_description: &'static str,
    job_summary: SummaryShape<'a>,
    create_index: u64,
    modify_index: u64,
    job_modify_index: u64,
    submit_time: i64,
    meta: Option<&'a BTreeMap<String, String>>,
}

impl<'a> JobStub<'a> {
    /// `whole`: the caller asked for `meta`; otherwise the member is `null`.
    pub fn new(head: &'a JobHeader, whole: Option<&'a Job>) -> Self {
        JobStub {
            id: &head.key.id,
            parent_id: head.relation.parent(),
            name: &head.name,
            namespace: &head.key.namespace,
            datacenters: list_or_null(&head.datacenters),
            node_pool: &head.node_pool,
            multiregion: (),
            job_type: head.job_type.as_str(),
            priority: head.priority,
            periodic: head.relation.is_periodic(),
            parameterized_job: head.relation.is_parameterized(),
            stop: head.stop,
            status: head.version.status.as_str(),
            status_description: "",
            job_summary: SummaryShape::new(&head.key, &head.summary),
            create_index: head.create_index,
            modify_index: head.version.modify_index,
            job_modify_index: head.version.job_modify_index,
            submit_time: head.version.submit_time.0,
            meta: whole.and_then(|job| map_or_null(&job.spec.meta)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SummaryShape<'a> {
    #[serde(rename = "JobID")]
    job_id: &'a str,
    namespace: &'a str,
    #[serde(serialize_with = "groups")]
    summary: &'a BTreeMap<String, GroupSummary>,
    children: ChildrenShape,
    create_index: u64,
    modify_index: u64,
}

impl<'a> SummaryShape<'a> {
    pub fn new(job: &'a JobKey, summary: &'a JobSummary) -> Self {
        SummaryShape {
            job_id: &job.id,
            namespace: &job.namespace,
            summary: &summary.groups,
            children: ChildrenShape::new(&summary.children),
            create_index: summary.create_index,
            modify_index: summary.modify_index,
        }
    }
}

fn groups<S: Serializer>(groups: &BTreeMap<String, GroupSummary>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(groups.iter().map(|(name, group)| (name, GroupSummaryShape::new(group))))
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct GroupSummaryShape {
    queued: u64,
    complete: u64,
    failed: u64,
    running: u64,
    starting: u64,
    lost: u64,
    unknown: u64,
}

impl GroupSummaryShape {
    fn new(s: &GroupSummary) -> Self {
        GroupSummaryShape {
            queued: s.queued,
            complete: s.complete,
            failed: s.failed,
            running: s.running,
            starting: s.starting,
            lost: s.lost,
            unknown: s.unknown,
        }
    }
}

/// `GET /v1/job/:id/versions`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct VersionsShape<'a> {
    pub versions: Vec<JobShape<'a>>,
    pub diffs: Option<Vec<DiffShape<'a>>>,
    #[serde(flatten)]
    pub meta: MetaShape,
}

/// `GET /v1/job/:id/submission`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SubmissionShape<'a> {
    source: &'a str,
    format: &'a str,
    variable_flags: Option<&'a BTreeMap<String, String>>,
    variables: &'a str,
    namespace: &'a str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    version: u64,
    job_modify_index: u64,
}

impl<'a> SubmissionShape<'a> {
    pub fn new(job: &'a Job, submission: &'a Submission) -> Self {
        SubmissionShape {
            source: &submission.source,
            format: &submission.format,
            variable_flags: map_or_null(&submission.variable_flags),
            variables: &submission.variables,
            namespace: &job.spec.namespace,
            job_id: &job.spec.id,
            version: job.version,
            job_modify_index: job.job_modify_index,
        }
    }
}

/// `PUT /v1/validate/job`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobValidateShape<'a> {
    driver_config_validated: bool,
    validation_errors: Option<&'a [String]>,
    error: String,
    warnings: String,
}

impl<'a> JobValidateShape<'a> {
    pub fn new(validation: &'a Validation) -> Self {
        JobValidateShape {
            driver_config_validated: true,
            validation_errors: list_or_null(&validation.errors),
            error: validation.error_text(),
            warnings: validation.warning_text(),
        }
    }
}

/// The answer to a registration.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobRegisterShape {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub eval_create_index: u64,
    pub job_modify_index: u64,
    pub warnings: String,
    #[serde(flatten)]
    pub meta: MetaShape,
}

/// `PUT /v1/job/:id/stable`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct StabilityShape {
    pub job_modify_index: u64,
    pub index: u64,
}

/// `PUT` and `DELETE /v1/job/:id/versions/:tag/tag`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobTagShape<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// Nanoseconds since 1970.
    pub tagged_time: i64,
    #[serde(flatten)]
    pub meta: MetaShape,
}

/// The answer to a deregistration.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDeregisterShape {
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    pub eval_create_index: u64,
    pub job_modify_index: u64,
    #[serde(rename = "VolumeEvalID")]
    pub volume_eval_id: &'static str,
    pub volume_eval_index: u64,
    #[serde(flatten)]
    pub meta: MetaShape,
}

/// A job with its allocations, as a page of jobs shows it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobStatusShape<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    namespace: &'a str,
    name: &'a str,
    #[serde(rename = "Type")]
    job_type: &'static str,
    node_pool: &'a str,
    datacenters: Option<&'a [String]>,
    priority: i64,
    version: u64,
    submit_time: i64,
    modify_index: u64,
    stop: bool,
    status: &'static str,
    #[serde(rename = "ParentID")]
    parent_id: &'a str,
    is_pack: bool,
    latest_deployment: Option<LatestShape>,
    allocs: Vec<AllocStatusShape<'a>>,
    group_count_sum: i64,
    child_statuses: &'a Option<Vec<&'static str>>,
}

impl<'a> JobStatusShape<'a> {
    /// `children`: their states, if it is a job that makes some.
    pub fn new(
        job: &'a Job,
        allocs: &'a [Allocation],
        latest: Option<&Deployment>,
        children: &'a Option<Vec<&'static str>>,
    ) -> Self {
        let spec = &job.spec;
        JobStatusShape {
            id: &spec.id,
            namespace: &spec.namespace,
            name: &spec.name,
            job_type: spec.job_type.as_str(),
            node_pool: &spec.node_pool,
            datacenters: list_or_null(&spec.datacenters),
            priority: spec.priority,
            version: job.version,
            submit_time: job.submit_time.0,
            modify_index: job.modify_index,
            stop: spec.stop,
            status: job.status.as_str(),
            parent_id: &spec.parent,
            is_pack: spec.meta.contains_key("pack.name"),
            latest_deployment: latest.map(LatestShape::new),
            allocs: allocs.iter().map(AllocStatusShape::new).collect(),
            group_count_sum: spec.groups.iter().map(|g| g.count).sum(),
            child_statuses: children,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllocStatusShape<'a> {
    #[serde(rename = "ID")]
    id: String,
    group: &'a str,
    client_status: &'static str,
    #[serde(rename = "NodeID")]
    node_id: String,
    deployment_status: DeploymentOfAllocShape,
    job_version: u64,
    #[serde(rename = "FollowupEvalID")]
    followup_eval_id: &'static str,
    has_paused_task: bool,
}

impl<'a> AllocStatusShape<'a> {
    fn new(a: &'a Allocation) -> Self {
        AllocStatusShape {
            id: a.id.to_string(),
            group: &a.group,
            client_status: a.client.as_str(),
            node_id: a.node_id.to_string(),
            deployment_status: DeploymentOfAllocShape {
                canary: a.is_canary(),
                healthy: a.health.and_then(|h| h.healthy),
            },
            job_version: a.job_version,
            followup_eval_id: "",
            has_paused_task: false,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DeploymentOfAllocShape {
    canary: bool,
    healthy: Option<bool>,
}

/// The job's newest deployment, in short.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LatestShape {
    #[serde(rename = "ID")]
    id: String,
    is_active: bool,
    job_version: u64,
    status: &'static str,
    status_description: String,
    all_auto_promote: bool,
    requires_promotion: bool,
}

impl LatestShape {
    fn new(d: &Deployment) -> Self {
        let mut waiting = d.groups.values().filter(|g| g.awaits_promotion()).peekable();
        LatestShape {
            id: d.id.to_string(),
            is_active: d.status.is_active(),
            job_version: d.job_version,
            status: d.status.as_str(),
            status_description: d.status_description.clone(),
            requires_promotion: waiting.peek().is_some(),
            all_auto_promote: waiting.peek().is_some() && waiting.all(|g| g.auto_promote),
        }
    }
}
