//! The query parameters that every route shares: region, namespace, pagination, filter, blocking and staleness.
//!
//! Errors are the sentences that clients of the API know (http-api.md 0.4 to 0.6).
//!
//! Refuses to know: which routes there are.

use crate::filter::literal::boolean;
use crate::filter::{Filter, OmitEmpty};
use crate::response::Response;
use jobspec::duration;
use model::time::Span;
use serde::Serialize;
use serde_json::Value;

/// How long a blocking query is held when it does not say, and at most.
pub const MAX_WAIT: Span = Span::seconds(300);

/// The words by which command-line tools recognise a server without filters, and go on without one
/// (http-api.md 1.3.1).
const BAD_FILTER: &str = "failed to create result paginator: failed to read filter expression";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    parameters: Vec<(String, String)>,
    pub namespace: Option<String>,
    pub region: Option<String>,
    pub prefix: String,
    /// 0: everything on one page.
    pub per_page: usize,
    pub next_token: String,
    pub reverse: bool,
    /// The `filter` of a list.
    pub filter: Option<Filter>,
    /// Above 0: answer once the result's index is greater.
    pub index: u64,
    /// `None`: not given, or not above zero.
    pub wait: Option<Span>,
    pub stale: bool,
    pub pretty: bool,
}

impl Query {
    pub fn new(parameters: Vec<(String, String)>) -> Result<Query, Response> {
        let q = Query { parameters, ..Query::default() };
        Ok(Query {
            namespace: q.text("namespace").filter(|n| !n.is_empty()).map(str::to_string),
            region: q.text("region").filter(|r| !r.is_empty()).map(str::to_string),
            prefix: q.text("prefix").unwrap_or_default().to_string(),
            per_page: q.per_page()?,
            next_token: q.text("next_token").unwrap_or_default().to_string(),
            reverse: q.flag("reverse", false)?,
            filter: q.parse_filter()?,
            index: q.number("index").map_err(|()| bad("Invalid index"))?.unwrap_or(0),
            wait: q.parse_wait()?,
            stale: q.parse_stale()?,
            pretty: q.text("pretty").is_some_and(|v| v != "0"),
            ..q
        })
    }

    /// Only the own region is known; `global` is another name for it.
    pub fn check_region(&self, own: &str) -> Result<(), Response> {
        match self.region.as_deref() {
            None | Some("global") => Ok(()),
            Some(region) if region == own => Ok(()),
            Some(_) => Err(Response::text(500, "No path to region")),
        }
    }

