//! The JSON that leaves drover: one struct per shape, every member of it, in the names of the field's API.
//!
//! Refuses to know: where the values come from and who asked. Rules: members are PascalCase; a member that exists in the
//! API but has no value here is `null` (its type is `Null`) unless http-api.md 0.2.6 says that the shape leaves zero values out
//! (allocations and evaluations); durations are nanoseconds, times as noted at the member.

pub mod action;
pub mod agent;
pub mod alloc;
pub mod block;
pub mod claims;
pub mod deployment;
pub mod diff;
pub mod dispatch;
pub mod eval;
pub mod event;
pub mod file;
pub mod job;
pub mod job_answers;
pub mod join_token;
pub mod metric;
pub mod metrics;
pub mod namespace;
pub mod node;
pub mod operator;
pub mod plan;
pub mod pool;
pub mod reschedule;
pub mod scaling;
pub mod search;
pub mod stub;
pub mod usage;
pub mod version_tag;
pub mod why;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::time::Wall;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use wire::record::{self, Record};

/// A member that is always `null` today.
pub type Null = ();

/// A map that is always empty today, and that clients go through without looking for `null`.
#[derive(Serialize)]
pub struct Empty {}

/// Nomad's `QueryMeta` and `WriteMeta`, which stand among the members of some answers. `known_leader` is always false in an answer to a
/// write.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetaShape {
    index: u64,
    last_contact: u64,
    known_leader: bool,
    next_token: &'static str,
}

impl MetaShape {
    pub fn new(index: u64, known_leader: bool) -> MetaShape {
        MetaShape { index, last_contact: 0, known_leader, next_token: "" }
    }
}

/// RFC 3339 with nanoseconds as far as they are needed, in UTC; `None` (so `null`) for a time that was never set
/// (http-api.md 0.2.4).
pub fn rfc3339(at: Wall) -> Option<String> {
    if at.is_never() {
        return None;
    }
    jiff::Timestamp::from_nanosecond(i128::from(at.0)).ok().map(|t| t.to_string())
}

/// Go's nil slice: an empty list is `null`.
pub fn list_or_null<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// Go's nil map: an empty map is `null`.
pub fn map_or_null<V>(map: &BTreeMap<String, V>) -> Option<&BTreeMap<String, V>> {
    (!map.is_empty()).then_some(map)
}

pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Equal for equal objects, if they are given without the indexes of their writing: what others compare instead of the whole.
pub fn hash(timeless: &impl Record) -> String {
    STANDARD.encode(Sha256::digest(record::encode(timeless)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_writes_them() {
        for (nanos, text) in [
            (0, None),
            (1_714_551_630_000_000_000, Some("2024-05-01T08:20:30Z")),
            (1_714_551_630_120_000_000, Some("2024-05-01T08:20:30.12Z")),
            (i64::MAX, Some("2262-04-11T23:47:16.854775807Z")),
            (-1, Some("1969-12-31T23:59:59.999999999Z")),
        ] {
            assert_eq!(rfc3339(Wall(nanos)).as_deref(), text);
        }
    }
}
