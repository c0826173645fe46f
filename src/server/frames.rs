//! What comes over the links to nodes and to other servers. A node asks any server: one that follows relays the request to the
//! leader, and the answer back, under the node's own number, and keeps nothing of it; so a change of leader reconnects no node.
//!
//! Refuses to know: what requests mean. What cannot be read, or is not for its sender to say, is dropped with a log line.

use super::Server;
use super::pending::Asker;
use model::id::NodeId;
use model::time::Mono;
use state::fault::Fault;
use wire::frame::{self, Body, Frame};
use wire::rpc::{NodeReply, NodeRequest, Peer};
use wire::server_rpc::{RemoteDecision, ServerReply, ServerRequest};

impl Server {
    pub(super) fn frame(&mut self, from: Peer, bytes: &[u8], now: Mono) -> Result<(), Fault> {
        let Frame { request, body } = match frame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(%from, %error, "dropped a frame");
                return Ok(());
            }
        };
        match (from, body) {
            (Peer::Node(node), Body::Request(asked)) => return self.asked_by_node(node, request, asked, now),
            (Peer::Server(_), Body::Raft(message)) => self.replica.receive(from, &message, now),
            (Peer::Server(server), Body::ServerRequest(asked)) => {
                return self.asked_by_server(server, request, asked, now);
            }
            (Peer::Server(server), Body::ServerReply(reply)) => {
                self.answered_by_server(server, request, reply, now);
            }
            (_, body) => {
                tracing::warn!(%from, kind = body.kind(), "dropped a frame that is not for its sender")
            }
        }
        Ok(())
    }

    fn asked_by_node(
        &mut self,
        node: NodeId,
        request: u64,
        asked: NodeRequest,
        now: Mono,
    ) -> Result<(), Fault> {
        let leader = self.other_leader();
        if self.leader.is_none()
            && let Some(leader) = leader
        {
            let body = Body::ServerRequest(ServerRequest::Node { node, request: asked });
            let (_, mut cx) = self.split(now);
            cx.send(Peer::Server(leader), frame::encode(&Frame { request, body }));
            return Ok(());
        }
        self.node_request(Asker { node, request, via: None }, asked, now)
    }

    /// Only a leader answers: what reaches another server goes no further.
    fn node_request(&mut self, asker: Asker, request: NodeRequest, now: Mono) -> Result<(), Fault> {
        let (leader, mut cx) = self.split(now);
        match leader {
            Some(leader) => leader.node_request(asker, request, &mut cx),
            None => {
                cx.answer(asker, NodeReply::NoLeader);
                Ok(())
            }
        }
    }

    fn asked_by_server(
        &mut self,
        server: u64,
        number: u64,
        asked: ServerRequest,
        now: Mono,
    ) -> Result<(), Fault> {
        match asked {
            ServerRequest::Node { node, request } => {
                return self.node_request(Asker { node, request: number, via: Some(server) }, request, now);
            }
            ServerRequest::Http(request) => {
                let leads = self.leader.is_some();
                self.with_forwarding(now, |all, cx| all.serve(server, number, request, leads, cx));
            }
            ServerRequest::Dequeue { free } => {
                return self.with_leader(now, |leader, _| {
                    leader.remote_workers.wait(server, number, free);
                    Ok(())
                });
            }
            ServerRequest::Clock { wall } => self.clock_told(server, wall, now),
            ServerRequest::Planned(said) => {
                let RemoteDecision { eval, token, result, is_split } = *said;
                let result = result.map(Box::new);
                return self.with_leader(now, |leader, cx| leader.planned(eval, token, result, is_split, cx));
            }
        }
        Ok(())
    }

    fn answered_by_server(&mut self, server: u64, number: u64, reply: ServerReply, now: Mono) {
        match reply {
            ServerReply::Node { node, reply } => {
                let (_, mut cx) = self.split(now);
                cx.answer(Asker { node, request: number, via: None }, reply);
            }
            ServerReply::Deliver { tasks } => {
                self.with_follower_workers(now, |all, _| all.delivered(server, number, tasks, now));
            }
            reply => self.with_forwarding(now, |all, cx| all.answered(server, number, reply, cx)),
        }
    }
}
