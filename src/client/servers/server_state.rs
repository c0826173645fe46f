//! Which state of the servers this node follows: within a generation none that is older than what it has seen, even if a server
//! keeps showing it; of another generation any (client.md 3.2).
//!
//! Refuses to know: how servers are asked, and what their state says.

use model::member::Generation;
use state::client_store::ShownState;

#[derive(Debug)]
pub struct ServerStateTracker {
    /// The newest state that a watch has brought.
    pub shown: ShownState,
    /// The watch asks for what is newer.
    pub since: u64,
    /// The newest index of the state that any answer has shown, which reports carry: if another report of this node was applied later,
    /// the servers cannot tell which of the two is newer.
    pub newest: u64,
    /// The index of a server that shows an older state, while no server shows a newer one.
    pub behind: Option<u64>,
}

/// What it means that a server shows a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObservedState {
    /// An older state, which is not followed.
    Older,
    Followed {
        nothing_new: bool,
    },
    /// A state that cannot be compared with any from before.
    OtherGeneration,
}

impl ServerStateTracker {
    pub fn new(shown: ShownState) -> ServerStateTracker {
        ServerStateTracker { shown, since: 0, newest: shown.index, behind: None }
    }

    pub fn observe(&mut self, generation: Generation, index: u64) -> ObservedState {
        let known = self.shown;
        let same_region = generation.region_id == known.generation.region_id;
        if same_region && (generation.restores, index) < (known.generation.restores, known.index) {
            if self.behind.replace(index).is_none() {
                tracing::warn!(target: "client", index, known = known.index, "a server shows a state that is older than one seen before");
            }
            self.since = 0;
            return ObservedState::Older;
        }
        let is_first = known == ShownState::default();
        let seen = match is_first || generation == known.generation {
            true => ObservedState::Followed { nothing_new: index == self.since },
            false => ObservedState::OtherGeneration,
        };
        let newest = if seen == ObservedState::OtherGeneration { 0 } else { self.newest };
        *self = ServerStateTracker {
            shown: ShownState { generation, index },
            since: index,
            newest: newest.max(index),
            behind: None,
        };
        seen
    }

    pub fn trouble(&self) -> Option<String> {
        let known = self.shown.index;
        self.behind.map(|index| {
            format!(
                "the servers show their state as of index {index}, and this node has seen {known}: it follows no older state; \
                 they are behind, or run on an older copy of their disk"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::Uuid;

    fn generation(region: u128, restores: u64) -> Generation {
        Generation { region_id: Uuid::from_random(region << 64), restores }
    }

    #[test]
    fn an_index_counts_within_its_generation_alone() {
        let mut followed = ServerStateTracker::new(ShownState::default());
        let news = ObservedState::Followed { nothing_new: false };
        for (generation, index, wanted) in [
            (generation(1, 0), 9, news),
            (generation(1, 0), 8, ObservedState::Older),
            (generation(1, 0), 9, news),
            (generation(1, 0), 9, ObservedState::Followed { nothing_new: true }),
            (generation(1, 1), 3, ObservedState::OtherGeneration),
            (generation(1, 0), 50, ObservedState::Older),
            (generation(1, 1), 4, news),
            (generation(2, 0), 1, ObservedState::OtherGeneration),
        ] {
            let before = followed.shown;
            assert_eq!(followed.observe(generation, index), wanted, "{generation:?} {index}");
            let shown =
                if wanted == ObservedState::Older { before } else { ShownState { generation, index } };
            assert_eq!(followed.shown, shown);
            assert_eq!(
                (followed.newest, followed.behind.is_some()),
                (shown.index, wanted == ObservedState::Older)
            );
        }
    }
}
