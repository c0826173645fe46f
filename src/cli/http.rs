//! The HTTP client: one request, one answer, and sentences for what can go wrong on the way.

use crate::cli::output::{Failure, Outcome};
use crate::cli::settings::Settings;
use crate::model::gather::Gather;
use async_tungstenite::tungstenite::handshake::client::generate_key;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use ureq::http::request::Builder;
use ureq::http::{Request, Response};
use ureq::{Agent, AsSendBody, Body};

/// The longest answer that is read whole.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// The longest error text that is shown.
const MAX_ERROR_BYTES: u64 = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Every answer but a stream comes whole within this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A stream that is silent for longer has lost its agent: there is a heartbeat every second.
const STREAM_READ_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Client {
    agent: Agent,
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
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("drover/", env!("CARGO_PKG_VERSION")))
            .build();
        Client {
            agent: Agent::new_with_config(config),
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
    pub fn get<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, RequestError> {
        self.get_value(path, query).and_then(typed)
    }

    pub fn get_value(&self, path: &str, query: Query<'_>) -> Result<Value, RequestError> {
        self.send("GET", path, query, None)
    }

    /// A page of a list, and the token of the next one: empty when there is none.
    pub fn get_page(&self, path: &str, query: Query<'_>) -> Result<(Value, String), RequestError> {
        let response = self.ask("GET", path, query, None)?;
        let next = response.headers().get("X-Nomad-NextToken").and_then(|token| token.to_str().ok());
        let next = next.unwrap_or_default().to_string();
        Ok((self.whole(response)?, next))
    }

    /// What is there, and the index of its last change.
    pub fn get_indexed(&self, path: &str, query: Query<'_>) -> Result<(Value, u64), RequestError> {
        let response = self.ask("GET", path, query, None)?;
        let index =
            response.headers().get("X-Nomad-Index").and_then(|index| index.to_str().ok()?.parse().ok());
        Ok((self.whole(response)?, index.unwrap_or(0)))
    }

    pub fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        query: Query<'_>,
        body: &Value,
    ) -> Result<T, RequestError> {
        self.send("PUT", path, query, Some(body)).and_then(typed)
    }

    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        query: Query<'_>,
        body: &Value,
    ) -> Result<T, RequestError> {
        self.send("POST", path, query, Some(body)).and_then(typed)
    }

    pub fn delete<T: DeserializeOwned>(&self, path: &str, query: Query<'_>) -> Result<T, RequestError> {
        self.send("DELETE", path, query, None).and_then(typed)
    }

    /// An answer that goes on for as long as there is something to say.
    pub fn stream(&self, path: &str, query: Query<'_>) -> Result<impl Read + Send + use<>, RequestError> {
        let request = self.request("GET", path, query).body(()).map_err(|e| self.unaskable(&e))?;
        let request =
            self.agent.configure_request(request).timeout_per_read(Some(STREAM_READ_TIMEOUT)).build();
        let response = self.agent.run(request).map_err(|e| self.no_answer(&e))?;
        Ok(checked(response)?.into_body().into_reader())
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
        let mut request = self.authorized(Request::builder().method(method).uri(url));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let answer = match body {
            Some(body) => self.run_raw(request.body(body)),
            None => self.run_raw(request.body(())),
        };
        let response = answer?;
        let named = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
        };
        let mut head = vec![response.status().to_string()];
        head.extend(response.headers().iter().map(named));
        Ok(RawAnswer { head, body: Box::new(response.into_body().into_reader()) })
    }

    fn run_raw<B: AsSendBody>(
        &self,
        request: Result<Request<B>, ureq::http::Error>,
    ) -> Result<Response<Body>, RequestError> {
        let request = request.map_err(|e| self.unaskable(&e))?;
        let configured = self.agent.configure_request(request).allow_non_standard_methods(true);
        let request = configured.timeout_per_read(Some(STREAM_READ_TIMEOUT)).build();
        self.agent.run(request).map_err(|e| self.no_answer(&e))
    }

    /// The head of a request to go on by websocket, and the host and port to send it to.
    pub fn websocket(&self, path: &str, query: Query<'_>) -> Result<(String, Request<()>), RequestError> {
        let host = self.address.trim_start_matches("http://").to_string();
        let built = self.request("GET", path, query).body(()).map_err(|e| self.unaskable(&e))?;
        let uri = format!("ws://{host}{}", built.uri().path_and_query().map_or("/", |p| p.as_str()));
        let (mut head, ()) = built.into_parts();
        head.uri = uri.parse().map_err(|e| failed(format!("{path} cannot be asked for: {e}")))?;
        let port = if head.uri.port().is_some() { "" } else { ":80" };
        for (name, value) in [
            ("Host", host.as_str()),
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &generate_key()),
        ] {
            let value = value.parse().map_err(|_| failed(format!("{value:?} cannot be sent")))?;
            head.headers.insert(name, value);
        }
        Ok((format!("{host}{port}"), Request::from_parts(head, ())))
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
    ) -> Result<Response<Body>, RequestError> {
        let request = self.request(method, path, query);
        let answer = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json").body(body.to_string());
                let request = request.map_err(|e| self.unaskable(&e))?;
                self.agent
                    .run(self.agent.configure_request(request).timeout_global(Some(ANSWER_TIMEOUT)).build())
            }
            None => {
                let request = request.body(()).map_err(|e| self.unaskable(&e))?;
                self.agent
                    .run(self.agent.configure_request(request).timeout_global(Some(ANSWER_TIMEOUT)).build())
            }
        };
        checked(answer.map_err(|e| self.no_answer(&e))?)
    }

    fn whole(&self, mut response: Response<Body>) -> Result<Value, RequestError> {
        let read = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let bytes = read.map_err(|e| self.no_answer(&e))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|e| {
            failed(format!("The agent at {} answered something that is no JSON: {e}", self.address))
        })
    }

    fn request(&self, method: &str, path: &str, query: Query<'_>) -> Builder {
        let mut uri = format!("{}{path}", self.address);
        let common = [("region", self.region.as_str()), ("namespace", self.namespace.as_str())];
        let said = |name: &str| query.iter().any(|(n, _)| *n == name);
        let common = common.iter().filter(|(name, value)| !value.is_empty() && !said(name));
        for (i, (name, value)) in query.iter().chain(common).enumerate() {
            let separator = if i == 0 { '?' } else { '&' };
            uri.push_str(&format!("{separator}{name}={}", encode(value)));
        }
        self.authorized(Request::builder().method(method).uri(&uri))
    }

    fn authorized(&self, mut request: Builder) -> Builder {
        if !self.token.is_empty() {
            request = request.header("X-Nomad-Token", &self.token);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        request
    }

    fn unaskable(&self, e: &ureq::http::Error) -> RequestError {
        failed(format!("The agent at {} cannot be asked: {e}", self.address))
    }

    fn no_answer(&self, e: &ureq::Error) -> RequestError {
        let address = &self.address;
        let text = match e {
            ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => format!(
                "No agent answers at {address} (connection refused). Is it running? Start one with \"drover agent -dev\", \
                 or name another with -address or DROVER_ADDR"
            ),
            ureq::Error::Timeout(what) => {
                format!("The agent at {address} did not answer in time ({what}). Is -address right?")
            }
            ureq::Error::HostNotFound => format!("The host of {address} is not known. Is -address right?"),
            other => format!("Asking the agent at {address} failed: {other}"),
        };
        failed(text)
    }
}

