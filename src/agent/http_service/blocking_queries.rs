//! Blocking queries that wait: the pure registry of `api::watch` with a waker for each of its tokens.

use api::watch::{NotRegistered, WatchKey, WatchToken, Watchers, keys_of};
use async_channel::{Receiver, Sender};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wire::change::Change;

#[derive(Debug, Default)]
pub struct BlockingQueries {
    inner: Mutex<WatcherTable>,
}

#[derive(Debug, Default)]
struct WatcherTable {
    watchers: Watchers,
    wakers: BTreeMap<WatchToken, Sender<()>>,
}

/// A query that waits; it stops waiting when it is dropped.
pub struct BlockedQuery<'a> {
    waiting: &'a BlockingQueries,
    token: WatchToken,
    woken: Receiver<()>,
}

impl BlockingQueries {
    /// To be called after each turn, once views show its changes. `index` is the state's index that they show.
    pub fn notify(&self, index: u64, changes: &[Change]) {
        let mut inner = self.inner();
        for token in inner.watchers.notify(index, keys_of(changes)) {
            // Dropping the waker wakes its receiver.
            inner.wakers.remove(&token);
        }
    }

    /// A snapshot has replaced the state: every waiting query reads again.
    pub fn restored(&self, index: u64) {
        let mut inner = self.inner();
        inner.watchers.restored(index);
        inner.wakers.clear();
    }

    pub fn register(&self, keys: Vec<WatchKey>, seen: u64) -> Result<BlockedQuery<'_>, NotRegistered> {
        let mut inner = self.inner();
        let token = inner.watchers.register(keys, seen)?;
        let (waker, woken) = async_channel::bounded(1);
        inner.wakers.insert(token, waker);
        Ok(BlockedQuery { waiting: self, token, woken })
    }

    /// How many queries wait at present.
    #[cfg(test)]
    pub fn blocked(&self) -> usize {
        self.inner().watchers.waiting()
    }

    fn inner(&self) -> MutexGuard<'_, WatcherTable> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockedQuery<'_> {
    pub async fn wait(&self) {
        // nothing is sent: its sender is dropped to wake it
        let _ = self.woken.recv().await;
    }
}

impl Drop for BlockedQuery<'_> {
    fn drop(&mut self) {
        let mut inner = self.waiting.inner();
        inner.watchers.deregister(self.token);
        inner.wakers.remove(&self.token);
    }
}
