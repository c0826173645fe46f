//! Connections for `ureq`: over TCP or a unix socket, with TLS where the address says `https`.
//!
//! Refuses to know: requests and answers. Every read and write has the deadline that `ureq` gives it.

use super::trust::Trust;
use ::io::tls::TlsSocket;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, TcpConnector, Transport,
    TransportAdapter,
};

/// The host of requests that go to a unix socket, for their header `Host`.
pub const UNIX_HOST: &str = "127.0.0.1";

#[derive(Debug)]
pub struct AgentConnector {
    pub trust: Arc<Trust>,
    /// Where requests to `UNIX_HOST` go.
    pub unix: Option<PathBuf>,
}

impl Connector<()> for AgentConnector {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let host = details.uri.host().unwrap_or_default();
        let buffers =
            || LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        if let Some(path) = self.unix.as_ref().filter(|_| host == UNIX_HOST && !details.needs_tls()) {
            let socket = UnixStream::connect(path)?;
            return Ok(Some(Box::new(UnixTransport { socket, buffers: buffers() })));
        }
        let Some(transport) = TcpConnector::default().connect(details, None::<()>)? else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Box::new(transport)));
        }
        let client = self.trust.client().map_err(io::Error::other)?;
        let transport: Box<dyn Transport> = Box::new(transport);
        let mut adapter = TransportAdapter::new(transport, details.current_time.clone());
        adapter.set_timeout(details.timeout);
        let socket = client.begin(host, adapter)?;
        Ok(Some(Box::new(TlsTransport { socket, buffers: buffers() })))
    }
}

struct TlsTransport {
    socket: TlsSocket<TransportAdapter>,
    buffers: LazyBuffers,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.socket.inner().set_timeout(timeout);
        self.socket.write_all(&self.buffers.output()[..amount])?;
        Ok(self.socket.flush()?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.socket.inner().set_timeout(timeout);
        let read = self.socket.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.socket.inner().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}

#[derive(Debug)]
struct UnixTransport {
    socket: UnixStream,
    buffers: LazyBuffers,
}

/// What a read or write came to, in `ureq`'s words.
fn within<T>(timeout: NextTimeout, done: io::Result<T>) -> Result<T, Error> {
    done.map_err(|e| match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(e),
    })
}

fn limit(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|limit| *limit)
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.socket.set_write_timeout(limit(timeout))?;
        within(timeout, self.socket.write_all(&self.buffers.output()[..amount]))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.socket.set_read_timeout(limit(timeout))?;
        let into = self.buffers.input_append_buf();
        let read = loop {
            match self.socket.read(into) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => break within(timeout, done)?,
            }
        };
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    /// Each request has a connection of its own.
    fn is_open(&mut self) -> bool {
        false
    }
}
