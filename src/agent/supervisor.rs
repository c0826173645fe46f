//! Notifications to systemd: the agent is ready, alive, or stopping. Without systemd they do nothing. Also the environment variables that
//! systemd sets for the agent alone: tasks do not inherit them.

use super::messages::ClientMessage;
use super::server_inbox::{ServerInboxSender, ServerMessage};
use async_channel::Sender;
use sd_notify::NotifyState;
use smol::future::or;
use std::ffi::OsString;
use std::time::Duration;

/// The agent runs as a service of systemd, so the keeper is started as a service, too.
pub fn is_systemd() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// Set by systemd for the agent's process (systemd.exec(5)). A task that inherited them would send notifications in
/// the agent's name, or serve the agent's watchdog.
const AGENT_ONLY_VARIABLES: &[&str] = &[
    "CACHE_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "FDSTORE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LOGS_DIRECTORY",
    "MAINPID",
    "MANAGERPID",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "NOTIFY_SOCKET",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// The agent's environment as tasks may inherit it. What is no UTF-8 is left out.
pub fn environment_for_tasks(own: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    own.filter_map(text).filter(|(name, _)| !AGENT_ONLY_VARIABLES.contains(&name.as_str())).collect()
}

pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The start goes on, and takes up to so long from now.
pub fn starting(limit: Duration) {
    let micros = u32::try_from(limit.as_micros()).unwrap_or(u32::MAX);
    notify(&[NotifyState::ExtendTimeoutUsec(micros)]);
}

pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd could not be told");
    }
}

/// Tells the watchdog that the agent is alive, as long as its brains answer. When one hangs, systemd restarts the agent.
pub async fn watchdog(server: Option<ServerInboxSender>, client: Option<Sender<ClientMessage>>) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let pause = limit / 3;
    loop {
        smol::Timer::after(pause).await;
        let (to_server, server_answers) = async_channel::bounded(1);
        let (to_client, client_answers) = async_channel::bounded::<()>(1);
        // a brain that there is none of answers by its channel's end
        let asked = server.as_ref().is_none_or(|server| server.send(ServerMessage::Ping(to_server)).is_ok())
            && client.as_ref().is_none_or(|client| client.try_send(ClientMessage::Ping(to_client)).is_ok());
        let answered = async {
            // so does one that has ended: its end is reported elsewhere
            let _ = server_answers.recv().await;
            let _ = client_answers.recv().await; // the same
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn tasks_inherit_what_is_not_about_the_agent() {
        let own = [
            ("PATH", b"/bin".to_vec()),
            ("NOTIFY_SOCKET", b"/run/x".to_vec()),
            ("WATCHDOG_USEC", b"1".to_vec()),
            ("LATIN", vec![0xe9]),
        ];
        let own = own.map(|(name, value)| (OsString::from(name), OsString::from_vec(value)));
        assert_eq!(environment_for_tasks(own.into_iter()), [("PATH".to_string(), "/bin".to_string())]);
    }
}
