//! Messages to the thread of the client's brain.

use ::io::client_rpc::GrantRequest;
use ::io::keeper_connection::KeeperNotice;
use async_channel::Sender;

pub enum ClientMessage {
    Input(client::effects::Input),
    Keeper(KeeperNotice),
    Grant(GrantRequest),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
}
