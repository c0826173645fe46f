//! The node's side of client RPC: each request goes through the client's brain, which answers it or grants access to files and
//! processes. In one process requests come through a queue; from elsewhere they will come as frames.
//!
//! Refuses to know: HTTP, and which questions may be asked. Invariants: questions under way are bounded, each is answered
//! or refused within `TIMEOUT`; whatever is opened for a caller ends when the caller leaves.

mod exec;
mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
mod logs;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod scratch;
mod stats;
mod stream;

use crate::executor;
use async_channel::{Receiver, Sender, TrySendError};
use client::effects::RequestOutcome;
pub use exec::ExecSession;
use files::AllocFiles;
use logs::{LogLocation, LogReader};
use model::id::AllocId;
use rustix::io::Errno;
use smol::Timer;
use smol::future::or;
use smol::lock::Semaphore;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::client_rpc::{ClientReply, ClientRequest, StreamFrame};
use wire::request::{Refusal, RefusalKind};

/// How long a call may wait for its reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most calls that have no reply yet.
const MAX_CONCURRENT_CALLS: usize = 128;

/// A call to the node, and where its reply goes.
pub struct RpcCall {
    pub ask: ClientRequest,
    pub reply: Sender<Result<CallResult, Refusal>>,
}

/// The reply to a call within one process.
pub enum CallResult {
    Reply(ClientReply),
    /// The frames of a stream, until they end.
    Stream(Receiver<StreamFrame>),
    Session(ExecSession),
}

/// Asks the client's brain for a reply or a grant.
pub struct GrantRequest {
    pub ask: ClientRequest,
    pub reply: Sender<Result<RequestOutcome, Refusal>>,
}

/// Queues a call, and waits for its reply.
pub async fn call<Q, A>(
    queue: &Sender<Q>,
    question: impl FnOnce(Sender<Result<A, Refusal>>) -> Q,
) -> Result<A, Refusal> {
    let unavailable = |message: &str| Err(Refusal::new(RefusalKind::Unavailable, message));
    let (reply, answered) = async_channel::bounded(1);
    match queue.try_send(question(reply)) {
        Ok(()) => {}
        Err(TrySendError::Full(_)) => {
            let message = "too many questions to the node are waiting: try again in a second";
            return Err(Refusal::new(RefusalKind::Busy, message));
        }
        Err(TrySendError::Closed(_)) => return unavailable("this agent is stopping: ask another one"),
    }
    let answer = async {
        let gone = unavailable("the node gave up on this question: look before you repeat it");
        answered.recv().await.unwrap_or(gone)
    };
    or(answer, async {
        Timer::after(TIMEOUT).await;
        unavailable("the node gave no answer within 30 seconds: look before you repeat it")
    })
    .await
}

/// Sends requests to the client's brain.
#[derive(Clone)]
pub struct BrainHandle(Sender<GrantRequest>);

impl BrainHandle {
    async fn ask(&self, question: ClientRequest) -> Result<RequestOutcome, Refusal> {
        call(&self.0, |reply| GrantRequest { ask: question, reply }).await
    }
}

/// The directories of this node.
#[derive(Clone)]
pub struct NodeDirs {
    /// The directory with the keeper's socket.
    pub data_dir: PathBuf,
    /// The directory with each allocation's, named by its id.
    pub alloc_dir: PathBuf,
}

/// Serves calls until their queue is closed.
pub async fn serve(
    executor: Arc<smol::Executor<'static>>,
    calls: Receiver<RpcCall>,
    brain: Sender<GrantRequest>,
    dirs: NodeDirs,
) {
    let node = Node { executor: executor.clone(), brain: BrainHandle(brain), dirs };
    let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_CALLS));
    while let Ok(RpcCall { ask, reply }) = calls.recv().await {
        let (node, place) = (node.clone(), slots.acquire_arc().await);
        let answer = async move {
            // a caller that left needs no answer
            let _ = reply.send(node.answer(ask).await).await;
            drop(place);
        };
        executor::spawn(&executor, answer).detach();
    }
}

