//! Samples of what operators want: of versions, of the scheduler, of evaluations and of node pools.

use super::Samples;
use crate::state::samples::{AT, eval, key};
use crate::wire::command::{Command, RevertJob};

pub fn operating(s: &mut Samples) {
    let order = RevertJob {
        job: key("web"),
        version: 3,
        enforce_prior_version: Some(4),
        eval: Some(eval(1, "web")),
        tracked_versions: 6,
        at: AT,
    };
    s.add("revert job", &Command::RevertJob(Box::new(order)));
    s.add("set stability", &Command::SetStability { job: key("web"), version: 300, stable: true });
}
