//! An allocation's reschedule tracker and its state changes (such as a lost or reconnected node) as JSON. Refuses to know the allocation's other members.

use super::rfc3339;
use model::alloc::{Allocation, StateChange};
use model::reschedule::Reschedule;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TrackerShape {
    events: Vec<RescheduleEventShape>,
    last_reschedule: &'static str,
}

impl TrackerShape {
    /// None: it has replaced no failed one.
    pub fn new(a: &Allocation) -> Option<Self> {
        let events: Vec<_> = a.reschedules.iter().map(RescheduleEventShape::new).collect();
        (!events.is_empty()).then_some(TrackerShape { events, last_reschedule: "ok" })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct RescheduleEventShape {
    /// Nanoseconds since 1970.
    reschedule_time: i64,
    #[serde(rename = "PrevAllocID")]
    prev_alloc_id: String,
    #[serde(rename = "PrevNodeID")]
    prev_node_id: String,
    /// Nanoseconds.
    delay: i64,
}

impl RescheduleEventShape {
    fn new(r: &Reschedule) -> Self {
        RescheduleEventShape {
            reschedule_time: r.at.0,
            prev_alloc_id: r.previous_alloc.to_string(),
            prev_node_id: r.previous_node.to_string(),
            delay: r.delay.as_nanos(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocStateShape {
    field: &'static str,
    value: &'static str,
    time: Option<String>,
}

impl AllocStateShape {
    pub fn new(change: &StateChange) -> Self {
        AllocStateShape { field: "client_status", value: change.status.as_str(), time: rfc3339(change.at) }
    }
}
