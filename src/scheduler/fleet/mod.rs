//! The fleet: every node as a row of columns, so that placing decodes and allocates nothing per node. A projection of
//! the state, updated by the store as it applies changes, read as immutable snapshots.
//!
//! Refuses to know: jobs, constraints, scores, how nodes and allocations are stored.
//!
//! Invariants: a node keeps its slot while it is known; columns are chunks of `CHUNK` slots, and a change copies only
//! the chunk it touches when a snapshot still holds the old one; usage of a node that is not known (any more, or yet)
//! is kept separately, so that the order of changes does not matter.

mod offered;
mod profile;

use model::claims::Claim;
use model::id::NodeId;
use model::node::{Node, NodeStatus};
use model::resources::{Amount, Holding};
pub use offered::{Address, OfferedResources};
use profile::Strings;
pub use profile::{Profile, UniqueProperties};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Slots per chunk.
pub const CHUNK: usize = 256;

#[derive(Clone)]
struct NodeColumns {
    id: [NodeId; CHUNK],
    profile: [u32; CHUNK],
    available: [Amount; CHUNK],
    status: [NodeStatus; CHUNK],
    ready: [bool; CHUNK],
    /// None: the slot is free.
    own: [Option<Arc<UniqueProperties>>; CHUNK],
}

impl NodeColumns {
    fn empty() -> Self {
        NodeColumns {
            id: [NodeId::default(); CHUNK],
            profile: [0; CHUNK],
            available: [Amount::ZERO; CHUNK],
            status: [NodeStatus::Initializing; CHUNK],
            ready: [false; CHUNK],
            own: [const { None }; CHUNK],
        }
    }
}

/// The claims that are held on a node, and by how many: one, or two while an allocation makes way for another.
pub type Claims = BTreeMap<Claim, u32>;

/// A node where nothing is claimed has none.
type ChunkClaims = [Option<Arc<Claims>>; CHUNK];

/// The fleet at one index. Cloning it copies a pointer per chunk.
#[derive(Clone, Default)]
pub struct FleetSnapshot {
    columns: Vec<Arc<NodeColumns>>,
    used: Vec<Arc<[Amount; CHUNK]>>,
    /// None: nothing was ever claimed on the chunk's nodes.
    claims: Vec<Option<Arc<ChunkClaims>>>,
    slots: Arc<BTreeMap<NodeId, u32>>,
    profiles: Arc<Vec<Option<Arc<Profile>>>>,
}

/// Why an ask cannot go to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitError {
    NoSuchNode,
    /// The first dimension that is short, as metrics name it.
    Exhausted(&'static str),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::NoSuchNode => f.write_str("node does not exist"),
            FitError::Exhausted(dimension) => f.write_str(dimension),
        }
    }
}

