//! Addresses of servers as people write them, and how often they are tried.
//!
//! Refuses to know: which machine a name is. That is found out each time it is dialled.

use super::Advertised;
use super::values::advertise;
use model::time::Span;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use wire::bearer_token::BearerToken;

/// Where servers meet, unless `ports.rpc` says otherwise.
pub const DEFAULT_PORT: u16 = 4647;
/// Addresses that one role of an agent may be told: a region has fewer servers, and each may have several names.
const MAX_ADDRESSES: usize = 32;
/// The longest name that DNS knows.
const MAX_HOST_BYTES: usize = 253;

/// Where a server may be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAddress {
    /// A name in lower case, or an IP address without brackets.
    pub host: String,
    pub port: u16,
}

/// The servers to ask, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerJoin {
    /// Tried again and again until one of them answers.
    pub retry_join: Vec<JoinAddress>,
    /// Tried once, at the start.
    pub start_join: Vec<JoinAddress>,
    /// Rounds without an answer after which a server that has no region gives up; 0: none.
    pub retry_max: u32,
    pub retry_interval: Span,
    /// What lets a machine in that no server knows yet.
    pub token: Option<BearerToken>,
    /// Where that is written.
    pub token_file: Option<PathBuf>,
}

impl JoinAddress {
    /// `host`, `host:port`, an IP address, `[v6]:port`.
    pub fn parse(text: &str) -> Result<JoinAddress, String> {
        if text.contains("provider=") || text.contains("exec=") {
            return Err(
                "not supported yet: cloud auto-join; write the servers' names or addresses".to_string()
            );
        }
        let Advertised { host, port } = advertise(text.trim())?;
        if host.len() > MAX_HOST_BYTES {
            return Err(format!("a host's name has at most {MAX_HOST_BYTES} bytes"));
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let host = match bare.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
            Ok(ip) if cannot_be_one_server(ip) => {
                return Err(format!("{text:?} is no server's address: write the one that it listens on"));
            }
            Ok(ip) => ip.to_string(),
            Err(_) if bare.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                return Err(format!("{text:?} is neither an IP address nor a host's name"));
            }
            Err(_) => bare.to_ascii_lowercase(),
        };
        Ok(JoinAddress { host, port: port.unwrap_or(DEFAULT_PORT) })
    }

    /// `None`: the host is a name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

fn cannot_be_one_server(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    ip.is_unspecified() || ip.is_multicast() || broadcast
}

/// `host:port`, an IPv6 address in brackets.
impl fmt::Display for JoinAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl ServerJoin {
    pub fn add_retry_join(&mut self, text: &str) -> Result<(), String> {
        let total = self.count();
        add(&mut self.retry_join, total, text)
    }

    pub fn add_start_join(&mut self, text: &str) -> Result<(), String> {
        let total = self.count();
        add(&mut self.start_join, total, text)
    }

    /// All addresses, those to be tried again first. One that stands in both lists comes twice.
    pub fn addresses(&self) -> impl Iterator<Item = &JoinAddress> {
        self.retry_join.iter().chain(&self.start_join)
    }

    pub fn has_token(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    pub fn retain(&mut self, keeps: impl Fn(&JoinAddress) -> bool) {
        self.retry_join.retain(&keeps);
        self.start_join.retain(&keeps);
    }

    fn count(&self) -> usize {
        self.addresses().count()
    }
}

/// The same address said twice is one.
fn add(list: &mut Vec<JoinAddress>, total: usize, text: &str) -> Result<(), String> {
    let address = JoinAddress::parse(text)?;
    if list.contains(&address) {
        return Ok(());
    }
    if total >= MAX_ADDRESSES {
        return Err(format!("at most {MAX_ADDRESSES} addresses of servers may be named"));
    }
    list.push(address);
    Ok(())
}
