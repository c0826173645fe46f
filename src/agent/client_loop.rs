//! The thread of the client's brain: collects inputs, runs turns, executes effects through the connection to the keeper and the
//! directory work. A fault of its storage ends the agent: its supervisor starts it again, and the tasks do not notice.

use super::alloc_dir_worker::AllocDirWorker;
use super::disk_space::DiskSpaceMonitor;
use super::http_service::server_call::{ForwardCall, ForwardResult, ReplySender};
use super::inbox;
use super::links::node_links::NodeLinkSender;
use super::messages::ClientMessage;
use super::server_inbox::ServerInboxSender;
use ::io::client_rpc::GrantRequest;
use ::io::clock;
use ::io::http::Published;
use ::io::keeper_connection::KeeperNotice;
use api::agent::ClientReport;
use async_channel::{Receiver, Sender, TrySendError};
use client::effects::RequestOutcome;
use client::effects::{Effect, Input};
use client::{Client, ClientStatusReport};
use model::id::NodeId;
use model::member::ServerAddress;
use model::time::{Mono, Span};
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::frame;
use wire::http::ForwardFailure;
use wire::keeper::{Event, KeeperCommand, PROTOCOL};
use wire::request::Refusal;
use wire::rpc::Peer;

/// Where the client's effects go.
pub struct ClientChannels {
    pub to_servers: ServerPath,
    pub keeper: Sender<KeeperCommand>,
    pub report: Arc<Published<Option<ClientReport>>>,
    pub dirs: AllocDirWorker,
    /// Where each server is, by its raft id.
    pub servers: BTreeMap<u64, String>,
}

/// How this node speaks with servers.
pub enum ServerPath {
    /// With the agent's own alone.
    Own(ServerInboxSender),
    Links(NodeLinkSender),
}

/// How soon commands that found the keeper's queue full are tried again.
const KEEPER_RETRY: Span = Span::millis(10);

pub struct ClientLoop {
    client: Client,
    /// The node's own id, which never changes.
    node: NodeId,
    space: DiskSpaceMonitor,
    channels: ClientChannels,
    /// Commands that found the keeper's queue full, in order. Emptied when the connection breaks: the brain compares
    /// anew after each connection.
    backlog: VecDeque<KeeperCommand>,
    reported: Option<ClientStatusReport>,
    /// Callers that wait for answers, by token.
    callers: BTreeMap<u64, Sender<Result<RequestOutcome, Refusal>>>,
    /// Users whose requests are passed on, by token.
    forwards: BTreeMap<u64, ReplySender<ForwardResult>>,
    next_token: u64,
}

impl ClientLoop {
    pub fn new(client: Client, space: DiskSpaceMonitor, channels: ClientChannels) -> ClientLoop {
        ClientLoop {
            node: client.status().node,
            client,
            space,
            channels,
            backlog: VecDeque::new(),
            reported: None,
            callers: BTreeMap::new(),
            forwards: BTreeMap::new(),
            next_token: 0,
        }
    }

    /// Runs until the brain says that it is done.
    pub fn run(mut self, inbox: &Receiver<ClientMessage>) -> Result<(), String> {
        loop {
            let messages =
                inbox::collect(inbox, self.deadline()).map_err(|_| "the agent's threads are gone")?;
            let mut inputs = Vec::with_capacity(messages.len() + 1);
            inputs.extend(self.space.poll_change(clock::mono()).map(|free| Input::Space { free }));
            for message in messages {
                match message {
                    ClientMessage::Input(input) => inputs.push(input),
                    ClientMessage::Keeper(notice) => self.notice(notice, &mut inputs),
                    ClientMessage::Grant(question) => inputs.push(self.register(question)),
                    ClientMessage::Forward(call) => inputs.extend(self.register_forward(call)),
                    ClientMessage::Ping(answer) => {
                        // the watchdog waits for no answer that comes too late
                        let _ = answer.try_send(());
                    }
                }
            }
            self.flush();
            let effects = self.client.turn(clock::now(), inputs).map_err(|fault| fault.to_string())?;
            self.publish();
            for effect in effects {
                if !self.execute(effect) {
                    return Ok(());
                }
            }
        }
    }

