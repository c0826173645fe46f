//! Users who follow the events of a region by `/v1/event/stream`, each at one server until that dies, restarts or has forgotten what they
//! have not read, and then at another one, from behind the newest index that they were told.
//!
//! Refuses to know who changes what. Invariants checked: every server tells the same of an entry; a reader is told of entries in their order,
//! of each once, and on one connection of all that its server keeps.

use super::faults::Kind;
use super::ledger::WrittenJob;
use super::place::ServerAt;
use super::region::Region;
use super::users::{HOME_REGION, User};
use super::world::{Event, World};
use api::events::{EventBuffer, NextEvents, Subscription};
use api::{RouteOutcome, WaitState};
use model::id::JobKey;
use model::random::Stream;
use model::time::Span;
use std::collections::BTreeMap;
use wire::event::{Events, Object};
use wire::http::{Method, Request};

/// So few that a reader who sleeps falls behind.
const KEPT_ENTRIES: usize = 60;
/// So many are remembered, of all that servers have told, for what comes later.
const REMEMBERED: usize = 1_500;
/// What a reader takes at once.
const LINES: usize = 40;
/// How long one looks away, at most.
const PAUSE: Span = Span::seconds(20);
const READERS: usize = 2;

/// What a reader wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    All,
    Job,
    Deployment,
}

impl Topic {
    fn query(self) -> &'static str {
        match self {
            Topic::All => "*",
            Topic::Job => "Job",
            Topic::Deployment => "Deployment:*",
        }
    }

    fn is_in(self, events: &Events) -> bool {
        events.objects.iter().any(|object| match self {
            Topic::All => true,
            Topic::Job => matches!(object, Object::Job { .. }),
            Topic::Deployment => matches!(object, Object::Deployment(_)),
        })
    }
}

struct Reader {
    topic: Topic,
    /// The newest index that it was told.
    last: u64,
    connection: Option<Connection>,
}

struct Connection {
    at: ServerAt,
    /// That server's life.
    life: u64,
    subscription: Subscription,
    place: u64,
    /// All from here on is to be told, as far as it is wanted.
    from: u64,
}

pub struct EventReaders {
    draws: Stream,
    readers: Vec<Reader>,
}

impl EventReaders {
    pub fn new(seed: u64) -> EventReaders {
        let mut draws = Stream::new(seed, 115);
        let other = [Topic::Job, Topic::Deployment][draws.below(2) as usize];
        let reader = |topic| Reader { topic, last: 0, connection: None };
        EventReaders { draws, readers: vec![reader(Topic::All), reader(other)] }
    }
}

pub fn new_buffer() -> EventBuffer {
    EventBuffer::new(KEPT_ENTRIES)
}

/// What the servers of a region have told, by index: of the newest entries.
pub type ToldEvents = BTreeMap<u64, Events>;

impl Region {
    /// A server tells of an entry.
    fn note_events(&mut self, events: &Events) -> Result<(), String> {
        match self.told_events.get(&events.index) {
            Some(known) if known != events => {
                Err(format!("of entry {} was told {known:#?}, and now {events:#?}", events.index))
            }
            Some(_) => Ok(()),
            None => {
                self.told_events.insert(events.index, events.clone());
                if self.told_events.len() > REMEMBERED {
                    self.told_events.pop_first();
                }
                Ok(())
            }
        }
    }

    /// Whether it was told that the job changed there, as far as anybody remembers.
    fn told_of_job(&self, job: &JobKey, index: u64) -> bool {
        let forgotten = self.told_events.first_key_value().is_none_or(|(first, _)| *first > index);
        let is_it = |o: &Object| matches!(o, Object::Job { job: told, .. } if told.spec.key() == *job);
        forgotten || self.told_events.get(&index).is_some_and(|events| events.objects.iter().any(is_it))
    }
}

impl World {
    /// A user was told that the job has been so from that index on: whoever follows events hears of it.
    pub fn check_told(&self, job: &JobKey, index: u64, written: &WrittenJob) -> Result<(), String> {
        let is_there = matches!(written, WrittenJob::Spec(_));
        match is_there && !self.regions[HOME_REGION].told_of_job(job, index) {
            true => Err(format!("{job} was written at {index}, and no event tells of it")),
            false => Ok(()),
        }
    }

