//! Allocations' directories, built and removed outside the client's thread: one thread builds and another removes, each in the
//! order of requests. More threads would only wait for each other at the directory that holds all of them.

use super::data_dir::DataDir;
use super::inbox;
use super::messages::ClientMessage;
use ::io::alloc_dir::AllocDirs;
use ::io::disk::{self, Reserve};
use ::io::executor;
use ::io::keeper::users;
use async_channel::{Receiver, Sender};
use client::effects::{DirSpec, Input};
use model::id::AllocId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requests that may wait: more than the allocations of a node. One that finds the queue full is repeated.
const QUEUED: usize = 2048;
/// Directories that are built before their tasks may start: a few milliseconds' worth.
const BUILDS_AT_ONCE: usize = 16;
/// Directory entries that one step of a removal takes, and how many steps a removal may take: what is left is removed
/// when it is asked for again.
const REMOVAL_STEP: usize = 10_000;
const REMOVAL_STEPS: usize = 1_000;

/// A disk that has less than this is full: a directory takes a few pages.
const MIN_FREE_BYTES: u64 = 64 << 10;

pub struct AllocDirWorker {
    builds: Sender<DirSpec>,
    removals: Sender<AllocId>,
}

/// Where directories lie.
pub struct DirPaths {
    data_dir: PathBuf,
    alloc_dir: PathBuf,
    /// The reserve of the client's store, whose files have room for what comes next: directories may be the first to find the disk full.
    reserve: Arc<Reserve>,
}

impl AllocDirWorker {
    /// `own`: where results go.
    pub fn start(
        executor: &smol::Executor<'static>,
        dirs: DirPaths,
        own: &Sender<ClientMessage>,
    ) -> AllocDirWorker {
        let dirs = Arc::new(dirs);
        let (builds, to_build) = async_channel::bounded(QUEUED);
        let (removals, to_remove) = async_channel::bounded(QUEUED);
        executor::spawn(executor, build_all(to_build, dirs.clone(), own.clone())).detach();
        executor::spawn(executor, remove_all(to_remove, dirs, own.clone())).detach();
        AllocDirWorker { builds, removals }
    }

    pub fn build(&self, spec: DirSpec) {
        inbox::send_or_drop(&self.builds, "a directory to be built", spec);
    }

    pub fn remove(&self, alloc: AllocId) {
        inbox::send_or_drop(&self.removals, "a directory to be removed", alloc);
    }
}

async fn build_all(asked: Receiver<DirSpec>, dirs: Arc<DirPaths>, own: Sender<ClientMessage>) {
    while let Ok(first) = asked.recv().await {
        let mut batch = vec![first];
        while batch.len() < BUILDS_AT_ONCE
            && let Ok(next) = asked.try_recv()
        {
            batch.push(next);
        }
        let dirs = dirs.clone();
        let work = move || batch.iter().map(|spec| (spec.alloc, dirs.build(spec))).collect::<Vec<_>>();
        for (alloc, result) in executor::unblock(work).await {
            send_input(&own, Input::DirBuilt { alloc, result }).await;
        }
    }
}

async fn remove_all(asked: Receiver<AllocId>, dirs: Arc<DirPaths>, own: Sender<ClientMessage>) {
    while let Ok(alloc) = asked.recv().await {
        let dirs = dirs.clone();
        let result = executor::unblock(move || dirs.remove(alloc)).await;
        send_input(&own, Input::DirRemoved { alloc, result }).await;
    }
}

async fn send_input(own: &Sender<ClientMessage>, input: Input) {
    // the brain is gone when the agent ends: nobody is left to be told
    let _ = own.send(ClientMessage::Input(input)).await;
}

impl DirPaths {
    pub fn new(data_dir: &Path, alloc_dir: PathBuf, reserve: Arc<Reserve>) -> DirPaths {
        DirPaths { data_dir: data_dir.to_path_buf(), alloc_dir, reserve }
    }

    /// Builds a directory. On a full disk it releases the reserve, once; the client is told so, and starts nothing more.
    fn build(&self, spec: &DirSpec) -> Result<(), String> {
        match self.try_build(spec) {
            Err(_) if self.has_no_room() && self.reserve.release() => self.try_build(spec),
            result => result,
        }
    }

    fn has_no_room(&self) -> bool {
        disk::free_bytes(&self.alloc_dir).is_ok_and(|free| free < MIN_FREE_BYTES)
    }

    fn try_build(&self, spec: &DirSpec) -> Result<(), String> {
        if spec.tasks.iter().any(|t| !t.user.is_empty()) {
            DataDir::allow_traversal(&self.data_dir).map_err(|e| e.to_string())?;
        }
        let dirs = self.open()?;
        for task in &spec.tasks {
            let user = match task.user.as_str() {
                "" => None,
                // an unknown user is reported when the task starts, as the driver's failure
                name => users::find(name).ok(),
            };
            let owner = user.map(|u| (u.uid, u.gid));
            dirs.build(spec.alloc, &task.name, owner)?;
            if let Some(file) = &task.file {
                dirs.put_file(spec.alloc, &task.name, owner, &file.path, &file.bytes)?;
            }
        }
        Ok(())
    }

    fn remove(&self, alloc: AllocId) -> Result<(), String> {
        let dirs = self.open()?;
        for _ in 0..REMOVAL_STEPS {
            if dirs.remove(alloc, REMOVAL_STEP).map_err(|e| self.named(&e))? {
                return Ok(());
            }
        }
        Err(format!("{}: too many files to be removed at once", self.alloc_dir.display()))
    }

    fn open(&self) -> Result<AllocDirs, String> {
        AllocDirs::open(&self.alloc_dir).map_err(|e| self.named(&e))
    }

    fn named(&self, error: &std::io::Error) -> String {
        format!("{}: {error}", self.alloc_dir.display())
    }
}
