//! The agent's own log for those who follow it over HTTP: each line goes to every reader whose level shows it. A reader
//! that does not keep up loses lines, and learns how many; the agent never waits for one.
//!
//! Refuses to know: how lines are written and what a level means to the log; the subscriber asks which level is wanted.

use api::monitor::{MonitorLevel, MonitorRequest};
use async_channel::{Receiver, Sender, TrySendError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most readers at a time.
const MAX_READERS: usize = 16;
/// The most lines that wait for one reader.
const LINES: usize = 512;

/// Called with the most verbose level that a reader wants; `None`: there are no readers.
type Listener = Box<dyn Fn(Option<MonitorLevel>) + Send + Sync>;

#[derive(Default)]
pub struct Monitor {
    readers: Mutex<Readers>,
    listener: OnceLock<Listener>,
    /// Held while the listener is called, so that its last call has the newest level.
    notifying: Mutex<()>,
}

#[derive(Default)]
struct Readers {
    by_number: BTreeMap<u64, Reader>,
    next: u64,
}

struct Reader {
    request: MonitorRequest,
    lines: Sender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// A place among the readers, given up when dropped.
pub struct MonitorSubscription {
    monitor: Arc<Monitor>,
    number: u64,
    pub lines: Receiver<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

impl Monitor {
    /// Sets the listener, once per process.
    pub fn listen(&self, listener: impl Fn(Option<MonitorLevel>) + Send + Sync + 'static) {
        // a second agent in one process shares the first one's log
        let _ = self.listener.set(Box::new(listener));
    }

    /// `None`: there are too many readers.
    pub fn subscribe(self: &Arc<Self>, request: MonitorRequest) -> Option<MonitorSubscription> {
        let mut readers = self.readers();
        if readers.by_number.len() >= MAX_READERS {
            return None;
        }
        let (sender, lines) = async_channel::bounded(LINES);
        let (number, dropped) = (readers.next, Arc::new(AtomicU64::new(0)));
        readers.next += 1;
        readers.by_number.insert(number, Reader { request, lines: sender, dropped: dropped.clone() });
        drop(readers);
        self.notify_listener();
        Some(MonitorSubscription { monitor: self.clone(), number, lines, dropped })
    }

    /// A line as it was written, with its end; `json` says in which form.
    pub fn line(&self, level: MonitorLevel, json: bool, bytes: &[u8]) {
        for reader in self.readers().by_number.values() {
            if level > reader.request.level || json != reader.request.json {
                continue;
            }
            if let Err(TrySendError::Full(_)) = reader.lines.try_send(bytes.to_vec()) {
                reader.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the listener, which may log: the readers must not be locked then.
    fn notify_listener(&self) {
        let turn = self.notifying.lock().unwrap_or_else(PoisonError::into_inner);
        let level = self.readers().by_number.values().map(|r| r.request.level).max();
        if let Some(listener) = self.listener.get() {
            listener(level);
        }
        drop(turn);
    }
}

impl MonitorSubscription {
    /// How many lines were lost since this was last asked.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

impl Drop for MonitorSubscription {
    fn drop(&mut self) {
        self.monitor.readers().by_number.remove(&self.number);
        self.monitor.notify_listener();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(level: MonitorLevel, json: bool) -> MonitorRequest {
        MonitorRequest { level, json, plain: true }
    }

    #[test]
    fn monitor_readers_get_their_level_and_format() {
        let monitor = Arc::new(Monitor::default());
        let heard = Arc::new(Mutex::new(vec![]));
        let hear = heard.clone();
        monitor.listen(move |level| hear.lock().unwrap_or_else(PoisonError::into_inner).push(level));
        let warn = monitor.subscribe(request(MonitorLevel::Warn, false)).expect("room");
        let debug = monitor.subscribe(request(MonitorLevel::Debug, true)).expect("room");
        monitor.line(MonitorLevel::Error, false, b"a\n");
        monitor.line(MonitorLevel::Info, false, b"b\n");
        monitor.line(MonitorLevel::Debug, true, b"c\n");
        assert_eq!((warn.lines.try_recv().ok(), warn.lines.try_recv().ok()), (Some(b"a\n".to_vec()), None));
        assert_eq!(debug.lines.try_recv().ok(), Some(b"c\n".to_vec()));
        drop(debug);
        drop(warn);
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (warn, debug) = (Some(MonitorLevel::Warn), Some(MonitorLevel::Debug));
        assert_eq!(*heard, [warn, debug, warn, None]);
    }

    #[test]
    fn a_slow_reader_loses_lines_and_learns_how_many() {
        let monitor = Arc::new(Monitor::default());
        let slow = monitor.subscribe(request(MonitorLevel::Info, false)).expect("room");
        for _ in 0..LINES + 3 {
            monitor.line(MonitorLevel::Info, false, b"x\n");
        }
        assert_eq!((slow.lines.len(), slow.take_dropped(), slow.take_dropped()), (LINES, 3, 0));
        let others: Vec<_> =
            (1..MAX_READERS).map(|_| monitor.subscribe(request(MonitorLevel::Info, false))).collect();
        assert!(others.iter().all(Option::is_some));
        assert!(monitor.subscribe(request(MonitorLevel::Info, false)).is_none(), "readers are bounded");
        drop(slow);
        assert!(monitor.subscribe(request(MonitorLevel::Info, false)).is_some());
    }
}
