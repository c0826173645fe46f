//! What the agent listens on: its HTTP API, and the UDP port of its server. Both are bound before anything else, so that a taken port
//! leaves nothing behind.
//!
//! Refuses to know: what is said there.

use super::Part;
use super::config::Config;
use super::failure::AgentFailure;
use super::http_service::HttpService;
use super::links::{self, Enroller, LinkParts, LinkSender};
use super::server_inbox::ServerInboxSender;
use ::io::http::{HttpLimits, HttpSettings, Published};
use ::io::quic::{Endpoint, RegionKey};
use ::io::{entropy, executor};
use async_channel::Sender;
use smol::Executor;
use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
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
pub fn http_settings(config: &Config) -> HttpSettings {
    HttpSettings {
        response_headers: Published::new(response_headers(config)),
        limits: Published::new(limits(config)),
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
    (own, inbox, sender, service): (u64, &ServerInboxSender, &LinkSender, &Arc<HttpService>),
    ended: Sender<(Part, Result<(), AgentFailure>)>,
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
        join: config.server.join.clone(),
        seed: entropy::u64().map_err(named)?,
        inbox: inbox.clone(),
        sender: sender.clone(),
        status: service.status.clone(),
        enroller: Enroller::new(
            executor.clone(),
            service.clone(),
            config.region.clone(),
            (key, secret.clone()),
        ),
    };
    let run = async move {
        let result = links::run(parts).await;
        // there is room for each part; without a receiver the agent ends already
        let _ = ended.try_send((Part::Links, result));
    };
    executor::spawn(executor, run).detach();
    Ok(Some(endpoint))
}
