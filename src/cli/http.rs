//! The HTTP client: one request, one answer, and sentences for what can go wrong on the way.

use crate::answer::{self, Shape};
use crate::output::{Failure, Outcome};
use crate::settings::Settings;
use crate::transport::{Answer, Ask, Fault, Patience, Wire};
use ::io::entropy;
use ::io::http::accept_key;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::Read;
use std::time::Duration;

/// The longest answer that is read whole.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// The longest error text that is shown.
const MAX_ERROR_BYTES: u64 = 64 << 10;
/// Every answer but a stream comes whole within this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A stream that is silent for longer has lost its agent: there is a heartbeat every second.
const STREAM_READ_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Client {
    address: String,
    region: String,
    namespace: String,
    token: String,
    authorization: Option<String>,
}

/// A status beyond 399, or no answer.
#[derive(Debug)]
pub enum RequestError {
    Status { code: u16, text: String },
    Failed(Failure),
}

impl RequestError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, RequestError::Status { code: 404, .. })
    }
}

impl From<RequestError> for Failure {
    fn from(e: RequestError) -> Failure {
        match e {
            RequestError::Status { code, text } => {
                Failure::new(format!("Unexpected response code: {code} ({text})"))
            }
            RequestError::Failed(failure) => failure,
        }
    }
}

/// An answer as it came: its head by lines, its body still to be read.
pub struct RawAnswer {
    pub head: Vec<String>,
    pub body: Box<dyn Read>,
}

pub type Query<'a> = &'a [(&'a str, &'a str)];

impl Client {
    pub fn new(settings: &Settings) -> Client {
        Client {
            address: settings.address.clone(),
            region: settings.region.clone(),
            namespace: settings.namespace.clone(),
            token: settings.token.clone(),
            authorization: settings.authorization.clone(),
        }
    }

    /// `default` when nothing was said.
    pub fn namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// From now on, unless empty.
    pub fn set_region(&mut self, region: &str) {
        if !region.is_empty() {
            self.region = region.to_string();
        }
    }

    /// From now on, unless empty.
    pub fn set_namespace(&mut self, namespace: &str) {
        if !namespace.is_empty() {
            self.namespace = namespace.to_string();
        }
    }

    /// GET, decoded. Members that are null count as absent.
    pub fn get<T: Shape + Default>(&self, path: &str, query: Query<'_>) -> Result<T, RequestError> {
        self.get_value(path, query).and_then(|value| typed(&value))
    }

    pub fn get_value(&self, path: &str, query: Query<'_>) -> Result<Value, RequestError> {
        self.send("GET", path, query, None)
    }

    /// A page of a list, and the token of the next one: empty when there is none.
    pub fn get_page(&self, path: &str, query: Query<'_>) -> Result<(Value, String), RequestError> {
        let answer = self.ask("GET", path, query, None)?;
        let next = answer.head.header("X-Nomad-NextToken").unwrap_or_default().to_string();
        Ok((self.whole(answer)?, next))
    }

    /// What is there, and the index of its last change.
    pub fn get_indexed(&self, path: &str, query: Query<'_>) -> Result<(Value, u64), RequestError> {
        let answer = self.ask("GET", path, query, None)?;
        let index = answer.head.header("X-Nomad-Index").and_then(|index| index.parse().ok());
        Ok((self.whole(answer)?, index.unwrap_or(0)))
    }

    pub fn put<T: Shape + Default>(
        &self,
        path: &str,
        query: Query<'_>,
        body: &Value,
    ) -> Result<T, RequestError> {
        self.send("PUT", path, query, Some(body)).and_then(|value| typed(&value))
    }

    pub fn post<T: Shape + Default>(
        &self,
        path: &str,
        query: Query<'_>,
        body: &Value,
    ) -> Result<T, RequestError> {
        self.send("POST", path, query, Some(body)).and_then(|value| typed(&value))
    }

    pub fn delete<T: Shape + Default>(&self, path: &str, query: Query<'_>) -> Result<T, RequestError> {
        self.send("DELETE", path, query, None).and_then(|value| typed(&value))
    }

