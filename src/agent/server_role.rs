//! The parts of an agent that is a server: its brain's thread, its scheduler workers, its links.
//!
//! Refuses to know: what the brain does.

use super::config::Config;
use super::failure::AgentFailure;
use super::http_service::HttpService;
use super::messages::ClientMessage;
use super::server_inbox::{ServerInboxReceiver, ServerInboxSender};
use super::server_loop::{OpenedServer, ServerChannels, ServerLoop};
use super::workers::{self, SharedReservations};
use super::{EndSender, Part, listeners, spawn, spawn_brain};
use ::io::quic::Endpoint;
use async_channel::{Receiver, Sender};
use model::id::NodeId;
use server::effects::ScheduleTask;
use state::store::Reader;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What a server is started with.
pub struct ServerParts<'a> {
    pub executor: &'a Arc<smol::Executor<'static>>,
    pub config: &'a Config,
    pub opened: OpenedServer,
    pub inbox: ServerInboxSender,
    /// The node of the same agent, if there is one.
    pub node: Option<(NodeId, Sender<ClientMessage>)>,
    /// Where it meets other machines. None: nowhere.
    pub sockets: Vec<UdpSocket>,
    pub service: &'a Arc<HttpService>,
    pub ended: EndSender,
}

/// Starts it. Returns what its links stand on, if it may have any.
pub fn start(
    parts: ServerParts<'_>,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<Option<Endpoint>, AgentFailure> {
    let ServerParts { executor, config, opened, inbox, node, sockets, service, ended } = parts;
    let count = config.server.num_schedulers;
    let (workers, tasks) = async_channel::bounded(count.max(1) as usize);
    let (id, reservations) = (opened.id(), Arc::default());
    threads.extend(start_workers(count, (&tasks, &inbox), &reservations, &opened.reader())?);
    let own = (id, node.as_ref().map(|(node, _)| *node));
    let endpoint = listeners::start_links(executor, config, sockets, (own, &inbox, service), ended.clone())?;
    let (service, links) = (service.clone(), service.relay_paths.links.clone());
    let channels =
        ServerChannels { to_self: inbox.clone(), to_node: node, links, workers, reservations, service };
    let server = ServerLoop::new(opened, channels);
    let receiver = ServerInboxReceiver::new(inbox);
    threads.push(spawn_brain(Part::Server, ended, move || server.run(&receiver))?);
    Ok(endpoint)
}

fn start_workers(
    count: u32,
    (tasks, results): (&Receiver<ScheduleTask>, &ServerInboxSender),
    reservations: &Arc<SharedReservations>,
    reader: &Reader,
) -> Result<Vec<JoinHandle<()>>, String> {
    let start = |n: u32| {
        let (tasks, results) = (tasks.clone(), results.clone());
        let (reservations, reader) = (reservations.clone(), reader.clone());
        let work = move || workers::run(&tasks, &results, &reservations, || reader.clone());
        spawn(&format!("scheduler-{n}"), work)
    };
    (0..count).map(start).collect()
}
