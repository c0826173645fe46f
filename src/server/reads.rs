//! Reads that must see all that was acknowledged before them: raft says which index that is, and each is answered when this
//! replica has applied it (ReadIndex; Ongaro's thesis, 6.4).
//!
//! Refuses to know: what is read. Bounded by raft's own bound of reads under way.

use super::context::Context;
use super::effects::Effect;
use model::time::{Mono, Span};
use raft::ReadAnswer;
use std::collections::{BTreeMap, BTreeSet};

/// How long a read waits until its index is applied. A follower whose disk is full hears of indexes, and applies none of them for days.
const APPLY_WAIT: Span = Span::seconds(5);

#[derive(Default)]
pub struct PendingReads {
    /// Confirmed, by the index that has to be applied first, and until when that is waited for.
    confirmed: BTreeMap<(u64, Mono), Vec<u64>>,
    /// The same keys, by the time.
    deadlines: BTreeSet<(Mono, u64)>,
}

impl PendingReads {
    /// Takes raft's answers.
    pub fn take(&mut self, answers: Vec<ReadAnswer>, cx: &mut Context<'_>) {
        for ReadAnswer { context: token, index } in answers {
            match index {
                Ok(index) => {
                    let until = cx.now.after(APPLY_WAIT);
                    self.deadlines.insert((until, index));
                    self.confirmed.entry((index, until)).or_default().push(token);
                }
                Err(_) => confirm(token, false, cx),
            }
        }
    }

    /// Serves the reads whose index is applied.
    pub fn serve(&mut self, cx: &mut Context<'_>) {
        while let Some(first) = self.confirmed.first_entry()
            && first.key().0 <= cx.applied
        {
            let ((index, until), tokens) = first.remove_entry();
            self.deadlines.remove(&(until, index));
            tokens.into_iter().for_each(|token| confirm(token, true, cx));
        }
    }

    /// Gives up the reads that this replica is too far behind for.
    pub fn expire(&mut self, cx: &mut Context<'_>) {
        while let Some((until, index)) = self.deadlines.first().copied()
            && until <= cx.now
        {
            self.deadlines.pop_first();
            let tokens = self.confirmed.remove(&(index, until)).unwrap_or_default();
            tokens.into_iter().for_each(|token| confirm(token, false, cx));
        }
    }

    pub fn next_deadline(&self) -> Option<Mono> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    pub fn len(&self) -> usize {
        self.confirmed.values().map(Vec::len).sum()
    }
}

pub fn confirm(token: u64, confirmed: bool, cx: &mut Context<'_>) {
    cx.outbox.effect(Effect::ReadConfirmed { token, confirmed });
}

#[cfg(test)]
mod tests {
    use super::super::testing::Alone;
    use super::*;
    use raft::ReadLost;

    /// What is answered, with whether it was confirmed.
    fn answers(alone: &mut Alone) -> Vec<(u64, bool)> {
        let answer = |effect| match effect {
            Effect::ReadConfirmed { token, confirmed } => (token, confirmed),
            other => panic!("{other:?}"),
        };
        alone.server.outbox.take_effects().0.into_iter().map(answer).collect()
    }

    #[test]
    fn a_read_waits_until_its_index_is_applied() {
        let mut alone = Alone::with(|_| {});
        let mut reads = PendingReads::default();
        let (_, mut cx) = alone.split();
        let applied = cx.applied;
        let answer = |context, index| ReadAnswer { context, index };
        let found = vec![answer(1, Ok(applied + 1)), answer(2, Ok(applied)), answer(3, Err(ReadLost))];
        reads.take(found, &mut cx);
        reads.serve(&mut cx);
        assert_eq!(reads.len(), 1, "the state has not reached it");
        assert_eq!(answers(&mut alone), [(3, false), (2, true)]);
        let (_, mut cx) = alone.split();
        cx.applied = applied + 1;
        reads.serve(&mut cx);
        assert_eq!((reads.len(), answers(&mut alone)), (0, vec![(1, true)]));
    }

    #[test]
    fn a_read_that_is_not_applied_in_time_is_not_confirmed() {
        let mut alone = Alone::with(|_| {});
        let far = alone.server.replica.applied() + 1_000;
        let reads = |alone: &mut Alone, token| {
            let mut reads = std::mem::take(&mut alone.server.reads);
            let (_, mut cx) = alone.split();
            reads.take(vec![ReadAnswer { context: token, index: Ok(far) }], &mut cx);
            alone.server.reads = reads;
        };
        reads(&mut alone, 1);
        let begun = alone.now;
        alone.turn(vec![]);
        reads(&mut alone, 2);
        let until = begun.after(APPLY_WAIT);
        assert!(alone.server.next_deadline().is_some_and(|at| at <= until));
        alone.now = Mono(until.0 - Span::millis(100).as_nanos() as u64 - 1);
        let said = |turn: crate::Turn| {
            let confirmed = turn.effects.into_iter().filter_map(|effect| match effect {
                Effect::ReadConfirmed { token, confirmed } => Some((token, confirmed)),
                _ => None,
            });
            confirmed.collect::<Vec<_>>()
        };
        assert_eq!(said(alone.turn(vec![])), []);
        assert_eq!(said(alone.turn(vec![])), [(1, false)]);
        assert_eq!((alone.server.reads.len(), alone.server.reads.next_deadline().is_some()), (1, true));
        assert_eq!(said(alone.turn(vec![])), [(2, false)]);
        assert_eq!((alone.server.reads.len(), alone.server.reads.next_deadline()), (0, None));
    }
}
