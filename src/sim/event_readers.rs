//! Users who follow the events of a region by `/v1/event/stream`, each at one server until that dies, restarts or has forgotten what they
//! have not read, and then at another one, from behind the newest index that they were told.
//!
//! Refuses to know who changes what. Invariants checked: every server tells the same of an entry; a reader is told of entries in their order,
//! of each once, and on one connection of all that its server keeps.

use super::faults::Kind;
use super::ledger::WrittenJob;
use super::place::{Machine, ServerAt};
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
/// What servers have told is remembered of so many entries.
const REMEMBERED: usize = 4_000;
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

/// What one life of a server tells.
pub struct ServerEvents {
    kept: EventBuffer,
    /// The newest entry that its turns have gone by.
    until: u64,
}

impl ServerEvents {
    /// What it tells comes after that entry.
    pub fn begin(until: u64) -> ServerEvents {
        ServerEvents { kept: EventBuffer::new(KEPT_ENTRIES), until }
    }
}

/// What the servers of a region have told of the newest entries, by index; `None`: that there is nothing to tell. An entry is missing here
/// while every server that applied it died before its turn had ended, or has it from a snapshot: then nobody could be told.
pub type ToldEvents = BTreeMap<u64, Option<Events>>;

impl Region {
    /// A server tells of an entry, or goes by it.
    fn note_told(&mut self, index: u64, events: Option<&Events>) -> Result<(), String> {
        match self.told_events.get(&index) {
            Some(known) if known.as_ref() != events => {
                Err(format!("of entry {index} was told {known:#?}, and now {events:#?}"))
            }
            Some(_) => Ok(()),
            None => {
                self.told_events.insert(index, events.cloned());
                if self.told_events.len() > REMEMBERED {
                    self.told_events.pop_first();
                }
                Ok(())
            }
        }
    }

    /// The entries from one to the other that concern whoever follows the topic.
    fn told(&self, from: u64, until: u64, topic: Topic) -> impl Iterator<Item = u64> {
        let all = self.told_events.range(from..).take_while(move |(index, _)| **index <= until);
        all.filter(move |(_, events)| events.as_ref().is_some_and(|e| topic.is_in(e)))
            .map(|(index, _)| *index)
    }

    /// Whether the events told of that entry say that the job changed; true if they are not remembered.
    fn told_of_job(&self, job: &JobKey, index: u64) -> bool {
        let is_it = |o: &Object| matches!(o, Object::Job { job: told, .. } if told.spec.key() == *job);
        let tells = |events: &Events| events.objects.iter().any(is_it);
        self.told_events.get(&index).is_none_or(|events| events.as_ref().is_some_and(tells))
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

    /// After a turn of a server, which has come to its end.
    pub fn publish_events(
        &mut self,
        at: ServerAt,
        events: Vec<Events>,
        restored: bool,
    ) -> Result<(), String> {
        let applied = self.regions[at].applied_index();
        let before = std::mem::replace(&mut self.regions[at].events.until, applied);
        if restored {
            self.regions[at].events.kept.restored();
        }
        // of what a snapshot brings nothing is known
        let first = if restored { applied } else { before } + 1;
        let mut told: BTreeMap<u64, Option<&Events>> = (first..=applied).map(|index| (index, None)).collect();
        for entry in &events {
            if entry.index <= before
                || entry.index > applied
                || told.insert(entry.index, Some(entry)).flatten().is_some()
            {
                return Err(format!("{at} tells of {} in a turn from {before} to {applied}", entry.index));
            }
        }
        let region = &mut self.regions[at.region];
        told.into_iter().try_for_each(|(index, events)| region.note_told(index, events))?;
        region.history.note_told((first, applied), &events);
        events.into_iter().for_each(|entry| self.regions[at].events.kept.push(entry));
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
            match self.regions[connection.at].events.kept.at(connection.place) {
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
        let RouteOutcome::Events(subscription) =
            self.route(Machine::Server(at), &request, WaitState::default())?
        else {
            return None;
        };
        let host = &self.regions[at];
        let (place, oldest) = (host.events.kept.begin(subscription.index), host.events.kept.begin(0));
        let kept = match host.events.kept.at(oldest) {
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
        if let Some(skipped) = self.regions[at.region].told(connection.from, index - 1, topic).next() {
            return Err(format!("{at} tells reader {reader} of {index} and not of {skipped}"));
        }
        connection.from = index + 1;
        self.event_readers.readers[reader].last = index;
        self.faults.fired(Kind::EventLineRead);
        Ok(())
    }

    /// At rest: who reads all that its server has is told of all that concerns it, as far as that server has come.
    pub fn check_events_read(&mut self) -> Result<(), String> {
        for reader in 0..READERS {
            self.read_to_the_end(reader)?;
            let Reader { topic, last, connection } = &self.event_readers.readers[reader];
            let Some(Connection { at, from, .. }) = connection else { continue };
            let come = self.regions[*at].applied_index();
            if let Some(newest) = self.regions[HOME_REGION].told(*from, come, *topic).last() {
                return Err(format!(
                    "reader {reader} of {topic:?} at {at}: {newest} is new, and it knows {last}"
                ));
            }
        }
        Ok(())
    }

    fn read_to_the_end(&mut self, reader: usize) -> Result<(), String> {
        for _ in 0..=KEPT_ENTRIES {
            self.read_some_events(reader)?;
            let connection = self.event_readers.readers[reader].connection.as_ref();
            if connection.is_some_and(|c| self.regions[c.at].events.kept.at(c.place) == NextEvents::Nothing) {
                return Ok(());
            }
        }
        Err(format!("reader {reader} comes to no end"))
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

    const FIRST: ServerAt = ServerAt { region: HOME_REGION, server: 0 };

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
        world.regions[FIRST].events = ServerEvents::begin(0);
        connection(&mut world).place = 0;
        assert!(world.check_events_read().is_err_and(|e| e.contains("is new")));
    }

    #[test]
    fn an_entry_of_which_servers_tell_different_things_is_found() {
        let mut world = world_with_news();
        let region = &mut world.regions[HOME_REGION];
        let known = region.told_events.values().rev().find_map(Clone::clone).expect("some were told");
        assert_eq!(region.note_told(known.index, Some(&known)), Ok(()));
        assert!(region.note_told(known.index, None).is_err());
        assert!(region.note_told(known.index, Some(&Events { kind: "Other", ..known.clone() })).is_err());
        let again = world.publish_events(FIRST, vec![known], false);
        assert!(again.is_err_and(|e| e.contains("in a turn from")), "of each once");
    }

    #[test]
    fn a_write_of_which_no_event_tells_is_found() {
        let mut world = world_with_news();
        let key = JobKey::new("default", "quiet-3");
        let job = world.regions[HOME_REGION].tracked.jobs.get(&key).cloned().expect("was registered");
        let spec = WrittenJob::Spec(Box::new(job.spec.clone()));
        assert_eq!(world.check_told(&key, job.job_modify_index, &spec), Ok(()));
        let index = job.job_modify_index;
        world.regions[HOME_REGION].told_events.insert(index, None);
        assert!(world.check_told(&key, index, &spec).is_err_and(|e| e.contains("no event")));
        world.regions[HOME_REGION].told_events.remove(&index);
        assert_eq!(
            world.check_told(&key, index, &spec),
            Ok(()),
            "no turn that applied it has come to its end"
        );
    }
}
