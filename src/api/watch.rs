//! Blocking queries and what wakes them: a query names the rows it read, a turn names the rows it changed, and only the
//! queries that wait for one of these are woken.
//!
//! Refuses to know: requests, sockets and time. Invariants: the number of waiters and of keys per waiter is bounded; a
//! change between a read and its registration is never missed, because a waiter brings the index that it has seen and
//! recent turns are remembered.

use model::id::{AllocId, DeploymentId, EvalId, JobKey, NodeId};
use std::collections::VecDeque;
use std::collections::{BTreeMap, BTreeSet};
use wire::change::Change;

/// What a query read. The plain ones stand for whole lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKey {
    Jobs,
    Job(JobKey),
    JobAllocs(JobKey),
    JobEvals(JobKey),
    Evals,
    Eval(EvalId),
    EvalAllocs(EvalId),
    Allocs,
    Alloc(AllocId),
    Nodes,
    Node(NodeId),
    NodeAllocs(NodeId),
    /// Each of them, and the list.
    Namespaces,
    /// Each of them, and the list.
    NodePools,
    Deployments,
    Deployment(DeploymentId),
    JobDeployments(JobKey),
    /// The jobs whose ids begin so, of a namespace or of all. The last kind: `notify` goes through all of them.
    JobPrefix {
        namespace: Option<String>,
        prefix: String,
    },
}

/// Whether a change of these rows concerns whoever waits for `key`.
fn concerns(changed: &BTreeSet<WatchKey>, key: &WatchKey) -> bool {
    let WatchKey::JobPrefix { namespace, prefix } = key else { return changed.contains(key) };
    let first = match namespace {
        Some(namespace) => JobKey::new(namespace, prefix),
        None => JobKey::new("", ""),
    };
    let mut jobs = changed.range(WatchKey::Job(first)..).map_while(|changed| match changed {
        WatchKey::Job(job) => Some(job),
        _ => None,
    });
    match namespace {
        // the first from there on is one of them, or none is
        Some(namespace) => {
            jobs.next().is_some_and(|job| job.namespace == *namespace && job.id.starts_with(prefix))
        }
        None => jobs.any(|job| job.id.starts_with(prefix)),
    }
}

/// The keys that a turn's changes concern.
pub fn keys_of(changes: &[Change]) -> BTreeSet<WatchKey> {
    let mut keys = BTreeSet::new();
    for change in changes {
        match change {
            Change::Job { job } => {
                keys.extend([WatchKey::Jobs, WatchKey::Job(job.clone())]);
            }
            Change::Eval(eval) | Change::EvalDeleted(eval) => {
                keys.extend([WatchKey::Evals, WatchKey::Eval(eval.id), WatchKey::JobEvals(eval.job.clone())]);
            }
            Change::Alloc(a) => {
                keys.extend([
                    WatchKey::Allocs,
                    WatchKey::Alloc(a.id),
                    WatchKey::JobAllocs(a.job.clone()),
                    WatchKey::NodeAllocs(a.node),
                    WatchKey::EvalAllocs(a.eval),
                ]);
            }
            Change::Node(n) => {
                keys.extend([WatchKey::Nodes, WatchKey::Node(n.id)]);
            }
            Change::Deployment(d) => {
                let of_job = WatchKey::JobDeployments(d.job.clone());
                keys.extend([WatchKey::Deployments, WatchKey::Deployment(d.id), of_job]);
            }
            Change::NodePool => {
                keys.insert(WatchKey::NodePools);
            }
            // no query reads it
            Change::Scheduler | Change::Member { .. } | Change::FeatureLevel { .. } => {}
            Change::Namespace => {
                keys.insert(WatchKey::Namespaces);
            }
        }
    }
    keys
}

