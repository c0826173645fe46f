//! The composition of one process: configuration, the turn loops, shutdown.
//!
//! Refuses to know: command lines, tables of text, and any policy. Invariants: each brain has one thread, and only that
//! thread touches it; whatever ends the agent, a durable agent's tasks go on and a `-dev` agent's do not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stderr)]

mod alloc_dir_worker;
mod client_loop;
pub mod config;
mod data_dir;
mod disk_space;
mod enrolment;
mod failure;
mod http_service;
mod identity;
pub mod inbox;
mod links;
mod listeners;
mod log_lines;
mod logging;
mod messages;
mod reload;
mod server_inbox;
mod server_loop;
mod signals;
mod startup;
mod stored_identity;
mod supervisor;
mod workers;

use ::io::executor;
use ::io::host_stats::HostStatsCollector;
use ::io::http::{self, HttpSettings, Published};
use ::io::keeper_connection::{self, KeeperConnection, KeeperStartMode};
use ::io::quic::Endpoint;
use ::io::{client_rpc, clock, entropy};
use alloc_dir_worker::{AllocDirWorker, DirPaths};
use api::agent::AgentInfo;
use async_channel::{Receiver, Sender};
use client_loop::{ClientChannels, ClientLoop};
use config::{Config, Loaded};
use data_dir::DataDir;
pub use enrolment::{Joined, join, lacks_identity};
use failure::AgentFailure;
use http_service::{HttpService, HttpServiceParts};
use links::LinkSender;
use logging::Logging;
use messages::ClientMessage;
use model::time::Span;
pub use reload::ReadConfig;
use reload::Reloader;
use server::effects::ScheduleTask;
use server_inbox::{ServerInboxReceiver, ServerInboxSender, ServerMessage};
use server_loop::{ServerChannels, ServerLoop};
use signals::{Signal, Signals};
use smol::future::or;
use startup::{OpenedStores, open_data_dir, open_stores};
use state::store::Reader;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wire::keeper::KeeperCommand;
use wire::status::ServerStatus;
use workers::SharedReservations;

/// How long after the tasks' own time to end the agent waits for them.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// An agent that is up, for whoever started it.
pub struct Started {
    /// Where its HTTP API is.
    pub http: SocketAddr,
    stop: Sender<Result<(), String>>,
}

impl Started {
    /// Ends the agent, with a sentence if it shall count as a failure.
    pub fn stop(&self, why: Result<(), String>) {
        // the agent may be ending already
        let _ = self.stop.try_send(why);
    }
}

/// Runs the agent until it is told to stop. `started` is called on a thread of its own once the HTTP API answers.
pub fn run(loaded: Loaded, read: ReadConfig, started: impl FnOnce(Started) + Send + 'static) -> ExitCode {
    abort_on_panic();
    let reloader = Reloader { read, settings: loaded.settings };
    let outcome = logging::init(&loaded.config.log)
        .map_err(AgentFailure::from)
        .and_then(|logging| Agent::start(loaded.config, logging, reloader))
        .and_then(|agent| agent.serve(started));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("drover agent: {why}");
            why.exit_code()
        }
    }
}

/// A panic is a bug of ours: the process ends, its supervisor starts it again, the tasks live on. Only a scheduler worker
/// catches its own.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        if !workers::panics_are_caught() {
            std::process::abort();
        }
    }));
}

struct Agent {
    config: Config,
    logging: Logging,
    reloader: Reloader,
    dir: DataDir,
    executor: Arc<smol::Executor<'static>>,
    service: Arc<HttpService>,
    http_settings: Arc<HttpSettings>,
    listeners: Vec<TcpListener>,
    /// What links to other servers stand on, if there may be any.
    endpoint: Option<Endpoint>,
    server_inbox: ServerInboxSender,
    client_inbox: Sender<ClientMessage>,
    keeper: Sender<KeeperCommand>,
    /// A part of the agent ended, and why.
    ended: Receiver<(Part, Result<(), AgentFailure>)>,
    threads: Vec<JoinHandle<()>>,
    signals: Signals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Server,
    Client,
    /// The links between servers.
    Links,
}

