//! Evaluations of types that no server's scheduler workers take, as far as the leader has heard: said in the log once a minute.
//!
//! Refuses to know: why operators have left a type out.

use super::broker::Broker;
use super::remote_workers::RemoteWorkers;
use model::job::JobType;
use model::time::{Mono, Span};
use std::collections::BTreeMap;

/// How long evaluations wait until that is logged, and logged again. Followers have asked for work by then.
const LOG_INTERVAL: Span = Span::minutes(1);

/// When each type was found unserved, or was last reported so.
#[derive(Default)]
pub struct UnservedTypes(BTreeMap<JobType, Mono>);

impl UnservedTypes {
    /// `own`: the types that the leader's own workers take.
    pub fn warn(&mut self, broker: &Broker, own: &[JobType], remote: &RemoteWorkers, now: Mono) {
        for job_type in self.due(broker, own, remote, now) {
            let waiting = broker.ready_of(&[job_type]);
            tracing::warn!(
                target: "nomad.worker",
                job_type = job_type.as_str(),
                waiting,
                "evaluations wait, and no server takes them: let one have this type in enabled_schedulers, with \
                 num_schedulers above 0"
            );
        }
    }

    fn due(&mut self, broker: &Broker, own: &[JobType], remote: &RemoteWorkers, now: Mono) -> Vec<JobType> {
        let is_unserved = |t: JobType| broker.ready_of(&[t]) > 0 && !own.contains(&t) && !remote.serves(t);
        self.0.retain(|job_type, _| is_unserved(*job_type));
        let mut due = vec![];
        for job_type in JobType::ALL.into_iter().filter(|t| is_unserved(*t)) {
            let since = self.0.entry(job_type).or_insert(now);
            if now.since(*since) >= LOG_INTERVAL {
                *since = now;
                due.push(job_type);
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::eval::Evaluation;
    use state::samples::eval;

    #[test]
    fn an_unserved_type_is_logged_once_a_minute() {
        let (mut unserved, mut broker, mut remote) =
            (UnservedTypes::default(), Broker::new(1), RemoteWorkers::default());
        let later = |seconds| Mono(1).after(Span::seconds(seconds));
        broker.enqueue(Evaluation { job_type: JobType::Batch, ..eval(1, "a") }, later(0));
        broker.enqueue(eval(2, "b"), later(0));
        let own = [JobType::Service];
        assert_eq!(unserved.due(&broker, &own, &remote, later(0)), [], "others may ask for it yet");
        assert_eq!(unserved.due(&broker, &own, &remote, later(61)), [JobType::Batch]);
        assert_eq!(unserved.due(&broker, &own, &remote, later(62)), []);
        assert_eq!(unserved.due(&broker, &own, &remote, later(125)), [JobType::Batch]);
        remote.wait(7, 1, 2, vec![JobType::Batch]);
        assert_eq!(unserved.due(&broker, &own, &remote, later(300)), []);
        remote.link_down(7);
        assert_eq!(unserved.due(&broker, &own, &remote, later(301)), [], "from now on it counts");
        assert_eq!(unserved.due(&broker, &own, &remote, later(362)), [JobType::Batch]);
    }
}
