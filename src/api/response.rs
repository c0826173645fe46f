//! Responses as values, and the status of each refusal.
//!
//! Refuses to know: who asked.

use super::indent::indented;
use serde::Serialize;
use state::fault::Fault;
use std::borrow::Cow;
use wire::http::ForwardedResponse;
use wire::request::{Refusal, RefusalKind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(Cow<'static, str>, String)>,
    pub body: Vec<u8>,
}

/// `Retry-After`, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

impl Response {
    /// 200 with JSON. `pretty` indents by four spaces and ends the line.
    pub fn json<T: Serialize>(value: &T, pretty: bool) -> Response {
        match encode(value, pretty) {
            Ok(body) => Response { status: 200, headers: content_type("application/json"), body },
            Err(why) => Response::text(500, format!("the answer could not be written as JSON: {why}")),
        }
    }

    /// 200 with a list whose elements are written by `write`.
    pub fn json_list<T>(elements: impl Iterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) -> Response {
        let mut body = vec![b'['];
        for (n, element) in elements.enumerate() {
            if n > 0 {
                body.push(b',');
            }
            write(&mut body, element);
        }
        body.push(b']');
        Response { status: 200, headers: content_type("application/json"), body }
    }

    /// Plain text: how every error is told, and every empty answer.
    pub fn text(status: u16, body: impl Into<String>) -> Response {
        let headers = content_type("text/plain; charset=utf-8");
        Response { status, headers, body: body.into().into_bytes() }
    }

    pub fn not_supported(what: &str) -> Response {
        Response::text(501, format!("not supported yet: {what}"))
    }

    pub fn invalid_method() -> Response {
        Response::text(405, "Invalid method")
    }

    pub fn with(mut self, name: &'static str, value: impl ToString) -> Response {
        self.headers.push((name.into(), value.to_string()));
        self
    }

    pub fn status(mut self, status: u16) -> Response {
        self.status = status;
        self
    }

    /// The first header of that name.
    #[cfg(any(test, feature = "testing"))]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

pub fn content_type(value: &str) -> Vec<(Cow<'static, str>, String)> {
    vec![("Content-Type".into(), value.to_string())]
}

fn encode<T: Serialize>(value: &T, pretty: bool) -> Result<Vec<u8>, serde_json::Error> {
    let compact = serde_json::to_vec(value)?;
    if !pretty {
        return Ok(compact);
    }
    let mut out = indented(&compact);
    out.push(b'\n');
    Ok(out)
}

/// Other refusals are a 500 with their sentence (http-api.md 0.3.2, server.md 1).
impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Response {
        let status = match refusal.kind {
            RefusalKind::Invalid => 400,
            RefusalKind::NotFound => 404,
            RefusalKind::Conflict | RefusalKind::Validation | RefusalKind::Unavailable => 500,
            RefusalKind::Busy => 429,
            RefusalKind::Forbidden => 403,
        };
        let response = Response::text(status, refusal.message);
        match refusal.kind {
            RefusalKind::Busy | RefusalKind::Unavailable => response.with("Retry-After", RETRY_AFTER_SECONDS),
            _ => response,
        }
    }
}

impl From<ForwardedResponse> for Response {
    fn from(ForwardedResponse { status, headers, body }: ForwardedResponse) -> Response {
        let headers = headers.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Response { status, headers, body }
    }
}

impl From<Response> for ForwardedResponse {
    fn from(Response { status, headers, body }: Response) -> ForwardedResponse {
        let headers = headers.into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
        ForwardedResponse { status, headers, body }
    }
}

impl From<Fault> for Response {
    fn from(fault: Fault) -> Response {
        Response::text(500, format!("the state cannot be read: {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn json_is_compact_or_pretty_and_never_html_escaped() {
        let value = BTreeMap::from([("A", "<&>")]);
        assert_eq!(Response::json(&value, false).body, br#"{"A":"<&>"}"#);
        assert_eq!(Response::json(&value, true).body, b"{\n    \"A\": \"<&>\"\n}\n");
    }

    #[test]
    fn refusals_have_their_status() {
        for (kind, status, retry) in [
            (RefusalKind::Invalid, 400, None),
            (RefusalKind::NotFound, 404, None),
            (RefusalKind::Conflict, 500, None),
            (RefusalKind::Validation, 500, None),
            (RefusalKind::Busy, 429, Some("1")),
            (RefusalKind::Unavailable, 500, Some("1")),
            (RefusalKind::Forbidden, 403, None),
        ] {
            let response = Response::from(Refusal::new(kind, "why"));
            assert_eq!((response.status, response.header("retry-after")), (status, retry));
            assert_eq!(response.body, b"why");
        }
    }
}
