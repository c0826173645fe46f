//! Streams of events on their way out: every reader goes through the buffer at its own pace, woken when there is more, and
//! is ended with a sentence when the buffer has moved past it.

use super::HttpService;
use ::io::executor;
use ::io::http::Bytes;
use api::events::{EventBuffer, HEARTBEAT, NextEvents, Subscription};
use api::response::Response;
use async_channel::{Receiver, Sender};
use smol::Timer;
use smol::future::or;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::event::Events;

/// How often a reader without events gets a heartbeat; a reader that has left is noticed by it.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// At most this many readers at once; the next one is refused with "try again".
pub const MAX_READERS: usize = 1000;
/// At most this many lines are queued for a slow reader outside the buffer.
const LINES: usize = 4;
const TOO_SLOW: &[u8] =
    b"{\"Error\":\"this reader was too slow: events that it has not read are no longer kept; read the state, then subscribe again\"}\n";
const RESTORED: &[u8] =
    b"{\"Error\":\"the server's state was replaced by a snapshot: what changed with that is in no event; read the state, then subscribe again\"}\n";

#[derive(Debug)]
pub struct EventStreams {
    inner: Mutex<StreamState>,
}

#[derive(Debug)]
struct StreamState {
    buffer: EventBuffer,
    /// Each waker holds one notice at most: a second one would say the same.
    wakers: BTreeMap<u64, Sender<()>>,
    next_reader: u64,
    /// The line that was encoded last: most readers have the same subscription and the same pace.
    last: Option<EncodedLine>,
}

/// What the readers of a subscription get of an entry.
#[derive(Debug)]
struct EncodedLine {
    place: u64,
    subscription: Subscription,
    line: Option<Bytes>,
}

/// A place among the readers, given up when dropped.
struct Reader {
    service: Arc<HttpService>,
    number: u64,
    place: u64,
    woken: Receiver<()>,
}

impl EventStreams {
    pub fn new(buffer_entries: usize) -> EventStreams {
        let buffer = EventBuffer::new(buffer_entries);
        EventStreams {
            inner: Mutex::new(StreamState { buffer, wakers: BTreeMap::new(), next_reader: 0, last: None }),
        }
    }

    /// To be called after each turn.
    pub fn publish(&self, events: Vec<Events>) {
        if events.is_empty() {
            return;
        }
        let mut inner = self.inner();
        for entry in events {
            inner.buffer.push(entry);
        }
        for waker in inner.wakers.values() {
            // full: it is to be woken already
            let _ = waker.try_send(());
        }
    }

    /// A snapshot has taken the state's place: every reader is ended with a sentence.
    pub fn restored(&self) {
        let mut inner = self.inner();
        inner.buffer.restored();
        inner.last = None;
        for waker in inner.wakers.values() {
            // one that is full is awake already
            let _ = waker.try_send(());
        }
    }

    /// The line for this entry in the subscription's stream.
    fn line(&self, place: u64, events: &Events, subscription: &Subscription) -> Option<Bytes> {
        if subscription.begins_after(events) {
            return None;
        }
        if let Some(last) = &self.inner().last
            && last.place == place
            && last.subscription.has_same_lines(subscription)
        {
            return last.line.clone();
        }
        let line = subscription.line(events).map(Bytes::from);
        self.inner().last =
            Some(EncodedLine { place, subscription: subscription.clone(), line: line.clone() });
        line
    }

    fn inner(&self) -> MutexGuard<'_, StreamState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of a stream; refused when there are too many readers.
pub fn events(
    executor: &Arc<smol::Executor<'static>>,
    service: &Arc<HttpService>,
    subscription: Subscription,
) -> Result<Receiver<Bytes>, Response> {
    let reader = enter(service, subscription.index)?;
    let (sender, lines) = async_channel::bounded(LINES);
    executor::spawn(executor, pump(reader, subscription, sender)).detach();
    Ok(lines)
}

fn enter(service: &Arc<HttpService>, index: u64) -> Result<Reader, Response> {
    let mut inner = service.events.inner();
    if inner.wakers.len() >= MAX_READERS {
        let why = format!("{MAX_READERS} event streams are open already: close one, or try again later");
        return Err(Response::text(429, why));
    }
    let (waker, woken) = async_channel::bounded(1);
    let number = inner.next_reader;
    inner.next_reader += 1;
    inner.wakers.insert(number, waker);
    let place = inner.buffer.begin(index);
    drop(inner);
    Ok(Reader { service: service.clone(), number, place, woken })
}

/// Sends until the reader leaves or falls behind, or the server goes.
async fn pump(mut reader: Reader, subscription: Subscription, sender: Sender<Bytes>) {
    let mut line = Bytes::from_static(HEARTBEAT);
    loop {
        if sender.send(line).await.is_err() {
            return;
        }
        line = match reader.next_line(&subscription).await {
            Ok(line) => line,
            Err(sentence) => {
                // the reader may have left by now
                let _ = sender.send(Bytes::from_static(sentence)).await;
                return;
            }
        };
    }
}

impl Reader {
    /// The next line or heartbeat; or the sentence with which the stream ends.
    async fn next_line(&mut self, subscription: &Subscription) -> Result<Bytes, &'static [u8]> {
        loop {
            let next = self.service.events.inner().buffer.at(self.place);
            match next {
                NextEvents::Events(events) => {
                    let line = self.service.events.line(self.place, &events, subscription);
                    self.place += 1;
                    if let Some(line) = line {
                        return Ok(line);
                    }
                }
                NextEvents::Lost => return Err(TOO_SLOW),
                NextEvents::Restored => return Err(RESTORED),
                NextEvents::Nothing if self.wait().await => {}
                NextEvents::Nothing => return Ok(Bytes::from_static(HEARTBEAT)),
            }
        }
    }

    /// False when the time for a heartbeat came first.
    async fn wait(&self) -> bool {
        or(async { self.woken.recv().await.is_ok() }, async {
            Timer::after(HEARTBEAT_EVERY).await;
            false
        })
        .await
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.service.events.inner().wakers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::samples::eval;
    use wire::event::Object;

    #[test]
    fn a_line_made_for_another_reader_is_no_older_than_asked_for() {
        let streams = EventStreams::new(10);
        let objects = vec![Object::Eval(Arc::new(eval(1, "web")))];
        let entry = Events { index: 5, kind: "EvaluationUpdated", objects };
        for begins in [0, 5, 6, 0] {
            let line = streams.line(0, &entry, &Subscription::of_everything(begins));
            assert_eq!(line.is_some(), begins <= 5, "from {begins} on");
        }
    }
}
