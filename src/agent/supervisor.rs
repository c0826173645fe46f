//! What systemd is told: that the agent is up, that it is alive, that it stops. Without systemd, nobody is told.

use super::{client_loop, server_loop};
use async_channel::Sender;
use sd_notify::NotifyState;
use smol::future::or;
use std::time::Duration;

/// The agent runs as a service of systemd's: the keeper then is one of its own.
pub fn is_systemd() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

pub fn ready() {
    notify(&[NotifyState::Ready]);
}

pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd could not be told");
    }
}

/// Tells the watchdog that the agent is alive, as long as both brains answer. A brain that hangs lets it bite.
pub async fn watchdog(server: Sender<server_loop::Mail>, client: Sender<client_loop::Mail>) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let pause = limit / 3;
    loop {
        smol::Timer::after(pause).await;
        let (ping, server_answers) = async_channel::bounded(1);
        let (pong, client_answers) = async_channel::bounded::<()>(1);
        let asked = server.try_send(server_loop::Mail::Ping(ping)).is_ok()
            && client.try_send(client_loop::Mail::Ping(pong)).is_ok();
        let answered = async {
            server_answers.recv().await.unwrap_or_default();
            client_answers.recv().await.unwrap_or_default();
            true
        };
        if asked && or(answered, late(pause)).await {
            notify(&[NotifyState::Watchdog]);
        } else {
            tracing::error!("a brain does not answer: the watchdog is not fed");
        }
    }
}

async fn late(after: Duration) -> bool {
    smol::Timer::after(after).await;
    false
}
