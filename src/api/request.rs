//! Parses paths and queries of requests: percent-encoding is decoded once, invalid UTF-8 and NUL are refused, and the
//! number of parameters is bounded.
//!
//! Refuses to know: routes and their meaning.

use std::fmt;
use wire::http::Request;

/// How long a body may be, in bytes. Longer ones are refused before they are read.
pub const MAX_BODY_BYTES: usize = 4 << 20;
/// How long a path with its query may be, in bytes.
pub const MAX_TARGET_BYTES: usize = 16 << 10;
/// How many parameters a query may have.
pub const MAX_PARAMETERS: usize = 128;

/// Why a path or query was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTarget {
    TooLong,
    TooManyParameters,
    Escape,
    Encoding,
    Nul,
}

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadTarget::TooLong => write!(f, "path and query are longer than {MAX_TARGET_BYTES} bytes"),
            BadTarget::TooManyParameters => {
                write!(f, "the query has more than {MAX_PARAMETERS} parameters")
            }
            BadTarget::Escape => f.write_str("invalid URL escape: a % needs two hex digits"),
            BadTarget::Encoding => f.write_str("path or query is not UTF-8 after decoding"),
            BadTarget::Nul => f.write_str("path or query holds a NUL byte"),
        }
    }
}

/// Stands in a decoded path for a slash that was escaped, which is part of a name: no decoded path holds a NUL otherwise.
pub const SLASH_OF_A_NAME: &str = "\0";

/// The path, decoded; slashes that were escaped are `SLASH_OF_A_NAME`.
pub fn decoded_path(request: &Request) -> Result<String, BadTarget> {
    if request.path.len() + request.query.len() > MAX_TARGET_BYTES {
        return Err(BadTarget::TooLong);
    }
    let part = |part: &str| Ok(decode(part, false)?.replace('/', SLASH_OF_A_NAME));
    let parts: Vec<String> = request.path.split('/').map(part).collect::<Result<_, BadTarget>>()?;
    Ok(parts.join("/"))
}

/// The query's parameters in their order, decoded.
pub fn parameters(request: &Request) -> Result<Vec<(String, String)>, BadTarget> {
    let mut parameters = Vec::new();
    for pair in request.query.split('&').filter(|p| !p.is_empty()) {
        if parameters.len() == MAX_PARAMETERS {
            return Err(BadTarget::TooManyParameters);
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        parameters.push((decode(key, true)?, decode(value, true)?));
    }
    Ok(parameters)
}

/// Undoes percent-encoding, once. In a query, `+` is a space.
fn decode(text: &str, plus_is_space: bool) -> Result<String, BadTarget> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'%' => match (bytes.next().and_then(hex), bytes.next().and_then(hex)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(BadTarget::Escape),
            },
            b'+' if plus_is_space => b' ',
            _ => b,
        });
    }
    if out.contains(&0) {
        return Err(BadTarget::Nul);
    }
    String::from_utf8(out).map_err(|_| BadTarget::Encoding)
}

fn hex(b: u8) -> Option<u8> {
    (b as char).to_digit(16).map(|d| d as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http::Method;

    #[test]
    fn escapes_are_undone_once() {
        for (text, query, plain) in [
            ("/v1/job/a%2Fb", false, Ok("/v1/job/a/b")),
            ("a%252Fb", false, Ok("a%2Fb")),
            ("a+b", false, Ok("a+b")),
            ("a+b%2B", true, Ok("a b+")),
            ("%C3%A4", false, Ok("ä")),
            ("%", false, Err(BadTarget::Escape)),
            ("%4", false, Err(BadTarget::Escape)),
            ("%zz", false, Err(BadTarget::Escape)),
            ("%+1", false, Err(BadTarget::Escape)),
            ("%ff", false, Err(BadTarget::Encoding)),
            ("a%00", false, Err(BadTarget::Nul)),
        ] {
            assert_eq!(decode(text, query).as_deref(), plain.as_ref().map(|p| *p), "{text}");
        }
    }

    #[test]
    fn queries_are_bounded() {
        let request = |query: String| Request {
            method: Method::Get,
            path: "/v1/jobs".into(),
            query,
            body: vec![],
            websocket: false,
        };
        assert_eq!(
            parameters(&request("a=1&b&&c=x%20y=z".into())),
            Ok(vec![("a".into(), "1".into()), ("b".into(), String::new()), ("c".into(), "x y=z".into())])
        );
        let many = request("a&".repeat(MAX_PARAMETERS + 1));
        assert_eq!(parameters(&many), Err(BadTarget::TooManyParameters));
        assert_eq!(decoded_path(&request("a".repeat(MAX_TARGET_BYTES))), Err(BadTarget::TooLong));
    }
}
