//! How good a node is for one more allocation of a group (scheduler.md 16): every score with its name and its
//! arithmetic. Refuses to know which nodes exist.

use model::alloc::Scores;
use model::resources::Amount;
use model::scheduling::Algorithm;

/// The highest fit: scores are divided by it.
const MAX_FIT: f64 = 18.0;

/// How well the node is used afterwards, whatever the algorithm shown as `binpack`: how full it is (0 empty, 1 full), or, to
/// spread, how empty. With `t = 10^free cpu + 10^free memory` it is `20 - t` or `t - 2`, held within 0 and 18, over 18; disk
/// does not count (scheduler.md 16.1).
pub fn fit(algorithm: Algorithm, available: Amount, used_then: Amount) -> f64 {
    let free = |all: i64, used: i64| if all > 0 { 1.0 - used as f64 / all as f64 } else { 0.0 };
    let free_cpu = free(available.cpu_mhz, used_then.cpu_mhz);
    let free_memory = free(available.memory_mb, used_then.memory_mb);
    let (cpu, memory) = (10f64.powf(free_cpu), 10f64.powf(free_memory));
    let fit = match algorithm {
        Algorithm::Binpack => 20.0 - cpu - memory,
        Algorithm::Spread => cpu + memory - 2.0,
    };
    fit.clamp(0.0, MAX_FIT) / MAX_FIT
}

/// `-(k + 1) / count` for `k` allocations of the same group that are there already; none: not a score at all
/// (scheduler.md 16.3).
pub fn job_anti_affinity(there: i64, count: i64) -> Option<f64> {
    (there > 0).then(|| -((there + 1) as f64) / count.max(1) as f64)
}

/// `fit` with a cache of the latest results: fleets are made of few kinds of machines.
#[derive(Default)]
pub struct Fit {
    algorithm: Algorithm,
    lately: [(Amount, Amount, f64); 4],
    next: usize,
}

impl Fit {
    pub fn new(algorithm: Algorithm) -> Fit {
        Fit { algorithm, ..Fit::default() }
    }

    pub fn of(&mut self, available: Amount, used_then: Amount) -> f64 {
        let known = self.lately.iter().find(|(a, u, _)| (*a, *u) == (available, used_then));
        if let Some((_, _, score)) = known.filter(|_| available != Amount::ZERO) {
            return *score;
        }
        let score = fit(self.algorithm, available, used_then);
        self.lately[self.next] = (available, used_then, score);
        self.next = (self.next + 1) % self.lately.len();
        score
    }
}

/// The sum of a node's own scores, and how many there are: all but what spread blocks add.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeScores {
    pub sum: f64,
    pub scores: usize,
}

impl NodeScores {
    pub fn of(scores: &Scores) -> Self {
        let others =
            [scores.job_anti_affinity, scores.reschedule_penalty, scores.node_affinity, scores.devices];
        let applies = others.iter().filter(|s| **s != 0.0);
        applies.fold(NodeScores { sum: scores.binpack, scores: 1 }, |own, s| NodeScores {
            sum: own.sum + s,
            scores: own.scores + 1,
        })
    }

    /// The mean, together with what the spread blocks add: 0 is no score.
    pub fn mean_with(self, spread: f64) -> f64 {
        (self.sum + spread) / (self.scores + usize::from(spread != 0.0)) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::amount;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn worked_examples_of_both_algorithms() {
        let cases = [
            ((4000, 8192), (0, 0), 0.0),
            ((4000, 8192), (2000, 4096), 0.759747),
            ((4000, 8192), (1000, 6144), 0.699906),
            ((4000, 8192), (4000, 8192), 1.0),
            ((4096 - 2048, 8192 - 4096), (1024, 2048), 0.759747),
            ((4000, 8192), (5000, 4096), 0.904188),
        ];
        for (all, used, want) in cases {
            let score = |a| fit(a, amount(all.0, all.1, 0), amount(used.0, used.1, 0));
            let (fuller, emptier) = (score(Algorithm::Binpack), score(Algorithm::Spread));
            assert!(close(fuller, want), "{all:?} {used:?}: {fuller}");
            // what is over full is as bad as full
            let mirrored = if used.0 > all.0 { 0.095812 } else { 1.0 - want };
            assert!(close(emptier, mirrored), "{all:?} {used:?}: {emptier}");
        }
    }

    #[test]
    fn a_node_without_cpu_or_memory_has_a_score_too() {
        assert!(close(fit(Algorithm::Binpack, Amount::ZERO, Amount::ZERO), 1.0));
        assert!(close(fit(Algorithm::Spread, Amount::ZERO, Amount::ZERO), 0.0));
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
        let cases = [
            (0.0, 0.0, 0.0, 0.0, 0.759747),
            (-0.5, 0.0, 0.0, 0.0, 0.129873),
            (-0.5, 0.0, 0.25, 0.0, 0.169916),
            (-0.5, -1.0, 0.0, 0.0, -0.246751),
            (0.0, 0.0, 0.0, 0.428571, 0.594159),
        ];
        for (job_anti_affinity, reschedule_penalty, node_affinity, spread, want) in cases {
            let binpack = 0.759747;
            let scores =
                Scores { binpack, job_anti_affinity, reschedule_penalty, node_affinity, ..Scores::default() };
            let mean = NodeScores::of(&scores).mean_with(spread);
            assert!(close(mean, want), "{scores:?}, {spread}: {mean}");
        }
    }

    #[test]
    fn a_fit_is_never_that_of_another_node() {
        let mut known = Fit::new(Algorithm::Spread);
        for (all, used) in [(4000, 2000), (4000, 2000), (4000, 1000), (2000, 1000), (0, 0), (4000, 2000)] {
            let (all, used) = (amount(all, all, 0), amount(used, used, 0));
            assert_eq!(known.of(all, used), fit(Algorithm::Spread, all, used));
        }
    }

    #[test]
    fn scores_that_do_not_apply_are_zero() {
        let shown = |spread| Scores { binpack: 0.5, spread, ..Scores::default() }.by_name();
        let names: Vec<&str> = shown(None).into_keys().collect();
        assert_eq!(names, ["binpack", "job-anti-affinity", "node-affinity", "node-reschedule-penalty"]);
        assert_eq!(shown(None).values().filter(|s| **s == 0.0).count(), 3);
        assert_eq!(shown(Some(-1.0)).get("allocation-spread"), Some(&-1.0));
    }
}
