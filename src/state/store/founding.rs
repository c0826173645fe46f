//! How a region begins in a store that was never written to.
//!
//! Refuses to know who decides that. Invariant: a crash leaves a region or an empty store.

use super::{Receipt, Store};
use crate::apply::{self, Applying, Committed};
use crate::database;
use crate::fault::Fault;
use crate::log_batch::LogBatch;
use crate::tables::{AppliedState, STATE};
use model::member::Founding;
use wire::command::Command;
use wire::record;

/// Index and term of the snapshot that a region begins with.
const FOUNDED: (u64, u64) = (1, 1);

impl Store {
    /// Begins the region: the state holds nothing but how it does, in place of entry 1 of term 1. Two syncs.
    /// The log is cut first: the cut counts only once the state has reached it.
    pub fn found(&mut self, founding: &Founding, conf_state: &[u8]) -> Result<Receipt, Fault> {
        if self.applied != AppliedState::default() || self.last_index != 0 {
            return Err(Fault::corrupt("a region that has begun cannot be founded again"));
        }
        let (index, term) = FOUNDED;
        let cut = LogBatch { compact_to: Some((index, term)), ..LogBatch::default() };
        self.log.append(&record::encode(&cut)).map_err(Fault::of_log)?;
        let command = record::encode(&Command::Init(Box::new(founding.clone())));
        let entry = Committed { index, command: Some(&command), conf_state: Some(conf_state) };
        let transaction = self.database.begin_write()?;
        let rows = transaction.open_table(STATE)?;
        let Applying { applied, .. } =
            apply::apply(rows, self.applied, &[entry], self.options.feature_level)?;
        database::write_applied(&transaction, applied, Some(conf_state))?;
        let mut published = self.shared.published();
        transaction.commit()?;
        published.applied = applied;
        drop(published);
        self.applied = applied;
        self.segment_head.compact_to = cut.compact_to;
        self.last_index = index;
        Ok(Receipt { last_index: index })
    }
}
