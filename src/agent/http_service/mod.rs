//! The service behind the agent's HTTP API: the state's reader, the published values, the queue of actions and the blocked
//! queries behind `api`'s routes.
//!
//! Refuses to know: sockets and the form of messages, which are `io::http`'s.

mod blocking_queries;
mod cors;
mod events;
mod monitor;
mod relaying;
pub mod server_call;
#[cfg(test)]
mod tests;

use super::links::RelayPaths;
use ::io::client_rpc::{self, CallResult, RpcCall};
use ::io::entropy;
use ::io::executor;
use ::io::host_stats::{self, HostStatsCollector};
use ::io::http::{Answer, AnswerFuture, Bytes, HeaderMap, Published, Service};
use ::io::monitor::Monitor;
use ::io::zones;
use api::agent::{AgentInfo, ClientReport};
use api::metrics::MetricsReport;
use api::presentation::Presentation;
use api::response::Response;
use api::watch::NotRegistered;
use api::{RequestContext, RouteOutcome, Wait, WaitState, route};
use async_channel::{Receiver, Sender};
use blocking_queries::BlockingQueries;
use events::EventStreams;
use model::id::AllocId;
use model::time::Mono;
pub use relaying::MAX_RELAYS;
use server_call::{CALL_TIMEOUT, CallQueue, ForwardCall, ServerCall};
use smol::Timer;
use smol::future::or;
use smol::lock::Semaphore;
use state::store::Reader;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::client_rpc::{ClientReply, ClientRequest, StreamFrame};
use wire::http::Request;
use wire::job_plan::{JobPlanReply, JobPlanRequest};
use wire::metrics::Series;
use wire::request::{Refusal, RefusalKind};
use wire::status::ServerStatus;
use wire::why::{Subject, Why};

/// Plans a job without registering it, on the current state; a panic in it is caught.
pub type JobPlanner = Arc<dyn Fn(&Reader, &JobPlanRequest) -> Result<JobPlanReply, Refusal> + Send + Sync>;

/// Explains why something is as it is, in the same way.
pub type Explainer = Arc<dyn Fn(&Reader, &Subject) -> Result<Why, Refusal> + Send + Sync>;

/// At most this many plans and explanations are computed at once: each costs as much as an evaluation.
const MAX_COMPUTATIONS: usize = 2;

/// At most this many filtered lists are worked out at once, and so many wait or are under way.
const MAX_SEARCHES: usize = 2;
const MAX_WAITING_SEARCHES: usize = 64;

/// What the service reads, and where it sends writes and requests to the client.
pub struct HttpServiceParts {
    pub executor: Arc<smol::Executor<'static>>,
    pub agent: AgentInfo,
    pub status: Arc<Published<ServerStatus>>,
    /// `None` inside: this agent runs no node, or has not looked at it yet.
    pub client: Arc<Published<Option<ClientReport>>>,
    /// `None`: this agent runs no server.
    pub server: Option<ServerAccess>,
    /// `None`: this agent runs no node.
    pub node: Option<NodeAccess>,
    pub plan_job: JobPlanner,
    pub explain: Explainer,
    /// The process's monotonic time.
    pub clock: Box<dyn Fn() -> Mono + Send + Sync>,
    /// Random; spreads the ends of waits.
    pub seed: u64,
    /// How many entries' events are kept for those who stream them.
    pub event_buffer_entries: usize,
    pub monitor: Arc<Monitor>,
    pub machine: Arc<HostStatsCollector>,
}

/// What the service has of this agent's server.
pub struct ServerAccess {
    pub reader: Reader,
    /// Bounded; when it is full, callers are told to come back.
    pub calls: CallQueue<ServerCall>,
}

/// What the service has of this agent's node. Both queues are bounded, as a server's is.
pub struct NodeAccess {
    pub questions: Sender<RpcCall>,
    /// Requests that a server has to answer.
    pub forwards: CallQueue<ForwardCall>,
}

pub struct HttpService {
    executor: Arc<smol::Executor<'static>>,
    pub agent: AgentInfo,
    pub status: Arc<Published<ServerStatus>>,
    pub client: Arc<Published<Option<ClientReport>>>,
    pub blocking_queries: BlockingQueries,
    pub events: EventStreams,
    pub monitor: Arc<Monitor>,
    machine: Arc<HostStatsCollector>,
    server: Option<ServerAccess>,
    node: Option<NodeAccess>,
    plan_job: JobPlanner,
    explain: Explainer,
    computations: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    /// The permits to wait for a search, those of searches under way included.
    waiting_searches: Arc<Semaphore>,
    clock: Box<dyn Fn() -> Mono + Send + Sync>,
    seed: AtomicU64,
    /// How many reads there were: no brain hears of them.
    reads: Mutex<Series>,
    pub relay_paths: RelayPaths,
    /// The permits of requests that are relayed to other agents.
    relays_out: Arc<Semaphore>,
}