    /// The first value of that parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Every value of that parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.parameters.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// A boolean as Go reads them; absent or empty is `default`.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Response> {
        match self.text(name) {
            None | Some("") => Ok(default),
            Some(text) => boolean(text).ok_or_else(|| {
                bad(format!(
                    "Failed to parse value of \"{name}\" (\"{text}\") as a bool: expected true or false"
                ))
            }),
        }
    }

    pub fn integer(&self, name: &str) -> Result<Option<i64>, Response> {
        match self.text(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                bad(format!(
                    "Failed to parse value of \"{name}\" (\"{text}\") as an integer: expected a number"
                ))
            }),
        }
    }

    /// Whether the filter, if there is one, matches an element that is this object.
    pub fn matches(
        &self,
        omit_empty: &OmitEmpty,
        object: impl FnOnce(&Filter) -> Result<Value, Response>,
    ) -> Result<bool, Response> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let matched = filter.matches(&object(filter)?, omit_empty);
        matched.map_err(|why| bad(format!("failed to read result page: {why}")))
    }

    /// Those of a short list that leaves nothing out which the filter matches.
    pub fn chosen<T: Serialize>(&self, shapes: impl Iterator<Item = T>) -> Result<Vec<T>, Response> {
        let chosen = |shape: T| match self.matches(&OmitEmpty::NOTHING, |_| object(&shape)) {
            Ok(matched) => matched.then_some(Ok(shape)),
            Err(refusal) => Some(Err(refusal)),
        };
        shapes.filter_map(chosen).collect()
    }

    fn parse_filter(&self) -> Result<Option<Filter>, Response> {
        match self.text("filter") {
            None | Some("") => Ok(None),
            Some(text) => Filter::parse(text).map(Some).map_err(|why| bad(format!("{BAD_FILTER}: {why}"))),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, ()> {
        match self.text(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| ()),
        }
    }

    fn per_page(&self) -> Result<usize, Response> {
        let pages = self.number("per_page").ok().map(|n| n.unwrap_or(0));
        match pages.map(i32::try_from) {
            Some(Ok(n)) => Ok(n.unsigned_abs() as usize),
            _ => Err(bad("Failed to parse value of \"per_page\": expected a whole number from 0")),
        }
    }

    fn parse_wait(&self) -> Result<Option<Span>, Response> {
        match self.text("wait") {
            None | Some("") => Ok(None),
            Some(text) => match duration::parse(text) {
                Ok(wait) => Ok((wait > Span::ZERO).then_some(wait)),
                Err(_) => Err(bad("Invalid wait time")),
            },
        }
    }

    fn parse_stale(&self) -> Result<bool, Response> {
        match self.text("stale") {
            None => Ok(false),
            Some("") => Ok(true),
            Some(text) => boolean(text).ok_or_else(|| {
                bad(format!("Expect `true` or `false` for `stale` query string parameter, got {text}"))
            }),
        }
    }
}

/// An element as filters see it.
pub fn object<T: Serialize>(shape: &T) -> Result<Value, Response> {
    // by way of the text: a second writer for each shape would be larger than a reader for all
    serde_json::to_vec(shape)
        .and_then(|text| serde_json::from_slice(&text))
        .map_err(|why| Response::text(500, format!("an element could not be written as JSON: {why}")))
}

fn bad(sentence: impl Into<String>) -> Response {
    Response::text(400, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, String> {
        let pair = |p: &str| {
            let (k, v) = p.split_once('=').unwrap_or((p, ""));
            (k.to_string(), v.to_string())
        };
        Query::new(text.split('&').filter(|p| !p.is_empty()).map(pair).collect())
            .map_err(|r| format!("{} {}", r.status, String::from_utf8_lossy(&r.body)))
    }

    #[test]
    fn bad_parameters_are_refused_in_known_sentences() {
        for (text, error) in [
            ("index=x", "400 Invalid index"),
            ("index=-1", "400 Invalid index"),
            ("wait=5", "400 Invalid wait time"),
            ("stale=maybe", "400 Expect `true` or `false` for `stale` query string parameter, got maybe"),
            (
                "filter=Status",
                &format!(
                    "400 {BAD_FILTER}: character 7: expected an operator (==, !=, contains, in, matches, is empty, is nil, or their opposites with not), found the end"
                ),
            ),
            ("per_page=abc", "400 Failed to parse value of \"per_page\": expected a whole number from 0"),
            (
                "per_page=4294967296",
                "400 Failed to parse value of \"per_page\": expected a whole number from 0",
            ),
        ] {
            assert_eq!(query(text), Err(error.to_string()), "{text}");
        }
    }

    #[test]
    fn good_parameters_are_parsed() {
        let q =
            query("index=7&wait=2000ms&stale&pretty&namespace=*&prefix=ab&per_page=3&reverse=true").unwrap();
        assert_eq!((q.index, q.wait, q.stale, q.pretty), (7, Some(Span::seconds(2)), true, true));
        assert_eq!((q.namespace.as_deref(), q.prefix.as_str(), q.per_page), (Some("*"), "ab", 3));
        assert!(q.reverse);
        let q = query("pretty=0&stale=false&wait=-1s&region=").unwrap();
        assert_eq!((q.pretty, q.stale, q.wait, q.region), (false, false, None, None));
    }
}
