//! How far groups may be scaled, and what was said of it: read from the rows. Refuses to know who scales.

use super::fault::Fault;
use super::tables::{self, Kind};
use super::view::View;
use model::id::{JobKey, ScalingPolicyId};
use model::scaling::{ScalingEvents, ScalingPolicy};

impl View {
    pub fn scaling_policy(&self, id: ScalingPolicyId) -> Result<Option<ScalingPolicy>, Fault> {
        tables::get(&self.rows, &tables::scaling_policy_key(id))
    }

    /// Ids that begin with these hex digits (dashes are skipped), ordered.
    pub fn scaling_policy_ids(&self, prefix: &str, limit: usize) -> Result<Vec<ScalingPolicyId>, Fault> {
        Ok(self.ids(Kind::ScalingPolicy, prefix, limit)?.into_iter().map(ScalingPolicyId).collect())
    }

    /// The scaling events of one group.
    pub fn scaling_events(&self, job: &JobKey, group: &str) -> Result<ScalingEvents, Fault> {
        let key = tables::scaling_events_key(&tables::job_bytes(job), group);
        Ok(tables::get(&self.rows, &key)?.unwrap_or_default())
    }
}
