//! The HTTP client: one request, one answer, and sentences for what can go wrong on the way.

mod connector;
mod trust;
mod websocket;

use crate::answer::{self, ResponseBody};
use crate::error::{CommandError, CommandResult};
use crate::settings::CliSettings;
use ::io::tls::TlsFailure;
use connector::{AgentConnector, UNIX_HOST};
use serde_json::Value;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trust::Trust;
use ureq::http::request::Builder;
use ureq::http::{HeaderName, HeaderValue, Request, Response, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, AsSendBody, Body};
pub use websocket::AgentSocket;

/// The longest answer that is read whole.
const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// The longest error text that is shown.
const MAX_ERROR_BYTES: u64 = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Every answer but a stream comes whole within this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A stream that is silent for longer has lost its agent: there is a heartbeat every second.
const STREAM_READ_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct HttpClient {
    agent: Agent,
    /// As it was said.
    address: String,
    /// What paths are put behind.
    base: String,
    /// Where requests to `base` go, if that is a unix socket.
    unix: Option<PathBuf>,
    trust: Arc<Trust>,
    region: String,
    namespace: String,
    token: String,
    authorization: Option<String>,
}

/// A status beyond 399, or no answer.
#[derive(Debug)]
pub enum RequestError {
    Status { code: u16, text: String },
    Failed(CommandError),
}

impl RequestError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, RequestError::Status { code: 404, .. })
    }
}

