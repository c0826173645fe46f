//! The composition of one process: configuration, the turn loops, shutdown.
//!
//! Refuses to know: command lines, tables of text, and any policy. Invariants: each brain has one thread, and only that
//! thread touches it; whatever ends the agent, a durable agent's tasks go on and a `-dev` agent's do not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stderr)]

mod alloc_dir_worker;
mod client_loop;
mod client_role;
pub mod config;
mod data_dir;
mod disk_space;
mod enrolment;
mod failure;
mod http_service;
mod https;
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
mod server_role;
mod signals;
mod startup;
mod stored_identity;
mod supervisor;
mod workers;

use ::io::executor;
use ::io::host_stats::HostStatsCollector;
use ::io::http::{self, HttpSettings, Published};
use ::io::quic::Endpoint;
use ::io::{clock, entropy};
use api::agent::AgentInfo;
use async_channel::{Receiver, Sender};
use client_role::{ClientParts, ClientRole, forward_queue};
use config::{Config, Loaded};
use data_dir::DataDir;
pub use enrolment::{Joined, init_region, join, lacks_identity};
use failure::AgentFailure;
use http_service::{HttpService, HttpServiceParts, NodeAccess, ServerAccess};
use logging::Logging;
use messages::ClientMessage;
pub use reload::ReadConfig;
use reload::Reloader;
use server_inbox::{ServerInboxSender, ServerMessage};
use server_loop::OpenedServer;
use server_role::ServerParts;
use signals::{Signal, Signals};
use smol::future::or;
use startup::{OpenedStores, open_data_dir, open_stores};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wire::status::ServerStatus;

/// How long after the tasks' own time to end the agent waits for them.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// An agent that is up, for whoever started it.
pub struct Started {
    /// Where its HTTP API is.
    pub http: SocketAddr,
    pub https: config::HttpsConfig,
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
    /// `None`: the agent is no server.
    server: Option<ServerInboxSender>,
    /// `None`: the agent runs no node.
    client: Option<ClientRole>,
    /// What links to other machines stand on, if there may be any.
    endpoint: Option<Endpoint>,
    /// A part of the agent ended, and why.
    ended: Receiver<(Part, Result<(), AgentFailure>)>,
    threads: Vec<JoinHandle<()>>,
    signals: Signals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Server,
    Client,
    /// The links to other machines.
    Links,
}

/// Where a part of the agent says that it has ended, and why.
type EndSender = Sender<(Part, Result<(), AgentFailure>)>;

impl Agent {
    fn start(mut config: Config, logging: Logging, reloader: Reloader) -> Result<Agent, AgentFailure> {
        let mut signals = Signals::new().map_err(|e| format!("signals cannot be received: {e}"))?;
        enrolment::complete(&mut config, &mut signals)?;
        // first, so that a taken port leaves no directory behind
        let listeners = listeners::http(&config)?;
        let sockets = listeners::rpc(&config)?;
        let http_settings = Arc::new(listeners::http_settings(&config)?);
        let dir = open_data_dir(&config)?;
        let executor = Arc::new(smol::Executor::new());
        let OpenedStores { server, node } = open_stores(&config, &dir)?;
        let to_server = server.as_ref().map(|_| ServerInboxSender::default());
        let to_client = node.as_ref().map(|_| async_channel::bounded(inbox::CAPACITY));
        let (questions, to_answer) = async_channel::bounded(inbox::CAPACITY);
        let info = identity::agent_info(&config, &reloader.settings, dir.root());
        let access = (
            server.as_ref().zip(to_server.clone()).map(|(opened, inbox)| server_access(opened, inbox)),
            to_client
                .as_ref()
                .map(|(inbox, _)| NodeAccess { questions, forwards: forward_queue(inbox.clone()) }),
        );
        let service = http_service(&executor, &config, &dir, info, access, &logging)?;
        let (send_end, ended) = async_channel::bounded(3);
        let mut threads = vec![];
        let own_server = server.as_ref().map(OpenedServer::id).zip(to_server.clone());
        let credentials = node.as_ref().map(|node| node.credentials);
        let own_node = credentials.map(|(id, _)| id).zip(to_client.as_ref().map(|(inbox, _)| inbox.clone()));
        let mut endpoint = None;
        if let Some((opened, inbox)) = server.zip(to_server.clone()) {
            let (service, ended) = (&service, send_end.clone());
            let (executor, config) = (&executor, &config);
            let parts =
                ServerParts { executor, config, opened, inbox, node: own_node, sockets, service, ended };
            endpoint = server_role::start(parts, &mut threads)?;
        }
        let mut client = None;
        if let Some((opened, inbox)) = node.zip(to_client) {
            let (executor, config, dir, service) = (&executor, &config, &dir, &service);
            let (questions, server, ended) = (to_answer, own_server, send_end);
            let parts =
                ClientParts { executor, config, dir, opened, inbox, questions, server, service, ended };
            let mut role = ClientRole::start(parts, &mut threads)?;
            endpoint = endpoint.or(role.endpoint.take());
            client = Some(role);
        }
        let agent = Agent {
            config,
            logging,
            reloader,
            dir,
            executor,
            service,
            http_settings,
            listeners,
            server: to_server,
            client,
            endpoint,
            ended,
            threads,
            signals,
        };
        if let Some(credentials) = credentials {
            agent.fingerprint(credentials);
        }
        Ok(agent)
    }

