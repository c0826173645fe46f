//! The ports of an allocation and where they are reached (cli.md 3.5.2).

use crate::render::layout;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// `AllocatedResources`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Allocated {
    shared: Shared,
    tasks: BTreeMap<String, OfTask>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Shared {
    networks: Option<Vec<Network>>,
    ports: Option<Vec<Mapping>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct OfTask {
    networks: Option<Vec<Network>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Network {
    mode: String,
    #[serde(rename = "IP")]
    ip: String,
    dynamic_ports: Option<Vec<Mapping>>,
    reserved_ports: Option<Vec<Mapping>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Mapping {
    label: String,
    value: u16,
    to: i64,
    #[serde(rename = "HostIP")]
    host_ip: String,
}

impl Mapping {
    fn address(&self, ip: &str) -> String {
        let ip = if ip.contains(':') { format!("[{ip}]") } else { ip.to_string() };
        let inside = if self.to > 0 { format!(" -> {}", self.to) } else { String::new() };
        format!("{ip}:{}{inside}", self.value)
    }
}

impl Allocated {
    /// Title and table; None: it has no ports.
    pub fn shown(&self) -> Option<(String, String)> {
        let ports = self.shared.ports.as_ref().filter(|p| !p.is_empty())?;
        let networks = self.shared.networks.as_deref().unwrap_or_default();
        let dynamic = networks.iter().flat_map(|n| n.dynamic_ports.iter().flatten());
        let dynamic: BTreeSet<&str> = dynamic.map(|p| p.label.as_str()).collect();
        let row = |p: &Mapping| {
            let chosen = if dynamic.contains(p.label.as_str()) { "yes" } else { "" };
            vec![format!("*{}", p.label), chosen.to_string(), p.address(&p.host_ip)]
        };
        let rows: Vec<_> = ports.iter().map(row).collect();
        let title = match networks.first().map(|n| n.mode.as_str()) {
            None | Some("") => "Allocation Addresses:".to_string(),
            Some(mode) => format!("Allocation Addresses (mode = {mode:?}):"),
        };
        Some((title, layout::table(&["Label", "Dynamic", "Address"], &rows)))
    }

    /// The ports of one task's own network.
    pub fn of_task(&self, task: &str) -> Vec<String> {
        let networks = self.tasks.get(task).and_then(|t| t.networks.as_deref()).unwrap_or_default();
        let ports = networks.iter().flat_map(|n| {
            let ports = n.reserved_ports.iter().chain(&n.dynamic_ports).flatten();
            ports.map(|p| format!("{}: {}", p.label, p.address(&n.ip)))
        });
        ports.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ports_are_shown_with_where_they_lead() {
        let allocated: Allocated = crate::answer::read(&json!({
            "Shared": {
                "Networks": [{"Mode": "", "DynamicPorts": [{"Label": "db"}], "ReservedPorts": [{"Label": "web"}]}],
                "Ports": [
                    {"Label": "web", "Value": 80, "To": 0, "HostIP": "::1"},
                    {"Label": "db", "Value": 23_456, "To": 6379, "HostIP": "10.0.0.5"},
                ]
            },
            "Tasks": {"t": {"Networks": [{"IP": "10.0.0.5", "DynamicPorts": [{"Label": "x", "Value": 7}]}]}}
        }))
        .unwrap();
        let (title, table) = allocated.shown().unwrap();
        assert_eq!(title, "Allocation Addresses:");
        let lines: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["*web", "<none>", "[::1]:80"]);
        assert_eq!(lines[2], ["*db", "yes", "10.0.0.5:23456", "->", "6379"]);
        assert_eq!(allocated.of_task("t"), ["x: 10.0.0.5:7"]);
        assert!(Allocated::default().shown().is_none() && allocated.of_task("u").is_empty());
    }
}
