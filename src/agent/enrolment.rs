//! How this machine becomes one of a region: it makes the region's key, as its first server, or is let in by a join token, once, before anything
//! of it is known there (decision 0096). What it has then is in its data directory, and from then on the token counts for nothing.
//!
//! Refuses to know: the protocol. Invariants: a machine that has an identity asks for none; a token that a server has refused for good is not
//! shown again.

use super::config::joining::{JoinAddress, ServerJoin};
use super::config::secret::Secret;
use super::config::{Config, files, region, values};
use super::data_dir::DataDir;
use super::failure::AgentFailure;
use super::links;
use super::signals::{Signal, Signals};
use super::stored_identity::IdentityFiles;
use super::supervisor;
use ::io::quic::{EnrolFailure, LinkIdentity, MachineKey, RegionKey, enrol};
use ::io::{clock, entropy};
use model::id::{NodeId, server_id};
use model::join_token::JoinRole;
use smol::future::or;
use smol::{Executor, Timer};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::bearer_token::BearerToken;
use wire::rpc::Peer;
use wire::stored_identity::{HiddenBytes, StoredIdentity};

/// What systemd is told to wait for at least: servers that do not answer take 20 s each.
const LONGEST_ROUND: Duration = Duration::from_secs(600);

/// What the key of a region follows from.
const REGION_SECRET_BYTES: usize = 32;

/// What has become of this machine, for whoever asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub region: String,
    pub role: JoinRole,
}

/// Makes the key of a region, of which this machine is a server then, for `drover server init`. The agent must not run.
pub fn init_region(data_dir: &Path, region: &str) -> Result<(), String> {
    let mut name = String::new();
    values::name(region, &mut name, &['\0']).map_err(|why| format!("the region's name: {why}"))?;
    let dir = DataDir::open(data_dir, false).map_err(|e| e.to_string())?;
    let files = new_identity(&dir)?;
    let secret = entropy::bytes::<REGION_SECRET_BYTES>()
        .map_err(|e| format!("the kernel gave no randomness for a key: {e}"))?;
    let failed = |e: std::io::Error| format!("the region's key: {e}");
    let (region_key, key) = (RegionKey::from_secret(&secret).map_err(failed)?, files.key()?);
    files.mark_founder_of(&region_key.public())?;
    files.store(&StoredIdentity {
        key: key.stored().clone(),
        credential: region_key.credential_for(&name, server_of(&key), key.public()),
        region_key: region_key.public(),
        region_secret: Some(HiddenBytes(secret.to_vec())),
    })
}

/// The region's first server is to found none any more.
pub fn region_has_begun(dir: &DataDir) -> Result<(), String> {
    IdentityFiles::in_data_dir(dir.root()).unmark_founder()
}

/// Where the machine keeps who it is. Refused if it is somebody already.
fn new_identity(dir: &DataDir) -> Result<IdentityFiles, String> {
    let files = IdentityFiles::in_data_dir(dir.root());
    let Some(known) = files.load()? else { return Ok(files) };
    let region = opened(&known, &files)?.region().to_string();
    Err(format!(
        "this machine has joined region {region:?} already: to make it another machine, remove {}",
        files.path().display()
    ))
}

/// Joins by a token at one address, for `drover join`. The agent must not run.
pub fn join(data_dir: &Path, token: &str, address: &str) -> Result<Joined, String> {
    let token = BearerToken::parse(token).map_err(|e| e.to_string())?;
    let address = JoinAddress::parse(address)?;
    let dir = DataDir::open(data_dir, false).map_err(|e| e.to_string())?;
    let files = new_identity(&dir)?;
    let asking = Asking::new(&dir, token)?;
    let executor = asking.executor.clone();
    let found = smol::block_on(executor.run(asking.round(&[address])));
    let identity = found.map_err(|failed| failed.sentence)?;
    files.store(&identity)?;
    Ok(Joined { region: asking.token.region, role: asking.token.role })
}