impl FleetSnapshot {
    /// The number of slots, free ones included: slots are `0..slots()`.
    pub fn slots(&self) -> usize {
        self.columns.len() * CHUNK
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn nodes(&self) -> usize {
        self.slots.len()
    }

    /// The slots of all nodes, where these are at most `most`.
    pub fn slots_if_at_most(&self, most: usize) -> Option<Vec<u32>> {
        (self.slots.len() <= most).then(|| self.slots.values().copied().collect())
    }

    pub fn slot(&self, id: NodeId) -> Option<u32> {
        self.slots.get(&id).copied()
    }

    /// None: no such node.
    pub fn status(&self, id: NodeId) -> Option<NodeStatus> {
        self.slot(id).map(|s| self.columns(s).status[s as usize % CHUNK])
    }

    /// Whether new tasks may be placed there.
    pub fn ready(&self, id: NodeId) -> bool {
        self.slot(id).is_some_and(|s| self.ready_at(s))
    }

    /// What tasks hold and what they may hold at most.
    pub fn usage(&self, id: NodeId) -> Option<(Amount, Amount)> {
        self.slot(id).map(|s| (self.used_at(s), self.available_at(s)))
    }

    /// Whether `ask` more fits beside all that is used.
    pub fn fits(&self, id: NodeId, ask: Amount) -> Result<(), FitError> {
        let (used, available) = self.usage(id).ok_or(FitError::NoSuchNode)?;
        available.lacks(used.plus(ask)).map_or(Ok(()), |dimension| Err(FitError::Exhausted(dimension)))
    }

    fn columns(&self, slot: u32) -> &NodeColumns {
        &self.columns[slot as usize / CHUNK]
    }

    pub fn id_at(&self, slot: u32) -> NodeId {
        self.columns(slot).id[slot as usize % CHUNK]
    }

    pub fn available_at(&self, slot: u32) -> Amount {
        self.columns(slot).available[slot as usize % CHUNK]
    }

    pub fn used_at(&self, slot: u32) -> Amount {
        self.used[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// None: nothing is claimed there.
    pub fn claims_at(&self, slot: u32) -> Option<&Claims> {
        self.claims[slot as usize / CHUNK].as_ref()?[slot as usize % CHUNK].as_deref()
    }

    pub fn claims(&self, id: NodeId) -> Option<&Claims> {
        self.claims_at(self.slot(id)?)
    }

    pub fn ready_at(&self, slot: u32) -> bool {
        self.columns(slot).ready[slot as usize % CHUNK]
    }

    /// The index of the node's profile in `profiles`.
    pub fn profile_index_at(&self, slot: u32) -> u32 {
        self.columns(slot).profile[slot as usize % CHUNK]
    }

    /// None: the slot is free.
    pub fn profile_at(&self, slot: u32) -> Option<&Profile> {
        self.unique_at(slot)?;
        self.profiles.get(self.profile_index_at(slot) as usize)?.as_deref()
    }

    /// None: the slot is free.
    pub fn unique_at(&self, slot: u32) -> Option<&UniqueProperties> {
        self.columns(slot).own[slot as usize % CHUNK].as_deref()
    }

    /// By index; some are free.
    pub fn profiles(&self) -> impl Iterator<Item = Option<&Profile>> {
        self.profiles.iter().map(|p| p.as_deref())
    }

    /// The fleet as it would be if all this were held, too.
    pub fn with<'h>(&self, more: impl Iterator<Item = &'h (NodeId, Holding)>) -> FleetSnapshot {
        let mut then = self.clone();
        for (node, holding) in more {
            if let Some(slot) = then.slot(*node) {
                then.add_usage(slot, holding.amount);
                then.change_claims(slot, holding, add_holder);
            }
        }
        then
    }

    fn add_usage(&mut self, slot: u32, amount: Amount) {
        let used = &mut Arc::make_mut(&mut self.used[slot as usize / CHUNK])[slot as usize % CHUNK];
        *used = used.plus(amount);
    }

    fn change_claims(&mut self, slot: u32, holding: &Holding, change: fn(&mut Claims, &Claim)) {
        if holding.claims.is_empty() {
            return;
        }
        let of_chunk = self.claims[slot as usize / CHUNK].get_or_insert_with(no_claims);
        let of_node = &mut Arc::make_mut(of_chunk)[slot as usize % CHUNK];
        let claims = Arc::make_mut(of_node.get_or_insert_default());
        holding.claims.iter().for_each(|c| change(claims, c));
        if claims.is_empty() {
            *of_node = None;
        }
    }

    /// The slots that hold a node, ascending.
    pub fn occupied_slots(&self) -> impl Iterator<Item = u32> {
        self.columns.iter().enumerate().flat_map(|(c, columns)| {
            let taken = columns.own.iter().enumerate().filter(|(_, own)| own.is_some());
            taken.map(move |(i, _)| (c * CHUNK + i) as u32)
        })
    }
}

fn add_holder(claims: &mut Claims, claim: &Claim) {
    *claims.entry(claim.clone()).or_default() += 1;
}

fn no_claims() -> Arc<ChunkClaims> {
    Arc::new([const { None }; CHUNK])
}

/// The writer of snapshots.
#[derive(Clone, Default)]
pub struct Fleet {
    current: FleetSnapshot,
    free_slots: BTreeSet<u32>,
    strings: Strings,
    /// Index of every profile in use, and how many nodes use it.
    profile_uses: BTreeMap<Arc<Profile>, (u32, u32)>,
    free_profiles: BTreeSet<u32>,
    /// Usage of nodes that are not known.
    unknown_nodes: BTreeMap<NodeId, (Amount, Claims)>,
}

impl Fleet {
    pub fn snapshot(&self) -> FleetSnapshot {
        self.current.clone()
    }

    pub fn upsert_node(&mut self, node: &Node) {
        let profile = self.use_profile(node);
        let own = Arc::new(self.strings.own(node));
        let id = node.info.id;
        let slot = self.current.slot(id).unwrap_or_else(|| self.open_slot(id));
        let (chunk, i) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let columns = Arc::make_mut(&mut self.current.columns[chunk]);
        let before = columns.own[i].replace(own).map(|_| columns.profile[i]);
        columns.id[i] = id;
        columns.profile[i] = profile;
        columns.available[i] = node.available();
        columns.status[i] = node.status;
        columns.ready[i] = node.ready();
        if let Some(profile) = before {
            self.release_profile(profile);
        }
    }

    pub fn remove_node(&mut self, id: NodeId) {
        let Some(slot) = self.current.slot(id) else { return };
        Arc::make_mut(&mut self.current.slots).remove(&id);
        let (chunk, i) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let used = std::mem::take(&mut Arc::make_mut(&mut self.current.used[chunk])[i]);
        let claims =
            self.current.claims[chunk].as_mut().and_then(|of_chunk| Arc::make_mut(of_chunk)[i].take());
        self.change_unknown_node(id, |kept| {
            *kept = (used, claims.map_or_else(Claims::new, Arc::unwrap_or_clone))
        });
        let columns = Arc::make_mut(&mut self.current.columns[chunk]);
        columns.own[i] = None;
        columns.ready[i] = false;
        let profile = columns.profile[i];
        self.release_profile(profile);
        self.free_slots.insert(slot);
        self.check_slots();
    }

    /// An allocation that is not client-terminal now holds this there.
    pub fn hold(&mut self, node: NodeId, holding: &Holding) {
        self.add_usage(node, holding.amount);
        self.change_claims(node, holding, add_holder);
    }

    /// An allocation that held this there is gone, or client-terminal now.
    pub fn release(&mut self, node: NodeId, holding: &Holding) {
        self.add_usage(node, Amount::ZERO.minus(holding.amount));
        self.change_claims(node, holding, |claims, claim| match claims.get_mut(claim) {
            Some(holders) if *holders > 1 => *holders -= 1,
            _ => assert!(claims.remove(claim).is_some(), "what is released was held"),
        });
    }

    fn change_claims(&mut self, node: NodeId, holding: &Holding, change: fn(&mut Claims, &Claim)) {
        if holding.claims.is_empty() {
            return;
        }
        match self.current.slot(node) {
            Some(slot) => self.current.change_claims(slot, holding, change),
            None => self
                .change_unknown_node(node, |(_, kept)| holding.claims.iter().for_each(|c| change(kept, c))),
        }
    }

    fn add_usage(&mut self, node: NodeId, amount: Amount) {
        match self.current.slot(node) {
            Some(slot) => self.current.add_usage(slot, amount),
            None => self.change_unknown_node(node, |(kept, _)| *kept = kept.plus(amount)),
        }
    }

    fn change_unknown_node(&mut self, node: NodeId, change: impl FnOnce(&mut (Amount, Claims))) {
        let kept = self.unknown_nodes.entry(node).or_default();
        change(kept);
        if kept.0 == Amount::ZERO && kept.1.is_empty() {
            self.unknown_nodes.remove(&node);
        }
    }

    fn open_slot(&mut self, id: NodeId) -> u32 {
        if self.free_slots.is_empty() {
            let first = self.current.slots() as u32;
            self.free_slots.extend(first..first + CHUNK as u32);
            self.current.columns.push(Arc::new(NodeColumns::empty()));
            self.current.used.push(Arc::new([Amount::ZERO; CHUNK]));
            self.current.claims.push(None);
        }
        let slot = self.free_slots.pop_first().expect("a new chunk has free slots");
        assert!(self.current.unique_at(slot).is_none(), "a free slot holds no node");
        Arc::make_mut(&mut self.current.slots).insert(id, slot);
        let (used, claims) = self.unknown_nodes.remove(&id).unwrap_or_default();
        let (chunk, i) = (slot as usize / CHUNK, slot as usize % CHUNK);
        Arc::make_mut(&mut self.current.used[chunk])[i] = used;
        if !claims.is_empty() {
            let of_chunk = self.current.claims[chunk].get_or_insert_with(no_claims);
            Arc::make_mut(of_chunk)[i] = Some(Arc::new(claims));
        }
        self.check_slots();
        slot
    }

    fn check_slots(&self) {
        let held = self.current.slots.len() + self.free_slots.len();
        assert_eq!(held, self.current.slots(), "a slot is free or holds one node");
    }

    fn use_profile(&mut self, node: &Node) -> u32 {
        let profile = self.strings.profile(node);
        if let Some((index, uses)) = self.profile_uses.get_mut(&profile) {
            *uses += 1;
            return *index;
        }
        let profile = Arc::new(profile);
        let profiles = Arc::make_mut(&mut self.current.profiles);
        let index = self.free_profiles.pop_first().unwrap_or(profiles.len() as u32);
        if index as usize == profiles.len() {
            profiles.push(None);
        }
        profiles[index as usize] = Some(profile.clone());
        self.profile_uses.insert(profile, (index, 1));
        index
    }

    fn release_profile(&mut self, index: u32) {
        let profile = self.current.profiles[index as usize].clone().expect("a node's profile is kept");
        let (_, uses) = self.profile_uses.get_mut(&profile).expect("a profile that is kept is used");
        *uses -= 1;
        if *uses == 0 {
            self.profile_uses.remove(&profile);
            Arc::make_mut(&mut self.current.profiles)[index as usize] = None;
            self.free_profiles.insert(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amount, node, node_id};

    fn holding(amount: Amount) -> Holding {
        Holding { amount, claims: vec![] }
    }

    fn fleet_of(nodes: u128) -> Fleet {
        let mut fleet = Fleet::default();
        (0..nodes).for_each(|n| fleet.upsert_node(&node(n)));
        fleet
    }

    #[test]
    fn snapshots_are_immutable_and_share_untouched_chunks() {
        let mut fleet = fleet_of(600);
        let before = fleet.snapshot();
        fleet.hold(node_id(300), &holding(amount(100, 100, 100)));
        let after = fleet.snapshot();
        assert_eq!(before.usage(node_id(300)).map(|u| u.0), Some(Amount::ZERO));
        assert_eq!(after.usage(node_id(300)).map(|u| u.0), Some(amount(100, 100, 100)));
        let shared = |i: usize| Arc::ptr_eq(&before.used[i], &after.used[i]);
        assert_eq!([shared(0), shared(1), shared(2)], [true, false, true]);
        assert!((0..3).all(|i| Arc::ptr_eq(&before.columns[i], &after.columns[i])));
    }

    #[test]
    fn a_removed_node_is_gone_and_its_slot_is_used_again() {
        let mut fleet = fleet_of(3);
        fleet.remove_node(node_id(1));
        assert_eq!(fleet.snapshot().status(node_id(1)), None);
        assert_eq!(fleet.snapshot().occupied_slots().collect::<Vec<_>>(), [0, 2]);
        fleet.upsert_node(&node(9));
        assert_eq!(fleet.snapshot().slot(node_id(9)), Some(1));
        assert_eq!(fleet.snapshot().usage(node_id(9)).map(|u| u.0), Some(Amount::ZERO));
    }

    #[test]
    fn usage_survives_a_node_that_comes_late_or_comes_back() {
        let mut fleet = Fleet::default();
        fleet.hold(node_id(1), &holding(amount(10, 10, 10)));
        fleet.upsert_node(&node(1));
        fleet.hold(node_id(1), &holding(amount(5, 5, 5)));
        fleet.remove_node(node_id(1));
        fleet.release(node_id(1), &holding(amount(10, 10, 10)));
        fleet.upsert_node(&node(1));
        assert_eq!(fleet.snapshot().usage(node_id(1)).map(|u| u.0), Some(amount(5, 5, 5)));
        assert!(fleet.unknown_nodes.is_empty());
    }

    #[test]
    fn profiles_are_shared_and_dropped_when_unused() {
        let mut fleet = fleet_of(10);
        assert_eq!(fleet.snapshot().profiles().flatten().count(), 1);
        let mut other = node(3);
        other.info.meta.insert("rack".into(), "r1".into());
        fleet.upsert_node(&other);
        assert_eq!(fleet.snapshot().profiles().flatten().count(), 2);
        fleet.upsert_node(&node(3));
        assert_eq!(fleet.snapshot().profiles().flatten().count(), 1);
        (0..10).for_each(|n| fleet.remove_node(node_id(n)));
        assert_eq!(fleet.snapshot().profiles().flatten().count(), 0);
    }

    #[test]
    fn a_fit_names_the_first_dimension_that_is_short() {
        let mut fleet = fleet_of(1);
        fleet.hold(node_id(0), &holding(amount(3_000, 4_096, 0)));
        let fits = |cpu, memory, disk| fleet.snapshot().fits(node_id(0), amount(cpu, memory, disk));
        assert_eq!(fits(1_000, 4_096, 100_000), Ok(()));
        assert_eq!(fits(1_001, 9_999, 0), Err(FitError::Exhausted("cpu")));
        assert_eq!(fits(1_000, 4_097, 0), Err(FitError::Exhausted("memory")));
        assert_eq!(fits(1_000, 1, 100_001), Err(FitError::Exhausted("disk")));
        assert_eq!(fleet.snapshot().fits(node_id(7), Amount::ZERO), Err(FitError::NoSuchNode));
    }

    #[test]
    fn any_order_of_changes_ends_in_the_same_fleet() {
        use model::random::Stream;
        for seed in 0..50 {
            let mut random = Stream::new(seed, 0);
            let (mut fleet, mut known, mut used) = (Fleet::default(), BTreeMap::new(), BTreeMap::new());
            for _ in 0..2_000 {
                let n = u128::from(random.next_u64() % 700);
                match random.next_u64() % 4 {
                    0 | 1 => {
                        let mut node = node(n);
                        node.eligible = random.next_u64().is_multiple_of(2);
                        node.info.meta.insert("rack".into(), (random.next_u64() % 5).to_string());
                        fleet.upsert_node(&node);
                        known.insert(node_id(n), node);
                    }
                    2 => {
                        fleet.remove_node(node_id(n));
                        known.remove(&node_id(n));
                    }
                    _ => {
                        fleet.hold(node_id(n), &holding(amount(n as i64, 1, 1)));
                        let entry: &mut Amount = used.entry(node_id(n)).or_default();
                        *entry = entry.plus(amount(n as i64, 1, 1));
                    }
                }
            }
            let snapshot = fleet.snapshot();
            assert_eq!(snapshot.nodes(), known.len());
            assert_eq!(snapshot.occupied_slots().count(), known.len());
            for (id, node) in &known {
                let want = (used.get(id).copied().unwrap_or_default(), node.available());
                assert_eq!((snapshot.usage(*id), snapshot.ready(*id)), (Some(want), node.ready()));
                let profile = snapshot.slot(*id).and_then(|s| snapshot.profile_at(s));
                assert_eq!(profile.and_then(|p| p.meta("rack")), Some(&*node.info.meta["rack"]));
            }
        }
    }
}