impl Agent {
    fn start(mut config: Config, logging: Logging, reloader: Reloader) -> Result<Agent, AgentFailure> {
        let mut signals = Signals::new().map_err(|e| format!("signals cannot be received: {e}"))?;
        enrolment::complete(&mut config, &mut signals)?;
        // first, so that a taken port leaves no directory behind
        let listeners = listeners::http(&config)?;
        let rpc_sockets = listeners::rpc(&config)?;
        let dir = open_data_dir(&config)?;
        let executor = Arc::new(smol::Executor::new());
        let server_inbox = ServerInboxSender::default();
        let (client_inbox, to_client) = async_channel::bounded(inbox::CAPACITY);
        let OpenedStores { opened, node, client, space } = open_stores(&config, &dir)?;
        let (calls, to_answer) = async_channel::bounded(inbox::CAPACITY);
        let agent = identity::agent_info(&config, &reloader.settings, dir.root());
        let service =
            http_service(&executor, &config, &dir, agent, opened.reader(), (&server_inbox, calls), &logging)?;
        let http_settings = Arc::new(listeners::http_settings(&config));
        answer_calls(&executor, (&config, &dir), to_answer, &client_inbox);
        let keeper = connect_keeper(&executor, &dir, keeper_start_mode(&config)?, client_inbox.clone());
        let (send_end, ended) = async_channel::bounded(3);
        let (workers, tasks) = async_channel::bounded(config.server.num_schedulers.max(1) as usize);
        let (server_id, reservations) = (opened.id(), Arc::default());
        let mut threads =
            start_workers(config.server.num_schedulers, (&tasks, &server_inbox), &reservations, &service)?;
        let (to_self, to_node, served) = (server_inbox.clone(), client_inbox.clone(), service.clone());
        let links = LinkSender::default();
        let endpoint = listeners::start_links(
            &executor,
            &config,
            rpc_sockets,
            (server_id, &server_inbox, &links, &service),
            send_end.clone(),
        )?;
        let channels = ServerChannels { to_self, to_node, links, workers, reservations, service: served };
        let server = ServerLoop::new(opened, channels);
        let receiver = ServerInboxReceiver::new(server_inbox.clone());
        threads.push(spawn_brain(Part::Server, send_end.clone(), move || server.run(&receiver))?);

        let places = DirPaths::new(dir.root(), alloc_dir(&config, dir.root()), space.reserve());
        let channels = ClientChannels {
            to_server: server_inbox.clone(),
            keeper: keeper.clone(),
            report: service.client.clone(),
            dirs: AllocDirWorker::start(&executor, places, &client_inbox),
            servers: [(server_id, service.agent.rpc_addr.clone())].into(),
        };
        let client = ClientLoop::new(client, space, channels);
        threads.push(spawn_brain(Part::Client, send_end, move || client.run(&to_client))?);

        let agent = Agent {
            config,
            logging,
            reloader,
            dir,
            executor,
            service,
            http_settings,
            listeners,
            endpoint,
            server_inbox,
            client_inbox,
            keeper,
            ended,
            threads,
            signals,
        };
        agent.fingerprint(node);
        Ok(agent)
    }

    /// Looks at the machine, off the main thread, and tells the client.
    fn fingerprint(&self, node: identity::NodeCredentials) {
        let (config, alloc_dir) = (self.config.clone(), alloc_dir(&self.config, self.dir.root()));
        let inbox = self.client_inbox.clone();
        let look = async move {
            let info = executor::unblock(move || identity::node_info(&config, &alloc_dir, node)).await;
            let input = client::effects::Input::Fingerprint(Box::new(info));
            // the client may have ended by now
            let _ = inbox.send(ClientMessage::Input(input)).await;
        };
        executor::spawn(&self.executor, look).detach();
    }

    fn serve(mut self, started: impl FnOnce(Started) + Send + 'static) -> Result<(), AgentFailure> {
        let executor = self.executor.clone();
        smol::block_on(executor.run(async move {
            let (stop_http, http_stops) = async_channel::bounded::<()>(1);
            let mut servers = vec![];
            let http = self.listeners.first().and_then(|l| l.local_addr().ok()).ok_or("no HTTP address")?;
            for listener in std::mem::take(&mut self.listeners) {
                let listener = smol::Async::new(listener).map_err(|e| e.to_string())?.into();
                let serve = http::serve(
                    self.executor.clone(),
                    listener,
                    self.service.clone(),
                    self.http_settings.clone(),
                    http_stops.clone(),
                );
                servers.push(executor::spawn(&self.executor, serve));
            }
            tracing::info!(address = %format!("http://{http}"), "drover agent is up");
            supervisor::ready();
            let (stop, asked_to_stop) = async_channel::bounded(1);
            spawn("started", move || started(Started { http, stop }))?;
            let watchdog = supervisor::watchdog(self.server_inbox.clone(), self.client_inbox.clone());
            executor::spawn(&self.executor, watchdog).detach();

            let outcome = self.wait(&asked_to_stop).await;
            supervisor::stopping();
            self.service.hand_over_leadership().await;
            drop(stop_http);
            let stopped = self.stop_brains().await;
            if let Some(endpoint) = &self.endpoint {
                endpoint.close().await;
            }
            for server in servers {
                server.await;
            }
            self.close(stopped.is_ok());
            outcome.and(stopped)
        }))
    }