fn failed(text: String) -> RequestError {
    RequestError::Failed(Failure::new(text))
}

fn checked(mut response: Response<Body>) -> Result<Response<Body>, RequestError> {
    let code = response.status().as_u16();
    if code < 300 {
        return Ok(response);
    }
    let text = response.body_mut().with_config().limit(MAX_ERROR_BYTES).lossy_utf8(true).read_to_string();
    Err(RequestError::Status { code, text: text.unwrap_or_default().trim().to_string() })
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, RequestError> {
    serde_json::from_value(without_nulls(value))
        .map_err(|e| failed(format!("The agent's answer has another shape than expected: {e}")))
}

/// Optional members come as null or not at all: one rule for both.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, v)| !v.is_null());
            Value::Object(kept.map(|(k, v)| (k, without_nulls(v))).gather())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Typed again from a value that was fetched for printing.
pub fn decode<T: DeserializeOwned>(value: &Value) -> Outcome<T> {
    Ok(typed(value.clone())?)
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
        assert_eq!(
            request.uri_ref().map(ToString::to_string).as_deref(),
            Some("http://a:1/v1/jobs?prefix=x%26y&namespace=%2A&region=r")
        );
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

    #[test]
    fn nulls_count_as_absent() {
        let value = serde_json::json!({"a": null, "b": [{"c": null, "d": 1}]});
        assert_eq!(without_nulls(value), serde_json::json!({"b": [{"d": 1}]}));
    }
}
