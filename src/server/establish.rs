//! Establishing leadership: a server that leads its term builds a leader's parts from the state, some rows a turn, so that no turn keeps
//! raft waiting however large the region is.
//!
//! Refuses to know: what the parts do. Invariants: until it is over no request is answered from half of the parts, and nothing is
//! proposed, so that the state stays as it was when it began.

use super::context::Context;
use super::keys;
use super::leader::Leader;
use super::metrics::Counter;
use state::fault::Fault;
use state::scans::RangeScan;
use state::view::View;

pub struct EstablishLeadership {
    leader: Leader,
    /// The state with all that came before the term.
    view: View,
    stage: EstablishStage,
    scan: RangeScan,
}

/// The part of the state that is being read.
#[derive(Clone, Copy)]
enum EstablishStage {
    OpenEvals,
    Nodes,
    Deployments,
    Jobs,
}

impl EstablishLeadership {
    pub fn new(term: u64, cx: &mut Context<'_>) -> Result<EstablishLeadership, Fault> {
        cx.metrics.count(Counter::RaftStateLeader);
        tracing::info!(target: "nomad", term, "cluster leadership acquired");
        let view = cx.view()?;
        let leader = Leader::new(term, &view, cx)?;
        Ok(EstablishLeadership { leader, view, stage: EstablishStage::OpenEvals, scan: RangeScan::default() })
    }

    /// The term in which this server leads.
    pub fn term(&self) -> u64 {
        self.leader.term
    }

    /// Goes on for one turn. A small region's leader is complete in its first.
    pub fn advance(mut self: Box<Self>, cx: &mut Context<'_>) -> Result<Established, Fault> {
        loop {
            self.read(cx)?;
            if !self.scan.is_over() {
                return Ok(Established::NotYet(self));
            }
            self.scan = RangeScan::default();
            self.stage = match self.stage {
                EstablishStage::OpenEvals => EstablishStage::Nodes,
                EstablishStage::Nodes => EstablishStage::Deployments,
                EstablishStage::Deployments => EstablishStage::Jobs,
                EstablishStage::Jobs => break,
            };
        }
        keys::ask_for_signing_key(&self.view, cx)?;
        Ok(Established::Leads(Box::new(self.leader)))
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let (leader, view, scan) = (&mut self.leader, &self.view, &mut self.scan);
        let rows = cx.config.rows_per_turn;
        let proposals = cx.outbox.proposals();
        match self.stage {
            EstablishStage::OpenEvals => {
                let evals = view.scan_open_evals(scan, rows)?;
                evals.into_iter().for_each(|eval| leader.evals.restore(eval, cx));
            }
            EstablishStage::Nodes => {
                for node in view.scan_nodes(scan, rows)? {
                    leader.nodes.restore(&node, cx.now);
                    leader.drainer.apply_change(Some(&node), node.info.id, cx);
                }
            }
            EstablishStage::Deployments => {
                for deployment in view.scan_active_deployments(scan, rows)? {
                    leader.deployments.apply_change(deployment.id, true);
                }
            }
            EstablishStage::Jobs => {
                for key in view.scan_system_and_periodic_jobs(scan, rows)? {
                    leader.apply_job_change(&key, view, cx)?;
                }
            }
        }
        assert_eq!(cx.outbox.proposals(), proposals, "while the state is read nothing is proposed");
        Ok(())
    }
}

pub enum Established {
    Leads(Box<Leader>),
    /// More of the state is to be read.
    NotYet(Box<EstablishLeadership>),
}

#[cfg(test)]
mod tests {
    use super::super::NO_LEADER;
    use super::super::effects::{Effect, Input};
    use super::super::testing::{Alone, asks, registration};
    use model::deployment::DeploymentGroup;
    use model::job::{JobSpec, JobType};
    use model::periodic::Periodic;
    use model::time::{Mono, Span};
    use state::samples::{self, AT, alloc, eval, eval_id, info, key, node_id, place, register, spec};
    use std::collections::{BTreeMap, BTreeSet};
    use wire::command::{Command, NodeUpdateRequest};

    /// So many are open: more than are read in two turns.
    const EVALS: u128 = 207;

    /// A server that leads a region of many evaluations, and is about to build its leader again.
    fn leaderless() -> Alone {
        let mut alone = Alone::with(|config| config.workers = 0);
        alone.add_node(info(1));
        let evals = (1..=EVALS).map(|n| eval(n, &format!("job-{n}"))).collect();
        alone.append(&Command::UpdateEvals { evals, at: AT });
        alone.turns(10);
        assert_eq!(alone.server.status().broker.ready, EVALS as u64);
        alone.server.step_down(alone.now);
        alone.server.replica.propose(&Command::UpdateEvals { evals: vec![], at: AT }).expect("it leads");
        alone
    }

