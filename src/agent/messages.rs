//! What reaches the threads of the two brains. Neither loop knows the other: both know these messages.

use super::http_service::Ask;
use ::io::keeper_link::Notice;
use ::io::node::Question;
use async_channel::Sender;

pub enum ServerMessage {
    Input(server::effects::Input),
    Ask(Ask),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
    Stop,
}

pub enum ClientMessage {
    Input(client::effects::Input),
    Keeper(Notice),
    Question(Question),
    /// Answered: the thread is alive.
    Ping(Sender<()>),
}