    pub fn follow_events(&mut self) {
        for reader in 0..READERS {
            self.after(Span::seconds(4), Event::ReadEvents { reader });
        }
    }

    /// After a turn of a server.
    pub fn publish_events(
        &mut self,
        at: ServerAt,
        events: Vec<Events>,
        restored: bool,
    ) -> Result<(), String> {
        if restored {
            self.regions[at].events.restored();
        }
        for entry in events {
            self.regions[at.region].note_events(&entry)?;
            self.regions[at].events.push(entry);
        }
        Ok(())
    }

    /// One of them looks up; then, after a while, again.
    pub fn read_events(&mut self, reader: usize) -> Result<(), String> {
        self.read_some_events(reader)?;
        let sleeps = self.faults.on() && self.event_readers.draws.below(6) == 0;
        let most = if sleeps { PAUSE } else { Span::seconds(2) };
        let pause = Span::millis(50) + self.event_readers.draws.span_below(most);
        self.after(pause, Event::ReadEvents { reader });
        Ok(())
    }

    fn read_some_events(&mut self, reader: usize) -> Result<(), String> {
        let alive = |c: &Connection| self.regions[c.at].is_up() && self.regions[c.at].lives == c.life;
        let connection = self.event_readers.readers[reader].connection.take().filter(alive);
        let Some(mut connection) = connection.or_else(|| self.subscribe(reader)) else { return Ok(()) };
        for _ in 0..LINES {
            match self.regions[connection.at].events.at(connection.place) {
                NextEvents::Nothing => break,
                NextEvents::Lost => {
                    self.faults.fired(Kind::EventReaderTooSlow);
                    return Ok(());
                }
                NextEvents::Restored => return Ok(()),
                NextEvents::Events(events) => {
                    connection.place += 1;
                    if let Some(line) = connection.subscription.line(&events) {
                        let index = index_of(&line).ok_or("a line without an index")?;
                        self.event_line(reader, &mut connection, index)?;
                    }
                }
            }
        }
        self.event_readers.readers[reader].connection = Some(connection);
        Ok(())
    }

    /// From behind what it knows, at the server that readers ask.
    fn subscribe(&mut self, reader: usize) -> Option<Connection> {
        let at = self.server_of(User::Reader)?;
        let Reader { topic, last, .. } = self.event_readers.readers[reader];
        let query = format!("topic={}&index={}", topic.query(), last + 1);
        let path = "/v1/event/stream".into();
        let request = Request { method: Method::Get, path, query, body: vec![], websocket: false };
        let RouteOutcome::Events(subscription) = self.route(at, &request, WaitState::default())? else {
            return None;
        };
        let host = &self.regions[at];
        let (place, oldest) = (host.events.begin(subscription.index), host.events.begin(0));
        let kept = match host.events.at(oldest) {
            NextEvents::Events(events) => events.index,
            _ => host.applied_index() + 1,
        };
        let from = kept.max(last + 1);
        self.note(|_| format!("reader  {reader} follows {topic:?} at {at} from {from}"));
        self.faults.fired(Kind::EventStreamOpened);
        Some(Connection { at, life: self.regions[at].lives, subscription, place, from })
    }

    /// A reader is told of an entry.
    fn event_line(&mut self, reader: usize, connection: &mut Connection, index: u64) -> Result<(), String> {
        let Reader { topic, last, .. } = self.event_readers.readers[reader];
        let at = connection.at;
        if index <= last {
            return Err(format!("{at} tells reader {reader} of {index} after {last}"));
        }
        let told = &self.regions[at.region].told_events;
        let between = connection.from..index;
        let mut skipped = told.range(between).filter(|(_, events)| topic.is_in(events));
        if let Some((skipped, _)) = skipped.next() {
            return Err(format!("{at} tells reader {reader} of {index} and not of {skipped}"));
        }
        connection.from = index + 1;
        self.event_readers.readers[reader].last = index;
        self.faults.fired(Kind::EventLineRead);
        Ok(())
    }

