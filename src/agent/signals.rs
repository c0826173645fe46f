//! The signals that the agent obeys.

use async_signal::Signals as Stream;
use smol::stream::StreamExt;
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

pub struct Signals(Stream);

impl Signals {
    pub fn new() -> io::Result<Signals> {
        use async_signal::Signal::{Hup, Int, Term};
        Stream::new([Term, Int, Hup]).map(Signals)
    }

    pub async fn next(&mut self) -> Signal {
        loop {
            match self.0.next().await {
                Some(Ok(async_signal::Signal::Hup)) => return Signal::Reload,
                Some(Ok(_)) => return Signal::Stop,
                Some(Err(error)) => tracing::warn!(%error, "a signal could not be read"),
                None => std::future::pending().await,
            }
        }
    }
}
