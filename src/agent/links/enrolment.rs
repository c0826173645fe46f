//! Machines that show a join token: the region is asked whether it is good, and what they are given if it is.
//!
//! Refuses to know: which tokens there are. Invariant: nothing is given away before the use of the token is durable and applied.

use super::super::config::secret::Secret;
use super::super::http_service::HttpService;
use ::io::executor;
use ::io::quic::{Enrolment, RegionKey};
use api::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use smol::Executor;
use std::sync::Arc;
use wire::enrolment::EnrolAnswer;
use wire::http::{Method, Request};
use wire::request::{Refusal, RefusalKind};
use wire::rpc::Peer;
use wire::stored_identity::HiddenBytes;

/// Lets machines into the region.
#[derive(Clone)]
pub struct Enroller(Arc<Parts>);

struct Parts {
    executor: Arc<Executor<'static>>,
    service: Arc<HttpService>,
    region: String,
    key: RegionKey,
    secret: Secret,
}

impl Enroller {
    /// `secret`: what the region's key follows from.
    pub fn new(
        executor: Arc<Executor<'static>>,
        service: Arc<HttpService>,
        region: String,
        (key, secret): (RegionKey, Secret),
    ) -> Enroller {
        Enroller(Arc::new(Parts { executor, service, region, key, secret }))
    }

    /// Answers the machine beside everything else.
    pub fn take(&self, asked: Enrolment) {
        let enroller = self.clone();
        let answer = async move {
            let answer = enroller.answer(&asked).await;
            asked.answer(answer);
        };
        executor::spawn(&self.0.executor, answer).detach();
    }

    async fn answer(&self, asked: &Enrolment) -> EnrolAnswer {
        let response = self.0.service.serve(&redemption(asked), false).await;
        if let Err(refusal) = redeemed(response) {
            // the endpoint has a line a minute and address for it
            let (source, machine) = (asked.source, asked.request.machine);
            tracing::debug!(target: "nomad", %source, %machine, why = refusal.message, "a join token was refused");
            return EnrolAnswer::Refused(refusal);
        }
        let (source, machine) = (asked.source, asked.request.machine);
        tracing::info!(target: "nomad", %source, %machine, token = %asked.request.token, "a machine has joined");
        let credential = self.0.key.credential_for(&self.0.region, machine, asked.key);
        let is_server = matches!(machine, Peer::Server(_));
        let region_secret = is_server.then(|| HiddenBytes(self.0.secret.bytes().to_vec()));
        EnrolAnswer::Enrolled { credential, region_secret }
    }
}

/// As a request of a user, so that it is passed on to whichever server leads.
fn redemption(asked: &Enrolment) -> Request {
    let mut body = json!({
        "Secret": URL_SAFE_NO_PAD.encode(asked.request.secret.0),
        "Key": URL_SAFE_NO_PAD.encode(asked.key),
    });
    match asked.request.machine {
        Peer::Node(node) => body["Node"] = json!(node.to_string()),
        Peer::Server(server) => body["Server"] = json!(server),
    }
    Request {
        method: Method::Put,
        path: format!("/v1/operator/join-token/{}/redeem", asked.request.token),
        query: String::new(),
        body: body.to_string().into_bytes(),
        websocket: false,
    }
}

/// Whether the token is good, or why not: for good, or for now.
fn redeemed(response: Option<Response>) -> Result<(), Refusal> {
    let Some(Response { status, body, .. }) = response else {
        return Err(Refusal::new(RefusalKind::Unavailable, "the region has no leader: try again shortly"));
    };
    let kind = match status {
        200 => return Ok(()),
        403 => RefusalKind::Forbidden,
        400 | 404 => RefusalKind::Invalid,
        429 => RefusalKind::Busy,
        _ => RefusalKind::Unavailable,
    };
    Err(Refusal::new(kind, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_refused_for_good_only_if_the_region_says_so() {
        let kind =
            |status: u16| redeemed(Some(Response::text(status, "why"))).map_err(|refusal| refusal.kind);
        assert_eq!(kind(200), Ok(()));
        assert_eq!(kind(403), Err(RefusalKind::Forbidden));
        assert_eq!((kind(400), kind(404)), (Err(RefusalKind::Invalid), Err(RefusalKind::Invalid)));
        assert_eq!((kind(429), kind(500)), (Err(RefusalKind::Busy), Err(RefusalKind::Unavailable)));
        assert_eq!(redeemed(None).map_err(|refusal| refusal.kind), Err(RefusalKind::Unavailable));
    }
}