#[derive(Clone)]
struct Node {
    executor: Arc<smol::Executor<'static>>,
    brain: BrainHandle,
    dirs: NodeDirs,
}

impl Node {
    async fn answer(&self, ask: ClientRequest) -> Result<CallResult, Refusal> {
        match self.brain.ask(ask.clone()).await? {
            RequestOutcome::Answer(answer) => Ok(CallResult::Reply(answer)),
            RequestOutcome::Files { .. } => self.read(ask).await,
            RequestOutcome::Session { run, spec } => {
                let tty = matches!(
                    ask,
                    ClientRequest::Exec { tty: true, .. } | ClientRequest::Action { tty: true, .. }
                );
                let session = exec::start(&self.executor, self.dirs.data_dir.clone(), run, spec, tty);
                session.await.map(CallResult::Session)
            }
            RequestOutcome::Runs { core_mhz, .. } if ask == ClientRequest::HostStats => {
                let figures = stats::of_host(self.dirs.alloc_dir.clone(), core_mhz).await;
                Ok(CallResult::Reply(ClientReply::HostStats(figures)))
            }
            RequestOutcome::Runs { runs, core_mhz } => {
                let figures = stats::of_runs(runs, core_mhz).await;
                Ok(CallResult::Reply(ClientReply::AllocResourceUsage(figures)))
            }
        }
    }

    async fn read(&self, ask: ClientRequest) -> Result<CallResult, Refusal> {
        match &ask {
            ClientRequest::Logs { alloc, task, stream, from, follow } => {
                let (alloc, from, follow) = (*alloc, *from, *follow);
                let alloc_dir = self.dirs.alloc_dir.join(alloc.to_string());
                let place = LogLocation { alloc_dir, task: task.clone(), stream: stream.as_str() };
                let reader = executor::unblock(move || LogReader::open(place, from, follow)).await;
                let reader = reader.map_err(|error| unreadable(alloc, error))?;
                let again = follow.then(|| (self.brain.clone(), ask));
                Ok(CallResult::Stream(stream::stream(&self.executor, reader, again)))
            }
            ClientRequest::List { alloc, path } => {
                let path = path.clone();
                let entries = self.with_files(*alloc, move |files| files.list(&path)).await?;
                Ok(CallResult::Reply(ClientReply::Files(entries)))
            }
            ClientRequest::Stat { alloc, path } => {
                let path = path.clone();
                let file = self.with_files(*alloc, move |files| files.stat(&path)).await?;
                Ok(CallResult::Reply(ClientReply::File(file)))
            }
            ClientRequest::File { alloc, path, from, limit, follow } => {
                let (path, from, limit, follow) = (path.clone(), *from, *limit, *follow);
                let reader =
                    self.with_files(*alloc, move |files| files.read(&path, from, limit, follow)).await?;
                let again = follow.then(|| (self.brain.clone(), ask));
                Ok(CallResult::Stream(stream::stream(&self.executor, reader, again)))
            }
            _ => Err(Refusal::new(RefusalKind::Unavailable, "the node granted files where none are read")),
        }
    }
}

impl Node {
    /// Runs work on a thread that may wait for the disk.
    async fn with_files<T: Send + 'static>(
        &self,
        alloc: AllocId,
        act: impl FnOnce(&AllocFiles) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let dir = self.dirs.alloc_dir.join(alloc.to_string());
        let look = move || act(&AllocFiles::open(&dir).map_err(|e| unreadable(alloc, e))?);
        executor::unblock(look).await
    }
}

fn unreadable(alloc: AllocId, error: Errno) -> Refusal {
    match error {
        Errno::NOENT => {
            Refusal::new(RefusalKind::NotFound, format!("state for allocation {alloc} not found on client"))
        }
        error => Refusal::new(
            RefusalKind::Conflict,
            format!("the files of allocation {alloc} cannot be read: {error}"),
        ),
    }
}