    /// With a body, as few requests of this kind have one.
    pub fn delete_with(&self, path: &str, body: &Value) -> Result<Value, RequestError> {
        self.send("DELETE", path, &[], Some(body))
    }

    /// An answer that goes on for as long as there is something to say.
    pub fn stream(&self, path: &str, query: Query<'_>) -> Result<impl Read + Send + use<>, RequestError> {
        let mut ask = self.request("GET", path, query);
        ask.patience = Patience::Piece(STREAM_READ_TIMEOUT);
        let answer = ask.send().map_err(|e| self.no_answer(e))?;
        Ok(checked(answer)?.body)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A path with its query, or a whole URL, with region and namespace added.
    pub fn url(&self, target: &str) -> String {
        let whole = target.starts_with("http://") || target.starts_with("https://");
        let slash = if whole || target.starts_with('/') { "" } else { "/" };
        let base = if whole { "" } else { self.address.as_str() };
        let mut url = format!("{base}{slash}{target}");
        for (name, value) in [("region", &self.region), ("namespace", &self.namespace)] {
            if !value.is_empty() {
                let separator = if url.contains('?') { '&' } else { '?' };
                url.push_str(&format!("{separator}{name}={}", encode(value)));
            }
        }
        url
    }

    /// Any request. The answer is not judged and may have no end.
    pub fn raw(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, String)],
        body: Option<Vec<u8>>,
    ) -> Result<RawAnswer, RequestError> {
        let mut ask = self.authorized(method, url.to_string());
        ask.headers.extend_from_slice(headers);
        ask.body = body;
        ask.patience = Patience::Piece(STREAM_READ_TIMEOUT);
        let Answer { head, body } = ask.send().map_err(|e| self.no_answer(e))?;
        let mut lines = vec![format!("{} {}", head.status, head.reason)];
        lines.extend(head.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        Ok(RawAnswer { head: lines, body: Box::new(body) })
    }

    /// A connection that goes on as a websocket.
    pub fn websocket(&self, path: &str, query: Query<'_>) -> Result<Wire, RequestError> {
        let random = entropy::u128().map_err(|e| failed(format!("no random numbers: {e}")))?;
        let key = STANDARD.encode(random.to_le_bytes());
        let mut ask = self.request("GET", path, query);
        for (name, value) in [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &key),
        ] {
            ask.headers.push((name.to_string(), value.to_string()));
        }
        let answer = checked(ask.send().map_err(|e| self.no_answer(e))?)?;
        let accepted = answer.head.header("Sec-WebSocket-Accept") == Some(accept_key(&key).as_str());
        if answer.head.status != 101 || !accepted {
            return Err(failed(format!("The agent at {} does not begin a session", self.address)));
        }
        Ok(answer.body.into_wire())
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        query: Query<'_>,
        body: Option<&Value>,
    ) -> Result<Value, RequestError> {
        self.whole(self.ask(method, path, query, body)?)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        query: Query<'_>,
        body: Option<&Value>,
    ) -> Result<Answer, RequestError> {
        let mut ask = self.request(method, path, query);
        if let Some(body) = body {
            ask.headers.push(("Content-Type".to_string(), "application/json".to_string()));
            ask.body = Some(body.to_string().into_bytes());
        }
        checked(ask.send().map_err(|e| self.no_answer(e))?)
    }

    fn whole(&self, mut answer: Answer) -> Result<Value, RequestError> {
        let bytes = answer.body.read_whole(MAX_ANSWER_BYTES).map_err(|e| self.no_answer(e))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|e| {
            failed(format!("The agent at {} answered something that is no JSON: {e}", self.address))
        })
    }

    fn request(&self, method: &str, path: &str, query: Query<'_>) -> Ask {
        let mut uri = format!("{}{path}", self.address);
        let common = [("region", self.region.as_str()), ("namespace", self.namespace.as_str())];
        let said = |name: &str| query.iter().any(|(n, _)| *n == name);
        let common = common.iter().filter(|(name, value)| !value.is_empty() && !said(name));
        for (i, (name, value)) in query.iter().chain(common).enumerate() {
            let separator = if i == 0 { '?' } else { '&' };
            uri.push_str(&format!("{separator}{name}={}", encode(value)));
        }
        self.authorized(method, uri)
    }

    fn authorized(&self, method: &str, url: String) -> Ask {
        let mut headers = vec![];
        if !self.token.is_empty() {
            headers.push(("X-Nomad-Token".to_string(), self.token.clone()));
        }
        if let Some(authorization) = &self.authorization {
            headers.push(("Authorization".to_string(), authorization.clone()));
        }
        let patience = Patience::Whole(ANSWER_TIMEOUT);
        Ask { method: method.to_string(), url, headers, body: None, patience }
    }

    fn no_answer(&self, fault: Fault) -> RequestError {
        let address = &self.address;
        failed(match fault {
            Fault::Io(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => format!(
                "No agent answers at {address} (connection refused). Is it running? Start one with \"drover agent -dev\", \
                 or name another with -address or DROVER_ADDR"
            ),
            Fault::Late(what) => {
                format!("The agent at {address} did not answer in time ({what}). Is -address right?")
            }
            Fault::UnknownHost => format!("The host of {address} is not known. Is -address right?"),
            Fault::Unaskable(why) => format!("The agent at {address} cannot be asked: {why}"),
            Fault::Malformed(why) => format!("The answer of the agent at {address} cannot be read: {why}"),
            Fault::Io(e) => format!("Asking the agent at {address} failed: {e}"),
        })
    }
}

