//! Jobs that make other jobs: what a job has to do with those that it made, and what a child is, launched or dispatched
//! (server.md 10 and 11).
//!
//! Refuses to know: what time it is, and who launches or dispatches.

use super::dispatch::{Dispatch, DispatchRequest};
use super::job::JobSpec;
use super::time::Wall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a job has to do with other jobs. Encoded by position: append only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobRelation {
    #[default]
    Alone,
    /// A job that launches children: those up to `launched` are decided.
    Periodic { launched: Wall },
    /// A job that was made by another one of its namespace.
    Child { parent: String },
    /// A job to be dispatched. `periodic`: what is dispatched launches children.
    Parameterized { periodic: bool },
    /// A job that was dispatched from one of its namespace, and launches children.
    PeriodicChild { parent: String, launched: Wall },
}

impl JobRelation {
    pub fn of_new(spec: &JobSpec, at: Wall) -> JobRelation {
        let (periodic, parent) = (spec.periodic.is_some(), spec.parent.clone());
        match (periodic, parent.is_empty()) {
            _ if spec.is_parameterized() => JobRelation::Parameterized { periodic },
            (true, true) => JobRelation::Periodic { launched: at },
            (true, false) => JobRelation::PeriodicChild { parent, launched: at },
            (false, true) => JobRelation::Alone,
            (false, false) => JobRelation::Child { parent },
        }
    }

    pub fn is_periodic(&self) -> bool {
        self.launched().is_some() || matches!(self, JobRelation::Parameterized { periodic: true })
    }

    pub fn is_parameterized(&self) -> bool {
        matches!(self, JobRelation::Parameterized { .. })
    }

    /// Up to when launches are decided. `None`: it has none.
    pub fn launched(&self) -> Option<Wall> {
        match self {
            JobRelation::Periodic { launched } | JobRelation::PeriodicChild { launched, .. } => {
                Some(*launched)
            }
            _ => None,
        }
    }

    /// Launches up to `moment` are decided now, if it has any.
    pub fn decide_launches(&mut self, moment: Wall) {
        if let JobRelation::Periodic { launched } | JobRelation::PeriodicChild { launched, .. } = self {
            *launched = moment;
        }
    }

    /// Empty: it has none.
    pub fn parent(&self) -> &str {
        match self {
            JobRelation::Child { parent } | JobRelation::PeriodicChild { parent, .. } => parent,
            _ => "",
        }
    }

    /// Whether the job makes others, and runs nothing itself.
    pub fn is_parent(&self) -> bool {
        self.is_parameterized() || self.launched().is_some()
    }

    /// Why a job cannot become what `spec` says, if it cannot.
    pub fn refuses(&self, spec: &JobSpec) -> Option<String> {
        let changes = |what: &str, is: bool, becomes: bool| {
            let shown = |so: bool| if so { what.to_string() } else { format!("non-{what}") };
            (is != becomes).then(|| format!("cannot update {} job to being {}", shown(is), shown(becomes)))
        };
        changes("periodic", self.is_periodic(), spec.periodic.is_some())
            .or_else(|| changes("parameterized", self.is_parameterized(), spec.is_parameterized()))
    }
}

/// The child that `parent` launches at that moment.
pub fn launched(parent: &JobSpec, at: Wall) -> JobSpec {
    let id = format!("{}/periodic-{}", parent.id, at.unix_seconds());
    let dispatch = parent.dispatch.as_ref().map(Dispatch::handed_on);
    JobSpec { periodic: None, dispatch, ..child(parent, id) }
}

/// All of the parent, under a name of its own.
fn child(parent: &JobSpec, id: String) -> JobSpec {
    JobSpec { name: id.clone(), id, parent: parent.id.clone(), stop: false, ..parent.clone() }
}

/// `made_of`: the version that `parent` is.
pub fn dispatched(parent: &JobSpec, id: String, request: DispatchRequest, made_of: (u64, u64)) -> JobSpec {
    let mut meta = parent.meta.clone();
    meta.extend(request.meta);
    let priority = if request.priority == 0 { parent.priority } else { request.priority };
    let dispatch = Dispatch { payload: request.payload, token: request.token, made_of: Some(made_of) };
    JobSpec { meta, priority, dispatch: Some(dispatch), ..child(parent, id) }
}

/// A child without what it shares with the version that it was made of, if `whole` gives it back. It has no groups, which no
/// job is without.
pub fn without_parent(spec: &JobSpec, parent: &JobSpec) -> Option<JobSpec> {
    let own = |(key, value): &(&String, &String)| parent.meta.get(key.as_str()) != Some(*value);
    let mut meta = BTreeMap::new();
    for (key, value) in spec.meta.iter().filter(own) {
        meta.insert(key.clone(), value.clone());
    }
    let thin = JobSpec {
        constraints: vec![],
        affinities: vec![],
        spreads: vec![],
        groups: vec![],
        meta,
        periodic: None,
        parameterized: None,
        ..spec.clone()
    };
    (whole(thin.clone(), parent.clone()) == *spec).then_some(thin)
}

/// The child again.
pub fn whole(thin: JobSpec, parent: JobSpec) -> JobSpec {
    let mut meta = parent.meta;
    meta.extend(thin.meta);
    JobSpec {
        constraints: parent.constraints,
        affinities: parent.affinities,
        spreads: parent.spreads,
        groups: parent.groups,
        periodic: parent.periodic,
        parameterized: parent.parameterized,
        meta,
        ..thin
    }
}

#[cfg(test)]
mod tests;
