//! CORS: which requests a web page of another origin may make (http-api.md 0.1.9).
//!
//! Any origin may read the client routes, and read and write variables: callers authenticate with what they send in each
//! request, never with something that a browser adds by itself.

use super::response::Response;

/// The CORS headers of a request or a preflight.
pub struct CorsRequest<'a> {
    /// Not decoded.
    pub path: &'a str,
    pub method: &'a str,
    pub origin: Option<&'a str>,
    pub wanted_method: Option<&'a str>,
    pub wanted_headers: Option<&'a str>,
}

const READ: &[&str] = &["HEAD", "GET"];
const WRITE: &[&str] = &["HEAD", "GET", "PUT", "DELETE"];

/// Path prefixes, and the methods allowed to other origins.
const OPEN: &[(&str, &[&str])] = &[
    ("/v1/client/fs/", READ),
    ("/v1/client/allocation/", READ),
    ("/v1/client/stats", READ),
    ("/v1/client/metadata", READ),
    ("/v1/vars", READ),
    ("/v1/var/", WRITE),
];

/// Headers for the answer, and the whole answer to a preflight.
pub fn answer(asked: &CorsRequest<'_>) -> (Vec<(&'static str, String)>, Option<Response>) {
    let Some((_, methods)) = OPEN.iter().find(|(beginning, _)| asked.path.starts_with(beginning)) else {
        return (vec![], None);
    };
    let vary = |name: &str| ("Vary", name.to_string());
    let allow = |allowed: bool, more: Vec<(&'static str, String)>| {
        if asked.origin.is_none() || !allowed {
            return vec![];
        }
        let origin = ("Access-Control-Allow-Origin", "*".to_string());
        let credentials = ("Access-Control-Allow-Credentials", "true".to_string());
        [vec![origin, credentials], more].concat()
    };
    match asked.wanted_method.filter(|_| asked.method == "OPTIONS") {
        None => {
            let headers = [vec![vary("Origin")], allow(methods.contains(&asked.method), vec![])].concat();
            (headers, None)
        }
        Some(wanted) => {
            let wanted = wanted.to_ascii_uppercase();
            let mut more = vec![("Access-Control-Allow-Methods", wanted.clone())];
            more.extend(asked.wanted_headers.map(|h| ("Access-Control-Allow-Headers", h.to_string())));
            let varies = ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"];
            let allowed = allow(methods.contains(&wanted.as_str()), more);
            ([varies.map(vary).to_vec(), allowed].concat(), Some(Response::text(204, "")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, origin: Option<&str>) -> Vec<(&'static str, String)> {
        let asked = CorsRequest { path, method: "GET", origin, wanted_method: None, wanted_headers: None };
        let (headers, answer) = super::answer(&asked);
        assert_eq!(answer, None, "{path}");
        headers
    }

    #[test]
    fn other_origins_may_read_client_routes() {
        let page = Some("http://a.example");
        for path in [
            "/v1/client/fs/logs/x",
            "/v1/client/stats?node_id=x",
            "/v1/client/allocation/x/stats",
            "/v1/vars",
        ] {
            let headers = get(path, page);
            assert!(headers.contains(&("Access-Control-Allow-Origin", "*".into())), "{path}: {headers:?}");
            assert_eq!(get(path, None), [("Vary", "Origin".to_string())], "{path}");
        }
        for path in ["/v1/jobs", "/v1/client/gc", "/v1/agent/self", "/v1/variables", "/"] {
            assert!(get(path, page).is_empty(), "{path}");
        }
    }

    #[test]
    fn preflight_requests_are_answered() {
        for (path, wanted, allowed) in [
            ("/v1/client/fs/cat/x", "GET", true),
            ("/v1/client/allocation/x/restart", "PUT", false),
            ("/v1/var/a/b", "delete", true),
            ("/v1/var/a/b", "PATCH", false),
        ] {
            let (wanted, headers) = (Some(wanted), Some("x-nomad-token, content-type"));
            let asked = CorsRequest {
                path,
                method: "OPTIONS",
                origin: Some("null"),
                wanted_method: wanted,
                wanted_headers: headers,
            };
            let (headers, answer) = super::answer(&asked);
            assert_eq!(answer.map(|r| r.status), Some(204), "{path}");
            let told = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
            let expected = allowed.then_some("x-nomad-token, content-type");
            assert_eq!(told("Access-Control-Allow-Headers"), expected, "{path}");
            assert_eq!(told("Access-Control-Allow-Origin").is_some(), allowed, "{path}");
            assert_eq!(headers.iter().filter(|(name, _)| *name == "Vary").count(), 3, "{path}");
        }
    }
}
