//! What reaches the threads of the two brains. Neither loop knows the other: both know these messages.

use super::http_service::server_call::ServerCall;
use ::io::client_rpc::GrantRequest;
use ::io::keeper_connection::KeeperNotice;
use async_channel::Sender;

pub enum ServerMessage {
    Input(server::effects::Input),
    Call(ServerCall),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
    Stop,
}

pub enum ClientMessage {
    Input(client::effects::Input),
    Keeper(KeeperNotice),
    Question(GrantRequest),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
}
