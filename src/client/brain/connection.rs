//! The connection to a server: messages that come over it, and requests of this agent's users that are sent over it.
//!
//! Refuses to know: what messages and requests mean.

use super::Client;
use crate::effects::PendingEffects;
use crate::forwarding::Caller;
use model::time::{Mono, Now};
use state::client_store::WriteBatch;
use wire::frame::{self, Body, Frame};
use wire::http::{NodeHttpRequest, Request};
use wire::rpc::Peer;

impl Client {
    /// Takes an answer; any other frame is dropped.
    pub(super) fn frame(
        &mut self,
        now: Now,
        from: Peer,
        bytes: &[u8],
        effects: &mut PendingEffects,
        writes: &mut WriteBatch,
    ) {
        match frame::decode(bytes) {
            Ok(Frame { request, body: Body::Reply(reply) }) => {
                let server_updates =
                    self.servers.receive(from, request, reply, now.mono, &self.config, &mut self.random);
                self.apply_server_updates(now, server_updates, writes);
            }
            Ok(Frame { request, body: Body::HttpReply(reply) }) => {
                self.user_requests.answered(from, request, reply, effects);
            }
            _ => {}
        }
    }

    /// Passes a request on; a node that servers do not know yet has no server to ask.
    pub(super) fn forward(
        &mut self,
        caller: Caller,
        request: Request,
        now: Mono,
        effects: &mut PendingEffects,
    ) {
        let asked = NodeHttpRequest { node: self.config.node, secret: self.config.secret, request };
        let to = self.servers.known().current().filter(|_| self.servers.registered());
        let number = self.servers.take_number();
        self.user_requests.forward(caller, asked, to, number, now, effects);
    }

    /// What was under way on an earlier connection is asked again on this one.
    pub(super) fn link_up(&mut self, now: Now, server: u64, writes: &mut WriteBatch) {
        let server_updates = self.servers.link_up(server, now.mono);
        self.apply_server_updates(now, server_updates, writes);
    }

    /// Answers the users' requests at once. The node's own are sent again when they are overdue, or to another server.
    pub(super) fn link_down(&mut self, server: u64, effects: &mut PendingEffects) {
        self.user_requests.link_down(server, effects);
        self.servers.link_down(server);
    }
}
