//! Reads that must see all that was acknowledged before them: raft says which index that is, and each is answered when this
//! replica has applied it (ReadIndex; Ongaro's thesis, 6.4).
//!
//! Refuses to know: what is read. Bounded by raft's own bound of reads under way.

use super::context::Context;
use super::effects::Effect;
use raft::ReadAnswer;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Reads {
    /// Confirmed, by the index that has to be applied first.
    confirmed: BTreeMap<u64, Vec<u64>>,
}

impl Reads {
    /// What raft has found out.
    pub fn take(&mut self, answers: Vec<ReadAnswer>, cx: &mut Context<'_>) {
        for ReadAnswer { context: token, index } in answers {
            match index {
                Ok(index) => self.confirmed.entry(index).or_default().push(token),
                Err(_) => confirm(token, false, cx),
            }
        }
    }

    /// Those whose index is applied may be served.
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
