//! Requests from the web pages of other origins: what `api::cors` says of them, on the answer (http-api.md 0.1.9).

use ::io::http::{Answer, HeaderMap};
use api::cors::{self, CorsRequest};
use api::response::Response;
use wire::http::{Method, Request};

/// Headers for the answer, and the whole answer to a request that only asks whether another one is allowed.
pub fn check(request: &Request, headers: &HeaderMap) -> (Vec<(&'static str, String)>, Option<Response>) {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    cors::answer(&CorsRequest {
        path: &request.path,
        method: name(request.method),
        origin: header("origin"),
        wanted_method: header("access-control-request-method"),
        wanted_headers: header("access-control-request-headers"),
    })
}

pub fn add(answer: &mut Answer, more: Vec<(&'static str, String)>) {
    match answer {
        Answer::Whole(response) => {
            response.headers.extend(more.into_iter().map(|(name, value)| (name.into(), value)));
        }
        Answer::Stream { headers, .. } => headers.extend(more),
        // a page of another origin is offered no session
        Answer::Session(_) => {}
    }
}

fn name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Put => "PUT",
        Method::Post => "POST",
        Method::Delete => "DELETE",
        Method::Head => "HEAD",
        Method::Options => "OPTIONS",
        Method::Other => "",
    }
}