/// Completes the configuration with what this machine holds of its region. Without any, a join token that the configuration names is shown to
/// the servers that it names, until one of them lets the machine in.
pub fn complete(config: &mut Config, signals: &mut Signals) -> Result<(), AgentFailure> {
    let is_server = config.server.enabled;
    if is_server && config.server.encrypt.is_some() {
        return Ok(());
    }
    let role = if is_server { JoinRole::Server } else { JoinRole::Client };
    let join = if is_server { &config.server.join } else { &config.client.join };
    let Some(data_dir) = config.data_dir.clone() else {
        return match join.has_token() {
            false => missing_key(config),
            true => Err("a join token needs a data_dir, where the machine keeps who it is".into()),
        };
    };
    let files = IdentityFiles::in_data_dir(&data_dir);
    if let Some(exposure) = files.exposure() {
        tracing::warn!(target: "nomad", "{exposure}");
    }
    let identity = match files.load()? {
        Some(identity) => identity,
        None => {
            let Some(token) = token_of(join)? else { return missing_key(config) };
            check_token(&token, role, config)?;
            let dir = DataDir::open(&data_dir, false)?;
            let asking = Asking::new(&dir, token)?;
            let identity = smol::block_on(asking.executor.clone().run(asking.until_let_in(join, signals)))?;
            files.store(&identity)?;
            identity
        }
    };
    take(config, role, identity, &files)?;
    if role == JoinRole::Client {
        let dir = DataDir::open(&data_dir, false)?;
        node_identity(&dir, dir.identity()?.0)?;
    }
    Ok(())
}

/// The token that the configuration says, or names the file of.
fn token_of(join: &ServerJoin) -> Result<Option<BearerToken>, String> {
    let Some(path) = join.token_file.as_ref().filter(|_| join.token.is_none()) else {
        return Ok(join.token.clone());
    };
    let text = fs::read_to_string(path).map_err(|e| format!("join_token_file {}: {e}", path.display()))?;
    let token = BearerToken::parse(&text).map_err(|e| format!("join_token_file {}: {e}", path.display()))?;
    Ok(Some(token))
}

/// A server alone needs a key to be linked to others.
fn missing_key(config: &Config) -> Result<(), AgentFailure> {
    region::missing_key(config).map_or(Ok(()), |why| Err(why.into()))
}

/// Whether the agent would not start because it has nothing by which other servers know it.
pub fn lacks_identity(config: &Config) -> Option<String> {
    let is_joined = |dir: &Path| IdentityFiles::in_data_dir(dir).path().exists();
    let has_token = config.server.join.has_token() || config.client.join.has_token();
    let may_join = has_token || config.data_dir.as_deref().is_some_and(is_joined);
    region::missing_key(config).filter(|_| !may_join)
}

fn check_token(token: &BearerToken, role: JoinRole, config: &Config) -> Result<(), String> {
    if token.role != role {
        return Err(format!(
            "the join token is for a {}, and this agent is a {role}: make one with `drover token create -role {role}`",
            token.role
        ));
    }
    if token.region != config.region {
        return Err(format!(
            "the join token is of region {:?}, and the configuration says region = {:?}",
            token.region, config.region
        ));
    }
    Ok(())
}

fn take(
    config: &mut Config,
    role: JoinRole,
    identity: StoredIdentity,
    files: &IdentityFiles,
) -> Result<(), AgentFailure> {
    let link = opened(&identity, files)?;
    let path = files.path();
    if link.region() != config.region {
        let (joined, said) = (link.region(), &config.region);
        return Err(format!(
            "this machine has joined region {joined:?}, and the configuration says region = {said:?}"
        )
        .into());
    }
    match (role, link.peer(), identity.region_secret) {
        (JoinRole::Server, Peer::Server(_), Some(secret)) => {
            config.server.encrypt = Some(Secret::new(secret.0));
            config.server.founds = files.is_founder_of(&identity.region_key);
            // a server that was alone without a key has to be found by others now
            region::complete(config, &files::machine());
            region::problem(config).map_or(Ok(()), |why| Err(why.into()))
        }
        (JoinRole::Client, Peer::Node(_), _) => Ok(()),
        (_, peer, _) => {
            let joined = if matches!(peer, Peer::Node(_)) { JoinRole::Client } else { JoinRole::Server };
            Err(format!(
                "this machine has joined as a {joined}, and the agent is a {role}: remove {}, and join with a token for a {role}",
                path.display()
            )
            .into())
        }
    }
}

/// The identity for links, if it holds together.
fn opened(identity: &StoredIdentity, files: &IdentityFiles) -> Result<LinkIdentity, String> {
    LinkIdentity::from_stored(identity).map_err(|e| {
        let path = files.path();
        format!("{}: {e}: restore the file, or remove it and join once more with a new token", path.display())
    })
}

