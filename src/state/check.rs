//! Is a state whole? Reads every row and says the first thing that does not fit the others: indexes against rows, counts
//! against allocations, statuses against what they follow from, the fleet and the digest against all of it.
//!
//! Refuses to know how rows came to be: it computes everything again from the rows that do not follow from others.

mod join_tokens;
mod members;
mod scaling;

use super::digest;
use super::dispatched_spec;
use super::fault::Fault;
use super::orphaned_children;
use super::tables::{self, CreationKey, JobRow, Kind, NodeInfoRow, NodeRow, Part};
use super::view::View;
pub use members::members_are;
use model::alloc::{Allocation, ClientStatus};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::id::{JobKey, NodeId, Uuid};
use model::job::{JobSpec, JobStatus, JobType};
use model::job_summary::Children;
use model::join_token::JoinToken;
use model::key::SigningKey;
use model::member::{Founding, RegionLevel, ServerMember};
use model::namespace::Namespace;
use model::node::computed_class;
use model::pool::{NodePool, is_built_in};
use model::resources::Amount;
use model::scaling::{ScalingEvents, ScalingPolicy};
use model::scheduling::SchedulerConfig;
use model::submission::Submission;
use redb::ReadableTable;
use std::collections::{BTreeMap, BTreeSet};
use wire::record::{self, Record};

type RowBytes = BTreeMap<Vec<u8>, Vec<u8>>;

/// `Err`: the first contradiction, in words for a developer. Costs time and memory in proportion to the state.
pub fn consistent(view: &View) -> Result<(), String> {
    let all = AllRows::read(view)?;
    all.indexes()?;
    all.jobs()?;
    all.allocs()?;
    all.deployments()?;
    all.nodes()?;
    all.scaling()?;
    all.members()?;
    all.join_tokens()?;
    all.fleet(view)
}

type KeyAndRow = (Vec<u8>, Vec<u8>);

/// Every row of the database.
pub fn rows(view: &View) -> Result<Vec<KeyAndRow>, String> {
    let mut rows = Vec::new();
    for entry in view.rows.iter().map_err(|e| fault_text(e.into()))? {
        let (key, value) = entry.map_err(|e| fault_text(e.into()))?;
        rows.push((key.value().to_vec(), value.value().to_vec()));
    }
    Ok(rows)
}

/// Every row, by kind.
#[derive(Default)]
struct AllRows {
    index: u64,
    jobs: BTreeMap<JobKey, JobRow>,
    /// In the order of their keys.
    specs: BTreeMap<Vec<u8>, JobSpec>,
    submissions: BTreeSet<Vec<u8>>,
    evals: Vec<Evaluation>,
    allocs: Vec<Allocation>,
    deployments: Vec<Deployment>,
    described: BTreeMap<NodeId, NodeInfoRow>,
    nodes: BTreeMap<NodeId, NodeRow>,
    policies: BTreeMap<Vec<u8>, ScalingPolicy>,
    /// Jobs and groups that have scaling events.
    scaled: BTreeSet<(JobKey, Vec<u8>)>,
    members: Vec<ServerMember>,
    region_level: Option<RegionLevel>,
    join_tokens: BTreeMap<Uuid, JoinToken>,
    /// By token: how many machines have used it.
    redemptions: BTreeMap<Uuid, u32>,
    indexes: RowBytes,
}

fn fault_text(fault: Fault) -> String {
    fault.to_string()
}

fn row<R: Record>(bytes: &[u8]) -> Result<R, String> {
    record::decode(bytes).map_err(|e| e.to_string())
}

impl AllRows {
    fn read(view: &View) -> Result<AllRows, String> {
        let mut all = AllRows { index: view.index(), ..AllRows::default() };
        let mut digest = 0u64;
        for entry in view.rows.iter().map_err(|e| fault_text(e.into()))? {
            let (key, value) = entry.map_err(|e| fault_text(e.into()))?;
            digest = digest.wrapping_add(digest::row_hash(key.value(), value.value()));
            all.add_row(key.value(), value.value())?;
        }
        if digest != view.digest() {
            return Err(format!("the rows' digest is {digest:x}, the state says {:x}", view.digest()));
        }
        Ok(all)
    }

