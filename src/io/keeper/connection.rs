//! One connection to the keeper: framed commands in, framed events out, both bounded.
//!
//! Refuses to know: what is said. On the socket each message is a length (4 bytes, little endian) and a record.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use wire::keeper::{Event, KeeperCommand, MAX_MESSAGE_BYTES};
use wire::record;

const LENGTH_BYTES: usize = 4;
/// A client that lets this much pile up is cut off; it asks again when it is back.
const MAX_UNSENT_BYTES: usize = 4 << 20;
/// The most descriptors that one message carries.
pub const MAX_FDS: usize = 3;
const READ_BYTES: usize = 64 << 10;

pub struct ClientConnection {
    stream: UnixStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// Close once the outbox is empty.
    pub closing: bool,
}

/// Why a connection ends.
#[derive(Debug)]
pub enum ConnectionEnd {
    Closed,
    /// A sentence for the peer.
    Protocol(String),
}

impl ClientConnection {
    /// Takes a connection of this user or root; others get nothing.
    pub fn accept(stream: UnixStream) -> io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        stream.set_nonblocking(true)?;
        Ok(ClientConnection { stream, inbox: Vec::new(), outbox: Vec::new(), closing: false })
    }

    /// One read's worth of commands.
    pub fn receive(&mut self) -> Result<Vec<KeeperCommand>, ConnectionEnd> {
        let mut buffer = [0u8; 4096];
        while self.inbox.len() < READ_BYTES.max(self.wanted()) {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ConnectionEnd::Closed),
                Ok(n) => self.inbox.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Err(ConnectionEnd::Closed),
            }
        }
        self.parse()
    }

    /// Bytes that the first message needs.
    fn wanted(&self) -> usize {
        let length = self.inbox.first_chunk::<LENGTH_BYTES>().map_or(0, |l| u32::from_le_bytes(*l) as usize);
        LENGTH_BYTES + length.min(MAX_MESSAGE_BYTES)
    }

    fn parse(&mut self) -> Result<Vec<KeeperCommand>, ConnectionEnd> {
        let mut commands = Vec::new();
        let mut at = 0;
        while let Some((length, rest)) = self.inbox[at..].split_first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MAX_MESSAGE_BYTES {
                return Err(ConnectionEnd::Protocol(format!(
                    "a message of {length} bytes; {MAX_MESSAGE_BYTES} are allowed"
                )));
            }
            let Some(message) = rest.get(..length) else { break };
            commands.push(record::decode(message).map_err(|e| ConnectionEnd::Protocol(e.to_string()))?);
            at += LENGTH_BYTES + length;
        }
        self.inbox.drain(..at);
        self.inbox.shrink_to(READ_BYTES);
        Ok(commands)
    }

    /// Queues; `false` when the client reads too slowly to be kept.
    pub fn send(&mut self, event: &Event) -> bool {
        let message = record::encode(event);
        if message.len() > MAX_MESSAGE_BYTES || self.outbox.len() + message.len() > MAX_UNSENT_BYTES {
            return false;
        }
        self.outbox.extend_from_slice(&(message.len() as u32).to_le_bytes());
        self.outbox.extend_from_slice(&message);
        true
    }

    /// Sends an event together with descriptors, before anything else is said.
    pub fn hand_over(&mut self, event: &Event, fds: &[OwnedFd]) -> io::Result<()> {
        if !self.flush()? {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let message = record::encode(event);
        let bytes = [&(message.len() as u32).to_le_bytes(), message.as_slice()].concat();
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::Error::other("more descriptors than fit"));
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        self.outbox.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Writes what the socket takes. `Ok(true)`: nothing is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.outbox.len() {
            match self.stream.write(&self.outbox[sent..]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        self.outbox.drain(..sent);
        if self.outbox.is_empty() {
            self.outbox = Vec::new();
        }
        Ok(self.outbox.is_empty())
    }
}

impl AsFd for ClientConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::keeper::PROTOCOL;

    fn pair() -> (ClientConnection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        (ClientConnection::accept(ours).expect("same user"), theirs)
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&(message.len() as u32).to_le_bytes(), message].concat()
    }

    #[test]
    fn commands_arrive_whole_however_they_are_cut() {
        let (mut client, mut peer) = pair();
        let hello = KeeperCommand::Hello { protocol: PROTOCOL };
        let bytes = [framed(&record::encode(&hello)), framed(&record::encode(&KeeperCommand::List))].concat();
        let mut got = Vec::new();
        for byte in bytes {
            peer.write_all(&[byte]).expect("write");
            got.extend(client.receive().expect("receive"));
        }
        assert_eq!(got, [hello, KeeperCommand::List]);
        drop(peer);
        assert!(matches!(client.receive(), Err(ConnectionEnd::Closed)));
    }

    #[test]
    fn malformed_frames_end_the_connection_with_a_reason() {
        for bytes in [framed(b"\xffnonsense"), u32::MAX.to_le_bytes().to_vec(), framed(b"")] {
            let (mut client, mut peer) = pair();
            peer.write_all(&bytes).expect("write");
            assert!(matches!(client.receive(), Err(ConnectionEnd::Protocol(_))), "{bytes:?}");
        }
    }

    #[test]
    fn a_client_that_does_not_read_is_cut_off() {
        let (mut client, _peer) = pair();
        let event = Event::Refused { run: None, message: "x".repeat(1000) };
        let sent = (0..10_000).take_while(|_| client.send(&event) && client.flush().is_ok()).count();
        assert!((1000..10_000).contains(&sent), "{sent}");
    }
}
