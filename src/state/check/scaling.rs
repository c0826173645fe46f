//! Scaling policies and events against the jobs that they are of.

use super::{All, say, tables};
use crate::model::scaling::policy_id;
use crate::model::tree::BTreeSet;

impl All {
    pub(super) fn scaling(&self) -> Result<(), String> {
        let mut wanted = BTreeSet::new();
        for (key, job) in &self.jobs {
            let newest = job.newest().map_err(say)?;
            let place = tables::spec_key(&tables::job_bytes(key), job.create_index, newest.version);
            let Some(spec) = self.specs.get(&place).filter(|spec| !spec.stop) else { continue };
            for group in &spec.groups {
                let Some(scaling) = &group.scaling else { continue };
                let place = tables::scaling_policy_key(policy_id(&key.namespace, &key.id, &group.name));
                let found = self.policies.get(&place);
                let same = found.is_some_and(|p| {
                    p.job == *key
                        && p.group == group.name
                        && p.scaling == *scaling
                        && p.modify_index <= self.index
                });
                if !same {
                    return Err(format!(
                        "group {} of {key} says {scaling:?}, the region {found:?}",
                        group.name
                    ));
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

    fn has_group(&self, key: &crate::model::id::JobKey, group: &[u8]) -> bool {
        let newest = self.jobs.get(key).and_then(|job| Some((job, job.versions.last()?)));
        let spec = newest.and_then(|(job, newest)| {
            self.specs.get(&tables::spec_key(&tables::job_bytes(key), job.create_index, newest.version))
        });
        spec.is_some_and(|spec| spec.groups.iter().any(|g| g.name.as_bytes() == group))
    }
}
