//! Requests that are relayed: those of this agent's users, which another agent is to answer, and those of other agents' users (decision 0098).
//!
//! Refuses to know: which links there are. Invariants: what is relayed is bounded in number, and its answer in bytes; each wait but that
//! for the next piece of a followed answer has an end; who leaves ends the stream, and the stream's end is the answer's.

use super::{HttpService, Origin};
use ::io::client_rpc::ExecSession;
use ::io::http::{Answer, Bytes};
use ::io::quic::{RelayBroken, RelayReceiver, RelaySender, RelayStream};
use api::RelayTarget;
use api::response::Response;
use async_channel::{Receiver, Sender};
use smol::Timer;
use smol::future::or;
use std::sync::Arc;
use std::time::Duration;
use wire::client_rpc::{SessionInput, SessionOutput};
use wire::frame::MAX_SENT_BYTES;
use wire::http::{Method, Request};
use wire::record::Record;
use wire::relay::{RelayedAnswer, RelayedRequest};
use wire::request::{Refusal, RefusalKind};

/// Requests that are relayed from here, and again as many that come from others.
pub const MAX_RELAYS: usize = 1024;
/// How long the other agent may take for an answer, or for the beginning of one without an end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request may take to come whole.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// What waits of a session for its other side.
const SESSION_WORDS: usize = 4;

impl HttpService {
    /// The other agent's answer to a user of this one.
    pub(super) async fn relay(&self, to: RelayTarget, request: Request) -> Answer {
        let Some(place) = self.relays_out.try_acquire_arc() else {
            let why = "too many requests are relayed to other agents already: close some, or try again later";
            return Answer::Whole(Refusal::new(RefusalKind::Busy, why).into());
        };
        let asked = async {
            let stream = self.relay_paths.open(to).await?;
            self.ask(stream, request).await
        };
        match asked.await {
            Ok((RelayedAnswer::Whole(response), _)) => Answer::Whole(response.into()),
            Ok((RelayedAnswer::Stream { content_type }, mut stream)) => {
                stream.sender.finish();
                let (pieces, chunks) = async_channel::bounded(1);
                self.spawn(async move {
                    pass_pieces(stream.receiver, pieces).await;
                    drop(place);
                });
                Answer::Stream { headers: vec![("Content-Type", content_type)], chunks }
            }
            Ok((RelayedAnswer::Session, stream)) => {
                let (input, words) = async_channel::bounded(SESSION_WORDS);
                let (answers, output) = async_channel::bounded(SESSION_WORDS);
                self.spawn(async move {
                    let RelayStream { sender, receiver } = stream;
                    or(say(sender, words), hear_output(receiver, answers)).await;
                    drop(place);
                });
                Answer::Session(ExecSession { input, output })
            }
            Err(refusal) => Answer::Whole(refusal.into()),
        }
    }

    /// Answers another agent's user. `here_only`: another server has relayed it, so this agent relays it to nobody.
    pub async fn serve_relayed(self: Arc<Self>, mut stream: RelayStream, here_only: bool) {
        let late = async {
            Timer::after(REQUEST_TIMEOUT).await;
            Err(RelayBroken)
        };
        let asked = or(stream.receiver.receive(MAX_SENT_BYTES), late).await;
        let Ok(RelayedRequest(request)) = asked else { return };
        let is_read = matches!(request.method, Method::Get | Method::Head);
        let left = stream.sender.left();
        let gone = async {
            left.await;
            // a write is done even if nobody waits for its answer
            if !is_read {
                std::future::pending::<()>().await;
            }
            None
        };
        let origin = if here_only { Origin::Relayed } else { Origin::User };
        let answered = async { Some(self.answer_relayed(&request, origin).await) };
        if let Some(answer) = or(answered, gone).await {
            // who has left needs no answer
            let _ = reply(stream, answer).await;
        }
    }

    async fn answer_relayed(self: &Arc<Self>, request: &Request, origin: Origin) -> Answer {
        if !api::may_be_relayed(request) {
            let why = format!("{} is not relayed to another agent: ask that agent itself", request.path);
            return Answer::Whole(Response::text(403, why));
        }
        Box::pin(self.answer(request, origin)).await.unwrap_or_else(Answer::Whole)
    }

    async fn ask(
        &self,
        mut stream: RelayStream,
        request: Request,
    ) -> Result<(RelayedAnswer, RelayStream), Refusal> {
        let lost = match request.method {
            Method::Get | Method::Head => "the connection to the other agent broke off: ask again",
            _ => {
                "the connection to the other agent broke off; what was asked may have been done: look before you repeat it"
            }
        };
        let answered = async {
            stream.sender.send(&RelayedRequest(request)).await?;
            stream.receiver.receive(MAX_SENT_BYTES).await
        };
        let late = async {
            Timer::after(ANSWER_TIMEOUT).await;
            Err(RelayBroken)
        };
        match or(answered, late).await {
            Ok(answer) => Ok((answer, stream)),
            Err(RelayBroken) => Err(Refusal::new(RefusalKind::Unavailable, lost)),
        }
    }
}

async fn reply(stream: RelayStream, answer: Answer) -> Result<(), RelayBroken> {
    let RelayStream { mut sender, receiver } = stream;
    match answer {
        Answer::Whole(response) => {
            let response = match response.body.len() < MAX_SENT_BYTES / 2 {
                true => response,
                false => Response::text(500, "the answer is too long to be relayed: ask for less of it"),
            };
            sender.send(&RelayedAnswer::Whole(response.into())).await?;
            sender.finish();
        }
        Answer::Stream { headers, chunks } => {
            let content_type = headers.into_iter().find(|(name, _)| *name == "Content-Type");
            let content_type = content_type.map(|(_, value)| value).unwrap_or_default();
            sender.send(&RelayedAnswer::Stream { content_type }).await?;
            let left = sender.left();
            or(send_pieces(sender, chunks), left).await;
        }
        Answer::Session(ExecSession { input, output }) => {
            sender.send(&RelayedAnswer::Session).await?;
            or(hear_input(receiver, input), say(sender, output)).await;
        }
    }
    Ok(())
}

/// Until the answer's end, or until the user has gone.
async fn pass_pieces(mut from: RelayReceiver, to: Sender<Bytes>) {
    let passed = async {
        while let Ok(Some(piece)) = from.piece().await {
            if to.send(piece).await.is_err() {
                return;
            }
        }
    };
    or(passed, to.closed()).await;
}

async fn send_pieces(mut to: RelaySender, from: Receiver<Bytes>) {
    while let Ok(piece) = from.recv().await {
        if to.send_piece(piece).await.is_err() {
            return;
        }
    }
    to.finish();
}

/// Words of a session, until its side has no more. One that cannot say any more waits for what the other side still says.
async fn say<R: Record>(mut to: RelaySender, words: Receiver<R>) {
    while let Ok(word) = words.recv().await {
        if to.send(&word).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
    to.finish();
}

/// Until the user has gone.
async fn hear_input(mut from: RelayReceiver, to: Sender<SessionInput>) {
    while let Ok(word) = from.receive(MAX_SENT_BYTES).await {
        if to.send(word).await.is_err() {
            // the process has ended: what it said last is still on its way
            std::future::pending::<()>().await;
        }
    }
}

/// Until the process has ended.
async fn hear_output(mut from: RelayReceiver, to: Sender<SessionOutput>) {
    while let Ok(word) = from.receive(MAX_SENT_BYTES).await {
        if to.send(word).await.is_err() {
            return;
        }
    }
}