    /// Waits until a signal, the starter or a brain's end says that it is over.
    async fn wait(&mut self, asked_to_stop: &Receiver<Result<(), String>>) -> Result<(), AgentFailure> {
        enum Woken {
            Signal(Signal),
            Asked(Result<(), String>),
            Ended(Part, Result<(), AgentFailure>),
        }
        loop {
            let signal = async { Woken::Signal(self.signals.next().await) };
            let asked = async {
                match asked_to_stop.recv().await {
                    Ok(why) => Woken::Asked(why),
                    // the starter has nothing more to say
                    Err(_) => std::future::pending().await,
                }
            };
            let ended = async {
                match self.ended.recv().await {
                    Ok((brain, why)) => Woken::Ended(brain, why),
                    Err(_) => std::future::pending().await,
                }
            };
            match or(signal, or(asked, ended)).await {
                Woken::Signal(Signal::Stop) => {
                    self.print_stopping();
                    return Ok(());
                }
                Woken::Signal(Signal::Reload) => self.reload(),
                Woken::Asked(why) => return why.map_err(AgentFailure::from),
                Woken::Ended(brain, Ok(())) => return Err(format!("the {brain:?} ended by itself").into()),
                Woken::Ended(_, Err(why)) => return Err(why),
            }
        }
    }

    /// Printed whatever the log level, so that a user who pressed Ctrl-C sees it was received.
    fn print_stopping(&self) {
        if self.config.dev {
            eprintln!("==> Stopping the agent and its tasks; a second signal ends the waiting");
        } else {
            eprintln!("==> Stopping the agent; its tasks go on");
        }
    }

    fn reload(&mut self) {
        match self.reloader.read_again() {
            Ok(now) => {
                self.logging.set(now.config.log.level);
                self.http_settings.response_headers.set(listeners::response_headers(&now.config));
                self.http_settings.limits.set(listeners::limits(&now.config));
                now.log_changes();
            }
            Err(why) => tracing::error!(why, "the configuration is not reloaded"),
        }
    }

    /// Tasks of a `-dev` agent are stopped within their own time; those of a durable one do not notice. A second signal
    /// ends the waiting.
    async fn stop_brains(&mut self) -> Result<(), AgentFailure> {
        let kill_tasks = self.config.dev;
        let input = client::effects::Input::Shutdown { kill_tasks };
        let limit = clock::duration(self.config.client.max_kill_timeout) + STOP_GRACE;
        let done = async {
            if self.client_inbox.send(ClientMessage::Input(input)).await.is_err() {
                return self.ended.try_recv().map_or(Ok(()), |(_, why)| why);
            }
            while let Ok((brain, result)) = self.ended.recv().await {
                if brain == Part::Client {
                    return result;
                }
            }
            Ok(())
        };
        let patience = async {
            smol::Timer::after(limit).await;
            Err(AgentFailure::from("the tasks did not end in time"))
        };
        let impatient = async {
            self.signals.next().await;
            Err(AgentFailure::from("stopped by a second signal"))
        };
        let result = or(done, or(patience, impatient)).await;
        if kill_tasks {
            self.end_keeper().await;
        }
        self.server_inbox.stop();
        result
    }

    /// A `-dev` agent takes its keeper with it.
    async fn end_keeper(&self) {
        let shutdown = KeeperCommand::Shutdown { signal: SIGKILL, timeout: Span::ZERO };
        // fails without a connection to the keeper: what follows waits only while a keeper answers
        let _ = self.keeper.try_send(shutdown);
        let gone = async {
            while keeper_connection::answers(self.dir.root()) {
                smol::Timer::after(Duration::from_millis(5)).await;
            }
        };
        or(gone, async {
            smol::Timer::after(STOP_GRACE).await;
        })
        .await;
    }

    /// The stores are closed before the directory is given up, unless a brain did not stop: that one is not waited for.
    fn close(self, stopped: bool) {
        let threads = if stopped { self.threads } else { vec![] };
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the agent panicked");
            }
        }
        drop(self.dir);
    }
}

const SIGKILL: i32 = 9;

