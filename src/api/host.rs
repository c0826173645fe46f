//! `agent/host`: the agent's machine as an operator may see it, if `enable_debug` is set (http-api.md 8.5).
//!
//! Refuses to know: how the machine is read. Invariant: environment variables that may hold a secret are redacted.

use crate::response::Response;
use serde::Serialize;
use std::collections::BTreeMap;

/// The machine's data, as `io` read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostData {
    #[serde(rename = "OS")]
    pub os: String,
    /// One map for each address: the interface and the address.
    pub network: Vec<BTreeMap<&'static str, String>>,
    pub resolv_conf: String,
    pub hosts: String,
    pub environment: BTreeMap<String, String>,
    #[serde(rename = "Disk")]
    pub disks: BTreeMap<String, DiskSpace>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskSpace {
    #[serde(rename = "DiskMB")]
    pub disk_mb: u64,
    #[serde(rename = "UsedMB")]
    pub used_mb: u64,
}

/// `GET /v1/agent/host`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostShape {
    #[serde(rename = "AgentID")]
    agent_id: String,
    host_data: HostData,
}

/// A request that may be answered once the machine was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRequest {
    agent_id: String,
    pretty: bool,
}

impl HostRequest {
    pub fn new(agent_id: String, pretty: bool) -> HostRequest {
        HostRequest { agent_id, pretty }
    }

    pub fn response(self, mut host_data: HostData) -> Response {
        for (name, value) in &mut host_data.environment {
            if is_secret(name) {
                *value = "<redacted>".into();
            }
        }
        Response::json(&HostShape { agent_id: self.agent_id, host_data }, self.pretty)
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "LICENSE", "KEY", "CREDENTIAL"].iter().any(|w| name.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_the_environment_are_hidden() {
        for (name, secret) in [
            ("NOMAD_TOKEN", true),
            ("aws_secret_access_key", true),
            ("DB_PASSWORD", true),
            ("PATH", false),
            ("HOME", false),
        ] {
            assert_eq!(is_secret(name), secret, "{name}");
        }
    }
}
