//! The event stream without its socket: what a reader subscribed to, which events are kept for it, and the lines it gets
//! (http-api.md 11).
//!
//! Refuses to know: sockets, time, and who reads how fast. Invariants: what is kept is bounded, by entries and by objects;
//! a reader that fell behind what is kept learns it from `NextEvents::Lost` and is never served a gap in silence.

pub mod identity;

use crate::response::Response;
use crate::shape::event::{EventLine, shape};
use crate::{Call, RouteOutcome};
use identity::{Identity, identity};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::event::{Events, Object};

/// The heartbeat: the first line of every stream, and sent while there are no events.
pub const HEARTBEAT: &[u8] = b"{}\n";

/// Topics of the field's API. Those without objects here have no events.
const TOPICS: [&str; 18] = [
    "*",
    "Job",
    "Evaluation",
    "Allocation",
    "Deployment",
    "Node",
    "NodePool",
    "Service",
    "ACLToken",
    "ACLPolicy",
    "ACLRole",
    "ACLAuthMethod",
    "ACLBindingRule",
    "HostVolume",
    "CSIVolume",
    "CSIPlugin",
    "Variable",
    "Operator",
];

/// What one reader subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Topic and key, each perhaps `*`; never empty.
    topics: Vec<(String, String)>,
    /// `None`: every namespace.
    namespace: Option<String>,
    /// Events from this index on, as far as they are kept; 0: all that are kept.
    pub index: u64,
}

pub(super) fn subscribe(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    if call.ctx.agent.no_events {
        let why = "no events are kept here: this agent's configuration says enable_event_broker = false";
        return Err(Response::text(500, why));
    }
    let mut topics = call.query.all("topic").map(topic).collect::<Result<Vec<_>, _>>()?;
    if topics.is_empty() {
        topics.push(("*".into(), "*".into()));
    }
    let namespace = call.namespaces().map(str::to_string);
    Ok(RouteOutcome::Events(Subscription { topics, namespace, index: call.query.index }))
}

/// Checked before the shared parameters: its sentence for an invalid index is its own.
pub(super) fn check_index(parameters: &[(String, String)]) -> Result<(), Response> {
    match parameters.iter().find(|(name, _)| name == "index") {
        Some((_, text)) if !text.is_empty() && text.parse::<u64>().is_err() => {
            let why = format!("Unable to parse index: {text:?} is not a whole number from 0");
            Err(Response::text(400, why))
        }
        _ => Ok(()),
    }
}

fn topic(text: &str) -> Result<(String, String), Response> {
    let bad = |why: &str| {
        let known = "Invalid topic query: Invalid key value pair for topic, topic:";
        Response::text(400, format!("{known} {text}: {why}"))
    };
    let (name, key) = text.split_once(':').unwrap_or((text, "*"));
    if key.contains(':') {
        return Err(bad("say Topic or Topic:key"));
    }
    if !TOPICS.contains(&name) {
        return Err(bad(&format!("no such topic, use one of {}", TOPICS.join(", "))));
    }
    Ok((name.to_string(), key.to_string()))
}

