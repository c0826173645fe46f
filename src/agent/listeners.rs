//! What the agent listens on: its HTTP API, and the UDP port of its server. Both are bound before anything else, so that a taken port
//! leaves nothing behind.
//!
//! Refuses to know: what is said there.

use super::config::{Config, region};
use super::data_dir::DataDir;
use super::enrolment;
use super::failure::AgentFailure;
use super::http_service::HttpService;
use super::https::https;
use super::links::node_links::{self, NodeLinkParts, NodeLinkSender};
use super::links::server_links::{self, LinkParts};
use super::links::{Enroller, RelayHost};
use super::messages::ClientMessage;
use super::server_inbox::ServerInboxSender;
use super::{EndSender, Part};
use ::io::http::{HttpLimits, HttpSettings, Published};
use ::io::quic::{Endpoint, LinkIdentity, RegionKey};
use ::io::{entropy, executor};
use async_channel::{Receiver, Sender};
use model::id::NodeId;
use smol::Executor;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use wire::rpc::Peer;

pub fn http(config: &Config) -> Result<Vec<TcpListener>, String> {
    let bind = |ip: &IpAddr| {
        let address = SocketAddr::new(*ip, config.http.port);
        TcpListener::bind(address).map_err(|e| not_bound(address, "ports.http", &e))
    };
    config.http.addresses.iter().map(bind).collect()
}

/// What the API's listeners go by.
pub fn http_settings(config: &Config) -> Result<HttpSettings, String> {
    Ok(HttpSettings {
        response_headers: Published::new(response_headers(config)),
        limits: Published::new(limits(config)),
        https: https(config)?.map(Published::new),
    })
}

/// Takes over what may change while the agent runs. A certificate that cannot be used leaves the one in use.
pub fn reload_http(settings: &HttpSettings, config: &Config) {
    settings.response_headers.set(response_headers(config));
    settings.limits.set(limits(config));
    let Some(in_use) = &settings.https else { return };
    match https(config) {
        Ok(Some(read_again)) => in_use.set(read_again),
        // whether HTTPS is spoken at all takes a restart, as the log says
        Ok(None) => {}
        Err(why) => tracing::error!(why, "the certificate is not reloaded: the one in use stays"),
    }
}

pub fn response_headers(config: &Config) -> Vec<(String, String)> {
    config.http.response_headers.clone().into_iter().collect()
}

pub fn limits(config: &Config) -> HttpLimits {
    HttpLimits { per_address: config.http.max_conns_per_client as usize, ..HttpLimits::default() }
}

/// None without a key: nobody could be known there.
pub fn rpc(config: &Config) -> Result<Vec<UdpSocket>, String> {
    if !config.server.enabled || config.server.encrypt.is_none() {
        return Ok(vec![]);
    }
    let bind = |ip: &IpAddr| {
        let address = SocketAddr::new(*ip, config.rpc.port);
        UdpSocket::bind(address).map_err(|e| not_bound(address, "ports.rpc", &e))
    };
    config.rpc.addresses.iter().map(bind).collect()
}

fn not_bound(address: SocketAddr, key: &str, error: &Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => {
            format!("{address} is in use: another agent may be running; stop it or choose another {key}")
        }
        _ => format!("{address}: {error}"),
    }
}

/// Begins to link this server to the others. `None`: the configuration has no key for that.
pub fn start_links(
    executor: &Arc<Executor<'static>>,
    config: &Config,
    sockets: Vec<UdpSocket>,
    ((own, own_node), inbox, service): ((u64, Option<NodeId>), &ServerInboxSender, &Arc<HttpService>),
    ended: EndSender,
) -> Result<Option<Endpoint>, AgentFailure> {
    let Some(secret) = config.server.encrypt.as_ref().filter(|_| !sockets.is_empty()) else {
        return Ok(None);
    };
    let own_addresses = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
    let named = |e: Error| format!("links to other servers: {e}");
    let key = RegionKey::from_secret(secret.bytes()).map_err(named)?;
    let identity = key.identity(&config.region, Peer::Server(own)).map_err(named)?;
    let (endpoint, events) = Endpoint::new(executor.clone(), sockets, identity).map_err(named)?;
    let parts = LinkParts {
        executor: executor.clone(),
        endpoint: endpoint.clone(),
        events,
        own_addresses,
        own,
        own_node,
        join: config.server.join.clone(),
        seed: entropy::u64().map_err(named)?,
        inbox: inbox.clone(),
        sender: service.relay_paths.links.clone(),
        status: service.status.clone(),
        enroller: Enroller::new(
            executor.clone(),
            service.clone(),
            config.region.clone(),
            (key, secret.clone()),
        ),
        relay_host: RelayHost::new(executor.clone(), service.clone(), Some(own), own_node),
    };
    let run = async move {
        let result = server_links::run(parts).await;
        // there is room for each part; without a receiver the agent ends already
        let _ = ended.try_send((Part::Links, result));
    };
    executor::spawn(executor, run).detach();
    Ok(Some(endpoint))
}

/// Begins to link this node to servers.
pub fn start_node_links(
    executor: &Arc<Executor<'static>>,
    (config, dir): (&Config, &DataDir),
    node: NodeId,
    ((sender, woken), inbox, service): (
        (NodeLinkSender, Receiver<()>),
        Sender<ClientMessage>,
        &Arc<HttpService>,
    ),
    ended: EndSender,
) -> Result<Endpoint, AgentFailure> {
    let named = |e: Error| format!("links to servers: {e}");
    let identity = match enrolment::node_identity(dir, node)? {
        Some(stored) => stored,
        None => node_identity_of_secret(config, node)?,
    };
    let sockets = dialing_sockets().map_err(named)?;
    let (endpoint, events) = Endpoint::dialing_only(executor.clone(), sockets, identity).map_err(named)?;
    let parts = NodeLinkParts {
        executor: executor.clone(),
        endpoint: endpoint.clone(),
        events,
        join: config.client.join.clone(),
        seed: entropy::u64().map_err(named)?,
        inbox,
        sender,
        woken,
        relay_host: RelayHost::new(executor.clone(), service.clone(), None, Some(node)),
    };
    let run = async move {
        let result = node_links::run(parts).await;
        // there is room for each part; without a receiver the agent ends already
        let _ = ended.try_send((Part::Links, result));
    };
    executor::spawn(executor, run).detach();
    Ok(endpoint)
}

/// A node that holds the servers' key, as Nomad's nodes hold `encrypt`, needs no token.
fn node_identity_of_secret(config: &Config, node: NodeId) -> Result<LinkIdentity, String> {
    let secret = config.server.encrypt.as_ref().ok_or_else(|| region::NODE_WITHOUT_KEY.to_string())?;
    let key = RegionKey::from_secret(secret.bytes()).map_err(|e| format!("links to servers: {e}"))?;
    key.identity(&config.region, Peer::Node(node)).map_err(|e| format!("links to servers: {e}"))
}

/// A node dials from any port, and nobody dials it. Not every machine has IPv6.
fn dialing_sockets() -> Result<Vec<UdpSocket>, Error> {
    let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    Ok([v4].into_iter().chain(UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))).collect())
}
