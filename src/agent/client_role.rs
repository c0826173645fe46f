//! The parts of an agent that runs a node: its brain's thread, its connection to the keeper, and its links to servers if its agent is none.
//!
//! Refuses to know: what the brain does.

use super::alloc_dir_worker::{AllocDirWorker, DirPaths};
use super::client_loop::{ClientChannels, ClientLoop, ServerPath};
use super::config::Config;
use super::data_dir::DataDir;
use super::failure::AgentFailure;
use super::http_service::HttpService;
use super::http_service::server_call::{CallQueue, ForwardCall, NotSent};
use super::links::node_links::NodeLinkSender;
use super::messages::ClientMessage;
use super::server_inbox::ServerInboxSender;
use super::startup::{OpenedNode, client_config};
use super::{EndSender, Part, STOP_GRACE, alloc_dir, inbox, listeners, spawn_brain, supervisor};
use ::io::keeper_connection::{self, KeeperConnection, KeeperStartMode};
use ::io::quic::Endpoint;
use ::io::{client_rpc, clock, entropy, executor};
use async_channel::{Receiver, Sender, TrySendError};
use client::Client;
use model::time::Span;
use smol::future::or;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use wire::keeper::KeeperCommand;

const SIGKILL: i32 = 9;

/// What a node is started with.
pub struct ClientParts<'a> {
    pub executor: &'a Arc<smol::Executor<'static>>,
    pub config: &'a Config,
    pub dir: &'a DataDir,
    pub opened: OpenedNode,
    pub inbox: (Sender<ClientMessage>, Receiver<ClientMessage>),
    /// Questions of users to this node.
    pub questions: Receiver<client_rpc::RpcCall>,
    /// The server of the same agent, if there is one.
    pub server: Option<(u64, ServerInboxSender)>,
    pub service: &'a Arc<HttpService>,
    pub ended: EndSender,
}

/// A node that runs.
pub struct ClientRole {
    pub inbox: Sender<ClientMessage>,
    pub keeper: Sender<KeeperCommand>,
    /// What its links stand on, if its agent is no server.
    pub endpoint: Option<Endpoint>,
}

impl ClientRole {
    pub fn start(
        parts: ClientParts<'_>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<ClientRole, AgentFailure> {
        let ClientParts { executor, config, dir, opened, inbox, questions, server, service, ended } = parts;
        let (inbox, to_client) = inbox;
        answer_calls(executor, (config, dir), questions, &inbox);
        let keeper = connect_keeper(executor, dir, keeper_start_mode(config)?, inbox.clone());
        let own = server.as_ref().map(|(id, _)| *id);
        let settings = client_config(config, opened.credentials, own, &alloc_dir(config, dir.root()));
        let seed = entropy::u64().map_err(|e| e.to_string())?;
        let node = opened.credentials.0;
        let reserve = opened.space.reserve();
        let client = Client::new(settings, opened.store, opened.recovered, seed, clock::now());
        let (endpoint, to_servers, servers) = match server {
            Some((id, server)) => {
                let known = BTreeMap::from([(id, service.agent.rpc_addr.clone())]);
                (None, ServerPath::Own(server), known)
            }
            None => {
                let (sender, woken) = NodeLinkSender::new();
                service.relay_paths.set_node_links(sender.clone());
                let links = (sender.clone(), woken);
                let endpoint = listeners::start_node_links(
                    executor,
                    (config, dir),
                    node,
                    (links, inbox.clone(), service),
                    ended.clone(),
                )?;
                (Some(endpoint), ServerPath::Links(sender), BTreeMap::new())
            }
        };
        let places = DirPaths::new(dir.root(), alloc_dir(config, dir.root()), reserve);
        let channels = ClientChannels {
            to_servers,
            keeper: keeper.clone(),
            report: service.client.clone(),
            dirs: AllocDirWorker::start(executor, places, &inbox),
            servers,
        };
        let client = ClientLoop::new(client, opened.space, channels);
        threads.push(spawn_brain(Part::Client, ended, move || client.run(&to_client))?);
        Ok(ClientRole { inbox, keeper, endpoint })
    }

    /// A `-dev` agent takes its keeper with it.
    pub async fn end_keeper(&self, data_dir: &Path) {
        let shutdown = KeeperCommand::Shutdown { signal: SIGKILL, timeout: Span::ZERO };
        // fails without a connection to the keeper: what follows waits only while a keeper answers
        let _ = self.keeper.try_send(shutdown);
        let gone = async {
            while keeper_connection::answers(data_dir) {
                smol::Timer::after(Duration::from_millis(5)).await;
            }
        };
        or(gone, async {
            smol::Timer::after(STOP_GRACE).await;
        })
        .await;
    }
}

/// The requests of users that this node is to pass on.
pub fn forward_queue(inbox: Sender<ClientMessage>) -> CallQueue<ForwardCall> {
    Box::new(move |call| {
        inbox.try_send(ClientMessage::Forward(call)).map_err(|e| match e {
            TrySendError::Full(_) => NotSent::Full,
            TrySendError::Closed(_) => NotSent::Closed,
        })
    })
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