/// At most so many queries wait at once; the next one is answered "try again later".
pub const MAX_WAITERS: usize = 4096;
/// How many turns are remembered for those who register late.
const REMEMBERED_TURNS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchToken(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRegistered {
    /// Something that the query read has changed since: read again.
    Changed,
    /// Too many queries are waiting.
    Full,
}

#[derive(Debug)]
struct Waiter {
    keys: Vec<WatchKey>,
    /// The state's index that its read was made at.
    seen: u64,
}

#[derive(Debug, Default)]
pub struct Watchers {
    waiters: BTreeMap<WatchToken, Waiter>,
    by_key: BTreeMap<WatchKey, BTreeSet<WatchToken>>,
    next_token: u64,
    /// Newest last.
    recent: VecDeque<(u64, BTreeSet<WatchKey>)>,
    /// The newest turn that is no longer remembered.
    forgotten: u64,
}

impl Watchers {
    /// `seen` is the index of the view that the caller read. One token is woken at most once.
    pub fn register(&mut self, keys: Vec<WatchKey>, seen: u64) -> Result<WatchToken, NotRegistered> {
        if seen < self.forgotten || self.changed_since(&keys, seen) {
            return Err(NotRegistered::Changed);
        }
        if self.waiters.len() >= MAX_WAITERS {
            return Err(NotRegistered::Full);
        }
        let token = WatchToken(self.next_token);
        self.next_token += 1;
        for key in &keys {
            self.by_key.entry(key.clone()).or_default().insert(token);
        }
        self.waiters.insert(token, Waiter { keys, seen });
        Ok(token)
    }

    fn changed_since(&self, keys: &[WatchKey], seen: u64) -> bool {
        let newer = self.recent.iter().rev().take_while(|(index, _)| *index > seen);
        newer.into_iter().any(|(_, changed)| keys.iter().any(|k| concerns(changed, k)))
    }

    /// Removes a waiter. Unknown tokens are ignored: it may just have been woken.
    pub fn deregister(&mut self, token: WatchToken) {
        let Some(waiter) = self.waiters.remove(&token) else { return };
        for key in waiter.keys {
            if let Some(tokens) = self.by_key.get_mut(&key) {
                tokens.remove(&token);
                if tokens.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    /// After a turn: `index` is the state's index that readers now see. Returns the waiters to wake, and removes them.
    pub fn notify(&mut self, index: u64, keys: BTreeSet<WatchKey>) -> Vec<WatchToken> {
        let mut woken = BTreeSet::new();
        let prefixes = WatchKey::JobPrefix { namespace: None, prefix: String::new() };
        let prefixes = self.by_key.range(prefixes..).filter(|(key, _)| concerns(&keys, key));
        let named = keys.iter().filter_map(|key| self.by_key.get(key));
        for tokens in named.chain(prefixes.map(|(_, tokens)| tokens)) {
            woken.extend(tokens.iter().filter(|t| self.waiters.get(t).is_some_and(|w| w.seen < index)));
        }
        for token in &woken {
            self.deregister(*token);
        }
        self.remember(index, keys);
        woken.into_iter().collect()
    }

    /// A snapshot of `index` has taken the state's place, and no list says what has changed: all waiters are woken, and
    /// each reads again.
    pub fn restored(&mut self, index: u64) {
        self.waiters.clear();
        self.by_key.clear();
        self.recent.clear();
        self.forgotten = index;
    }

    fn remember(&mut self, index: u64, keys: BTreeSet<WatchKey>) {
        if keys.is_empty() {
            return;
        }
        if self.recent.len() == REMEMBERED_TURNS
            && let Some((oldest, _)) = self.recent.pop_front()
        {
            self.forgotten = oldest;
        }
        self.recent.push_back((index, keys));
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::node::NodeStatus;
    use wire::change::{AllocChange, NodeChange};

    fn job(id: &str) -> WatchKey {
        WatchKey::Job(JobKey::new("default", id))
    }

    fn keys(keys: &[WatchKey]) -> BTreeSet<WatchKey> {
        keys.iter().cloned().collect()
    }

    #[test]
    fn a_change_wakes_only_those_it_concerns() {
        let mut w = Watchers::default();
        let a = w.register(vec![job("a")], 1).unwrap();
        let b = w.register(vec![job("b"), WatchKey::Nodes], 1).unwrap();
        let list = w.register(vec![WatchKey::Jobs], 1).unwrap();
        assert_eq!(w.notify(2, keys(&[WatchKey::Jobs, job("a")])), vec![a, list]);
        assert_eq!(w.notify(3, keys(&[WatchKey::Jobs, job("a")])), vec![]);
        assert_eq!(w.notify(4, keys(&[WatchKey::Nodes])), vec![b]);
        assert_eq!((w.waiting(), w.by_key.len()), (0, 0));
    }

    #[test]
    fn a_prefix_wakes_only_for_jobs_that_begin_so() {
        let mut w = Watchers::default();
        let prefix = |namespace: Option<&str>, prefix: &str| WatchKey::JobPrefix {
            namespace: namespace.map(str::to_string),
            prefix: prefix.to_string(),
        };
        let here = w.register(vec![prefix(Some("default"), "we")], 1).unwrap();
        let all = w.register(vec![prefix(None, "we")], 1).unwrap();
        let other = WatchKey::Job(JobKey::new("other", "web"));
        assert_eq!(w.notify(2, keys(&[WatchKey::Jobs, job("w"), job("wf"), WatchKey::Nodes])), vec![]);
        assert_eq!(w.notify(3, keys(&[other, job("v")])), vec![all]);
        assert_eq!(w.notify(4, keys(&[job("a"), job("web"), job("z")])), vec![here]);
        assert_eq!(w.register(vec![prefix(None, "z")], 3), Err(NotRegistered::Changed));
        assert!(w.register(vec![prefix(None, "y")], 3).is_ok());
    }

    #[test]
    fn a_change_between_read_and_registration_is_not_missed() {
        let mut w = Watchers::default();
        w.notify(5, keys(&[job("a")]));
        assert_eq!(w.register(vec![job("a")], 4), Err(NotRegistered::Changed));
        assert!(w.register(vec![job("b")], 4).is_ok());
        assert!(w.register(vec![job("a")], 5).is_ok());
        for index in 6..6 + REMEMBERED_TURNS as u64 {
            w.notify(index, keys(&[WatchKey::Nodes]));
        }
        assert_eq!(w.register(vec![job("c")], 4), Err(NotRegistered::Changed));
    }

    #[test]
    fn after_a_restored_snapshot_all_read_again() {
        let mut w = Watchers::default();
        let waiting = w.register(vec![job("a")], 5).unwrap();
        w.notify(6, keys(&[job("b")]));
        w.restored(40);
        assert_eq!((w.waiting(), w.by_key.len()), (0, 0));
        w.deregister(waiting);
        for key in [job("a"), job("b"), job("c")] {
            assert_eq!(w.register(vec![key.clone()], 39), Err(NotRegistered::Changed));
            assert!(w.register(vec![key], 40).is_ok());
        }
    }

    #[test]
    fn a_query_that_has_seen_the_change_is_not_woken() {
        let mut w = Watchers::default();
        let late = w.register(vec![job("a")], 9).unwrap();
        assert_eq!(w.notify(9, keys(&[job("a")])), vec![]);
        assert_eq!(w.notify(10, keys(&[job("a")])), vec![late]);
    }

    #[test]
    fn waiters_are_bounded_and_can_leave() {
        let mut w = Watchers::default();
        let first = w.register(vec![WatchKey::Jobs], 0).unwrap();
        for _ in 1..MAX_WAITERS {
            w.register(vec![WatchKey::Jobs], 0).unwrap();
        }
        assert_eq!(w.register(vec![WatchKey::Jobs], 0), Err(NotRegistered::Full));
        w.deregister(first);
        w.deregister(first);
        assert!(w.register(vec![WatchKey::Jobs], 0).is_ok());
    }

    #[test]
    fn changes_name_every_view_of_a_row() {
        let (id, node, eval) = (AllocId::default(), NodeId::default(), EvalId::default());
        let key = JobKey::new("default", "a");
        let alloc =
            Change::Alloc(AllocChange { id, job: key.clone(), node, eval, for_node: true, freed: false });
        let node_change = Change::Node(NodeChange {
            id: node,
            status: NodeStatus::Ready,
            computed_class: String::new(),
            opened: true,
        });
        let expected = keys(&[
            WatchKey::Allocs,
            WatchKey::Alloc(id),
            WatchKey::JobAllocs(key.clone()),
            WatchKey::NodeAllocs(node),
            WatchKey::EvalAllocs(eval),
            WatchKey::Nodes,
            WatchKey::Node(node),
        ]);
        assert_eq!(keys_of(&[alloc, node_change]), expected);
        let job = Change::Job { job: key.clone() };
        assert_eq!(keys_of(&[job]), keys(&[WatchKey::Jobs, WatchKey::Job(key)]));
        assert_eq!(keys_of(&[Change::Namespace]), keys(&[WatchKey::Namespaces]));
        assert_eq!(keys_of(&[Change::NodePool, Change::Scheduler]), keys(&[WatchKey::NodePools]));
    }
}
