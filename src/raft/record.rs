//! The encoding of messages, entries, hard states and members, as they are sent and stored.
//!
//! Refuses to know who sends and who stores. A message begins with its version. What is stored lies within records that carry
//! a version already, so that it has none of its own.

use super::MAX_ENTRY_BYTES;
use raft_engine::eraftpb::{ConfChangeType, ConfChangeV2, Entry, EntryType, HardState, Message};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of messages that this build writes, and the only one that it reads.
const MESSAGE_VERSION: u8 = 1;

/// What a change of membership adds to the bytes that it carries.
const CHANGE_OVERHEAD_BYTES: usize = 64;
/// The data of an entry as the log holds it: what was proposed, or a change that carries as much.
pub const MAX_STORED_ENTRY_BYTES: usize = MAX_ENTRY_BYTES + CHANGE_OVERHEAD_BYTES;

/// Stored log or hard state that this build cannot read, or that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stored raft log is damaged: {}", self.0)
    }
}

impl std::error::Error for Damaged {}

/// Bytes that are no message of this build's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Version { found: u8, known: u8 },
    Malformed(String),
}

pub fn encoded(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("messages, entries and states are plain structs, which can be encoded")
}

/// All of the bytes.
pub fn decoded<'a, T: Deserialize<'a>>(what: impl fmt::Display, bytes: &'a [u8]) -> Result<T, Damaged> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, more)) => Err(Damaged(format!("{what}: {} bytes too many", more.len()))),
        Err(e) => Err(Damaged(format!("{what}: {e}"))),
    }
}

pub fn encode_message(message: &Message) -> Vec<u8> {
    postcard::to_extend(message, vec![MESSAGE_VERSION]).expect("a message is a plain struct")
}

pub fn decode_message(bytes: &[u8]) -> Result<Message, Unreadable> {
    match bytes.split_first() {
        Some((&MESSAGE_VERSION, body)) => decoded("message", body).map_err(|e| Unreadable::Malformed(e.0)),
        Some((&found, _)) => Err(Unreadable::Version { found, known: MESSAGE_VERSION }),
        None => Err(Unreadable::Malformed("message: no bytes".into())),
    }
}

/// An entry as it is stored; its index is its key.
#[derive(Serialize, Deserialize)]
struct StoredEntry<'a> {
    kind: u8,
    term: u64,
    #[serde(borrow)]
    data: &'a [u8],
}

pub fn encode_entry(e: &Entry) -> Vec<u8> {
    encoded(&StoredEntry { kind: e.entry_type as u8, term: e.term, data: &e.data })
}

pub fn decode_entry(index: u64, bytes: &[u8]) -> Result<Entry, Damaged> {
    let stored: StoredEntry<'_> = decoded(format_args!("entry {index}"), bytes)?;
    let kind = EntryType::from_i32(i32::from(stored.kind))
        .ok_or_else(|| Damaged(format!("entry {index} is of unknown kind {}", stored.kind)))?;
    let data = stored.data.to_vec().into();
    let entry = Entry { entry_type: kind, term: stored.term, index, data, ..Entry::default() };
    match decode_change(&entry) {
        Ok(_) => Ok(entry),
        Err(why) => Err(Damaged(format!("entry {index}: {why}"))),
    }
}

/// The change of membership that the entry holds. One member changes at a time: anything else was written by no drover.
pub fn decode_change(entry: &Entry) -> Result<Option<ConfChangeV2>, &'static str> {
    match entry.entry_type {
        EntryType::EntryNormal => return Ok(None),
        EntryType::EntryConfChange => return Err("a change of membership in the older form"),
        EntryType::EntryConfChangeV2 => {}
    }
    let unreadable = |_| "an unreadable change of membership";
    let change: ConfChangeV2 = decoded("change", &entry.data).map_err(unreadable)?;
    match change.changes.as_slice() {
        [one] if one.node_id != 0 && change.enter_joint().is_none() => Ok(Some(change)),
        _ => Err("a change of other than one member"),
    }
}

pub fn encode_change(id: u64, change_type: ConfChangeType, context: Vec<u8>) -> ConfChangeV2 {
    let changes = vec![raft_engine::eraftpb::ConfChangeSingle { change_type, node_id: id }];
    ConfChangeV2 { changes, context: context.into(), ..ConfChangeV2::default() }
}

pub fn encode_hard_state(hs: &HardState) -> Vec<u8> {
    encoded(&(hs.term, hs.vote, hs.commit))
}

pub fn decode_hard_state(bytes: &[u8]) -> Result<HardState, Damaged> {
    let (term, vote, commit) = decoded("hard state", bytes)?;
    Ok(HardState { term, vote, commit })
}