/// How long a caller waits for what tasks use: collectors of metrics give up after ten seconds.
const MEASURING_TIMEOUT: Duration = Duration::from_secs(8);
/// At most this many allocations are asked for their usage at once.
const MAX_STATS_REQUESTS: usize = 64;

/// The user whose request it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A user of this agent, or of one without a server.
    User,
    /// Another server, for its user.
    Server,
    /// Another agent, for its user and for this agent alone.
    Relayed,
}

impl Service for HttpService {
    fn call<'a>(self: Arc<Self>, request: &'a Request, headers: &HeaderMap) -> AnswerFuture<'a> {
        let (more, preflight) = cors::check(request, headers);
        Box::pin(async move {
            let mut answer = match preflight {
                Some(response) => Answer::Whole(response),
                None => self.answer(request, Origin::User).await.unwrap_or_else(Answer::Whole),
            };
            cors::add(&mut answer, more);
            answer
        })
    }
}

impl HttpService {
    pub fn new(parts: HttpServiceParts) -> HttpService {
        HttpService {
            executor: parts.executor,
            agent: parts.agent,
            status: parts.status,
            client: parts.client,
            blocking_queries: BlockingQueries::default(),
            events: EventStreams::new(parts.event_buffer_entries),
            monitor: parts.monitor,
            machine: parts.machine,
            server: parts.server,
            node: parts.node,
            plan_job: parts.plan_job,
            explain: parts.explain,
            computations: Arc::new(Semaphore::new(MAX_COMPUTATIONS)),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
            waiting_searches: Arc::new(Semaphore::new(MAX_WAITING_SEARCHES)),
            clock: parts.clock,
            seed: AtomicU64::new(parts.seed),
            reads: Mutex::default(),
            relay_paths: RelayPaths::default(),
            relays_out: Arc::new(Semaphore::new(MAX_RELAYS)),
        }
    }

