//! A machine that wants to be let in, on its way to whoever decides.
//!
//! Refuses to know: connections.

use async_channel::Sender;
use std::net::SocketAddr;
use wire::enrolment::{EnrolAnswer, EnrolRequest};

/// A machine that has shown a token, and waits to hear whether it is let in.
pub struct Enrolment {
    pub source: SocketAddr,
    pub request: EnrolRequest,
    /// The key that the machine has proved.
    pub key: [u8; 32],
    reply: Sender<EnrolAnswer>,
}

impl Enrolment {
    pub fn new(
        source: SocketAddr,
        request: EnrolRequest,
        key: [u8; 32],
        reply: Sender<EnrolAnswer>,
    ) -> Enrolment {
        Enrolment { source, request, key, reply }
    }

    pub fn answer(self, answer: EnrolAnswer) {
        // a machine that has waited too long is gone: it asks again
        let _ = self.reply.try_send(answer);
    }
}