/// The service that answers HTTP requests. `server` gets its calls, and through `calls` this agent's node.
fn http_service(
    executor: &Arc<smol::Executor<'static>>,
    config: &Config,
    dir: &DataDir,
    agent: AgentInfo,
    reader: Reader,
    (server, calls): (&ServerInboxSender, Sender<client_rpc::RpcCall>),
    logging: &Logging,
) -> Result<Arc<HttpService>, String> {
    let server = server.clone();
    Ok(Arc::new(HttpService::new(HttpServiceParts {
        executor: executor.clone(),
        agent,
        reader,
        status: Arc::new(Published::new(ServerStatus::default())),
        client: Arc::new(Published::new(None)),
        server: Box::new(move |call| server.send(ServerMessage::Call(call))),
        node: calls,
        plan_job: Arc::new(workers::plan_job),
        explain: Arc::new(workers::explain),
        clock: Box::new(clock::mono),
        seed: entropy::u64().map_err(|e| e.to_string())?,
        event_buffer_entries: event_buffer_entries(config),
        monitor: logging.monitor.clone(),
        machine: Arc::new(HostStatsCollector::new(alloc_dir(config, dir.root()))),
    })))
}

/// Answers requests to this agent's node, which asks its brain what is allowed.
fn answer_calls(
    executor: &Arc<smol::Executor<'static>>,
    (config, dir): (&Config, &DataDir),
    calls: Receiver<client_rpc::RpcCall>,
    inbox: &Sender<ClientMessage>,
) {
    let (questions, to_brain) = async_channel::bounded(inbox::CAPACITY);
    executor::spawn(executor, forward(to_brain, inbox.clone(), ClientMessage::Grant)).detach();
    let data_dir = dir.root().to_path_buf();
    let places = client_rpc::NodeDirs { alloc_dir: alloc_dir(config, &data_dir), data_dir };
    executor::spawn(executor, client_rpc::serve(executor.clone(), calls, questions, places)).detach();
}

fn event_buffer_entries(config: &Config) -> usize {
    if config.server.event_broker { config.server.event_buffer_entries as usize } else { 0 }
}

fn alloc_dir(config: &Config, data_dir: &Path) -> PathBuf {
    config.client.alloc_dir.clone().unwrap_or_else(|| data_dir.join("alloc"))
}

fn keeper_start_mode(config: &Config) -> Result<KeeperStartMode, String> {
    let exe = std::env::current_exe().map_err(|e| format!("the path of this binary: {e}"))?;
    if config.dev {
        Ok(KeeperStartMode::Owned { exe })
    } else if supervisor::is_systemd() {
        Ok(KeeperStartMode::External)
    } else {
        Ok(KeeperStartMode::Detached { exe })
    }
}

async fn forward<T, M>(from: Receiver<T>, inbox: Sender<M>, wrap: fn(T) -> M) {
    while let Ok(next) = from.recv().await {
        if inbox.send(wrap(next)).await.is_err() {
            return;
        }
    }
}

/// Connects to the keeper; its notices go to the client.
fn connect_keeper(
    executor: &smol::Executor<'static>,
    dir: &DataDir,
    keeper_start_mode: KeeperStartMode,
    inbox: Sender<ClientMessage>,
) -> Sender<KeeperCommand> {
    let (KeeperConnection { commands, notices }, drive) =
        keeper_connection::open(dir.root().to_path_buf(), keeper_start_mode);
    executor::spawn(executor, drive).detach();
    executor::spawn(executor, forward(notices, inbox, ClientMessage::Keeper)).detach();
    commands
}

fn start_workers(
    count: u32,
    (tasks, results): (&Receiver<ScheduleTask>, &ServerInboxSender),
    reservations: &Arc<SharedReservations>,
    service: &Arc<HttpService>,
) -> Result<Vec<JoinHandle<()>>, String> {
    let start = |n: u32| {
        let (tasks, results) = (tasks.clone(), results.clone());
        let (reservations, service) = (reservations.clone(), service.clone());
        let work = move || workers::run(&tasks, &results, &reservations, || service.reader.clone());
        spawn(&format!("scheduler-{n}"), work)
    };
    (0..count).map(start).collect()
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    thread::Builder::new().name(name.to_string()).spawn(body).map_err(|e| format!("thread {name}: {e}"))
}

fn spawn_brain<E: Into<AgentFailure>>(
    part: Part,
    ended: Sender<(Part, Result<(), AgentFailure>)>,
    body: impl FnOnce() -> Result<(), E> + Send + 'static,
) -> Result<JoinHandle<()>, String> {
    spawn(&format!("{part:?}").to_lowercase(), move || {
        let result = body().map_err(E::into);
        // there is room for each; without a receiver the agent ends already
        let _ = ended.try_send((part, result));
    })
}