fn failed(text: String) -> RequestError {
    RequestError::Failed(Failure::new(text))
}

fn checked(mut answer: Answer) -> Result<Answer, RequestError> {
    let code = answer.head.status;
    if code < 300 {
        return Ok(answer);
    }
    let mut bytes = vec![];
    // a status without its text is a status
    let _broken = answer.body.by_ref().take(MAX_ERROR_BYTES).read_to_end(&mut bytes);
    Err(RequestError::Status { code, text: String::from_utf8_lossy(&bytes).trim().to_string() })
}

fn typed<T: Shape + Default>(value: &Value) -> Result<T, RequestError> {
    answer::read(value)
        .map_err(|unlike| failed(format!("The agent's answer has another shape than expected: {}", unlike.0)))
}

/// Typed again from a value that was fetched for printing.
pub fn decode<T: Shape + Default>(value: &Value) -> Outcome<T> {
    Ok(typed(value)?)
}

/// Percent-encoding for one part of a path or a query (RFC 3986 section 2.3 keeps the unreserved).
pub fn encode(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for b in part.bytes() {
        if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
            out.push(b as char);
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_encoded() {
        assert_eq!(encode("app/periodic-17 ä*"), "app%2Fperiodic-17%20%C3%A4%2A");
        let settings = Settings {
            address: "http://a:1".to_string(),
            region: "r".to_string(),
            namespace: "n s".to_string(),
            ..Settings::default()
        };
        let client = Client::new(&settings);
        let request = client.request("GET", "/v1/jobs", &[("prefix", "x&y"), ("namespace", "*")]);
        assert_eq!(request.url, "http://a:1/v1/jobs?prefix=x%26y&namespace=%2A&region=r");
    }

    #[test]
    fn urls_take_region_and_namespace() {
        let settings = Settings {
            address: "http://a:1".to_string(),
            namespace: "n s".to_string(),
            ..Settings::default()
        };
        let client = Client::new(&settings);
        for (target, url) in [
            ("/v1/jobs", "http://a:1/v1/jobs?namespace=n%20s"),
            ("v1/jobs?prefix=x", "http://a:1/v1/jobs?prefix=x&namespace=n%20s"),
            ("http://b:2/v1/x", "http://b:2/v1/x?namespace=n%20s"),
        ] {
            assert_eq!(client.url(target), url);
        }
    }
}