    fn ready(alone: &Alone) -> u64 {
        alone.server.status().broker.ready
    }

    #[test]
    fn a_large_state_is_read_in_several_turns() {
        let mut alone = leaderless();
        let mut turns = 0;
        while alone.server.leadership.leader().is_none() {
            let request = Input::Request { token: 9, action: registration(spec("new", 1)) };
            let effects = alone.turn(vec![request]).effects;
            let told = |effect: &Effect| match effect {
                Effect::Reply { token: 9, result: Err(refusal) } => refusal.message == NO_LEADER,
                _ => false,
            };
            assert!(effects.iter().any(told), "half a leader takes nothing");
            let is_due = alone.server.next_deadline() == Some(Mono(0));
            assert!(is_due || alone.server.leadership.leader().is_some(), "it goes on at once");
            turns += 1;
        }
        // each evaluation is looked at twice: the job's first row, and itself
        assert!((3..20).contains(&turns), "{turns} turns");
        assert_eq!(ready(&alone), EVALS as u64);
        assert_eq!(alone.leader().nodes.expected(), 1);
    }

    /// What its parts hold, as text.
    fn parts(alone: &mut Alone) -> Vec<String> {
        let server = &alone.server;
        let mut held = vec![
            format!("drains {:?}", server.draining()),
            format!("deployments {:?}", server.watched_deployments()),
            format!("periodic jobs {:?}", server.timed_jobs()),
        ];
        let leader = alone.leader();
        let queued: BTreeSet<_> = leader.evals.broker().contents();
        held.push(format!("evaluations {queued:?}"));
        held.push(format!("{:?}", leader.system_jobs));
        held
    }

    #[test]
    fn a_new_leader_has_what_the_old_one_had() {
        let mut alone = Alone::with(|config| (config.workers, config.rows_per_turn) = (0, 1));
        (1..=3).for_each(|n| _ = alone.add_node(info(n)));
        let spec_of = |id: &str, job_type| JobSpec { job_type, ..spec(id, 1) };
        let periodic = Periodic {
            enabled: true,
            spec: "0 0 1 1 *".into(),
            specs: vec![],
            prohibit_overlap: false,
            time_zone: Periodic::UTC.into(),
        };
        let timed = JobSpec { periodic: Some(periodic), ..spec_of("timed", JobType::Batch) };
        for wanted in [spec_of("everywhere", JobType::System), timed, spec_of("web", JobType::Service)] {
            alone.propose(&register(wanted, None));
        }
        alone.submit(spec("open", 1));
        let job = alone.view().job(&key("web")).unwrap().expect("is registered");
        let deployment = samples::deployment(1, &job, DeploymentGroup::default());
        alone.propose(&Command::ApplyPlan {
            eval: eval_id(1),
            nodes: place(vec![alloc(1, &job, node_id(2), eval_id(1))]),
            deployment: Some(Box::new(deployment)),
            updates: vec![],
            evals: vec![],
            at: AT,
        });
        let request = NodeUpdateRequest::Drain {
            deadline: Span::hours(1),
            ignore_system: false,
            meta: BTreeMap::new(),
        };
        alone.propose(&Command::UpdateNode { node: node_id(2), request, evals: vec![], at: alone.wall });
        let before = parts(&mut alone);
        assert!(before.iter().all(|held| !held.contains("{}") && !held.ends_with("None")), "{before:?}");
        alone.server.step_down(alone.now);
        alone.server.replica.propose(&Command::UpdateEvals { evals: vec![], at: AT }).expect("it leads");
        let mut asks_for_key = false;
        while alone.server.leadership.leader().is_none() {
            let effects = alone.turn(vec![]).effects;
            asks_for_key |= effects.iter().any(|effect| matches!(effect, Effect::MakeSigningKey));
        }
        assert_eq!(parts(&mut alone), before);
        assert_eq!(alone.leader().nodes.expected(), 3);
        assert!(asks_for_key, "the region has none yet");
    }

    #[test]
    fn a_leader_deposed_meanwhile_begins_to_establish_anew() {
        let mut alone = leaderless();
        alone.turn(vec![]);
        let term = alone.server.leadership.term().expect("it is under way");
        alone.server.replica.step_down();
        alone.turn(vec![asks(registration(spec("new", 1)))]);
        assert!(alone.server.leadership.term().is_none_or(|now| now > term), "of no earlier term");
        alone.lead();
        assert!(alone.leader().term > term);
        assert_eq!(ready(&alone), EVALS as u64, "each once");
    }
}
