//! What a server writes of the decisions that its workers hand in.

use super::super::board;
use super::super::effects::{Effect, Input};
use super::super::testing::Alone;
use super::*;
use crate::model::node::NodeStatus;
use crate::model::resources::Amount;
use crate::model::scheduling::SchedulerSettings;
use crate::state::samples::{AT, info, node_id, spec};
use crate::wire::request::Action;

/// A node that is ready, with so much of a processor; then all that workers make of it. How many evaluations they had, and
/// how many entries were written for them.
fn node_comes(alone: &mut Alone, n: u128, cpu_mhz: i64) -> (usize, u64) {
    let before = alone.server.log.applied();
    let mut info = info(n);
    info.capacity = Amount { cpu_mhz, ..info.capacity };
    let (node, status) = (node_id(n), NodeStatus::Ready);
    let register = Command::RegisterNode { info: Box::new(info), evals: vec![], at: AT };
    let ready = Command::UpdateNodeStatus { node, status, event: None, evals: vec![], at: AT };
    let mut given = 0;
    for command in [register, ready] {
        alone.server.propose(&command, Op::Unattended).expect("it leads");
        given += work(alone, vec![]);
    }
    (given, alone.server.log.applied() - before - 2)
}

/// Until there is nothing to do.
fn work(alone: &mut Alone, mut inputs: Vec<Input>) -> usize {
    let mut given = 0;
    for _ in 0..20 {
        let turn = alone.turn(std::mem::take(&mut inputs));
        for effect in turn.effects {
            if let Effect::Schedule(task) = effect {
                let result = board::decide(&task, &alone.server.reader());
                inputs.push(Input::Planned { eval: task.eval.id, token: task.token, result });
                given += 1;
            }
        }
    }
    given
}

#[test]
fn what_finds_no_room_again_writes_nothing() {
    let mut alone = Alone::new(SchedulerSettings::default());
    let action = Action::RegisterJob {
        spec: Box::new(spec("a", 1)),
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        submission: None,
    };
    assert_eq!(work(&mut alone, vec![Input::Request { token: 1, action }]), 1);
    assert_eq!(alone.server.status().broker.blocked, 1);
    assert_eq!(node_comes(&mut alone, 1, 50), (1, 0), "it was never evaluated itself, and says nothing new");
    assert_eq!(node_comes(&mut alone, 2, 60), (1, 0));
    assert_eq!(alone.server.status().broker.blocked, 1, "it waits on");
    let (given, written) = node_comes(&mut alone, 3, 4_000);
    assert_eq!((given, alone.server.status().broker.blocked), (1, 0));
    assert!(written > 0);
}
