//! How a machine that has nothing but a join token becomes one of the region, and how a server lets it in: a connection of a protocol of its
//! own, on which the server proves first that it is of the token's region, and only then is shown the token's secret (decision 0096).
//!
//! Refuses to know: which tokens are good. That the region says, through whoever takes the endpoint's events. Invariants: the secret is sent to
//! nobody who has not shown the credential of a server of the token's region under the key that it proved; messages, waits and attempts are bounded.

use super::enrolment_request::Enrolment;
use super::handshake::{established, refuse, within};
use super::identity::{LinkIdentity, digest, opened};
use super::link::{LinkEnd, LinkEvent};
use super::machine_key::MachineKey;
use super::runtime::ExecutorRuntime;
use super::tls;
use super::transport::{HANDSHAKE_TIMEOUT, SERVER_NAME, enrolling};
use super::wrong_tokens::WrongTokens;
use async_channel::Sender;
use quinn::{Connection, EndpointConfig, RecvStream, SendStream, VarInt};
use smol::Executor;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;
use wire::bearer_token::BearerToken;
use wire::credential::{Credential, LinkRefusal};
use wire::enrolment::{EnrolAnswer, EnrolHello, EnrolRequest, EnrolWelcome, MAX_MESSAGE_BYTES};
use wire::record::{self, Record};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::stored_identity::StoredIdentity;

/// Why a machine was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnrolFailure {
    Link(LinkEnd),
    /// The server has heard the token.
    Refused(Refusal),
    /// The server is not of the token's region, or has no proof of it.
    NotOfTokensRegion,
    /// What the server says is not what its region may say.
    Malformed,
}

impl EnrolFailure {
    /// Asking again, or asking another server, leads to the same.
    pub fn is_final(&self) -> bool {
        match self {
            EnrolFailure::Refused(refusal) => {
                !matches!(refusal.kind, RefusalKind::Busy | RefusalKind::Unavailable)
            }
            _ => false,
        }
    }
}

impl fmt::Display for EnrolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnrolFailure::Link(end) => write!(f, "{end}"),
            EnrolFailure::Refused(refusal) => write!(f, "{refusal}"),
            EnrolFailure::NotOfTokensRegion => f.write_str(
                "who answers there has not shown that it is a server of the token's region: it was not shown the token",
            ),
            EnrolFailure::Malformed => {
                f.write_str("what the server answers cannot be read: check the address, and that both builds are of one age")
            }
        }
    }
}

impl From<LinkRefusal> for EnrolFailure {
    fn from(refusal: LinkRefusal) -> EnrolFailure {
        EnrolFailure::Link(LinkEnd::Closed(refusal))
    }
}

/// Shows the token to the server at an address, as the machine that has the key.
pub async fn enrol(
    executor: &Arc<Executor<'static>>,
    address: SocketAddr,
    token: &BearerToken,
    machine: Peer,
    key: &MachineKey,
) -> Result<StoredIdentity, EnrolFailure> {
    let failed = |why: String| EnrolFailure::Link(LinkEnd::Failed(why));
    let socket = UdpSocket::bind(any_port(address)).map_err(|e| failed(e.to_string()))?;
    let runtime = Arc::new(ExecutorRuntime(executor.clone()));
    let quic = quinn::Endpoint::new(EndpointConfig::default(), None, socket, runtime)
        .map_err(|e| failed(e.to_string()))?;
    let config = enrolling(key).map_err(|e| failed(e.to_string()))?;
    let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
    let connecting = quic.connect_with(config, address, SERVER_NAME).map_err(|e| failed(e.to_string()))?;
    let connection = established(connecting, deadline).await.map_err(EnrolFailure::Link)?;
    let asked = within(deadline, ask(&connection, token, machine, key), LinkRefusal::TooSlow.into());
    let found = asked.await.map_err(|why| match (why, connection.close_reason()) {
        // its own reason counts
        (EnrolFailure::Malformed, Some(error)) => EnrolFailure::Link(LinkEnd::from(error)),
        (why, _) => why,
    });
    let code = found.as_ref().err().map_or(0, |_| LinkRefusal::Malformed.code());
    connection.close(VarInt::from_u32(code), b"");
    quic.wait_idle().await;
    found
}

