//! How good a node is for one more allocation of a group (reference: scheduler 16): every score with its name and its
//! arithmetic. Refuses to know which nodes exist.

use crate::model::resources::Amount;
use std::collections::BTreeMap;

/// What binpack divides by: the most it can be.
const MAX_FIT: f64 = 18.0;

/// How full the node is afterwards: 0 empty, 1 full. `20 - (10^free cpu + 10^free memory)`, held within 0 and 18, over 18;
/// disk does not count (reference: scheduler 16.1).
pub fn binpack(available: Amount, used_then: Amount) -> f64 {
    let free = |all: i64, used: i64| if all > 0 { 1.0 - used as f64 / all as f64 } else { 0.0 };
    let free_cpu = free(available.cpu_mhz, used_then.cpu_mhz);
    let free_memory = free(available.memory_mb, used_then.memory_mb);
    (20.0 - 10f64.powf(free_cpu) - 10f64.powf(free_memory)).clamp(0.0, MAX_FIT) / MAX_FIT
}

/// `-(k + 1) / count` for `k` allocations of the same group that are there already; none: not a score at all
/// (reference: scheduler 16.3).
pub fn job_anti_affinity(there: i64, count: i64) -> Option<f64> {
    (there > 0).then(|| -((there + 1) as f64) / count.max(1) as f64)
}

/// The scores of one node for one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    pub binpack: f64,
    pub job_anti_affinity: Option<f64>,
}

impl Scores {
    /// The mean of the scores that there are.
    pub fn normalized(&self) -> f64 {
        let appended = [Some(self.binpack), self.job_anti_affinity];
        let (sum, n) = appended.iter().flatten().fold((0.0, 0), |(sum, n), s| (sum + s, n + 1));
        sum / f64::from(n.max(1))
    }

    /// As metrics show them: a score that does not apply is shown as 0, and is no part of the mean.
    pub fn by_name(&self) -> BTreeMap<String, f64> {
        let named = [
            ("binpack", self.binpack),
            ("job-anti-affinity", self.job_anti_affinity.unwrap_or(0.0)),
            ("node-reschedule-penalty", 0.0),
            ("node-affinity", 0.0),
        ];
        named.into_iter().map(|(name, score)| (name.to_string(), score)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::testing::amount;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn binpack_worked_examples() {
        let cases = [
            ((4000, 8192), (0, 0), 0.0),
            ((4000, 8192), (2000, 4096), 0.759747),
            ((4000, 8192), (1000, 6144), 0.699906),
            ((4000, 8192), (4000, 8192), 1.0),
            ((4096 - 2048, 8192 - 4096), (1024, 2048), 0.759747),
            ((4000, 8192), (5000, 4096), 0.904188),
        ];
        for (all, used, want) in cases {
            let score = binpack(amount(all.0, all.1, 0), amount(used.0, used.1, 0));
            assert!(close(score, want), "{all:?} {used:?}: {score}");
        }
    }

    #[test]
    fn a_node_without_cpu_or_memory_has_a_score_too() {
        assert!(close(binpack(Amount::ZERO, Amount::ZERO), 1.0));
    }

    #[test]
    fn anti_affinity_worked_examples() {
        let cases =
            [(1, 1, -2.0), (3, 1, -0.666667), (4, 1, -0.5), (4, 2, -0.75), (10, 1, -0.2), (10, 3, -0.4)];
        for (count, there, want) in cases {
            assert!(job_anti_affinity(there, count).is_some_and(|s| close(s, want)), "{count} {there}");
        }
        assert_eq!(job_anti_affinity(0, 3), None);
    }

    #[test]
    fn normalisation_worked_examples() {
        for (anti, want) in [(None, 0.759747), (Some(-0.5), 0.129873)] {
            let scores = Scores { binpack: 0.759747, job_anti_affinity: anti };
            assert!(close(scores.normalized(), want), "{anti:?}");
        }
    }

    #[test]
    fn scores_that_do_not_apply_are_shown_as_zero() {
        let shown = Scores { binpack: 0.5, job_anti_affinity: None }.by_name();
        let names: Vec<&str> = shown.keys().map(String::as_str).collect();
        assert_eq!(names, ["binpack", "job-anti-affinity", "node-affinity", "node-reschedule-penalty"]);
        assert_eq!(shown.values().filter(|s| **s == 0.0).count(), 3);
    }
}