    fn deadline(&self) -> Option<Mono> {
        let retry = (!self.backlog.is_empty()).then(|| clock::mono().after(KEEPER_RETRY));
        self.client.next_deadline().into_iter().chain(retry).chain(self.space.deadline()).min()
    }

    fn notice(&mut self, notice: KeeperNotice, inputs: &mut Vec<Input>) {
        match notice {
            KeeperNotice::Up { boot_id, keeper_pid, runs } => {
                self.backlog.clear();
                inputs.push(Input::KeeperUp);
                inputs.push(Input::Keeper(Event::Welcome { protocol: PROTOCOL, boot_id, keeper_pid, runs }));
            }
            KeeperNotice::Event(event) => inputs.push(Input::Keeper(event)),
            KeeperNotice::Down { reason } => {
                tracing::warn!(reason, "no keeper: running tasks go on, nothing is started");
                self.backlog.clear();
                inputs.push(Input::KeeperDown { why: reason });
            }
        }
    }

    /// Every question is answered in its turn.
    fn register(&mut self, question: GrantRequest) -> Input {
        self.next_token += 1;
        self.callers.insert(self.next_token, question.reply);
        Input::Ask { token: self.next_token, ask: question.ask }
    }

    /// While the server that is asked has no link, nothing is done: what would be sent now would be lost.
    fn register_forward(&mut self, call: ForwardCall) -> Option<Input> {
        if let ServerPath::Links(links) = &self.channels.to_servers
            && !links.is_served()
        {
            call.reply.send(Err(ForwardFailure::NotDone));
            return None;
        }
        self.next_token += 1;
        self.forwards.insert(self.next_token, call.reply);
        Some(Input::Forward { token: self.next_token, hold: call.hold, request: call.request })
    }

    fn send(&self, to: Peer, bytes: Vec<u8>) {
        match (&self.channels.to_servers, to) {
            (ServerPath::Own(inbox), _) => {
                let input = server::effects::Input::Frame { from: Peer::Node(self.node), bytes };
                inbox.send_or_drop("a frame to the server", input);
            }
            (ServerPath::Links(links), Peer::Server(server)) => {
                links.send(server, frame::traffic_class_of_node(&bytes), bytes);
            }
            // nodes do not speak with each other
            (ServerPath::Links(_), Peer::Node(_)) => {}
        }
    }

    /// False when nothing more will come.
    fn execute(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Send { to, bytes } => self.send(to, bytes),
            Effect::Keeper(command) => {
                self.backlog.push_back(command);
                self.flush();
            }
            Effect::BuildDir(spec) => self.channels.dirs.build(spec),
            Effect::RemoveDir { alloc } => self.channels.dirs.remove(alloc),
            Effect::Answer { token, result } => {
                if let Some(reply) = self.callers.remove(&token) {
                    // the caller may have left
                    let _ = reply.try_send(result);
                }
            }
            Effect::Forwarded { token, result } => {
                if let Some(reply) = self.forwards.remove(&token) {
                    reply.send(result);
                }
            }
            Effect::ShutdownComplete => return false,
        }
        true
    }

    fn flush(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(TrySendError::Full(command)) = self.channels.keeper.try_send(command) {
                return self.backlog.push_front(command);
            }
        }
    }

    fn publish(&mut self) {
        let status = self.client.status();
        if self.reported.as_ref() == Some(&status) {
            return;
        }
        if let ServerPath::Links(links) = &self.channels.to_servers {
            links.set_listed(&status.servers);
        }
        let configured = |server: &ServerAddress| self.channels.servers.get(&server.id).cloned();
        let listed = |server: &ServerAddress| Some(server.rpc_addr.clone()).filter(|at| !at.is_empty());
        self.channels.report.set(Some(ClientReport {
            node_id: status.node,
            known_servers: status
                .servers
                .iter()
                .filter_map(|s| listed(s).or_else(|| configured(s)))
                .collect(),
            allocs: status.allocs.clone(),
            since_heartbeat: status.last_heartbeat.map(|at| clock::mono().since(at)),
            heartbeat_ttl: status.heartbeat_ttl,
            measured: status.measured.clone(),
        }));
        self.reported = Some(status);
    }
}