fn any_port(towards: SocketAddr) -> SocketAddr {
    match towards.ip().is_ipv4() {
        true => (Ipv4Addr::UNSPECIFIED, 0).into(),
        false => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

async fn ask(
    connection: &Connection,
    token: &BearerToken,
    machine: Peer,
    key: &MachineKey,
) -> Result<StoredIdentity, EnrolFailure> {
    let (mut to, mut from) = connection.open_bi().await.map_err(|_| EnrolFailure::Malformed)?;
    send(&mut to, &EnrolHello { region_key_digest: token.region_key_digest }).await?;
    let welcome: EnrolWelcome = receive(&mut from).await?;
    let proved = tls::proved_key(connection).ok_or(EnrolFailure::Malformed)?;
    check_server(&welcome, token, &proved)?;
    let request = EnrolRequest { token: token.id, secret: token.secret, machine };
    send(&mut to, &request).await?;
    // whoever has closed the stream already says why
    let _ = to.finish();
    match receive(&mut from).await? {
        EnrolAnswer::Refused(refusal) => Err(EnrolFailure::Refused(refusal)),
        EnrolAnswer::Enrolled { credential, region_secret } => {
            let wanted = Credential { region: token.region.clone(), peer: machine, key: key.public() };
            if opened(&credential, &welcome.region_key) != Ok(wanted) {
                return Err(EnrolFailure::Malformed);
            }
            let key = key.stored().clone();
            Ok(StoredIdentity { key, credential, region_key: welcome.region_key, region_secret })
        }
    }
}

/// Whether the other side is a server of the token's region, and has the key that its credential names.
fn check_server(welcome: &EnrolWelcome, token: &BearerToken, proved: &[u8; 32]) -> Result<(), EnrolFailure> {
    if digest(&welcome.region_key) != token.region_key_digest {
        return Err(EnrolFailure::NotOfTokensRegion);
    }
    match opened(&welcome.credential, &welcome.region_key) {
        Ok(Credential { region, peer: Peer::Server(_), key }) if key == *proved && region == token.region => {
            Ok(())
        }
        _ => Err(EnrolFailure::NotOfTokensRegion),
    }
}

/// Lets a machine in, if the region says so. `events`: where it is asked.
pub async fn serve(
    connection: &Connection,
    own: &LinkIdentity,
    wrong: &WrongTokens,
    events: &Sender<LinkEvent>,
    deadline: Instant,
) -> Result<(), LinkEnd> {
    let source = connection.remote_address();
    if !wrong.may_try(source.ip(), Instant::now()) {
        return Err(refuse(connection, LinkRefusal::TooManyAttempts));
    }
    let answered = within(deadline, answer(connection, own, wrong, events), LinkRefusal::TooSlow.into());
    match answered.await {
        Ok(true) => Ok(()),
        Ok(false) => Err(LinkEnd::Closed(LinkRefusal::TokenRefused)),
        Err(EnrolFailure::Link(LinkEnd::Closed(refusal))) => Err(refuse(connection, refusal)),
        Err(_) => Err(match connection.close_reason() {
            Some(error) => LinkEnd::from(error),
            None => refuse(connection, LinkRefusal::Malformed),
        }),
    }
}

/// Whether the machine was let in.
async fn answer(
    connection: &Connection,
    own: &LinkIdentity,
    wrong: &WrongTokens,
    events: &Sender<LinkEvent>,
) -> Result<bool, EnrolFailure> {
    let (mut to, mut from) = connection.accept_bi().await.map_err(|_| EnrolFailure::Malformed)?;
    let hello: EnrolHello = receive(&mut from).await?;
    if !matches!(own.peer(), Peer::Server(_)) {
        return Err(LinkRefusal::LetsNobodyIn.into());
    }
    if hello.region_key_digest != digest(&own.region_key()) {
        return Err(LinkRefusal::TokenOfOtherRegion.into());
    }
    let welcome = EnrolWelcome { credential: own.shown().to_vec(), region_key: own.region_key() };
    send(&mut to, &welcome).await?;
    let request: EnrolRequest = receive(&mut from).await?;
    let key = tls::proved_key(connection).ok_or(EnrolFailure::Malformed)?;
    let (reply, answered) = async_channel::bounded(1);
    let asked = Enrolment::new(connection.remote_address(), request, key, reply);
    let busy = || Refusal::new(RefusalKind::Unavailable, "the server is stopping: ask another one");
    let answer = match events.send(LinkEvent::Enrol(asked)).await {
        Ok(()) => answered.recv().await.unwrap_or_else(|_| EnrolAnswer::Refused(busy())),
        Err(_) => EnrolAnswer::Refused(busy()),
    };
    let is_let_in = matches!(answer, EnrolAnswer::Enrolled { .. });
    if matches!(&answer, EnrolAnswer::Refused(refusal) if refusal.kind == RefusalKind::Forbidden) {
        wrong.was_wrong(connection.remote_address().ip(), Instant::now());
    }
    send(&mut to, &answer.bounded()).await?;
    // whoever has closed the stream has gone
    let _ = to.finish();
    // until the machine has it
    connection.closed().await;
    Ok(is_let_in)
}

async fn send<R: Record>(to: &mut SendStream, message: &R) -> Result<(), EnrolFailure> {
    let bytes = record::encode(message);
    assert!(bytes.len() <= MAX_MESSAGE_BYTES, "{}: what is sent is bounded", R::NAME);
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes();
    to.write_all(&[length.as_slice(), &bytes].concat()).await.map_err(|_| EnrolFailure::Malformed)
}

async fn receive<R: Record>(from: &mut RecvStream) -> Result<R, EnrolFailure> {
    let mut length = [0; 2];
    from.read_exact(&mut length).await.map_err(|_| EnrolFailure::Malformed)?;
    let length = usize::from(u16::from_le_bytes(length));
    if length > MAX_MESSAGE_BYTES {
        return Err(EnrolFailure::Malformed);
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).await.map_err(|_| EnrolFailure::Malformed)?;
    record::decode(&bytes).map_err(|_| EnrolFailure::Malformed)
}

/// The protocol that was agreed on is the one for machines that the region does not know.
pub fn is_asked_for(connection: &Connection) -> bool {
    tls::protocol(connection).as_deref() == Some(tls::ENROLMENT)
}
