//! Establishing leadership: a server that leads its term builds a leader's parts from the state, some rows a turn, so that no turn keeps
//! raft waiting however large the region is.
//!
//! Refuses to know: what the parts do. Invariant: until it is over nothing is proposed, so that the state stays as it was when it
//! began, and nobody is answered by half a leader.

use super::context::Context;
use super::keys;
use super::leader::Leader;
use super::metrics::Counter;
use state::fault::Fault;
use state::view::View;
use state::walks::Walk;

pub struct EstablishLeadership {
    leader: Leader,
    /// All that came before the term is in it.
    view: View,
    stage: Stage,
    walk: Walk,
}

/// What is read.
#[derive(Clone, Copy)]
enum Stage {
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
        Ok(EstablishLeadership { leader, view, stage: Stage::OpenEvals, walk: Walk::default() })
    }

    /// In which it leads.
    pub fn term(&self) -> u64 {
        self.leader.term
    }

    /// Goes on for one turn. A small region's leader is complete in its first.
    pub fn advance(mut self: Box<Self>, cx: &mut Context<'_>) -> Result<Established, Fault> {
        assert_eq!(self.view.index(), cx.applied, "nothing is applied while leadership is established");
        loop {
            self.read(cx)?;
            if !self.walk.is_over() {
                return Ok(Established::NotYet(self));
            }
            self.walk = Walk::default();
            self.stage = match self.stage {
                Stage::OpenEvals => Stage::Nodes,
                Stage::Nodes => Stage::Deployments,
                Stage::Deployments => Stage::Jobs,
                Stage::Jobs => break,
            };
        }
        keys::ask_for_signing_key(&self.view, cx)?;
        Ok(Established::Leads(Box::new(self.leader)))
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let (leader, view, walk) = (&mut self.leader, &self.view, &mut self.walk);
        let rows = cx.config.rows_per_turn;
        match self.stage {
            Stage::OpenEvals => {
                let evals = view.walk_open_evals(walk, rows)?;
                evals.into_iter().for_each(|eval| leader.evals.restore(eval, cx));
            }
            Stage::Nodes => {
                for node in view.walk_nodes(walk, rows)? {
                    leader.nodes.restore(&node, cx.now);
                    leader.drainer.follow(Some(&node), node.info.id, cx);
                }
            }
            Stage::Deployments => {
                for deployment in view.walk_active_deployments(walk, rows)? {
                    leader.deployments.follow(deployment.id, true);
                }
            }
            Stage::Jobs => {
                for key in view.walk_system_and_periodic_jobs(walk, rows)? {
                    leader.follow_job(&key, view, cx)?;
                }
            }
        }
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
    use model::time::Mono;
    use state::samples::{AT, eval, info, spec};
    use wire::command::Command;

    /// So many are open: more than are read in two turns.
    const EVALS: u128 = 207;

    /// It leads a region of many evaluations, and is about to build its leader again.
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
        while alone.server.leader.is_none() {
            let request = Input::Request { token: 9, action: registration(spec("new", 1)) };
            let effects = alone.turn(vec![request]).effects;
            let told = |effect: &Effect| match effect {
                Effect::Reply { token: 9, result: Err(refusal) } => refusal.message == NO_LEADER,
                _ => false,
            };
            assert!(effects.iter().any(told), "half a leader takes nothing");
            let is_due = alone.server.next_deadline() == Some(Mono(0));
            assert!(is_due || alone.server.leader.is_some(), "it goes on at once");
            turns += 1;
        }
        // each evaluation is looked at twice: the job's first row, and itself
        assert!((3..20).contains(&turns), "{turns} turns");
        assert_eq!(ready(&alone), EVALS as u64);
        assert_eq!(alone.leader().nodes.expected(), 1);
    }

    #[test]
    fn who_is_deposed_meanwhile_begins_anew() {
        let mut alone = leaderless();
        alone.turn(vec![]);
        let term = alone.server.establishing.as_ref().expect("it is under way").term();
        alone.server.replica.step_down();
        alone.turn(vec![asks(registration(spec("new", 1)))]);
        let term_now = |alone: &Alone| alone.server.establishing.as_ref().map(|under_way| under_way.term());
        assert!(term_now(&alone).is_none_or(|now| now > term), "of no earlier term");
        alone.lead();
        assert!(alone.leader().term > term);
        assert_eq!(ready(&alone), EVALS as u64, "each once");
    }
}
