//! The row that counts the children which outlive their parent: how many are pending and how many run.
//!
//! Refuses to know: why a parent went, and when its children end.

use super::fault::Fault;
use super::tables::{self, Part};
use model::id::JobKey;
use model::job_summary::Children;

pub(super) fn key(parent: &JobKey) -> Vec<u8> {
    Part::OrphanedChildren.key(&tables::job_bytes(parent), &[])
}

pub(super) fn to_bytes(children: Children) -> Vec<u8> {
    [children.pending.to_be_bytes(), children.running.to_be_bytes()].concat()
}

pub(super) fn from_bytes(bytes: &[u8]) -> Result<Children, Fault> {
    let Some((pending, running)) = bytes.split_at_checked(8) else {
        return Err(Fault::corrupt("counts of children are cut off"));
    };
    Ok(Children { pending: tables::number(pending)?, running: tables::number(running)?, dead: 0 })
}