impl From<RequestError> for CommandError {
    fn from(e: RequestError) -> CommandError {
        match e {
            RequestError::Status { code, text } => {
                CommandError::new(format!("Unexpected response code: {code} ({text})"))
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

pub type QueryPairs<'a> = &'a [(&'a str, &'a str)];

impl HttpClient {
    pub fn new(settings: &CliSettings) -> HttpClient {
        let address = settings.address.as_str();
        let unix = address.strip_prefix("unix://").map(PathBuf::from);
        let trust = Arc::new(Trust::new(settings.tls.clone()));
        let connector = AgentConnector { trust: trust.clone(), unix: unix.clone() };
        // an agent is asked directly, whatever the environment says of proxies
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("drover/", env!("CARGO_PKG_VERSION")))
            .build();
        HttpClient {
            agent: Agent::with_parts(config, connector, DefaultResolver::default()),
            address: address.to_string(),
            base: if unix.is_some() { format!("http://{UNIX_HOST}") } else { address.to_string() },
            unix,
            trust,
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
    pub fn get<T: ResponseBody>(&self, path: &str, query: QueryPairs<'_>) -> Result<T, RequestError> {
        self.get_value(path, query).and_then(|value| typed(&value))
    }

    pub fn get_value(&self, path: &str, query: QueryPairs<'_>) -> Result<Value, RequestError> {
        self.send("GET", path, query, None)
    }

    /// A page of a list, and the token of the next one: empty when there is none.
    pub fn get_page(&self, path: &str, query: QueryPairs<'_>) -> Result<(Value, String), RequestError> {
        let answer = self.ask("GET", path, query, None)?;
        let next = header(&answer, "X-Nomad-NextToken").unwrap_or_default().to_string();
        Ok((self.whole(answer)?, next))
    }

    /// What is there, and the index of its last change.
    pub fn get_indexed(&self, path: &str, query: QueryPairs<'_>) -> Result<(Value, u64), RequestError> {
        let answer = self.ask("GET", path, query, None)?;
        let index = header(&answer, "X-Nomad-Index").and_then(|index| index.parse().ok());
        Ok((self.whole(answer)?, index.unwrap_or(0)))
    }

    pub fn put<T: ResponseBody>(
        &self,
        path: &str,
        query: QueryPairs<'_>,
        body: &Value,
    ) -> Result<T, RequestError> {
        self.send("PUT", path, query, Some(body)).and_then(|value| typed(&value))
    }

    pub fn post<T: ResponseBody>(
        &self,
        path: &str,
        query: QueryPairs<'_>,
        body: &Value,
    ) -> Result<T, RequestError> {
        self.send("POST", path, query, Some(body)).and_then(|value| typed(&value))
    }

    pub fn delete<T: ResponseBody>(&self, path: &str, query: QueryPairs<'_>) -> Result<T, RequestError> {
        self.send("DELETE", path, query, None).and_then(|value| typed(&value))
    }

    /// With a body, as few requests of this kind have one.
    pub fn delete_with(&self, path: &str, body: &Value) -> Result<Value, RequestError> {
        self.send("DELETE", path, &[], Some(body))
    }

    /// An answer that goes on for as long as there is something to say.
    pub fn stream(
        &self,
        path: &str,
        query: QueryPairs<'_>,
    ) -> Result<impl Read + Send + use<>, RequestError> {
        let answer = checked(self.run(self.request("GET", path, query).body(()), Wait::Piece)?)?;
        Ok(answer.into_body().into_reader())
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// A path with its query, or a whole URL, with region and namespace added.
    pub fn url(&self, target: &str) -> String {
        let whole = target.starts_with("http://") || target.starts_with("https://");
        let slash = if whole || target.starts_with('/') { "" } else { "/" };
        let base = if whole { "" } else { self.base.as_str() };
        let mut url = format!("{base}{slash}{target}");
        for (name, value) in [("region", &self.region), ("namespace", &self.namespace)] {
            if !value.is_empty() {
                let separator = if url.contains('?') { '&' } else { '?' };
                url.push_str(&format!("{separator}{name}={}", encode(value)));
            }
        }
        url
    }

    /// What `curl` has to be told to reach the same agent.
    pub fn curl_flags(&self) -> Vec<(&'static str, String)> {
        let tls = self.trust.flags();
        let socket = self.unix.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let mut flags = vec![
            ("--unix-socket", socket),
            ("--cacert", tls.ca_cert.clone()),
            ("--capath", tls.ca_path.clone()),
            ("--cert", tls.client_cert.clone()),
            ("--key", tls.client_key.clone()),
        ];
        flags.retain(|(_, value)| !value.is_empty());
        if tls.skip_verify {
            flags.push(("--insecure", String::new()));
        }
        flags
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
            Some(body) => self.run(request.body(body), Wait::Piece)?,
            None => self.run(request.body(()), Wait::Piece)?,
        };
        let mut head = vec![answer.status().to_string()];
        head.extend(answer.headers().iter().map(|(name, value)| line(name, value)));
        Ok(RawAnswer { head, body: Box::new(answer.into_body().into_reader()) })
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        query: QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<Value, RequestError> {
        self.whole(self.ask(method, path, query, body)?)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        query: QueryPairs<'_>,
        body: Option<&Value>,
    ) -> Result<Response<Body>, RequestError> {
        let request = self.request(method, path, query);
        checked(match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json");
                self.run(request.body(body.to_string()), Wait::Whole)?
            }
            None => self.run(request.body(()), Wait::Whole)?,
        })
    }

    fn run<B: AsSendBody>(
        &self,
        request: Result<Request<B>, ureq::http::Error>,
        wait: Wait,
    ) -> Result<Response<Body>, RequestError> {
        let request = request.map_err(|e| self.no_answer(&e.into()))?;
        self.check_trust(request.uri())?;
        let config = self.agent.configure_request(request).allow_non_standard_methods(true);
        let request = match wait {
            Wait::Whole => config.timeout_global(Some(ANSWER_TIMEOUT)).build(),
            Wait::Piece => config.timeout_per_read(Some(STREAM_READ_TIMEOUT)).build(),
        };
        self.agent.run(request).map_err(|e| self.no_answer(&e))
    }

    /// Files for HTTPS that are not there or wrong are told before anything is asked.
    fn check_trust(&self, uri: &Uri) -> Result<(), RequestError> {
        match uri.scheme_str() {
            Some("http") => Ok(()),
            Some("https") => self.trust.client().map(drop).map_err(failed),
            _ => Err(failed(format!(
                "The agent at {} cannot be asked: it is no http:// address",
                self.address
            ))),
        }
    }

    fn whole(&self, mut answer: Response<Body>) -> Result<Value, RequestError> {
        let read = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let bytes = read.map_err(|e| self.no_answer(&e))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|e| {
            failed(format!("The agent at {} answered something that is no JSON: {e}", self.address))
        })
    }

    fn request(&self, method: &str, path: &str, query: QueryPairs<'_>) -> Builder {
        let mut uri = format!("{}{path}", self.base);
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

    fn no_answer(&self, error: &ureq::Error) -> RequestError {
        let address = &self.address;
        if let ureq::Error::Io(e) = error
            && let Some(failure) = TlsFailure::of(e)
        {
            return failed(trust::sentence(&failure, address));
        }
        failed(match error {
            ureq::Error::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => format!(
                "No agent answers at {address} (connection refused). Is it running? Start one with \"drover agent -dev\", \
                 or name another with -address or DROVER_ADDR"
            ),
            ureq::Error::Timeout(what) => {
                format!("The agent at {address} did not answer in time ({what}). Is -address right?")
            }
            ureq::Error::HostNotFound => format!("The host of {address} is not known. Is -address right?"),
            ureq::Error::Http(why) => format!("The agent at {address} cannot be asked: {why}"),
            ureq::Error::BadUri(why) => format!("The agent at {address} cannot be asked: {why}"),
            ureq::Error::Io(e) if self.unix.is_some() && e.kind() == io::ErrorKind::NotFound => {
                format!("There is no socket at {address}. Is -address right?")
            }
            ureq::Error::Protocol(why) => {
                format!("The answer of the agent at {address} cannot be read: {why}")
            }
            other => format!("Asking the agent at {address} failed: {other}"),
        })
    }
}

/// What has to come in time.
#[derive(Clone, Copy)]
enum Wait {
    /// The whole answer.
    Whole,
    /// Each piece of it.
    Piece,
}

fn header<'a>(answer: &'a Response<Body>, name: &str) -> Option<&'a str> {
    answer.headers().get(name).and_then(|value| value.to_str().ok())
}

/// A header as it is usually spelt.
fn line(name: &HeaderName, value: &HeaderValue) -> String {
    let mut text = name.as_str().to_string();
    let mut begins = true;
    for at in 0..text.len() {
        if std::mem::replace(&mut begins, text.as_bytes()[at] == b'-') {
            text[at..=at].make_ascii_uppercase();
        }
    }
    format!("{text}: {}", String::from_utf8_lossy(value.as_bytes()))
}

fn failed(text: String) -> RequestError {
    RequestError::Failed(CommandError::new(text))
}

fn checked(mut answer: Response<Body>) -> Result<Response<Body>, RequestError> {
    let code = answer.status().as_u16();
    if code < 300 {
        return Ok(answer);
    }
    let mut bytes = vec![];
    // a status without its text is a status
    let _broken = answer.body_mut().as_reader().take(MAX_ERROR_BYTES).read_to_end(&mut bytes);
    Err(RequestError::Status { code, text: String::from_utf8_lossy(&bytes).trim().to_string() })
}

fn typed<T: ResponseBody>(value: &Value) -> Result<T, RequestError> {
    answer::read(value)
        .map_err(|unlike| failed(format!("The agent's answer has another shape than expected: {}", unlike.0)))
}

/// Typed again from a value that was fetched for printing.
pub fn decode<T: ResponseBody>(value: &Value) -> CommandResult<T> {
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
mod tests;