impl Subscription {
    /// To all topics of all namespaces.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_everything(index: u64) -> Subscription {
        Subscription { topics: vec![("*".into(), "*".into())], namespace: None, index }
    }

    /// Both subscriptions get the same lines, of entries that neither of them begins after.
    pub fn has_same_lines(&self, other: &Subscription) -> bool {
        (&self.topics, &self.namespace) == (&other.topics, &other.namespace)
    }

    /// Whether the entry is older than what this reader asked for. A server that has just started, or lags, comes to such entries later.
    pub fn begins_after(&self, events: &Events) -> bool {
        events.index < self.index
    }

    /// The line for this entry; `None` when it has nothing for this reader.
    pub fn line(&self, events: &Events) -> Option<Vec<u8>> {
        if self.begins_after(events) {
            return None;
        }
        let wanted: Vec<_> = events
            .objects
            .iter()
            .filter(|object| self.wants(object))
            .map(|object| shape(object, events))
            .collect();
        if wanted.is_empty() {
            return None;
        }
        let mut line = serde_json::to_vec(&EventLine { index: events.index, events: wanted })
            .expect("text, numbers and maps with text as keys always become JSON");
        line.push(b'\n');
        Some(line)
    }

    fn wants(&self, object: &Object) -> bool {
        let Identity { topic, key, namespace, filter_keys } = identity(object);
        let in_namespace = match (&self.namespace, namespace) {
            (Some(wanted), Some(found)) => wanted == found,
            (None, _) | (_, None) => true,
        };
        let matches = |(name, wanted): &(String, String)| {
            (name == "*" || name == topic)
                && (wanted == "*" || *wanted == key || filter_keys.contains(&wanted.as_str()))
        };
        in_namespace && self.topics.iter().any(matches)
    }
}

/// How many objects are kept at most, beyond those of the newest entry.
const MAX_OBJECTS: usize = 2_000;

/// The newest events, oldest first. Places are counted from the process's start.
#[derive(Debug)]
pub struct EventBuffer {
    entries: VecDeque<Arc<Events>>,
    /// How many entries were dropped: the place of the oldest one kept.
    dropped: u64,
    objects: usize,
    max_entries: usize,
    /// The first place after a snapshot replaced the state: its changes have no events.
    restored: u64,
}

/// What there is at a place.
#[derive(Debug, PartialEq)]
pub enum NextEvents {
    Events(Arc<Events>),
    /// Nothing yet.
    Nothing,
    /// Dropped: the reader is too slow.
    Lost,
    /// The state was replaced since: what changed with that is in no event.
    Restored,
}

impl EventBuffer {
    pub fn new(max_entries: usize) -> EventBuffer {
        EventBuffer {
            entries: VecDeque::new(),
            dropped: 0,
            objects: 0,
            max_entries: max_entries.max(1),
            restored: 0,
        }
    }

    pub fn push(&mut self, events: Events) {
        self.objects += events.objects.len();
        self.entries.push_back(Arc::new(events));
        while self.entries.len() > 1 && (self.entries.len() > self.max_entries || self.objects > MAX_OBJECTS)
        {
            let oldest = self.entries.pop_front();
            self.objects -= oldest.map_or(0, |e| e.objects.len());
            self.dropped += 1;
        }
    }

    /// A snapshot has taken the state's place. Every reader of before ends, also one that has read everything.
    pub fn restored(&mut self) {
        self.dropped += self.entries.len() as u64 + 1;
        self.restored = self.dropped;
        self.entries.clear();
        self.objects = 0;
    }

    /// The place where a reader begins that wants events from `index` on.
    pub fn begin(&self, index: u64) -> u64 {
        self.dropped + self.entries.partition_point(|e| e.index < index) as u64
    }

