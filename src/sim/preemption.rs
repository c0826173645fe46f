//! What is sent off for something more urgent: by system jobs in every seed, by others in some; and what must hold of it.

use super::faults::Kind;
use super::world::World;
use model::alloc::{Allocation, DesiredStatus};
use model::eval::Trigger;
use model::random::Stream;
use model::scheduling::{PreemptionConfig, SchedulerSettings};
use state::fault::Fault;
use state::view::View;
use wire::change::Change;

/// By how much who sends something off has to be above it.
const GAP: i64 = 10;

/// How the region's scheduler begins.
pub fn settings(seed: u64) -> SchedulerSettings {
    let mut draws = Stream::new(seed, 120);
    let mut on = || draws.below(2) == 0;
    let preemption = PreemptionConfig { system: true, sysbatch: on(), batch: on(), service: on() };
    SchedulerSettings { preemption, ..SchedulerSettings::default() }
}

impl World {
    /// An evicted allocation makes way for one that is there and more urgent, and its job is looked at again. `changes`: of the turn.
    pub fn check_preempted(
        &mut self,
        region: usize,
        view: &View,
        alloc: &Allocation,
        changes: &[Change],
    ) -> Result<(), String> {
        if alloc.desired != DesiredStatus::Evict || !self.regions[region].evicted.insert(alloc.id) {
            return Ok(());
        }
        self.faults.fired(Kind::AllocationPreempted);
        let found = preempted_rightly(view, alloc, changes).map_err(|e| e.to_string())?;
        found.map_or(Ok(()), |why| Err(format!("{} of {} made way {why}", alloc.name, alloc.job)))
    }
}

/// What is wrong with it.
fn preempted_rightly(view: &View, alloc: &Allocation, changes: &[Change]) -> Result<Option<String>, Fault> {
    let Some(id) = alloc.preempted_by else { return Ok(Some("for nobody".into())) };
    let Some(by) = view.alloc(id)? else {
        // it came and went in one turn, with its job
        let gone = changes.iter().any(|c| matches!(c, Change::Alloc(a) if a.id == id));
        return Ok((!gone).then(|| "for one that is not there".into()));
    };
    if by.node_id != alloc.node_id || !by.preempted.contains(&alloc.id) {
        return Ok(Some(format!("for {id}, which did not need that")));
    }
    let urgency = |a: &Allocation| -> Result<i64, Fault> {
        let spec = view.job_spec(&a.job, a.job_create_index, a.job_version)?;
        Ok(spec.map_or(i64::MIN, |spec| spec.priority))
    };
    let (own, other) = (urgency(&by)?, urgency(alloc)?);
    if own < other.saturating_add(GAP) {
        return Ok(Some(format!("with priority {other} for one of {own}")));
    }
    let evals = view.evals_of_job(&alloc.job)?;
    let again = evals.iter().any(|e| e.trigger == Trigger::Preemption && e.create_index == by.create_index);
    Ok((!again).then(|| "and nobody looks at its job again".into()))
}

/// A checker that cannot fail proves nothing.
#[test]
fn what_made_way_wrongly_is_found() {
    use model::eval::Evaluation;
    use state::samples::{AT, Region, alloc, alloc_id, eval, eval_id, place, register, spec};
    use wire::command::Command;
    let made_way = |priority, trigger, change: fn(&mut Allocation)| {
        let mut region = Region::default();
        let node = region.ready_node(1);
        for (id, priority) in [("low", 20), ("high", priority)] {
            let mut spec = spec(id, 1);
            spec.priority = priority;
            region.run(&register(spec, None));
        }
        let apply = |eval, nodes, evals| Command::ApplyPlan {
            eval,
            nodes,
            deployment: None,
            updates: vec![],
            evals,
            at: AT,
        };
        let low = alloc(1, &region.job("low"), node, eval_id(1));
        region.run(&apply(eval_id(1), place(vec![low]), vec![]));
        let mut high = alloc(2, &region.job("high"), node, eval_id(2));
        high.preempted = vec![alloc_id(1)];
        let again = Evaluation { trigger, ..eval(3, "low") };
        region.run(&apply(eval_id(2), place(vec![high]), vec![again]));
        let mut low = region.alloc(1);
        change(&mut low);
        preempted_rightly(&region.view(), &low, &[]).expect("reads")
    };
    let again = Trigger::Preemption;
    assert_eq!(made_way(30, again, |_| ()), None);
    for (wrong, found) in [
        ("with priority 20 for one of 29", made_way(29, again, |_| ())),
        ("and nobody looks at its job again", made_way(30, Trigger::NodeUpdate, |_| ())),
        ("for nobody", made_way(30, again, |low| low.preempted_by = None)),
        ("for one that is not there", made_way(30, again, |low| low.preempted_by = Some(alloc_id(9)))),
        ("which did not need that", made_way(30, again, |low| low.node_id = Default::default())),
    ] {
        assert!(found.as_ref().is_some_and(|why| why.contains(wrong)), "{wrong}: {found:?}");
    }
}