    fn add_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (kind, rest) = key.split_first().ok_or("a row has an empty key")?;
        let node = || tables::id_at_end(key).map(NodeId).map_err(fault_text);
        match *kind {
            k if k == Kind::Region as u8 => row::<Founding>(value).map(drop)?,
            k if k == Kind::Member as u8 => self.add_member(rest, row(value)?)?,
            k if k == Kind::FeatureLevel as u8 => self.region_level = Some(row(value)?),
            k if k == Kind::JoinToken as u8 => self.add_join_token(rest, row(value)?)?,
            k if k == Kind::Redemption as u8 => self.add_redemption(rest, &row(value)?)?,
            k if k == Kind::SigningKey as u8 => row::<SigningKey>(value).map(drop)?,
            k if k == Kind::OfJob as u8 => {
                let (job, rest) = tables::split_job(rest).ok_or("a job's key is damaged")?;
                self.add_job_row(job, rest, key, value)?;
            }
            k if k == Kind::Eval as u8 => {
                let eval: Evaluation = row(value)?;
                check_key(key, eval.create_index, &eval.id.to_string())?;
                self.evals.push(eval);
            }
            k if k == Kind::Alloc as u8 => {
                let alloc: Allocation = row(value)?;
                check_key(key, alloc.create_index, &alloc.id.to_string())?;
                self.allocs.push(alloc);
            }
            k if k == Kind::Deployment as u8 => {
                let deployment: Deployment = row(value)?;
                check_key(key, deployment.create_index, &deployment.id.to_string())?;
                self.deployments.push(deployment);
            }
            k if k == Kind::Namespace as u8 => {
                let namespace: Namespace = row(value)?;
                if namespace.spec.name.as_bytes() != rest {
                    return Err(format!("namespace {:?} lies at {rest:02x?}", namespace.spec.name));
                }
            }
            k if k == Kind::NodePool as u8 => {
                let pool: NodePool = row(value)?;
                if pool.spec.name.as_bytes() != rest || is_built_in(&pool.spec.name) {
                    return Err(format!("node pool {:?} lies at {rest:02x?}", pool.spec.name));
                }
            }
            k if k == Kind::ScalingPolicy as u8 => {
                self.policies.insert(key.to_vec(), row(value)?);
            }
            k if k == Kind::SchedulerConfig as u8 => row::<SchedulerConfig>(value).map(drop)?,
            k if k == Kind::NodeInfo as u8 => {
                self.described.insert(node()?, row(value)?);
            }
            k if k == Kind::Node as u8 => {
                self.nodes.insert(node()?, row(value)?);
            }
            _ => {
                self.indexes.insert(key.to_vec(), value.to_vec());
            }
        }
        Ok(())
    }

    fn add_job_row(&mut self, job: JobKey, rest: &[u8], key: &[u8], value: &[u8]) -> Result<(), String> {
        match rest.first() {
            Some(p) if *p == Part::Row as u8 => {
                self.jobs.insert(job, row(value)?);
            }
            Some(p) if *p == Part::Spec as u8 => {
                self.specs.insert(key.to_vec(), row(value)?);
            }
            Some(p) if *p == Part::ScalingEvents as u8 => {
                row::<ScalingEvents>(value)?;
                self.scaled.insert((job, rest[1..].to_vec()));
            }
            Some(p) if *p == Part::Submission as u8 => {
                row::<Submission>(value)?;
                self.submissions.insert(key.to_vec());
            }
            _ => {
                self.indexes.insert(key.to_vec(), value.to_vec());
            }
        }
        Ok(())
    }

    fn indexes(&self) -> Result<(), String> {
        let mut wanted = RowBytes::new();
        for e in &self.evals {
            let place = CreationKey { create_index: e.create_index, id: e.id.0 };
            let (job, at) = (tables::job_bytes(&e.job), place.bytes());
            wanted.insert(Kind::EvalId.key(&[place.id.as_bytes()]), e.create_index.to_be_bytes().to_vec());
            wanted.insert(Part::Eval.key(&job, &at), vec![]);
            if !e.status.is_terminal() {
                wanted.insert(Part::OpenEval.key(&job, &at), vec![]);
            }
        }
        for a in &self.allocs {
            let place = CreationKey { create_index: a.create_index, id: a.id.0 };
            let (created, moved) = (a.create_index.to_be_bytes(), a.alloc_modify_index.to_be_bytes());
            let job = tables::job_bytes(&a.job);
            wanted.insert(Kind::AllocId.key(&[place.id.as_bytes()]), created.to_vec());
            wanted.insert(Part::Alloc.key(&job, &place.bytes()), vec![]);
            wanted.insert(tables::alloc_of_node_key(a.node_id, a.id), [created, moved].concat());
            wanted.insert(tables::alloc_of_eval_key(a.eval_id, place), vec![]);
        }
        for d in &self.deployments {
            let place = CreationKey { create_index: d.create_index, id: d.id.0 };
            let created = d.create_index.to_be_bytes().to_vec();
            wanted.insert(Kind::DeploymentId.key(&[place.id.as_bytes()]), created);
            wanted.insert(Part::Deployment.key(&tables::job_bytes(&d.job), &place.bytes()), vec![]);
        }
        self.dispatched(&mut wanted)?;
        self.orphaned_children(&mut wanted)?;
        if let Some((key, _)) = wanted.iter().find(|(k, v)| self.indexes.get(*k) != Some(*v)) {
            return Err(format!("the index row {key:02x?} is missing or wrong"));
        }
        match self.indexes.keys().find(|k| !wanted.contains_key(*k)) {
            Some(key) => Err(format!("the index row {key:02x?} names nothing")),
            None => Ok(()),
        }
    }

    /// Checks the rows that say which versions dispatched jobs were made of, and with which tokens.
    fn dispatched(&self, wanted: &mut RowBytes) -> Result<(), String> {
        let mut uses: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (key, job) in self.jobs.iter().filter(|(_, job)| !job.relation.parent().is_empty()) {
            let newest = job.newest().map_err(fault_text)?.version;
            let spec = tables::spec_key(&tables::job_bytes(key), job.create_index, newest);
            let Some(spec) = self.specs.get(&spec) else { continue };
            if let Some((parent, create_index, version)) = dispatched_spec::origin(spec) {
                *uses
                    .entry(tables::uses_key(&tables::job_bytes(&parent), create_index, version))
                    .or_default() += 1;
            }
            let token = spec.dispatch.as_ref().map(|d| d.token.as_str()).filter(|token| !token.is_empty());
            if let Some(token) = token {
                let parent = tables::job_bytes(&JobKey::new(key.namespace.clone(), job.relation.parent()));
                wanted.insert(Part::Token.key(&parent, token.as_bytes()), key.id.as_bytes().to_vec());
            }
        }
        wanted.extend(uses.into_iter().map(|(key, uses)| (key, uses.to_be_bytes().to_vec())));
        Ok(())
    }

    fn jobs(&self) -> Result<(), String> {
        let mut specs = BTreeSet::new();
        let mut described = BTreeSet::new();
        for (key, job) in &self.jobs {
            let newest = job.newest().map_err(fault_text)?;
            if !newest.tracked || !job.versions.is_sorted_by(|a, b| a.version < b.version) {
                return Err(format!("job {key}: versions are out of order"));
            }
            for v in &job.versions {
                if !v.tracked && v.allocs == 0 {
                    return Err(format!("job {key}: version {} is kept for nobody", v.version));
                }
                let bytes = tables::job_bytes(key);
                specs.insert(tables::spec_key(&bytes, job.create_index, v.version));
                if v.tracked {
                    described.insert(tables::submission_key(&bytes, job.create_index, v.version));
                }
            }
            let names: Vec<_> = job.versions.iter().filter_map(|v| Some(&v.tag.as_ref()?.name)).collect();
            if names.iter().enumerate().any(|(i, name)| names[..i].contains(name)) {
                return Err(format!("job {key}: two versions have one name"));
            }
            if newest.modify_index > self.index {
                return Err(format!("job {key}: changed in the future"));
            }
            self.job_counts(key, job)?;
            self.children(key, job)?;
            let status = self.status_of(key, job);
            if newest.status != status {
                return Err(format!("job {key} is {:?}, but should be {status:?}", newest.status));
            }
        }
        for key in self.indexes.keys() {
            specs.extend(spec_of_uses(key));
        }
        if !specs.iter().eq(self.specs.keys()) {
            return Err("specs and versions of jobs differ".into());
        }
        if self.submissions.is_subset(&described) {
            return Ok(());
        }
        Err("a submission is kept for a version that is not listed".into())
    }

    fn job_counts(&self, key: &JobKey, job: &JobRow) -> Result<(), String> {
        let mine: Vec<&Allocation> = self.allocs.iter().filter(|a| a.job == *key).collect();
        let live = mine.iter().filter(|a| !a.terminal()).count() as u64;
        if live != job.live_allocs {
            return Err(format!("job {key}: {live} live allocations, {} counted", job.live_allocs));
        }
        for v in &job.versions {
            let naming = mine.iter().filter(|a| a.job_version == v.version).count() as u64;
            if naming != v.allocs {
                let counted = v.allocs;
                return Err(format!(
                    "job {key} version {}: {naming} allocations, {counted} counted",
                    v.version
                ));
            }
        }
        let groups: BTreeSet<&String> =
            mine.iter().map(|a| &a.group).chain(job.summary.groups.keys()).collect();
        for group in groups {
            let of = |s| mine.iter().filter(|a| a.group == *group && a.client == s).count() as u64;
            let g = job.summary.groups.get(group).copied().unwrap_or_default();
            use ClientStatus::{Complete, Failed, Lost, Pending, Running, Unknown};
            let now = [(Pending, g.starting), (Running, g.running), (Unknown, g.unknown)];
            let ever = [(Complete, g.complete), (Failed, g.failed), (Lost, g.lost)];
            let wrong = now.iter().find(|(s, n)| of(*s) != *n).or(ever.iter().find(|(s, n)| of(*s) > *n));
            if let Some((status, counted)) = wrong {
                let there = of(*status);
                return Err(format!("job {key} group {group}: {there} are {status:?}, {counted} counted"));
            }
        }
        Ok(())
    }

    /// Checks the counts of children whose parent is not there.
    fn orphaned_children(&self, wanted: &mut RowBytes) -> Result<(), String> {
        let mut left: BTreeMap<JobKey, Children> = BTreeMap::new();
        for (child, row) in self.jobs.iter().filter(|(_, job)| !job.relation.parent().is_empty()) {
            let parent = JobKey::new(child.namespace.clone(), row.relation.parent());
            if !self.jobs.get(&parent).is_some_and(|job| job.relation.is_parent()) {
                left.entry(parent).or_default().count(None, Some(row.newest().map_err(fault_text)?.status));
            }
        }
        let alive = left.into_iter().filter(|(_, children)| children.are_alive());
        wanted.extend(alive.map(|(parent, children)| {
            (orphaned_children::key(&parent), orphaned_children::to_bytes(children))
        }));
        Ok(())
    }

    /// Checks the counts of children; how many ever ended cannot be seen.
    fn children(&self, key: &JobKey, job: &JobRow) -> Result<(), String> {
        let mut there = Children::default();
        for (child, row) in &self.jobs {
            if child.namespace == key.namespace && row.relation.parent() == key.id {
                there.count(None, Some(row.newest().map_err(fault_text)?.status));
            }
        }
        let counted = job.summary.children;
        let right = counted == Children { dead: counted.dead, ..there };
        if right || !job.relation.is_parent() {
            return Ok(());
        }
        Err(format!("job {key} counts {counted:?}, there are {there:?}"))
    }

    fn status_of(&self, key: &JobKey, job: &JobRow) -> JobStatus {
        let evals = || self.evals.iter().filter(|e| e.job == *key);
        let allocs = || self.allocs.iter().filter(|a| a.job == *key);
        let always = job.job_type == JobType::System || job.relation.is_parent();
        match job.stop {
            true if always => JobStatus::Dead,
            false if always => JobStatus::Running,
            _ if allocs().any(|a| !a.terminal()) => JobStatus::Running,
            _ if self.deployments.iter().any(|d| d.job == *key && d.status.is_active()) => JobStatus::Running,
            _ if evals().any(|e| !e.status.is_terminal()) => JobStatus::Pending,
            _ if evals().next().is_some() || allocs().next().is_some() => JobStatus::Dead,
            // the job's evaluations were deleted
            _ if job.versions.last().is_some_and(|v| v.status != JobStatus::Pending) => JobStatus::Dead,
            _ => JobStatus::Pending,
        }
    }

    fn allocs(&self) -> Result<(), String> {
        for a in &self.allocs {
            let job = self.jobs.get(&a.job).filter(|j| j.create_index == a.job_create_index);
            if !job.is_some_and(|j| j.versions.iter().any(|v| v.version == a.job_version)) {
                return Err(format!("allocation {}: {} version {} is not kept", a.id, a.job, a.job_version));
            }
            if !(a.create_index <= a.alloc_modify_index
                && a.alloc_modify_index <= a.modify_index
                && a.modify_index <= self.index)
            {
                return Err(format!("allocation {}: its indexes are out of order", a.id));
            }
        }
        Ok(())
    }

    fn deployments(&self) -> Result<(), String> {
        let mut active = BTreeSet::new();
        for d in &self.deployments {
            if self.jobs.get(&d.job).is_none_or(|j| j.create_index != d.job_create_index) {
                return Err(format!("deployment {}: its job {} is gone", d.id, d.job));
            }
            if d.status.is_active() && !active.insert(&d.job) {
                return Err(format!("{} has two active deployments", d.job));
            }
            for (name, group) in &d.groups {
                let mine = self.allocs.iter().filter(|a| a.deployment == Some(d.id) && a.group == *name);
                let found = |healthy| {
                    let is = move |a: &&Allocation| a.health.is_some_and(|h| h.healthy == Some(healthy));
                    mine.clone().filter(is).count() as u64
                };
                let (placed, healthy, unhealthy) = (mine.clone().count() as u64, found(true), found(false));
                if placed > group.placed || healthy > group.healthy || unhealthy > group.unhealthy {
                    return Err(format!(
                        "deployment {} counts {group:?}, but there are {placed}, {healthy}, {unhealthy}",
                        d.id
                    ));
                }
            }
        }
        for alloc in &self.allocs {
            let Some(id) = alloc.deployment else { continue };
            let Some(deployment) = self.deployments.iter().find(|d| d.id == id) else {
                return Err(format!("an allocation names deployment {id}, which is gone"));
            };
            if deployment.job_version != alloc.job_version {
                let (of, is) = (deployment.job_version, alloc.job_version);
                return Err(format!(
                    "allocation {} has version {is}, its deployment {id} version {of}",
                    alloc.id
                ));
            }
        }
        Ok(())
    }

    fn nodes(&self) -> Result<(), String> {
        if !self.nodes.keys().eq(self.described.keys()) {
            return Err("nodes and their descriptions differ".into());
        }
        match self.described.values().find(|d| computed_class(&d.info) != d.computed_class) {
            Some(d) => Err(format!("node {}: its class is not computed from its description", d.info.id)),
            None => Ok(()),
        }
    }

    fn fleet(&self, view: &View) -> Result<(), String> {
        let mut used: BTreeMap<NodeId, Amount> = BTreeMap::new();
        for a in self.allocs.iter().filter(|a| !a.client_terminal()) {
            let sum = used.entry(a.node_id).or_default();
            *sum = sum.plus(a.resources.total());
        }
        let fleet = view.fleet();
        if fleet.nodes() != self.nodes.len() {
            return Err(format!("the fleet has {} nodes, the state {}", fleet.nodes(), self.nodes.len()));
        }
        for (id, node) in &self.nodes {
            let used = used.get(id).copied().unwrap_or_default();
            let found = fleet.usage(*id).map(|(used, _)| used);
            if found != Some(used) {
                return Err(format!("node {id}: {used:?} is used, the fleet says {found:?}"));
            }
            if fleet.status(*id) != Some(node.status) {
                return Err(format!("node {id}: the fleet says {:?}", fleet.status(*id)));
            }
        }
        Ok(())
    }
}

/// Which part of a job a row is, and where its key says so.
fn part(key: &[u8]) -> Option<(u8, usize)> {
    let (_, rest) = tables::split_job(key.strip_prefix(&[Kind::OfJob as u8])?)?;
    Some((*rest.first()?, key.len() - rest.len()))
}

pub fn is_spec(key: &[u8]) -> bool {
    part(key).is_some_and(|(part, _)| part == Part::Spec as u8)
}

/// The row of the version whose uses are counted there.
fn spec_of_uses(key: &[u8]) -> Option<Vec<u8>> {
    let (_, at) = part(key).filter(|(part, _)| *part == Part::Uses as u8)?;
    let mut spec = key.to_vec();
    spec[at] = Part::Spec as u8;
    Some(spec)
}

fn check_key(key: &[u8], create_index: u64, id: &str) -> Result<(), String> {
    let place = CreationKey::from_key_end(key).map_err(fault_text)?;
    if place.create_index == create_index && place.id.to_string() == id {
        return Ok(());
    }
    Err(format!("the row of {id} lies at {}, {}", place.create_index, place.id))
}
