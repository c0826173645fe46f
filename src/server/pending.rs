//! Pending entries: proposals that a caller waits for, and what is to happen once each is applied. An entry is known by its index and its
//! term: at an index where another leader's entry was committed, nobody is answered with what that one did.
//!
//! Refuses to know: the log, and how answers travel. Invariant: what waits is handed out once.

use model::eval::Evaluation;
use model::id::{DeploymentId, EvalId, EvalToken, NodeId};
use std::collections::BTreeMap;
use wire::request::WriteReply;

/// Entries that are waited for at the same time; further requests are refused as too many.
pub const MAX_PENDING: usize = 4096;

/// A node's request: who asked, and under which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    pub node: NodeId,
    pub request: u64,
    /// The server that the node is connected to, if it is not this one.
    pub via: Option<u64>,
}

/// The caller that waits for an entry.
#[derive(Clone, Copy, Debug)]
pub enum Waiting {
    User(u64),
    Node(Asker),
}

/// What is to happen once a proposed entry is applied.
#[derive(Debug)]
pub enum OnApply {
    Reply {
        token: u64,
    },
    /// Evaluations that somebody asked for: the reply names them.
    Evaluated {
        token: u64,
        evals: Vec<EvalId>,
        modify_index: u64,
    },
    /// A node was changed for a user: the reply names the evaluations.
    NodeChanged {
        token: u64,
        evals: Vec<EvalId>,
        /// Nothing new may be placed there any more.
        closed: Option<NodeId>,
    },
    /// A node that was silent for too long is down, or disconnected. Nothing may be placed there meanwhile.
    NodeDown {
        node: NodeId,
    },
    /// A server was removed for a user, who hears of it once no restart takes that back.
    ServerRemoved {
        token: u64,
    },
    /// `info`: the digest of what the node is registered as by then.
    NodeAlive {
        asker: Asker,
        node: NodeId,
        info: u64,
    },
    NodeReported {
        asker: Asker,
    },
    Plan {
        eval: EvalId,
        token: EvalToken,
        next: AfterPlan,
    },
    EvalFailed {
        eval: Box<Evaluation>,
    },
    /// The evaluations that are still to be deleted, and how many are deleted already.
    EvalsDeleted {
        token: u64,
        rest: Vec<EvalId>,
        skip_needed: bool,
        count: u64,
    },
    /// A step of drains.
    Drained,
    /// A step of garbage collection.
    Collected,
    DeploymentStepped {
        deployment: DeploymentId,
    },
    Nothing,
}

/// What becomes of an evaluation once its plan's entry is applied.
#[derive(Clone, Copy, Debug)]
pub enum AfterPlan {
    Ack,
    /// A part was refused: the evaluation runs again, on a newer state.
    Retry {
        progressed: bool,
    },
}

impl OnApply {
    pub fn waiting(&self) -> Option<Waiting> {
        match self {
            OnApply::Reply { token }
            | OnApply::ServerRemoved { token }
            | OnApply::Evaluated { token, .. }
            | OnApply::NodeChanged { token, .. }
            | OnApply::EvalsDeleted { token, .. } => Some(Waiting::User(*token)),
            OnApply::NodeAlive { asker, .. } | OnApply::NodeReported { asker } => Some(Waiting::Node(*asker)),
            _ => None,
        }
    }
}

/// The answer that names evaluations.
pub fn with_evals(done: WriteReply, evals: Vec<EvalId>, modify_index: Option<u64>) -> WriteReply {
    let index = done.index();
    WriteReply::Evals { evals, modify_index: modify_index.unwrap_or(index), index }
}

/// The callers that an applied entry decides about.
#[derive(Debug, Default)]
pub struct Completed {
    /// What waited for this very entry.
    pub own: Option<OnApply>,
    /// What waited for entries that can never be committed any more: another leader's took their place.
    pub replaced: Vec<OnApply>,
}

#[derive(Debug, Default)]
pub struct PendingEntries {
    /// By index and term.
    entries: BTreeMap<(u64, u64), OnApply>,
}

impl PendingEntries {
    pub fn insert(&mut self, (index, term): (u64, u64), then: OnApply) {
        let last = self.entries.last_key_value().map(|(key, _)| *key);
        assert!(
            last.is_none_or(|(i, t)| i < index && t <= term),
            "entries are proposed in the order of the log"
        );
        self.entries.insert((index, term), then);
    }

    /// The entry is applied.
    pub fn complete(&mut self, index: u64, term: u64) -> Completed {
        let own = self.entries.remove(&(index, term));
        let mut completed = Completed { own, replaced: vec![] };
        // logs that agree in an entry agree in all before it: behind one of a later term, none of an earlier one follows
        while let Some(first) = self.entries.first_entry()
            && first.key().1 < term
        {
            completed.replaced.push(first.remove());
        }
        let first = self.entries.first_key_value();
        assert!(first.is_none_or(|((i, _), _)| *i > index), "what waits for an applied entry was handed out");
        completed
    }

    /// Takes all entries: this server cannot learn any more what becomes of them.
    pub fn abandon(&mut self) -> impl Iterator<Item = OnApply> + use<> {
        std::mem::take(&mut self.entries).into_values()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(pending: &mut PendingEntries, index: u64, term: u64) {
        pending.insert((index, term), OnApply::Reply { token: index });
    }

    fn tokens<'a>(then: impl IntoIterator<Item = &'a OnApply>) -> Vec<u64> {
        let user = |waiting| match waiting {
            Waiting::User(token) => token,
            Waiting::Node(_) => panic!("no node asked"),
        };
        then.into_iter().filter_map(OnApply::waiting).map(user).collect()
    }

    #[test]
    fn an_entry_of_another_term_answers_nobody() {
        let mut pending = PendingEntries::default();
        [4, 5, 6].into_iter().for_each(|index| waits(&mut pending, index, 1));
        let completed = pending.complete(4, 1);
        assert_eq!((tokens(&completed.own), tokens(&completed.replaced)), (vec![4], vec![]));
        let completed = pending.complete(5, 2);
        assert!(completed.own.is_none(), "it is another leader's");
        assert_eq!(tokens(&completed.replaced), [5, 6], "neither will ever be committed");
        assert!(pending.is_empty());
    }

    #[test]
    fn entries_of_earlier_leaders_leave_what_waits_alone() {
        let mut pending = PendingEntries::default();
        waits(&mut pending, 9, 3);
        let completed = pending.complete(8, 2);
        assert!(completed.own.is_none() && completed.replaced.is_empty());
        assert_eq!(tokens(&pending.complete(9, 3).own), [9]);
        waits(&mut pending, 10, 3);
        assert_eq!(tokens(&pending.abandon().collect::<Vec<_>>()), [10]);
        assert_eq!(pending.abandon().count(), 0, "each is handed out once");
    }
}