    pub fn at(&self, place: u64) -> NextEvents {
        match place.checked_sub(self.dropped) {
            _ if place < self.restored => NextEvents::Restored,
            None => NextEvents::Lost,
            Some(offset) => match self.entries.get(offset as usize) {
                Some(events) => NextEvents::Events(events.clone()),
                None => NextEvents::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::samples::{eval, eval_id};

    fn events(index: u64, objects: usize) -> Events {
        let object = |n: usize| Object::Eval(Arc::new(eval(n as u128 + 1, "web")));
        Events { index, kind: "EvaluationUpdated", objects: (0..objects).map(object).collect() }
    }

    fn index_at(buffer: &EventBuffer, place: u64) -> Option<u64> {
        match buffer.at(place) {
            NextEvents::Events(e) => Some(e.index),
            NextEvents::Nothing | NextEvents::Lost | NextEvents::Restored => None,
        }
    }

    #[test]
    fn a_restored_snapshot_ends_readers_of_before_and_no_others() {
        let mut buffer = EventBuffer::new(10);
        buffer.push(events(5, 1));
        let (slow, waiting) = (buffer.begin(0), buffer.begin(6));
        assert_eq!(buffer.at(waiting), NextEvents::Nothing);
        buffer.restored();
        assert_eq!((buffer.at(slow), buffer.at(waiting)), (NextEvents::Restored, NextEvents::Restored));
        let new = buffer.begin(0);
        assert_eq!(buffer.at(new), NextEvents::Nothing);
        buffer.push(events(40, 1));
        assert_eq!((index_at(&buffer, new), buffer.objects), (Some(40), 1));
    }

    #[test]
    fn a_reader_begins_where_it_asked_or_at_the_oldest() {
        let mut buffer = EventBuffer::new(3);
        for index in [10, 12, 14, 16] {
            buffer.push(events(index, 1));
        }
        for (index, first) in
            [(1, Some(12)), (12, Some(12)), (13, Some(14)), (16, Some(16)), (17, None), (0, Some(12))]
        {
            assert_eq!(index_at(&buffer, buffer.begin(index)), first, "{index}");
        }
    }

    #[test]
    fn a_slow_reader_is_told_that_it_lost_events() {
        let mut buffer = EventBuffer::new(2);
        let place = buffer.begin(0);
        assert_eq!(buffer.at(place), NextEvents::Nothing);
        for index in 1..=2 {
            buffer.push(events(index, 1));
        }
        assert_eq!(index_at(&buffer, place), Some(1));
        buffer.push(events(3, 1));
        assert_eq!(buffer.at(place), NextEvents::Lost);
        assert_eq!(index_at(&buffer, place + 1), Some(2));
    }

    #[test]
    fn the_event_buffer_is_bounded_but_keeps_the_newest() {
        let mut buffer = EventBuffer::new(100);
        for index in 1..=5 {
            buffer.push(events(index, MAX_OBJECTS / 4));
        }
        assert_eq!((buffer.entries.len(), buffer.objects), (4, MAX_OBJECTS));
        buffer.push(events(6, MAX_OBJECTS * 2));
        assert_eq!((buffer.entries.len(), buffer.objects), (1, MAX_OBJECTS * 2));
        buffer.push(events(7, 1));
        assert_eq!((buffer.entries.len(), buffer.objects), (1, 1));
    }

    /// A server that has just started applies again what came after its last save: who asks for what is next has heard of it.
    #[test]
    fn an_older_entry_that_comes_after_the_reader_is_left_out() {
        let mut buffer = EventBuffer::new(10);
        let subscription = Subscription::of_everything(311);
        let mut place = buffer.begin(subscription.index);
        (305..=312).for_each(|index| buffer.push(events(index, 1)));
        let mut told = Vec::new();
        while let NextEvents::Events(entry) = buffer.at(place) {
            told.extend(subscription.line(&entry).map(|_| entry.index));
            place += 1;
        }
        assert_eq!(told, [311, 312]);
    }

    #[test]
    fn topics_keys_and_namespaces_filter_events() {
        let entry = events(7, 1);
        let id = eval_id(1).to_string();
        let subscription = |topics: &[&str], namespace: Option<&str>| Subscription {
            topics: topics.iter().map(|t| topic(t).unwrap()).collect(),
            namespace: namespace.map(str::to_string),
            index: 0,
        };
        for (topics, namespace, expected) in [
            (&["*"][..], None, true),
            (&["*:web"], None, true),
            (&["Evaluation"], Some("default"), true),
            (&["Evaluation"], Some("other"), false),
            (&["Evaluation:web"], None, true),
            (&["Evaluation:db"], None, false),
            (&["Job"], None, false),
            (&["Job", &format!("Evaluation:{id}")], None, true),
        ] {
            assert_eq!(subscription(topics, namespace).line(&entry).is_some(), expected, "{topics:?}");
        }
    }
}
