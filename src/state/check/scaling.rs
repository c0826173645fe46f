//! Scaling policies and events against the jobs that they are of.

use super::{AllRows, fault_text, tables};
use model::scaling::policies;
use std::collections::BTreeSet;

impl AllRows {
    pub(super) fn scaling(&self) -> Result<(), String> {
        let mut wanted = BTreeSet::new();
        for (key, job) in &self.jobs {
            let newest = job.newest().map_err(fault_text)?;
            let place = tables::spec_key(&tables::job_bytes(key), job.create_index, newest.version);
            let Some(spec) = self.specs.get(&place) else { continue };
            for mut said in policies::of_job(spec, 0) {
                let place = tables::scaling_policy_key(said.id());
                let found = self.policies.get(&place).filter(|p| p.modify_index <= self.index);
                if let Some(found) = found {
                    (said.create_index, said.modify_index) = (found.create_index, found.modify_index);
                }
                if found != Some(&said) {
                    return Err(format!("{key} says {said:?}, the region {found:?}"));
                }
                wanted.insert(place);
            }
        }
        if let Some(policy) = self.policies.iter().find(|(place, _)| !wanted.contains(*place)) {
            return Err(format!("nobody says any more that {policy:?}"));
        }
        match self.scaled.iter().find(|(job, group)| !self.has_group(job, group)) {
            Some((job, _)) => Err(format!("events of a group are kept that {job} does not have")),
            None => Ok(()),
        }
    }

    fn has_group(&self, key: &model::id::JobKey, group: &[u8]) -> bool {
        let newest = self.jobs.get(key).and_then(|job| Some((job, job.versions.last()?)));
        let spec = newest.and_then(|(job, newest)| {
            self.specs.get(&tables::spec_key(&tables::job_bytes(key), job.create_index, newest.version))
        });
        spec.is_some_and(|spec| spec.groups.iter().any(|g| g.name.as_bytes() == group))
    }
}
