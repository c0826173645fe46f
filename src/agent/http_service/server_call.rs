//! Calls from the HTTP service to the server's brain, or by way of the client's to another server, and waiting for their answers.
//!
//! Refuses to know: the brain's queue, which is a function that takes the calls.

use super::{HttpService, NO_SERVER};
use ::io::clock;
use api::response::Response;
use api::{Wait, WaitState};
use async_channel::Sender;
use model::time::Span;
use smol::Timer;
use smol::future::or;
use std::time::Duration;
use wire::http::{ForwardFailure, ForwardedResponse, Method, Request};
use wire::request::{Refusal, RefusalKind, WriteReply, WriteRequest};

pub type WriteResult = Result<WriteReply, Refusal>;
pub type ForwardResult = Result<ForwardedResponse, ForwardFailure>;

/// A call on its way to the server's turn.
pub enum ServerCall {
    Write(WriteRequest, ReplySender<WriteResult>),
    /// Answered by whether the state holds all that was acknowledged before.
    ConfirmRead(ReplySender<bool>),
    /// The leader is to answer it.
    Forward(Box<Request>, ReplySender<ForwardResult>),
}

/// Why the server does not get something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    Full,
    /// The server has ended.
    Closed,
}

/// Takes calls for a brain's turn, or says why not; it never waits.
pub type CallQueue<T> = Box<dyn Fn(T) -> Result<(), NotSent> + Send + Sync>;

/// A request that the node of an agent without a server is to pass on.
pub struct ForwardCall {
    /// For how long the server may hold the answer back.
    pub hold: Span,
    pub request: Box<Request>,
    pub reply: ReplySender<ForwardResult>,
}

/// Where the answer to a call goes. Dropped unanswered, it gives the caller the answer that the call's outcome is unknown.
pub struct ReplySender<T>(Sender<T>);

impl<T> ReplySender<T> {
    /// The caller may have left: then this does nothing.
    pub fn send(self, result: T) {
        // fails only when the caller has left
        let _ = self.0.try_send(result);
    }
}

/// How long a caller waits for the servers' answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How much longer a user of a node's agent waits than the node does.
const FORWARD_GRACE: Duration = Duration::from_secs(5);

/// How long an agent that is stopping waits for another server to lead.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a call has no answer.
enum CallFailed {
    /// This agent runs nothing that could answer it.
    NoBrain,
    Full,
    Stopping,
    /// The server's brain was dropped with the call.
    Dropped,
    TimedOut,
}

impl From<CallFailed> for Refusal {
    fn from(failed: CallFailed) -> Refusal {
        let (kind, message) = match failed {
            CallFailed::NoBrain => (RefusalKind::Unavailable, NO_SERVER),
            CallFailed::Full => {
                (RefusalKind::Busy, "too many requests wait for the server: try again in a second")
            }
            CallFailed::Stopping => (RefusalKind::Unavailable, "this agent is stopping: ask another one"),
            CallFailed::Dropped => (
                RefusalKind::Unavailable,
                "the server gave up on this write; it may still have happened: look before you repeat it",
            ),
            CallFailed::TimedOut => (
                RefusalKind::Unavailable,
                "no answer within 30 seconds; the write may still happen: look before you repeat it",
            ),
        };
        Refusal::new(kind, message)
    }
}

impl HttpService {
    pub(super) async fn write(&self, action: WriteRequest) -> WriteResult {
        self.call_server(|reply| ServerCall::Write(action, reply)).await?
    }

    /// Another server leads when this one ends, so that nobody waits for an election. Without another one, or when it takes too long, the
    /// agent ends all the same.
    pub async fn hand_over_leadership(&self) {
        let status = self.status.get();
        if !(status.ready && status.has_peers) {
            return;
        }
        let handed_over = self.write(WriteRequest::TransferLeadership { to: None });
        let result = or(handed_over, async {
            Timer::after(HANDOVER_TIMEOUT).await;
            Err(Refusal::new(RefusalKind::Unavailable, "it took too long"))
        });
        match result.await {
            Ok(_) => tracing::info!(target: "nomad", "another server leads now"),
            Err(refusal) => {
                tracing::warn!(target: "nomad", why = refusal.message, "leadership is not handed over")
            }
        }
    }

    /// The state with which the request goes on: confirmed, or after a while as it was.
    pub(super) async fn confirm_read(&self, otherwise: Wait) -> Result<WaitState, Refusal> {
        match self.call_server(ServerCall::ConfirmRead).await {
            Ok(true) => Ok(otherwise.state.confirmed()),
            Err(failed @ (CallFailed::NoBrain | CallFailed::Full | CallFailed::Stopping)) => {
                Err(failed.into())
            }
            Ok(false) | Err(_) => {
                let state = otherwise.state;
                self.wait(otherwise).await?;
                Ok(state)
            }
        }
    }

    /// The leader's answer. `Err`: nothing was done, and the request is to be looked at again.
    pub(super) async fn forward(&self, request: &Request, otherwise: Wait) -> Result<Response, Wait> {
        let asked = Box::new(request.clone());
        let result = self.call_server(|reply| ServerCall::Forward(asked, reply)).await;
        forwarded(request, result, otherwise)
    }

    /// The answer of the server that this agent's node is connected to. `Err`: as above.
    pub(super) async fn forward_to_server(
        &self,
        request: &Request,
        hold: Span,
        otherwise: Wait,
    ) -> Result<Response, Wait> {
        let asked = Box::new(request.clone());
        let call = |reply| ForwardCall { hold, request: asked, reply };
        let queue = self.node.as_ref().map(|node| &node.forwards);
        // the node gives up sooner, and says what is known
        let limit = CALL_TIMEOUT + clock::duration(hold) + FORWARD_GRACE;
        forwarded(request, call_brain(queue, call, limit).await, otherwise)
    }

    async fn call_server<T>(&self, call: impl FnOnce(ReplySender<T>) -> ServerCall) -> Result<T, CallFailed> {
        call_brain(self.server.as_ref().map(|server| &server.calls), call, CALL_TIMEOUT).await
    }
}

/// What the user is told. `Err`: nothing was done, and the request is to be looked at again.
fn forwarded(
    request: &Request,
    result: Result<ForwardResult, CallFailed>,
    otherwise: Wait,
) -> Result<Response, Wait> {
    let refusal = match result {
        // a read that was lost on its way can be asked again
        Ok(Err(ForwardFailure::Unknown)) | Err(CallFailed::Dropped) if request.method == Method::Get => {
            return Err(otherwise);
        }
        Ok(Ok(response)) => return Ok(response.into()),
        Ok(Err(ForwardFailure::NotDone)) => return Err(otherwise),
        Ok(Err(ForwardFailure::Refused(refusal))) => refusal,
        Ok(Err(ForwardFailure::Unknown)) => CallFailed::Dropped.into(),
        Err(failed) => failed.into(),
    };
    Ok(refusal.into())
}

async fn call_brain<T, C>(
    queue: Option<&CallQueue<C>>,
    call: impl FnOnce(ReplySender<T>) -> C,
    limit: Duration,
) -> Result<T, CallFailed> {
    let (reply, answered) = async_channel::bounded(1);
    let queue = queue.ok_or(CallFailed::NoBrain)?;
    queue(call(ReplySender(reply))).map_err(|e| match e {
        NotSent::Full => CallFailed::Full,
        NotSent::Closed => CallFailed::Stopping,
    })?;
    let answer = async { answered.recv().await.map_err(|_| CallFailed::Dropped) };
    let timeout = async {
        Timer::after(limit).await;
        Err(CallFailed::TimedOut)
    };
    or(answer, timeout).await
}
