//! Messages to the thread of the client's brain.

use super::http_service::server_call::ForwardCall;
use ::io::client_rpc::GrantRequest;
use ::io::keeper_connection::KeeperNotice;
use async_channel::Sender;

pub enum ClientMessage {
    Input(client::effects::Input),
    Keeper(KeeperNotice),
    Grant(GrantRequest),
    /// A user of an agent without a server asks what a server has to answer.
    Forward(ForwardCall),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
}
