//! Requests for what another machine has: its tasks' logs and files, sessions, figures. Where the agent that was asked has no path to that
//! machine, the agent there is asked instead, at the address that its node tells; Nomad's own command line does the same.
//!
//! Refuses to know: what the requests mean.

use super::{HttpClient, QueryPairs, RequestError};
use serde_json::Value;

/// What an agent says that knows the node and has no connection to it (cli.md 1.1.6).
const NO_PATH: &str = "No path to node";

impl HttpClient {
    /// `ask`, of this agent, and where that has no path to the node, of the node's own.
    pub(super) fn following<T>(
        &self,
        path: &str,
        query: QueryPairs<'_>,
        ask: impl Fn(&HttpClient) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let refused = match ask(self) {
            Err(RequestError::Status { code: 404, text }) if text == NO_PATH => text,
            result => return result,
        };
        match self.of_node(path, query) {
            Some(other) => ask(&other),
            None => Err(RequestError::Status { code: 404, text: refused }),
        }
    }

    /// A client of the node that has what a request names. `None`: it names none, or nobody knows where that is.
    fn of_node(&self, path: &str, query: QueryPairs<'_>) -> Option<HttpClient> {
        let named = query.iter().find(|(name, _)| *name == "node_id").map(|(_, id)| id.to_string());
        let node = named.or_else(|| self.node_of_alloc(named_alloc(path)?))?;
        let node =
            self.ask_here("GET", &format!("/v1/node/{node}"), &[], None).and_then(|a| self.whole(a)).ok()?;
        let address = node["HTTPAddr"].as_str().filter(|address| !address.is_empty())?;
        if node["TLSEnabled"] != Value::Bool(true) {
            return Some(self.at(&format!("http://{address}"), Vec::new()));
        }
        let region = self.region_here()?;
        let names = ["client", "server"].map(|role| format!("{role}.{region}.nomad"));
        Some(self.at(&format!("https://{address}"), names.into()))
    }

    /// Certificates of nodes and servers have names in their region, whatever their address.
    fn region_here(&self) -> Option<String> {
        if !self.region.is_empty() {
            return Some(self.region.clone());
        }
        let agent = self.ask_here("GET", "/v1/agent/self", &[], None).and_then(|a| self.whole(a)).ok()?;
        Some(agent["config"]["Region"].as_str()?.to_string())
    }

    fn node_of_alloc(&self, alloc: &str) -> Option<String> {
        let answer = self.ask_here("GET", &format!("/v1/allocation/{alloc}"), &[], None);
        let alloc = answer.and_then(|answer| self.whole(answer)).ok()?;
        Some(alloc["NodeID"].as_str()?.to_string())
    }
}

/// The allocation of `/v1/client/fs/logs/ID` or `/v1/client/allocation/ID/stats`.
fn named_alloc(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/v1/client/")?;
    match rest.strip_prefix("allocation/") {
        Some(rest) => rest.split('/').next(),
        None => rest.strip_prefix("fs/")?.split('/').nth(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocation_that_a_path_names_is_found() {
        for (path, alloc) in [
            ("/v1/client/fs/logs/a1", Some("a1")),
            ("/v1/client/allocation/a1/stats", Some("a1")),
            ("/v1/client/stats", None),
            ("/v1/client/fs/logs", None),
            ("/v1/jobs", None),
        ] {
            assert_eq!(named_alloc(path), alloc, "{path}");
        }
    }
}
