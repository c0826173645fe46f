//! The thread of the server's brain: collects inputs, runs turns, executes effects. A fault of the storage ends it, and the agent with
//! it: after a sync that failed a kernel may show what is not on the disk, and call the next sync good. So this process
//! trusts that disk no more; the next one writes and syncs again what it finds, before it counts. What was not durable never happened;
//! callers that wait see their connections closed, which leaves the outcome open.

use super::disk_space::DiskSpaceMonitor;
use super::failure::AgentFailure;
use super::http_service::HttpService;
use super::http_service::server_call::{ForwardResult, ReplySender, ServerCall, WriteResult};
use super::inbox;
use super::links::LinkSender;
use super::messages::ClientMessage;
use super::server_inbox::{ServerInboxReceiver, ServerInboxSender, ServerMessage, TurnInput};
use super::workers::SharedReservations;
use ::io::disk::Disk;
use ::io::{clock, entropy, host_stats, keys};
use async_channel::Sender;
use model::id::{NodeId, server_id};
use model::key::Seed;
use model::time::Mono;
use server::effects::{Effect, Input, ScheduleTask};
use server::{Config, Server, Turn};
use state::fault::Fault;
use state::store::{OpenError, Options, Reader, Store, StoreFiles};
use state::wal::WalFile;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use wire::frame::{self, TrafficClass};
use wire::http::{ForwardedResponse, Request};
use wire::record;
use wire::rpc::Peer;

/// Where the server's effects go.
pub struct ServerChannels {
    /// Back to this loop.
    pub to_self: ServerInboxSender,
    /// The agent's own node, if it has one.
    pub to_node: Option<(NodeId, Sender<ClientMessage>)>,
    /// To other servers and nodes.
    pub links: LinkSender,
    pub workers: Sender<ScheduleTask>,
    pub reservations: Arc<SharedReservations>,
    pub service: Arc<HttpService>,
}

/// The brain on its disk.
pub struct OpenedServer {
    server: Server,
    space: DiskSpaceMonitor,
}

impl OpenedServer {
    /// `keep_reserve`: see `Disk::open`.
    pub fn open(path: &Path, config: Config, keep_reserve: bool) -> Result<OpenedServer, AgentFailure> {
        let named = |e: &dyn Display| format!("{}: {e}", path.display());
        let state = Disk::open_slots(path, keep_reserve).map_err(|e| named(&e))?;
        let (space, pending_create) = (DiskSpaceMonitor::new(state[0].reserve()), state[0].pending_create());
        let log =
            |name: &str| state[0].sibling(name).map(|file| Box::new(file) as WalFile).map_err(|e| named(&e));
        let log = [log("log.0")?, log("log.1")?];
        let reserve = state[0].reserve();
        let free_bytes = Box::new(move || reserve.free_bytes());
        let new_server_id = server_id(entropy::u64().map_err(|e| named(&e))?);
        let options = Options::on_machine(host_stats::memory_bytes(), new_server_id);
        let (store, recovered) = Store::open(StoreFiles { state, log, free_bytes }, options)
            .map_err(|e| AgentFailure::of_open(&e, named(&e)))?;
        pending_create.complete().map_err(|e| named(&e))?;
        let seed = entropy::u64().map_err(|e| named(&e))?;
        let server = Server::new(config, store, recovered, seed).map_err(|fault| {
            let why = named(&fault);
            AgentFailure::of_open(&OpenError::Fault(fault), why)
        })?;
        Ok(OpenedServer { server, space })
    }

    /// The server's raft id.
    pub fn id(&self) -> u64 {
        self.server.id()
    }

    pub fn reader(&self) -> Reader {
        self.server.reader()
    }

    /// Whether its region had begun when it was opened.
    pub fn has_region(&self) -> Result<bool, String> {
        let founding = self.reader().view().and_then(|view| view.founding());
        founding.map(|found| found.is_some()).map_err(|e| e.to_string())
    }
}

/// A caller that waits for an answer of the brain.
enum Caller {
    Write(ReplySender<WriteResult>),
    ConfirmRead(ReplySender<bool>),
    Forward(ReplySender<ForwardResult>),
}

pub struct ServerLoop {
    opened: OpenedServer,
    channels: ServerChannels,
    waiting: BTreeMap<u64, Caller>,
    next_token: u64,
    /// Inputs for the next turn, which is due at once.
    next: Vec<Input>,
}

impl ServerLoop {
    pub fn new(opened: OpenedServer, channels: ServerChannels) -> ServerLoop {
        ServerLoop { opened, channels, waiting: BTreeMap::new(), next_token: 0, next: Vec::new() }
    }