/// The identity of this node's links, if the machine has joined as one. Another node's identity is refused: the data directory was put
/// together from two machines' ones.
pub fn node_identity(dir: &DataDir, node: NodeId) -> Result<Option<LinkIdentity>, String> {
    let files = IdentityFiles::in_data_dir(dir.root());
    let Some(stored) = files.load()? else { return Ok(None) };
    let link = opened(&stored, &files)?;
    match link.peer() {
        Peer::Node(joined) if joined != node => Err(format!(
            "{}: it is the identity of node {joined}, and this node is {node}: restore the whole data directory of one machine, or remove the \
             file and join once more with a new token",
            files.path().display()
        )),
        Peer::Node(_) => Ok(Some(link)),
        Peer::Server(_) => Ok(None),
    }
}

/// The peer that a server's credential on the disk names: its raft id is chosen with its log, later. A region knows by it who asks again.
fn server_of(key: &MachineKey) -> Peer {
    let [a, b, c, d, e, f, g, h, ..] = key.public();
    Peer::Server(server_id(u64::from_le_bytes([a, b, c, d, e, f, g, h])))
}

struct Asking {
    executor: Arc<Executor<'static>>,
    token: BearerToken,
    machine: Peer,
    key: MachineKey,
}

/// Nobody has let the machine in.
struct RoundFailure {
    /// A server has heard the token, and will never let the machine in with it.
    is_final: bool,
    sentence: String,
}

impl Asking {
    fn new(dir: &DataDir, token: BearerToken) -> Result<Asking, String> {
        let key = IdentityFiles::in_data_dir(dir.root()).key()?;
        let machine = match token.role {
            JoinRole::Client => Peer::Node(dir.identity()?.0),
            JoinRole::Server => server_of(&key),
        };
        Ok(Asking { executor: Arc::new(Executor::new()), token, machine, key })
    }

    async fn until_let_in(
        &self,
        join: &ServerJoin,
        signals: &mut Signals,
    ) -> Result<StoredIdentity, AgentFailure> {
        let addresses: Vec<JoinAddress> = join.addresses().cloned().collect();
        if addresses.is_empty() {
            return Err(
                "a join token needs servers to show it to: say server_join { retry_join = [\"...\"] }".into(),
            );
        }
        let mut rounds = 0;
        loop {
            rounds += 1;
            supervisor::starting(clock::duration(join.retry_interval) + LONGEST_ROUND);
            let asked = async { Some(self.round(&addresses).await) };
            let Some(found) = or(asked, stopped(signals)).await else { return Err(stopped_by_signal()) };
            let RoundFailure { is_final, sentence } = match found {
                Ok(identity) => {
                    tracing::info!(target: "nomad", region = self.token.region, role = %self.token.role, "this machine has joined");
                    return Ok(identity);
                }
                Err(failed) => failed,
            };
            if is_final || join.retry_max > 0 && rounds >= join.retry_max {
                return Err(sentence.into());
            }
            tracing::warn!(target: "nomad", why = sentence, "this machine has not joined yet");
            let wait = async {
                Timer::after(clock::duration(join.retry_interval)).await;
                Some(())
            };
            if or(wait, stopped(signals)).await.is_none() {
                return Err(stopped_by_signal());
            }
        }
    }

    /// Asks at each address, until a server lets the machine in, or will never do so.
    async fn round(&self, addresses: &[JoinAddress]) -> Result<StoredIdentity, RoundFailure> {
        let mut failures = vec![];
        for address in addresses {
            let resolved = match links::addresses_of(address).await {
                Ok(resolved) => resolved,
                Err(why) => {
                    failures.push(format!("{address}: {why}"));
                    continue;
                }
            };
            for at in resolved {
                match enrol(&self.executor, at, &self.token, self.machine, &self.key).await {
                    Ok(identity) => return Ok(identity),
                    Err(why @ EnrolFailure::Refused(_)) if why.is_final() => {
                        return Err(RoundFailure { is_final: true, sentence: format!("{at}: {why}") });
                    }
                    Err(why) => {
                        tracing::info!(target: "nomad", address = %at, %why, "this server has not let the machine in");
                        failures.push(format!("{at}: {why}"));
                    }
                }
            }
        }
        Err(RoundFailure { is_final: false, sentence: failures.join("; ") })
    }
}

/// `None` once the agent is to stop. There is nothing to reload yet.
async fn stopped<T>(signals: &mut Signals) -> Option<T> {
    while signals.next().await != Signal::Stop {}
    None
}

fn stopped_by_signal() -> AgentFailure {
    "stopped before a server has let this machine in".into()
}

#[cfg(test)]
#[path = "enrolment_tests.rs"]
mod tests;
