//! Links between machines: QUIC over one UDP port, both sides known by keys and by the region's signature, a stream for each class of
//! traffic (decision 0093), and one for each request that is relayed (decision 0098).
//!
//! Refuses to know: raft, requests, and which links there should be. Invariants: nobody is believed to be a machine of the region who
//! has not shown its credential; queues, handshakes, messages and time are bounded.

mod admission;
mod endpoint;
mod enrolment;
mod enrolment_request;
mod handshake;
mod identity;
mod lanes;
mod link;
mod machine_key;
mod refusal_log;
mod relay_stream;
mod runtime;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod wrong_tokens;

pub use endpoint::Endpoint;
pub use enrolment::{EnrolFailure, enrol};
pub use enrolment_request::Enrolment;
pub use identity::{LinkIdentity, RegionKey, digest};
pub use link::{Link, LinkEnd, LinkEvent, LinkId, LinkTraffic};
pub use machine_key::MachineKey;
pub use relay_stream::{RelayAsked, RelayBroken, RelayNotOpened, RelayReceiver, RelaySender, RelayStream};
pub use transport::HANDSHAKE_TIMEOUT;