    /// Looks at the machine, off the main thread, and tells the client.
    fn fingerprint(&self, node: identity::NodeCredentials) {
        let (config, alloc_dir) = (self.config.clone(), alloc_dir(&self.config, self.dir.root()));
        let Some(inbox) = self.client.as_ref().map(|client| client.inbox.clone()) else { return };
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
            tracing::info!(address = %format!("{}://{http}", self.config.http.scheme()), "drover agent is up");
            supervisor::ready();
            let (stop, asked_to_stop) = async_channel::bounded(1);
            let https = self.config.http.https.clone();
            spawn("started", move || started(Started { http, https, stop }))?;
            let client = self.client.as_ref().map(|client| client.inbox.clone());
            let watchdog = supervisor::watchdog(self.server.clone(), client);
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
                listeners::reload_http(&self.http_settings, &now.config);
                now.log_changes();
            }
            Err(why) => tracing::error!(why, "the configuration is not reloaded"),
        }
    }

    /// Tasks of a `-dev` agent are stopped within their own time; those of a durable one do not notice. A second signal
    /// ends the waiting.
    async fn stop_brains(&mut self) -> Result<(), AgentFailure> {
        let result = match self.client.take() {
            Some(client) => self.stop_client(&client).await,
            None => Ok(()),
        };
        if let Some(server) = &self.server {
            server.stop();
        }
        result
    }

    async fn stop_client(&mut self, client: &ClientRole) -> Result<(), AgentFailure> {
        let kill_tasks = self.config.dev;
        let input = client::effects::Input::Shutdown { kill_tasks };
        let limit = clock::duration(self.config.client.max_kill_timeout) + STOP_GRACE;
        let done = async {
            if client.inbox.send(ClientMessage::Input(input)).await.is_err() {
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
            client.end_keeper(self.dir.root()).await;
        }
        result
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

fn server_access(opened: &OpenedServer, inbox: ServerInboxSender) -> ServerAccess {
    ServerAccess {
        reader: opened.reader(),
        calls: Box::new(move |call| inbox.send(ServerMessage::Call(call))),
    }
}

/// The service that answers HTTP requests.
fn http_service(
    executor: &Arc<smol::Executor<'static>>,
    config: &Config,
    dir: &DataDir,
    agent: AgentInfo,
    (server, node): (Option<ServerAccess>, Option<NodeAccess>),
    logging: &Logging,
) -> Result<Arc<HttpService>, String> {
    Ok(Arc::new(HttpService::new(HttpServiceParts {
        executor: executor.clone(),
        agent,
        status: Arc::new(Published::new(ServerStatus::default())),
        client: Arc::new(Published::new(None)),
        server,
        node,
        plan_job: Arc::new(workers::plan_job),
        explain: Arc::new(workers::explain),
        clock: Box::new(clock::mono),
        seed: entropy::u64().map_err(|e| e.to_string())?,
        event_buffer_entries: event_buffer_entries(config),
        monitor: logging.monitor.clone(),
        machine: Arc::new(HostStatsCollector::new(alloc_dir(config, dir.root()))),
    })))
}

fn event_buffer_entries(config: &Config) -> usize {
    if config.server.event_broker { config.server.event_buffer_entries as usize } else { 0 }
}

fn alloc_dir(config: &Config, data_dir: &Path) -> PathBuf {
    config.client.alloc_dir.clone().unwrap_or_else(|| data_dir.join("alloc"))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    thread::Builder::new().name(name.to_string()).spawn(body).map_err(|e| format!("thread {name}: {e}"))
}

fn spawn_brain<E: Into<AgentFailure>>(
    part: Part,
    ended: EndSender,
    body: impl FnOnce() -> Result<(), E> + Send + 'static,
) -> Result<JoinHandle<()>, String> {
    spawn(&format!("{part:?}").to_lowercase(), move || {
        let result = body().map_err(E::into);
        // there is room for each; without a receiver the agent ends already
        let _ = ended.try_send((part, result));
    })
}