    /// Runs work beside all requests.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        executor::spawn(&self.executor, work).detach();
    }

    /// Answers what was forwarded. `leader_only`: another server forwarded it, so this one does not forward it again. `None`: this server
    /// does not lead any more, and nothing was done.
    pub async fn serve(self: &Arc<Self>, request: &Request, leader_only: bool) -> Option<Response> {
        match self.answer(request, if leader_only { Origin::Server } else { Origin::User }).await {
            Ok(Answer::Whole(response)) => Some(response),
            Ok(Answer::Stream { .. } | Answer::Session(_)) => {
                Some(Response::text(400, "a stream is not forwarded: ask a server itself"))
            }
            Err(_) => None,
        }
    }

    /// Answers a request, waiting as often as it has to. `Err`: another server has forwarded it, and would have to do so again.
    async fn answer(self: &Arc<Self>, request: &Request, origin: Origin) -> Result<Answer, Response> {
        let mut state = WaitState::default();
        loop {
            let next = match Box::pin(self.routed(request, state)).await {
                RouteOutcome::Wait(wait) => wait,
                RouteOutcome::ConfirmRead(otherwise) => match self.confirm_read(otherwise).await {
                    Ok(confirmed) => {
                        state = confirmed;
                        continue;
                    }
                    Err(refusal) => return Ok(Answer::Whole(refusal.into())),
                },
                RouteOutcome::Forward(_) if origin == Origin::Server => {
                    return Err(Response::text(500, "the request was forwarded already"));
                }
                RouteOutcome::Forward(otherwise) => match self.forward(request, otherwise).await {
                    Ok(response) => return Ok(Answer::Whole(response)),
                    Err(wait) => wait,
                },
                RouteOutcome::ForwardToServer { hold, otherwise } => {
                    match self.forward_to_server(request, hold, otherwise).await {
                        Ok(response) => return Ok(Answer::Whole(response)),
                        Err(wait) => wait,
                    }
                }
                RouteOutcome::Relay(..) if origin == Origin::Relayed => {
                    return Ok(Answer::Whole(Response::text(404, "No path to node")));
                }
                RouteOutcome::Relay(to, asked) => {
                    self.reads().add(1, (self.clock)());
                    return Ok(Box::pin(self.relay(to, *asked)).await);
                }
                // Boxed, so that a request that waits holds nothing but its wait.
                outcome => return Ok(Box::pin(self.execute(outcome)).await),
            };
            state = next.state;
            if let Err(refusal) = self.wait(next).await {
                return Ok(Answer::Whole(refusal.into()));
            }
        }
    }

    /// Routes the request; where that may take long, beside the thread that serves others.
    async fn routed(self: &Arc<Self>, request: &Request, state: WaitState) -> RouteOutcome {
        if !api::may_take_long(request) {
            return self.step(request, state);
        }
        let (service, request) = (self.clone(), request.clone());
        let found = self.search(move || service.step(&request, state)).await;
        found.unwrap_or_else(|refusal| RouteOutcome::Respond(refusal.into()))
    }

    async fn execute(self: &Arc<Self>, outcome: RouteOutcome) -> Answer {
        if !matches!(outcome, RouteOutcome::Write(..)) {
            self.reads().add(1, (self.clock)());
        }
        Answer::Whole(match outcome {
            RouteOutcome::Respond(response) => response,
            RouteOutcome::Events(subscription) => {
                return stream("application/json", events::events(&self.executor, self, subscription));
            }
            RouteOutcome::Monitor(request) => {
                return match monitor::log(&self.executor, &self.monitor, request) {
                    Ok((content_type, chunks)) => stream(content_type, Ok(chunks)),
                    Err(refused) => Answer::Whole(refused),
                };
            }
            RouteOutcome::AskClient(ask, presentation) => {
                let Some(node) = &self.node else { return Answer::Whole(no_node()) };
                match client_rpc::call(&node.questions, |reply| RpcCall { ask, reply }).await {
                    Ok(CallResult::Reply(answer)) => presentation.response(&answer),
                    Ok(CallResult::Session(session)) => return Answer::Session(session),
                    Ok(CallResult::Stream(pieces)) => {
                        return stream(
                            presentation.content_type(),
                            Ok(shown(&self.executor, pieces, presentation)),
                        );
                    }
                    Err(refusal) => refusal.into(),
                }
            }
            RouteOutcome::Metrics(mut metrics) => {
                self.measure(&mut metrics).await;
                metrics.add_reads(*self.reads());
                let machine = self.machine.clone();
                metrics.response(&executor::unblock(move || machine.collect()).await)
            }
            RouteOutcome::Host(request) => {
                let machine = self.machine.clone();
                request.response(executor::unblock(move || machine.host()).await)
            }
            RouteOutcome::Write(action, answer) => answer.response(self.write(action).await),
            RouteOutcome::PlanJob(asked, planned) => {
                let plan_job = self.plan_job.clone();
                // the differences of a large job take as long as its plan
                let answer = move |reader: &Reader| Ok(planned.response(plan_job(reader, &asked)));
                self.compute(answer).await.unwrap_or_else(Response::from)
            }
            RouteOutcome::Compute(compute) => {
                self.compute(move |_| Ok(compute())).await.unwrap_or_else(Response::from)
            }
            RouteOutcome::Explain(subject, explained) => {
                let explain = self.explain.clone();
                explained.response(self.compute(move |reader| explain(reader, &subject)).await)
            }
            RouteOutcome::Wait(_)
            | RouteOutcome::ConfirmRead(_)
            | RouteOutcome::Forward(_)
            | RouteOutcome::ForwardToServer { .. }
            | RouteOutcome::Relay(..) => unreachable!("these come before an answer"),
        })
    }

    fn reads(&self) -> MutexGuard<'_, Series> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch of allocations at a time: measuring takes a moment. What has not come by then is left out.
    async fn measure(&self, metrics: &mut MetricsReport) {
        let ids: Vec<AllocId> = metrics.allocs().collect();
        let asked = async {
            for batch in ids.chunks(MAX_STATS_REQUESTS) {
                let under_way: Vec<_> = batch.iter().map(|id| (*id, self.request_alloc_stats(*id))).collect();
                for (id, answered) in under_way {
                    if let Ok(Ok(CallResult::Reply(ClientReply::AllocResourceUsage(figures)))) =
                        answered.recv().await
                    {
                        metrics.add_alloc_usage(id, &figures);
                    }
                }
            }
        };
        or(asked, async {
            Timer::after(MEASURING_TIMEOUT).await;
        })
        .await;
    }

    /// When the queue is full, the request is dropped and its reply channel is closed.
    fn request_alloc_stats(&self, alloc: AllocId) -> Receiver<Result<CallResult, Refusal>> {
        let (reply, answered) = async_channel::bounded(1);
        let ask = ClientRequest::AllocResourceUsage { alloc, task: None };
        if let Some(node) = &self.node {
            // when the queue is full, the caller sees that no answer comes
            let _ = node.questions.try_send(RpcCall { ask, reply });
        }
        answered
    }

    fn step(&self, request: &Request, state: WaitState) -> RouteOutcome {
        let (status, client) = (self.status.get(), self.client.get());
        let context = RequestContext {
            reader: self.server.as_ref().map(|server| &server.reader),
            status: &status,
            agent: &self.agent,
            zones: zones::zone,
            random: || entropy::bytes().ok(),
            threads: host_stats::threads,
            client: client.as_ref().as_ref(),
            now: (self.clock)(),
            seed: self.seed.fetch_add(1, Ordering::Relaxed),
        };
        route(request, &context, state)
    }

    /// Reads a whole list to choose from it, on a thread of its own. Most searches take microseconds: when there are many, they wait for
    /// each other, but no more than a bounded number.
    async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let Some(waiting) = self.waiting_searches.try_acquire_arc() else {
            let message = "too many filtered lists are being worked out: try again in a second";
            return Err(Refusal::new(RefusalKind::Busy, message));
        };
        let found = async {
            let place = self.searches.acquire_arc().await;
            let done = executor::unblock(move || {
                let done = work();
                drop((place, waiting));
                done
            });
            Ok(done.await)
        };
        or(found, async {
            Timer::after(CALL_TIMEOUT).await;
            let message = "no answer within 30 seconds: ask for less, or again when there is less to do";
            Err(Refusal::new(RefusalKind::Unavailable, message))
        })
        .await
    }

    /// Computes on a thread of its own. The permit is held until the work ends, even if the caller gives up earlier.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let Some(place) = self.computations.try_acquire_arc() else {
            let message = "too many jobs are being planned or explained: try again in a second";
            return Err(Refusal::new(RefusalKind::Busy, message));
        };
        let reader = match &self.server {
            Some(server) => server.reader.clone(),
            None => return Err(Refusal::new(RefusalKind::Unavailable, NO_SERVER)),
        };
        let found = executor::unblock(move || {
            let found = work(&reader);
            drop(place);
            found
        });
        or(found, async {
            Timer::after(CALL_TIMEOUT).await;
            let message =
                "no answer within 30 seconds: plan a smaller job, or ask again when there is less to do";
            Err(Refusal::new(RefusalKind::Unavailable, message))
        })
        .await
    }

    async fn wait(&self, wait: Wait) -> Result<(), Refusal> {
        let left = wait.wake_at.since((self.clock)()).as_nanos();
        let timeout = async {
            Timer::after(Duration::from_nanos(left.unsigned_abs())).await;
        };
        if wait.keys.is_empty() {
            timeout.await;
            return Ok(());
        }
        match self.blocking_queries.register(wait.keys, wait.seen) {
            Ok(query) => or(query.wait(), timeout).await,
            Err(NotRegistered::Changed) => smol::future::yield_now().await,
            Err(NotRegistered::Full) => {
                let message =
                    "too many blocking queries are waiting: try again in a second, or without index";
                return Err(Refusal::new(RefusalKind::Busy, message));
            }
        }
        Ok(())
    }
}

const NO_SERVER: &str = "this agent runs no server: ask one";

fn no_node() -> Response {
    Response::text(501, "this agent runs no node: ask one that does")
}

fn stream(content_type: &str, chunks: Result<Receiver<Bytes>, Response>) -> Answer {
    match chunks {
        Ok(chunks) => Answer::Stream { headers: vec![("Content-Type", content_type.to_string())], chunks },
        Err(refused) => Answer::Whole(refused),
    }
}

/// Frames in the form that the caller asked for. Ends with them, or when the caller leaves.
fn shown(
    executor: &smol::Executor<'static>,
    pieces: Receiver<StreamFrame>,
    presentation: Presentation,
) -> Receiver<Bytes> {
    let (sender, chunks) = async_channel::bounded(1);
    let pass_on = async move {
        while let Ok(piece) = pieces.recv().await {
            let sent = match presentation.bytes(piece) {
                Some(bytes) => sender.send(bytes.into()).await.is_ok(),
                None => !sender.is_closed(),
            };
            if !sent {
                return;
            }
        }
    };
    executor::spawn(executor, pass_on).detach();
    chunks
}
