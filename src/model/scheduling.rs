//! How the scheduler is told to work: what holds in the whole region, and what a node pool says otherwise.
//! Refuses to know how anything is placed.

use super::job::JobType;
use serde::{Deserialize, Serialize};

/// Which of two nodes with room is the better one. Encoded by position: append only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// The fuller one.
    #[default]
    Binpack,
    /// The emptier one.
    Spread,
}

impl Algorithm {
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Binpack => "binpack",
            Algorithm::Spread => "spread",
        }
    }

    pub fn parse(text: &str) -> Option<Algorithm> {
        [Algorithm::Binpack, Algorithm::Spread].into_iter().find(|a| a.as_str() == text)
    }
}

/// For which schedulers something more urgent may push something less urgent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptionConfig {
    pub system: bool,
    pub sysbatch: bool,
    pub batch: bool,
    pub service: bool,
}

impl PreemptionConfig {
    pub fn allows(self, job_type: JobType) -> bool {
        match job_type {
            JobType::Service => self.service,
            JobType::Batch => self.batch,
            JobType::System => self.system,
            JobType::Sysbatch => self.sysbatch,
        }
    }
}

impl Default for PreemptionConfig {
    fn default() -> Self {
        PreemptionConfig { system: true, sysbatch: false, batch: false, service: false }
    }
}

/// What an operator says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerSettings {
    pub algorithm: Algorithm,
    /// Tasks may be given more memory than is reserved for them.
    pub memory_oversubscription: bool,
    /// For callers without the right to manage the region: without access rules there are none, so it refuses no job.
    pub reject_job_registration: bool,
    /// No evaluation is handed out.
    pub pause_eval_broker: bool,
    pub preemption: PreemptionConfig,
}

impl SchedulerSettings {
    /// `pool`: what the job's node pool says, if there is one.
    pub fn in_pool(&self, pool: Option<&PoolScheduling>) -> Scheduling {
        let said = pool.copied().unwrap_or_default();
        Scheduling {
            algorithm: said.algorithm.unwrap_or(self.algorithm),
            memory_oversubscription: said.memory_oversubscription.unwrap_or(self.memory_oversubscription),
            preemption: self.preemption,
        }
    }
}

/// The settings as the region keeps them. All zero until an operator has said something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerConfig {
    pub settings: SchedulerSettings,
    pub create_index: u64,
    pub modify_index: u64,
}

/// What a node pool says for its jobs. `None`: as in the whole region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolScheduling {
    pub algorithm: Option<Algorithm>,
    pub memory_oversubscription: Option<bool>,
}

/// What holds for the jobs of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    pub algorithm: Algorithm,
    pub memory_oversubscription: bool,
    pub preemption: PreemptionConfig,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_heard_before_the_region_and_only_on_what_it_says() {
        let region = SchedulerSettings { algorithm: Algorithm::Spread, ..SchedulerSettings::default() };
        let plain = Scheduling { algorithm: Algorithm::Spread, ..Scheduling::default() };
        assert_eq!(region.in_pool(None), plain);
        assert_eq!(region.in_pool(Some(&PoolScheduling::default())), plain);
        let pool = PoolScheduling { algorithm: Some(Algorithm::Binpack), memory_oversubscription: None };
        assert_eq!(region.in_pool(Some(&pool)), Scheduling::default());
        let pool = PoolScheduling { algorithm: None, memory_oversubscription: Some(true) };
        assert_eq!(region.in_pool(Some(&pool)), Scheduling { memory_oversubscription: true, ..plain });
    }

    #[test]
    fn each_kind_of_job_preempts_by_its_own_switch() {
        use JobType::{Batch, Service, Sysbatch, System};
        let off = PreemptionConfig { system: false, ..PreemptionConfig::default() };
        let allowed = |p: PreemptionConfig| [Service, Batch, System, Sysbatch].map(|t| p.allows(t));
        assert_eq!(allowed(PreemptionConfig::default()), [false, false, true, false]);
        assert_eq!(allowed(PreemptionConfig { service: true, ..off }), [true, false, false, false]);
        assert_eq!(allowed(PreemptionConfig { batch: true, ..off }), [false, true, false, false]);
        assert_eq!(allowed(PreemptionConfig { sysbatch: true, ..off }), [false, false, false, true]);
    }
}
