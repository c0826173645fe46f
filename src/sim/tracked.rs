//! The state as the checkers see it: read whole when a server begins its life, then followed by what each turn says that it has
//! changed, and now and then held against the whole again. Refuses to know what must be so.

use super::region::Region;
use model::alloc::{Allocation, ClientStatus};
use model::claims::Claim;
use model::deployment::Deployment;
use model::drain::Drain;
use model::eval::Evaluation;
use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use model::job::Job;
use model::node::Node;
use state::fault::Fault;
use state::view::View;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use wire::change::{AllocChange, Change};

#[derive(Clone, Default)]
pub struct TrackedState {
    pub allocs: BTreeMap<AllocId, Arc<Allocation>>,
    pub evals: BTreeMap<EvalId, Arc<Evaluation>>,
    pub deployments: BTreeMap<DeploymentId, Arc<Deployment>>,
    pub jobs: BTreeMap<JobKey, Arc<Job>>,
    pub nodes: BTreeMap<NodeId, Arc<Openness>>,
}

/// Whether a node takes allocations, and gives its own away.
#[derive(Debug, PartialEq, Eq)]
pub struct Openness {
    pub eligible: bool,
    pub drain: Option<Drain>,
}

impl Openness {
    pub fn of(node: &Node) -> Arc<Openness> {
        Arc::new(Openness { eligible: node.eligible, drain: node.drain.clone() })
    }
}

impl TrackedState {
    pub fn read(view: &View) -> Result<TrackedState, Fault> {
        let mut state = TrackedState::default();
        state.allocs.extend(view.allocs(None, usize::MAX)?.into_iter().map(|a| (a.id, Arc::new(a))));
        state.evals.extend(view.evals(None, usize::MAX)?.into_iter().map(|e| (e.id, Arc::new(e))));
        let deployments = view.deployments(None, usize::MAX)?;
        state.deployments.extend(deployments.into_iter().map(|d| (d.id, Arc::new(d))));
        state.jobs.extend(view.jobs(None, "", None, usize::MAX)?.into_iter().map(|j| (j.spec.key(), j)));
        state.nodes.extend(view.nodes()?.into_iter().map(|n| (n.info.id, Openness::of(&n))));
        Ok(state)
    }

    /// `before` gets what it was until now.
    fn follow(&mut self, change: &Change, view: &View, before: &mut TrackedState) -> Result<(), Fault> {
        match change {
            Change::Alloc(a) => {
                put((&mut self.allocs, &mut before.allocs), a.id, view.alloc(a.id)?.map(Arc::new));
            }
            Change::Eval(e) | Change::EvalDeleted(e) => {
                put((&mut self.evals, &mut before.evals), e.id, view.eval(e.id)?.map(Arc::new));
            }
            Change::Deployment(d) => {
                let value = view.deployment(d.id)?.map(Arc::new);
                put((&mut self.deployments, &mut before.deployments), d.id, value);
            }
            Change::Job { job } => put((&mut self.jobs, &mut before.jobs), job.clone(), view.job(job)?),
            Change::Node(n) => {
                let value = view.node(n.id)?.map(|node| Openness::of(&node));
                put((&mut self.nodes, &mut before.nodes), n.id, value);
            }
            Change::Namespace
            | Change::NodePool
            | Change::Scheduler
            | Change::Member { .. }
            | Change::FeatureLevel { .. } => {}
        }
        Ok(())
    }

    /// What is not as the state has it: something changed, and no turn said so. Only the mark that a plan leaves on its
    /// evaluation, for workers, is nobody else's business.
    pub fn is_as(&self, whole: &TrackedState) -> Result<(), String> {
        same("allocation", &self.allocs, &whole.allocs)?;
        same("evaluation", &unmarked(&self.evals), &unmarked(&whole.evals))?;
        same("deployment", &self.deployments, &whole.deployments)?;
        same("job", &self.jobs, &whole.jobs)?;
        same("node", &self.nodes, &whole.nodes)
    }
}

fn unmarked(evals: &BTreeMap<EvalId, Arc<Evaluation>>) -> BTreeMap<EvalId, Evaluation> {
    let mut all = BTreeMap::default();
    all.extend(evals.iter().map(|(id, e)| (*id, Evaluation { modify_index: 0, ..Evaluation::clone(e) })));
    all
}

type Rows<K, V> = BTreeMap<K, V>;

