//! Reads that must see all that was acknowledged before them: raft says which index that is, and each is answered when this
//! replica has applied it (ReadIndex; Ongaro's thesis, 6.4).
//!
//! Refuses to know: what is read. Bounded by raft's own bound of reads under way.

use super::context::Context;
use super::effects::Effect;
use raft::ReadAnswer;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct PendingReads {
    /// Confirmed, by the index that has to be applied first.
    confirmed: BTreeMap<u64, Vec<u64>>,
}

impl PendingReads {
    /// Takes raft's answers.
    pub fn take(&mut self, answers: Vec<ReadAnswer>, cx: &mut Context<'_>) {
        for ReadAnswer { context: token, index } in answers {
            match index {
                Ok(index) => self.confirmed.entry(index).or_default().push(token),
                Err(_) => confirm(token, false, cx),
            }
        }
    }

    /// Serves the reads whose index is applied.
    pub fn serve(&mut self, cx: &mut Context<'_>) {
        while let Some(first) = self.confirmed.first_entry()
            && *first.key() <= cx.applied
        {
            first.remove().into_iter().for_each(|token| confirm(token, true, cx));
        }
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
}
