//! Messages over the links to nodes and to other servers. A node asks any server: one that follows relays the request to the
//! leader, and the answer back, under the node's own number, and keeps nothing of it; so a change of leader reconnects no node.
//!
//! Refuses to know: what requests mean. What cannot be read, or is not for its sender to say, is dropped with a log line.

use super::Server;
use super::effects::Effect;
use super::feature_level::rejected_too_old;
use super::membership::notify_removed;
use super::pending::Asker;
use model::id::{NodeId, Uuid};
use model::time::Mono;
use state::fault::Fault;
use wire::frame::{self, Body, Frame};
use wire::rpc::{NodeReply, NodeRequest, Peer};
use wire::server_rpc::{RemoteDecision, ServerReply, ServerRequest};
use wire::snapshot::SnapshotMessage;

impl Server {
    pub(super) fn frame(&mut self, from: Peer, bytes: &[u8], now: Mono) -> Result<(), Fault> {
        let read = match from {
            Peer::Node(_) => frame::decode(bytes).map(|frame| (Uuid::default(), frame)),
            Peer::Server(_) => frame::split_region(bytes)
                .and_then(|(region, bytes)| frame::decode(bytes).map(|frame| (region, frame))),
        };
        let (region, Frame { request, body }) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%from, %error, "dropped a frame");
                return Ok(());
            }
        };
        if let Peer::Server(server) = from
            && !self.accepts(server, region, request, &body)
        {
            return Ok(());
        }
        match (from, body) {
            (Peer::Node(node), Body::Request(asked)) => {
                return self.handle_node_request(node, request, asked, now);
            }
            (Peer::Node(node), Body::HttpRequest(asked)) => {
                return self.handle_user_request(node, request, asked, now);
            }
            (Peer::Server(_), Body::Raft(message) | Body::Append(message)) => {
                self.replica.receive(from, &message, now, self.disk.is_free)
            }
            (Peer::Server(server), Body::ServerRequest(asked)) => {
                return self.handle_server_request(server, request, asked, now);
            }
            (Peer::Server(server), Body::ServerReply(reply)) => {
                return self.handle_server_reply(server, request, reply, now);
            }
            (_, body) => {
                tracing::warn!(%from, kind = body.kind(), "dropped a frame that is not for its sender")
            }
        }
        Ok(())
    }

    /// Whether a frame is accepted. Until both servers are of one region, they may only say hello and announce themselves.
    fn accepts(&mut self, server: u64, region: Uuid, request: u64, body: &Body) -> bool {
        let (own, none) = (self.region(), Uuid::default());
        let meets =
            matches!(body, Body::ServerRequest(ServerRequest::Hello(_) | ServerRequest::Announce { .. }));
        if region != own && region != none && own != none {
            tracing::warn!(
                server,
                "dropped a frame of region {region}: this server belongs to region {own}; stop the servers of one of \
                 them, and start them with empty data directories"
            );
            return false;
        }
        if (region != own || own == none) && !meets {
            tracing::debug!(
                server,
                kind = body.kind(),
                "dropped a frame that comes before a region is known"
            );
            return false;
        }
        if self.has_removed(server) {
            let is_reply = matches!(body, Body::ServerReply(_));
            if !is_reply {
                notify_removed(server, request, &mut self.outbox);
            }
            return false;
        }
        // a server that the region has removed serves its own users alone, who may wait for replies of other servers
        !self.joining.is_removed || matches!(body, Body::ServerReply(_))
    }

    /// Whether the region has removed that server, as far as this one has applied.
    fn has_removed(&self, server: u64) -> bool {
        !self.replica.raft().members().contains(server) && self.replica.members().is_removed(server)
    }

    /// Marks frames to other servers with the region of this one.
    pub(super) fn mark_region(&self, effects: &mut [Effect]) {
        for effect in effects {
            if let Effect::Send { to: Peer::Server(_), bytes } = effect {
                *bytes = frame::with_region(self.region(), bytes);
            }
        }
    }

    /// Takes a message of another server about a snapshot. One that was removed is told so when it says anything else.
    pub(super) fn snapshot(&mut self, from: u64, message: SnapshotMessage, now: Mono) -> Result<(), Fault> {
        if self.has_removed(from) {
            return Ok(());
        }
        if let SnapshotMessage::Offer(offer) = &message
            && (offer.region_id != self.region() || self.joining.is_removed)
        {
            tracing::warn!(from, "dropped a snapshot of region {}", offer.region_id);
            return Ok(());
        }
        self.replica.receive_snapshot(from, message, now, self.disk.is_free)
    }

    fn handle_node_request(
        &mut self,
        node: NodeId,
        request: u64,
        asked: NodeRequest,
        now: Mono,
    ) -> Result<(), Fault> {
        let leader = self.other_leader();
        if self.leadership.leader().is_none()
            && let Some(leader) = leader
        {
            self.forwarding.of_nodes.relayed(node, request, (leader, self.replica.raft().term()));
            let body = Body::ServerRequest(ServerRequest::Node { node, request: asked });
            self.outbox.effect(Effect::server_frame(leader, request, body));
            return Ok(());
        }
        self.node_request(Asker { node, request, via: None }, asked, now)
    }

    /// Nodes whose requests another leader had are told to ask again.
    pub(super) fn answer_lost_requests(&mut self, now: Mono) {
        let raft = self.replica.raft();
        let leader = raft.leader().map(|leader| (leader, raft.term()));
        if let Some((leader, _)) = leader {
            self.forwarding.leader_known(leader, now);
        }
        let lost = self.forwarding.of_nodes.take_lost(leader);
        let (_, mut cx) = self.split(now);
        for (node, request) in lost {
            cx.answer(Asker { node, request, via: None }, NodeReply::NoLeader);
        }
    }

    /// Only a leader answers: what was relayed to another server is not relayed again.
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

    fn handle_server_request(
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
                let leads = self.leadership.leader().is_some();
                self.with_forwarding(now, |all, cx| {
                    all.serve(Peer::Server(server), number, request, leads, cx)
                });
            }
            ServerRequest::Dequeue { free, enabled } => {
                return self.with_leader(now, |leader, _| {
                    leader.remote_workers.wait(server, number, free, enabled);
                    Ok(())
                });
            }
            ServerRequest::Hello(said) => {
                let (parts, mut cx) = self.parts(now);
                if let Some(founding) = parts.joining.hello(server, *said, &mut cx) {
                    return self.found(&founding, now);
                }
            }
            ServerRequest::Announce { id, info } => {
                let (parts, mut cx) = self.parts(now);
                let leader = parts.leader.map(|leader| &mut leader.membership);
                parts.joining.announced(server, id, *info, leader, &mut cx);
            }
            ServerRequest::Clock { wall } => {
                let leads = self.leadership.leader().is_some();
                self.clocks.receive_time(server, wall, leads, &mut self.replica, now);
            }
            ServerRequest::Planned(said) => {
                let RemoteDecision { eval, token, result, is_split } = *said;
                let result = result.map(Box::new);
                return self.with_leader(now, |leader, cx| leader.planned(eval, token, result, is_split, cx));
            }
        }
        Ok(())
    }

    fn handle_server_reply(
        &mut self,
        server: u64,
        number: u64,
        reply: ServerReply,
        now: Mono,
    ) -> Result<(), Fault> {
        match reply {
            ServerReply::Node { node, reply } => {
                self.forwarding.of_nodes.answered(node, number);
                let (_, mut cx) = self.split(now);
                cx.answer(Asker { node, request: number, via: None }, reply);
            }
            ServerReply::Deliver { tasks } => {
                self.with_follower_workers(now, |all, _| all.delivered(server, number, tasks, now));
            }
            ServerReply::Removed => {
                self.joining.removed(&mut self.replica);
                // the removed server did nothing, whatever it was asked
                self.with_forwarding(now, |all, cx| {
                    all.answered(server, number, ServerReply::NotLeader, cx);
                });
            }
            ServerReply::TooOld { level } => return rejected_too_old(level, self.config.info.feature_level),
            reply => self.with_forwarding(now, |all, cx| all.answered(server, number, reply, cx)),
        }
        Ok(())
    }
}