    /// Runs until told to stop, or until the storage fails.
    pub fn run(mut self, inbox: &ServerInboxReceiver) -> Result<(), AgentFailure> {
        loop {
            let TurnInput { messages, stop } = inbox.collect(self.deadline());
            let mut inputs = Vec::with_capacity(messages.len() + 1);
            inputs.extend(self.opened.space.poll_change(clock::mono()).map(|free| Input::Space { free }));
            inputs.append(&mut self.next);
            for message in messages {
                match message {
                    ServerMessage::Input(input) => inputs.push(input),
                    ServerMessage::Call(call) => inputs.push(self.register(call)),
                    ServerMessage::Ping(answer) => {
                        // the watchdog waits for no answer that comes too late
                        let _ = answer.try_send(());
                    }
                }
            }
            if let Err(fault) = self.turn(inputs) {
                return Err(AgentFailure::of_server(&fault));
            }
            if stop {
                return Ok(());
            }
        }
    }

    fn turn(&mut self, inputs: Vec<Input>) -> Result<(), Fault> {
        let mut prepared = self.opened.server.prepare(clock::now(), inputs)?;
        std::mem::take(&mut prepared.early).into_iter().for_each(|effect| self.execute_effect(effect));
        let turn = self.opened.server.commit(prepared)?;
        self.execute(turn);
        Ok(())
    }

    fn deadline(&self) -> Option<Mono> {
        if !self.next.is_empty() {
            return Some(Mono::default());
        }
        self.opened.server.next_deadline().into_iter().chain(self.opened.space.deadline()).min()
    }

    fn register(&mut self, call: ServerCall) -> Input {
        self.next_token += 1;
        let token = self.next_token;
        let (caller, input) = match call {
            ServerCall::Write(action, reply) => (Caller::Write(reply), Input::Request { token, action }),
            ServerCall::ConfirmRead(reply) => (Caller::ConfirmRead(reply), Input::Read { token }),
            ServerCall::Forward(request, reply) => {
                (Caller::Forward(reply), Input::Forward { token, request })
            }
        };
        self.waiting.insert(token, caller);
        input
    }

    fn execute(&mut self, turn: Turn) {
        // workers that look at the state now see what was reserved for it
        self.channels.reservations.apply(&turn.reservations);
        self.opened.server.end_turn(clock::mono());
        let status = self.opened.server.status();
        let applied = status.applied_index;
        if *self.channels.service.status.get() != status {
            self.channels.service.status.set(status);
        }
        if turn.restored {
            self.channels.service.blocking_queries.restored(applied);
            self.channels.service.events.restored();
        }
        self.channels.service.blocking_queries.notify(applied, &turn.changes);
        self.channels.service.events.publish(turn.events);
        turn.effects.into_iter().for_each(|effect| self.execute_effect(effect));
    }

    fn execute_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, bytes } => self.send(to, bytes),
            Effect::SendSnapshot { to, message } => {
                let to = Peer::Server(to);
                self.channels.links.send(to, TrafficClass::Snapshots, record::encode(&message));
            }
            Effect::Reply { token, result } => {
                if let Some(Caller::Write(reply)) = self.waiting.remove(&token) {
                    reply.send(result);
                }
            }
            Effect::ReadConfirmed { token, confirmed } => {
                if let Some(Caller::ConfirmRead(reply)) = self.waiting.remove(&token) {
                    reply.send(confirmed);
                }
            }
            Effect::Forwarded { token, result } => {
                if let Some(Caller::Forward(reply)) = self.waiting.remove(&token) {
                    reply.send(result);
                }
            }
            Effect::Serve { serving, request, leader_only } => self.serve(serving, request, leader_only),
            Effect::MakeSigningKey => self.make_signing_key(),
            Effect::Schedule(task) => inbox::send_or_drop(&self.channels.workers, "an evaluation", *task),
        }
    }

    fn send(&self, to: Peer, bytes: Vec<u8>) {
        let class = match to {
            Peer::Server(_) => frame::traffic_class(&bytes),
            Peer::Node(_) => frame::traffic_class_of_node(&bytes),
        };
        match &self.channels.to_node {
            Some((own, inbox)) if to == Peer::Node(*own) => {
                let from = Peer::Server(self.opened.id());
                let frame = ClientMessage::Input(client::effects::Input::Frame { from, bytes });
                inbox::send_or_drop(inbox, "a frame to the node", frame);
            }
            _ => self.channels.links.send(to, class, bytes),
        }
    }

    /// A request of another server's user, or of a node's, is answered as this server's own are.
    fn serve(&self, serving: u64, request: Box<Request>, leader_only: bool) {
        let (service, to_self) = (self.channels.service.clone(), self.channels.to_self.clone());
        self.channels.service.spawn(async move {
            let response = service.serve(&request, leader_only).await.map(ForwardedResponse::from);
            // if it is lost, a deadline tells the user
            to_self.send_or_drop("an answer to be passed on", Input::Served { serving, response });
        });
    }

    /// Without randomness there is no key: the next leader asks again.
    fn make_signing_key(&mut self) {
        match keys::ed25519() {
            Ok((seed, public)) => self.next.push(Input::SigningKey { seed: Seed(seed), public }),
            Err(error) => tracing::error!(%error, "no signing key could be made"),
        }
    }
}
