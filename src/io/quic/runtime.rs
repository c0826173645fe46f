//! What quinn needs of an async runtime, on the agent's own executor: timers, tasks and a UDP socket.
//!
//! Refuses to know: what is sent. Invariant: a datagram is read into a buffer of one datagram; the kernel is not asked to join
//! several (GRO), for which quinn would keep 64 times as much memory.

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};
use smol::{Async, Executor, Timer};
use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// The kernel's number, which libc does not name for every target.
const UDP_GRO: libc::c_int = 104;

#[derive(Debug)]
pub struct ExecutorRuntime(pub Arc<Executor<'static>>);

impl Runtime for ExecutorRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(DeadlineTimer(Timer::at(at)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(future).detach();
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(DatagramSocket::new(socket)?))
    }
}

#[derive(Debug)]
struct DeadlineTimer(Timer);

impl AsyncTimer for DeadlineTimer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.0.set_at(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(|_| ())
    }
}

#[derive(Debug)]
struct DatagramSocket {
    socket: Async<UdpSocket>,
    state: UdpSocketState,
}

impl DatagramSocket {
    fn new(socket: UdpSocket) -> io::Result<DatagramSocket> {
        let state = UdpSocketState::new((&socket).into())?;
        disable_gro(&socket)?;
        Ok(DatagramSocket { socket: Async::new(socket)?, state })
    }
}

/// A kernel without GRO knows no such option, and has nothing to turn off.
fn disable_gro(socket: &UdpSocket) -> io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed, and the kernel reads one int from `off`, which outlives
    // the call
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_UDP,
            UDP_GRO,
            (&raw const off).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
            error => Err(error),
        },
    }
}

/// Nothing to read, or what the kernel heard of a datagram that was sent earlier: the socket is as good as before.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}

impl AsyncUdpSocket for DatagramSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(WritePoller { socket: self, waiting: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.state.send((&self.socket).into(), transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_readable(cx))?;
            match self.state.recv((&self.socket).into(), buffers, meta) {
                Err(error) if passes(&error) => {}
                received => return Poll::Ready(received),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

type Writable = Pin<Box<dyn Future<Output = io::Result<()>> + Send + Sync>>;

struct WritePoller {
    socket: Arc<DatagramSocket>,
    waiting: Option<Writable>,
}

impl fmt::Debug for WritePoller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritePoller").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl UdpPoller for WritePoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = self.socket.clone();
        let waiting =
            self.waiting.get_or_insert_with(|| Box::pin(async move { socket.socket.writable().await }));
        let writable = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(writable)
    }
}
