//! What a group and its tasks ask for beyond cpu, memory and disk, and what becomes of a group while its node is away.
//!
//! Refuses to know: which of it a node has.

use super::{Decoder, Given};
use model::claims::{
    DEFAULT_HOST_NETWORK, DeviceAsk, GroupAsks, Network, Port, TaskAsks, VolumeAsk, VolumeMount,
};
use model::job::{DisconnectPolicy, Reconcile};
use model::time::Span;

const RECONCILES: [(&str, Reconcile); 4] = [
    ("best_score", Reconcile::BestScore),
    ("keep_original", Reconcile::KeepOriginal),
    ("keep_replacement", Reconcile::KeepReplacement),
    ("longest_running", Reconcile::LongestRunning),
];

impl Decoder<'_> {
    pub(super) fn group_asks(&mut self, g: Given<'_>, path: &str) -> GroupAsks {
        let volumes = g.0.get("Volumes").and_then(|v| v.as_object()).into_iter().flatten();
        let volumes = volumes.filter_map(|(name, v)| {
            let volume = self.volume(Given(v.as_object()?), &format!("{path}.Volumes[{name}]"));
            Some((name.clone(), volume))
        });
        GroupAsks { volumes: volumes.collect(), networks: networks(g) }
    }

    fn volume(&mut self, v: Given<'_>, path: &str) -> VolumeAsk {
        let kind = v.owned("Type");
        if kind == "csi" {
            self.checker.unbuilt("volume type \"csi\"", path);
        }
        VolumeAsk { kind, source: v.owned("Source"), read_only: v.flag("ReadOnly").unwrap_or(false) }
    }

    pub(super) fn task_asks(t: Given<'_>) -> TaskAsks {
        let Some(r) = t.inner("Resources") else {
            return TaskAsks { mounts: mounts(t), ..TaskAsks::default() };
        };
        let device = |d: Given<'_>| DeviceAsk {
            name: d.owned("Name"),
            count: d.int("Count").unwrap_or(1),
            constraints: Self::constraints(d),
            affinities: Self::affinities(d),
        };
        TaskAsks {
            memory_max_mb: r.int("MemoryMaxMB").unwrap_or(0),
            cores: r.int("Cores").unwrap_or(0),
            networks: networks(r),
            devices: r.many("Devices").map(device).collect(),
            mounts: mounts(t),
        }
    }

    /// The three older keys say the same in other words; both ways at once is said to be wrong.
    pub(super) fn disconnect(&mut self, g: Given<'_>, path: &str) -> Option<DisconnectPolicy> {
        let older = (
            g.span("MaxClientDisconnect"),
            g.span("StopAfterClientDisconnect"),
            g.flag("PreventRescheduleOnLost").unwrap_or(false),
        );
        let Some(d) = g.inner("Disconnect") else {
            let (lost_after, stop_on_client_after, prevented) = older;
            let policy = DisconnectPolicy {
                lost_after,
                stop_on_client_after,
                replace: !prevented,
                reconcile: Reconcile::BestScore,
            };
            return (older != (None, None, false)).then_some(policy);
        };
        if older != (None, None, false) {
            self.checker.wrong(format!(
                "{path}.Disconnect: it says all that max_client_disconnect, stop_after_client_disconnect and \
                 prevent_reschedule_on_lost say; leave those out"
            ));
        }
        Some(DisconnectPolicy {
            lost_after: d.span("LostAfter").filter(|after| *after != Span::ZERO),
            stop_on_client_after: d.span("StopOnClientAfter"),
            replace: d.flag("Replace").unwrap_or(true),
            reconcile: self.one_of(
                d,
                "Reconcile",
                &format!("{path}.Disconnect"),
                &RECONCILES,
                Reconcile::BestScore,
            ),
        })
    }
}

fn networks(outer: Given<'_>) -> Vec<Network> {
    let one = |n: Given<'_>| Network {
        mode: n.owned("Mode"),
        mbits: n.int("MBits").unwrap_or(0),
        reserved: n.many("ReservedPorts").map(port).collect(),
        dynamic: n.many("DynamicPorts").map(port).collect(),
    };
    outer.many("Networks").map(one).collect()
}

fn port(p: Given<'_>) -> Port {
    let host_network = p.text("HostNetwork").filter(|n| !n.is_empty()).unwrap_or(DEFAULT_HOST_NETWORK);
    Port {
        label: p.owned("Label"),
        value: p.int("Value").unwrap_or(0),
        to: p.int("To").unwrap_or(0),
        host_network: host_network.to_string(),
    }
}

fn mounts(t: Given<'_>) -> Vec<VolumeMount> {
    let one = |m: Given<'_>| VolumeMount {
        volume: m.owned("Volume"),
        destination: m.owned("Destination"),
        read_only: m.flag("ReadOnly").unwrap_or(false),
        propagation_mode: m
            .text("PropagationMode")
            .filter(|p| !p.is_empty())
            .unwrap_or("private")
            .to_string(),
    };
    t.many("VolumeMounts").map(one).collect()
}
