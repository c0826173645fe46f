//! The server's inbox, shared between the threads that send and the one that takes its turns: the brain's own lanes
//! (`server::inbox`) behind a lock, and a thread that is woken.
//!
//! Refuses to know: what is in the lanes, and how large they are.

use super::http_service::server_call::{NotSent, ServerCall};
use super::inbox;
use ::io::clock;
use async_channel::Sender;
use model::time::Mono;
use server::effects::Input;
use server::inbox::{Inbox, InboxMessage, Lane};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

pub enum ServerMessage {
    Input(Input),
    Call(ServerCall),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
}

impl InboxMessage for ServerMessage {
    fn lane(&self) -> Lane {
        match self {
            ServerMessage::Input(input) => input.lane(),
            ServerMessage::Call(_) => Lane::Users,
            ServerMessage::Ping(_) => Lane::Own,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            ServerMessage::Input(input) => input.bytes(),
            ServerMessage::Call(ServerCall::Forward(request, _)) => request.body.len(),
            ServerMessage::Call(_) | ServerMessage::Ping(_) => 0,
        }
    }

    fn must_arrive(&self) -> bool {
        match self {
            ServerMessage::Input(input) => input.must_arrive(),
            ServerMessage::Call(_) | ServerMessage::Ping(_) => false,
        }
    }
}

#[derive(Default)]
struct Shared {
    inbox: Inbox<ServerMessage>,
    /// The thread to wake.
    reader: Option<Thread>,
    is_stopping: bool,
    is_closed: bool,
}

#[derive(Clone, Default)]
pub struct ServerInboxSender(Arc<Mutex<Shared>>);

impl ServerInboxSender {
    pub fn send(&self, message: ServerMessage) -> Result<(), NotSent> {
        let mut shared = self.lock();
        if shared.is_closed {
            return Err(NotSent::Closed);
        }
        let sent = shared.inbox.push(message).map_err(|_| NotSent::Full);
        wake(shared);
        sent
    }

    /// Sends what may be lost.
    pub fn send_or_drop(&self, what: &str, input: Input) {
        if self.send(ServerMessage::Input(input)) == Err(NotSent::Full) {
            tracing::warn!("lost {what}: the server's inbox is full");
        }
    }

    /// Ends the server after the inputs that are queued so far.
    pub fn stop(&self) {
        let mut shared = self.lock();
        shared.is_stopping = true;
        wake(shared);
    }

    /// A push is done or not: a poisoned lock can be used.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the reader, after the lock is released, which the reader is about to take.
fn wake(shared: MutexGuard<'_, Shared>) {
    let reader = shared.reader.clone();
    drop(shared);
    if let Some(reader) = reader {
        reader.unpark();
    }
}

/// The input of a turn.
pub struct TurnInput {
    pub messages: Vec<ServerMessage>,
    /// This is to be the last turn.
    pub stop: bool,
}

/// The reading end. When it is dropped nothing can be sent any more, and what was not read is gone.
pub struct ServerInboxReceiver(ServerInboxSender);

impl ServerInboxReceiver {
    pub fn new(sender: ServerInboxSender) -> ServerInboxReceiver {
        ServerInboxReceiver(sender)
    }

    /// Waits until something is there or the deadline has come, and takes what a turn takes.
    pub fn collect(&self, deadline: Option<Mono>) -> TurnInput {
        self.0.lock().reader = Some(thread::current());
        loop {
            let mut shared = self.0.lock();
            let is_due = deadline.is_some_and(|at| at <= clock::mono());
            if !shared.inbox.is_empty() || shared.is_stopping || is_due {
                let messages = shared.inbox.take_turn();
                return TurnInput { messages, stop: shared.is_stopping && shared.inbox.is_empty() };
            }
            drop(shared);
            inbox::park(deadline);
        }
    }
}

impl Drop for ServerInboxReceiver {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.is_closed = true;
        let unread = std::mem::take(&mut shared.inbox);
        drop(shared);
        // tells callers that nobody knows
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::time::Span;

    fn read(token: u64) -> ServerMessage {
        ServerMessage::Input(Input::Read { token })
    }

    fn tokens(of: TurnInput) -> Vec<u64> {
        let token = |message| match message {
            ServerMessage::Input(Input::Read { token }) => token,
            _ => panic!("a read"),
        };
        of.messages.into_iter().map(token).collect()
    }

    #[test]
    fn the_reader_wakes_for_messages_a_deadline_and_the_end() {
        let sender = ServerInboxSender::default();
        let receiver = ServerInboxReceiver::new(sender.clone());
        let soon = clock::mono().after(Span::millis(20));
        assert!(receiver.collect(Some(soon)).messages.is_empty());
        assert!(clock::mono() >= soon, "not before the deadline");
        thread::scope(|scope| {
            scope.spawn(|| [1, 2].map(|n| sender.send(read(n))));
            let mut got = vec![];
            while got.len() < 2 {
                got.extend(tokens(receiver.collect(None)));
            }
            assert_eq!(got, [1, 2]);
        });
        thread::scope(|scope| {
            scope.spawn(|| sender.stop());
            assert!(receiver.collect(None).stop);
        });
    }

    #[test]
    fn a_full_lane_and_a_closed_inbox_refuse_inputs() {
        let sender = ServerInboxSender::default();
        let receiver = ServerInboxReceiver::new(sender.clone());
        let mut sent = 0;
        while sender.send(read(sent)).is_ok() {
            sent += 1;
        }
        assert_eq!(sender.send(read(0)), Err(NotSent::Full));
        let (ping, answer) = async_channel::bounded(1);
        assert_eq!(sender.send(ServerMessage::Ping(ping)), Ok(()), "another lane");
        sender.stop();
        let first = receiver.collect(None);
        assert!(!first.stop && (first.messages.len() as u64) < sent, "what has come is taken first");
        while !receiver.collect(None).stop {}
        drop(first);
        assert!(answer.is_closed(), "whoever pings learns that nobody answered");
        assert_eq!(sender.send(read(0)), Ok(()));
        drop(receiver);
        assert_eq!(sender.send(read(0)), Err(NotSent::Closed));
    }
}