    /// At rest: who reads what is left has heard of the newest entry that is his concern.
    pub fn check_events_read(&mut self) -> Result<(), String> {
        for reader in 0..READERS {
            self.read_some_events(reader)?;
            while self.has_unread_events(reader) {
                self.read_some_events(reader)?;
            }
            let Reader { topic, last, .. } = self.event_readers.readers[reader];
            let mut told = self.regions[HOME_REGION].told_events.iter().rev();
            let newest = told.find(|(_, events)| topic.is_in(events)).map_or(0, |(index, _)| *index);
            if last < newest {
                return Err(format!(
                    "reader {reader} follows {topic:?}, {newest} is new, and it knows {last}"
                ));
            }
        }
        Ok(())
    }

    /// Or nobody to read them from, just now.
    fn has_unread_events(&self, reader: usize) -> bool {
        let connection = self.event_readers.readers[reader].connection.as_ref();
        connection.is_none_or(|c| self.regions[c.at].events.at(c.place) != NextEvents::Nothing)
    }
}

/// A line's index, without reading the rest of it.
fn index_of(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("{\"Index\":")?;
    text.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One server, of whose first entries both readers have heard, and of what came then none.
    fn world_with_news() -> World {
        let mut world = World::new(1, 1, 1, false);
        world.faults.heal();
        world.start_all().expect("fresh disks open");
        let run = |world: &mut World| {
            world.run_until(world.now.after(Span::seconds(20))).expect("no fault, no failure");
        };
        run(&mut world);
        for job in ["quiet-1", "quiet-2", "quiet-3"] {
            world.register_quietly(job, 1);
            run(&mut world);
            if job == "quiet-1" {
                assert_eq!(world.check_events_read(), Ok(()));
            }
        }
        world
    }

    fn connection(world: &mut World) -> &mut Connection {
        world.event_readers.readers[0].connection.as_mut().expect("it follows")
    }

    #[test]
    fn all_that_is_new_is_told_once() {
        let mut world = world_with_news();
        let before = world.event_readers.readers[0].last;
        assert_eq!(world.check_events_read(), Ok(()));
        assert!(world.event_readers.readers[0].last > before);
    }

    #[test]
    fn an_event_that_comes_twice_is_found() {
        let mut world = world_with_news();
        connection(&mut world).place -= 1;
        assert!(world.check_events_read().is_err_and(|e| e.contains("after")));
    }

    #[test]
    fn an_event_that_is_left_out_is_found() {
        let mut world = world_with_news();
        connection(&mut world).place += 1;
        assert!(world.check_events_read().is_err_and(|e| e.contains("and not of")));
        let mut world = world_with_news();
        let region = &mut world.regions[HOME_REGION];
        let (last, events) = region.told_events.last_key_value().expect("some were told");
        let later = Events { index: last + 9, ..events.clone() };
        region.told_events.insert(later.index, later);
        assert!(world.check_events_read().is_err_and(|e| e.contains("is new")));
    }

    #[test]
    fn an_entry_of_which_servers_tell_different_things_is_found() {
        let mut world = world_with_news();
        let region = &mut world.regions[HOME_REGION];
        let known = region.told_events.last_key_value().expect("some were told").1.clone();
        assert_eq!(region.note_events(&known), Ok(()));
        assert!(region.note_events(&Events { kind: "Other", ..known }).is_err());
    }

    #[test]
    fn a_write_of_which_no_event_tells_is_found() {
        let mut world = world_with_news();
        let key = JobKey::new("default", "quiet-3");
        let job = world.regions[HOME_REGION].tracked.jobs.get(&key).cloned().expect("was registered");
        let spec = WrittenJob::Spec(Box::new(job.spec.clone()));
        assert_eq!(world.check_told(&key, job.job_modify_index, &spec), Ok(()));
        world.regions[HOME_REGION].told_events.remove(&job.job_modify_index);
        assert!(world.check_told(&key, job.job_modify_index, &spec).is_err_and(|e| e.contains("no event")));
    }
}
