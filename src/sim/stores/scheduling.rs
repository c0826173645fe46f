//! A scheduler and a store, with nothing between them: what is placed is stored, and then there is nothing left to do.

use model::eval::{EvalStatus, Trigger};
use model::job::JobStatus;
use scheduler::{self, Attempt};
use state::check::consistent;
use state::samples::*;
use wire::command::Command;
use wire::request::WriteReply;

#[test]
fn a_second_evaluation_of_a_settled_job_is_empty() {
    let mut region = Region::default();
    for n in 0..3 {
        region.ready_node(n);
    }
    let done = region.run(&register(spec("web", 4), Some(eval(1, "web")))).reply;
    assert!(matches!(done, Ok(WriteReply::Job { eval: Some(_), .. })));
    let decide = |region: &Region, n, seed| {
        let view = region.view();
        let eval = view.eval(eval_id(n)).expect("reads").expect("is stored");
        let attempt = Attempt::first(view.index());
        let decision = scheduler::schedule(&view, view.fleet(), &eval, attempt, AT, seed);
        assert_eq!(view.fault(), None);
        decision
    };
    let decision = decide(&region, 1, 1);
    let evals = std::iter::once(decision.eval).chain(decision.created).collect();
    region.run(&Command::ApplyPlan {
        eval: eval_id(1),
        nodes: decision.plan.nodes,
        deployment: None,
        updates: vec![],
        evals,
        at: AT,
    });
    consistent(&region.view()).expect("is consistent");
    let stored = region.view().allocs_of_job(&key("web")).expect("reads");
    assert_eq!((stored.len(), region.job("web").status), (4, JobStatus::Running));
    let mut again = eval(2, "web");
    again.trigger = Trigger::NodeUpdate;
    region.run(&Command::UpdateEvals { evals: vec![again], at: AT });
    let again = decide(&region, 2, 2);
    assert!(again.plan.is_no_op() && again.eval.status == EvalStatus::Complete, "{again:?}");
}
