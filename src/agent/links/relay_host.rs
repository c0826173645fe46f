//! What becomes of the requests that other agents relay to this one: answered here, passed on to a node with a link of this server, or
//! refused (decision 0098).
//!
//! Refuses to know: what is asked. Invariants: a node speaks with its own server alone; what a server has relayed is answered here or goes
//! over one link more, to the node that is meant; requests under way are bounded.

use super::super::http_service::{HttpService, MAX_RELAYS};
use ::io::executor;
use ::io::quic::{RelayAsked, RelayNotOpened};
use model::id::NodeId;
use smol::Executor;
use smol::lock::Semaphore;
use std::sync::Arc;
use wire::relay::{RelayHeader, RelayRefusal};
use wire::rpc::Peer;

#[derive(Clone)]
pub struct RelayHost {
    executor: Arc<Executor<'static>>,
    service: Arc<HttpService>,
    /// What is answered here.
    server: Option<u64>,
    node: Option<NodeId>,
    places: Arc<Semaphore>,
}

/// What is to be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelayCourse {
    Answer {
        /// And not by asking another agent.
        here_only: bool,
    },
    PassOn,
    Refuse(RelayRefusal),
}

impl RelayHost {
    pub fn new(
        executor: Arc<Executor<'static>>,
        service: Arc<HttpService>,
        server: Option<u64>,
        node: Option<NodeId>,
    ) -> RelayHost {
        RelayHost { executor, service, server, node, places: Arc::new(Semaphore::new(MAX_RELAYS)) }
    }

    /// Beside what else there is to do.
    pub fn serve(&self, asked: RelayAsked) {
        let host = self.clone();
        executor::spawn(&self.executor, async move {
            let Some(_place) = host.places.try_acquire_arc() else {
                return asked.refuse(RelayRefusal::Busy).await;
            };
            match course((host.server, host.node), asked.from, asked.header) {
                RelayCourse::Answer { here_only } => {
                    if let Some(stream) = asked.take().await {
                        host.service.clone().serve_relayed(stream, here_only).await;
                    }
                }
                RelayCourse::PassOn => host.pass_on(asked).await,
                RelayCourse::Refuse(refusal) => asked.refuse(refusal).await,
            }
        })
        .detach();
    }

    async fn pass_on(&self, asked: RelayAsked) {
        let RelayHeader { to, hops } = asked.header;
        let Some(link) = self.service.relay_paths.links.get(to) else {
            return asked.refuse(RelayRefusal::NotHere).await;
        };
        match link.relay(RelayHeader { to, hops: hops.saturating_sub(1) }).await {
            Ok(other) => {
                if let Some(stream) = asked.take().await {
                    stream.join(other).await;
                }
            }
            Err(RelayNotOpened::Refused(refusal)) => asked.refuse(refusal).await,
            Err(RelayNotOpened::Silent) => asked.refuse(RelayRefusal::NotHere).await,
        }
    }
}

/// By who has asked whom. `own`: this agent's server and its node.
fn course(own: (Option<u64>, Option<NodeId>), from: Peer, asked: RelayHeader) -> RelayCourse {
    let is_own = match asked.to {
        Peer::Server(id) => own.0 == Some(id),
        Peer::Node(id) => own.1 == Some(id),
    };
    match (from, asked.to) {
        (Peer::Node(_), Peer::Server(_)) if is_own => RelayCourse::Answer { here_only: false },
        (Peer::Node(_), _) => RelayCourse::Refuse(RelayRefusal::WrongRole),
        (Peer::Server(_), _) if is_own => RelayCourse::Answer { here_only: true },
        (Peer::Server(_), Peer::Node(_)) if own.0.is_some() && asked.hops > 0 => RelayCourse::PassOn,
        (Peer::Server(_), _) => RelayCourse::Refuse(RelayRefusal::NotHere),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u128) -> NodeId {
        NodeId::from_random(n)
    }

    fn asked(to: Peer, hops: u8) -> RelayHeader {
        RelayHeader { to, hops }
    }

    const HERE: RelayCourse = RelayCourse::Answer { here_only: true };
    const NOT_HERE: RelayCourse = RelayCourse::Refuse(RelayRefusal::NotHere);
    const WRONG_ROLE: RelayCourse = RelayCourse::Refuse(RelayRefusal::WrongRole);

    #[test]
    fn a_server_answers_passes_on_once_and_refuses() {
        let own = (Some(1), Some(node(1)));
        let from = Peer::Server(2);
        for (to, hops, wanted) in [
            (Peer::Server(1), 0, HERE),
            (Peer::Node(node(1)), 0, HERE),
            (Peer::Node(node(1)), 9, HERE),
            (Peer::Node(node(2)), 1, RelayCourse::PassOn),
            (Peer::Node(node(2)), 0, NOT_HERE),
            (Peer::Server(3), 9, NOT_HERE),
        ] {
            assert_eq!(course(own, from, asked(to, hops)), wanted, "{to} {hops}");
        }
    }

    #[test]
    fn a_node_asks_its_own_server_and_nobody_else() {
        let own = (Some(1), Some(node(1)));
        let from = Peer::Node(node(2));
        for hops in [0, 2] {
            let answer = course(own, from, asked(Peer::Server(1), hops));
            assert_eq!(answer, RelayCourse::Answer { here_only: false });
            for to in [Peer::Server(3), Peer::Node(node(1)), Peer::Node(node(2)), Peer::Node(node(3))] {
                assert_eq!(course(own, from, asked(to, hops)), WRONG_ROLE, "{to}");
            }
        }
    }

    #[test]
    fn a_node_answers_for_itself_and_passes_nothing_on() {
        let own = (None, Some(node(1)));
        for hops in [0, 9] {
            assert_eq!(course(own, Peer::Server(2), asked(Peer::Node(node(1)), hops)), HERE);
            for to in [Peer::Server(2), Peer::Node(node(2))] {
                assert_eq!(course(own, Peer::Server(2), asked(to, hops)), NOT_HERE, "{to}");
            }
        }
    }
}