fn put<K: Ord + Clone, V>((all, before): (&mut Rows<K, V>, &mut Rows<K, V>), key: K, value: Option<V>) {
    let old = match value {
        Some(value) => all.insert(key.clone(), value),
        None => all.remove(&key),
    };
    if let Some(old) = old {
        before.entry(key).or_insert(old);
    }
}

fn same<K, V>(what: &str, seen: &BTreeMap<K, V>, whole: &BTreeMap<K, V>) -> Result<(), String>
where
    K: Ord + Debug,
    V: PartialEq + Debug,
{
    let keys = seen.keys().chain(whole.keys());
    match keys.into_iter().find(|key| seen.get(*key) != whole.get(*key)) {
        None => Ok(()),
        Some(key) => Err(format!(
            "no turn told of {what} {key:?}: {:#?} is really {:#?}",
            seen.get(key),
            whole.get(key)
        )),
    }
}

impl Region {
    /// After a turn of a server whose state is at `view`; gives what has changed as it was before, and maybe more. `whole`: changes may
    /// have gone untold.
    pub fn track(&mut self, view: &View, changes: &[Change], whole: bool) -> Result<TrackedState, Fault> {
        self.tracked_index = view.index();
        if whole {
            let before = std::mem::replace(&mut self.tracked, TrackedState::read(view)?);
            self.tracked.allocs.values().for_each(|alloc| note_claims(&mut self.claims, alloc));
            return Ok(before);
        }
        let mut before = TrackedState::default();
        for change in changes {
            self.tracked.follow(change, view, &mut before)?;
            if let Change::Alloc(a) = change
                && let Some(alloc) = self.tracked.allocs.get(&a.id)
            {
                note_claims(&mut self.claims, alloc);
            }
        }
        Ok(before)
    }
}

fn note_claims(all: &mut BTreeMap<AllocId, Vec<Claim>>, alloc: &Allocation) {
    let claims: Vec<Claim> = alloc.resources.claims().collect();
    if !claims.is_empty() {
        all.insert(alloc.id, claims);
    }
}

/// What has ended on its node does not live again.
pub fn an_end_is_final(before: &TrackedState, now: &TrackedState, changes: &[Change]) -> Result<(), String> {
    let ended = |a: &Allocation| matches!(a.client, ClientStatus::Complete | ClientStatus::Failed);
    for change in changes {
        let Change::Alloc(AllocChange { id, .. }) = change else { continue };
        if let (Some(before), Some(now)) = (before.allocs.get(id), now.allocs.get(id))
            && ended(before)
            && !ended(now)
        {
            let (was, is) = (before.client.as_str(), now.client.as_str());
            return Err(format!("{id} of {} was {was}, and now is {is}", now.job));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::samples::{Region as Sample, eval, register, spec};

    #[test]
    fn what_no_turn_told_of_is_found() {
        let mut region = Sample::default();
        let mut seen = TrackedState::read(&region.view()).unwrap();
        let told = region.run(&register(spec("web", 1), Some(eval(1, "web")))).changes;
        let whole = TrackedState::read(&region.view()).unwrap();
        assert!(seen.is_as(&whole).unwrap_err().starts_with("no turn told of evaluation"));
        let before = &mut TrackedState::default();
        told.iter().try_for_each(|change| seen.follow(change, &region.view(), before)).unwrap();
        assert_eq!(before.jobs.len(), 0, "nothing was there before");
        assert_eq!(seen.is_as(&whole), Ok(()));
        seen.jobs.values_mut().for_each(|job| Arc::make_mut(job).version += 1);
        assert!(seen.is_as(&whole).unwrap_err().starts_with("no turn told of job"));
    }

    #[test]
    fn an_end_that_is_taken_back_is_found() {
        use state::samples::{alloc, alloc_id, eval_id, node_id};
        let mut region = Sample::default();
        region.run(&register(spec("web", 1), None));
        let with = |client| {
            let alloc = alloc(1, &region.job("web"), node_id(1), eval_id(1));
            let mut state = TrackedState::default();
            state.allocs.insert(alloc_id(1), Arc::new(Allocation { client, ..alloc }));
            state
        };
        let change = AllocChange {
            id: alloc_id(1),
            job: region.job("web").spec.key(),
            node: node_id(1),
            eval: eval_id(1),
            for_node: false,
            freed: false,
        };
        let changes = [Change::Alloc(change)];
        let (running, ended) = (with(ClientStatus::Running), with(ClientStatus::Complete));
        assert_eq!(an_end_is_final(&running, &ended, &changes), Ok(()));
        assert!(an_end_is_final(&ended, &running, &changes).is_err());
    }
}
