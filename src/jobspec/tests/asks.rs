//! Ports, devices, cores, volumes and what becomes of a group without its node: from job files to the model.

use super::accepted::decode;
use super::*;
use crate::{RefusedJob, decode_job};
use model::claims::{Network, Port};
use model::job::{DisconnectPolicy, JobSpec, Reconcile};
use model::time::Span;
use model::validate::{Limits, validate};

const FILE: &str = r#"
job "a" {
  group "g" {
    network {
      mode  = "host"
      mbits = 10
      port "web" {
        static       = 8080
        to           = 80
        host_network = "lan"
      }
      port "rpc" {
        to = -1
      }
    }
    volume "data" {
      type      = "host"
      source    = "disk"
      read_only = true
    }
    disconnect {
      lost_after = "6h"
      replace    = false
      reconcile  = "keep_original"
    }
    task "t" {
      driver = "raw_exec"
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      resources {
        cores      = 2
        memory     = 100
        memory_max = 200
        device "nvidia/gpu" {
          count = 2
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "2 GiB"
          }
          affinity {
            attribute = "${device.model}"
            value     = "x"
            weight    = 30
          }
        }
        network {
          port "own" {}
        }
      }
    }
  }
}
"#;

fn spec() -> JobSpec {
    let parsed = read(FILE);
    assert!(parsed.not_supported.is_empty(), "{:?}", parsed.not_supported);
    decode(&parsed.job.unwrap())
}

fn port(label: &str, value: i64, to: i64, host_network: &str) -> Port {
    Port { label: label.into(), value, to, host_network: host_network.into() }
}

#[test]
fn everything_in_a_file_arrives() {
    let spec = spec();
    let group = &spec.groups[0];
    let network = Network {
        mode: "host".into(),
        mbits: 10,
        reserved: vec![port("web", 8080, 80, "lan")],
        dynamic: vec![port("rpc", 0, -1, "default")],
    };
    assert_eq!(group.networks, [network]);
    let volume = &group.volumes["data"];
    assert_eq!((volume.kind.as_str(), volume.source.as_str(), volume.read_only), ("host", "disk", true));
    let asks = &group.tasks[0].resources;
    assert_eq!((asks.cores, asks.memory_max_mb, asks.cpu_mhz), (2, 200, 0));
    let device = &asks.devices[0];
    assert_eq!((device.name.as_str(), device.count, device.affinities[0].weight), ("nvidia/gpu", 2, 30));
    assert_eq!(device.constraints[0].to_string(), "${device.attr.memory} >= 2 GiB");
    assert_eq!(asks.networks[0].dynamic, [port("own", 0, 0, "default")]);
    let mount = &group.tasks[0].volume_mounts[0];
    assert_eq!((mount.volume.as_str(), mount.propagation_mode.as_str()), ("data", "private"));
    let policy = DisconnectPolicy {
        lost_after: Some(Span::hours(6)),
        stop_on_client_after: None,
        replace: false,
        reconcile: Reconcile::KeepOriginal,
    };
    assert_eq!(group.disconnect, Some(policy));
    let found = validate(&spec, &Limits::default());
    assert_eq!(found.errors, Vec::<String>::new());
    assert_eq!(found.warnings.len(), 3, "{:?}", found.warnings);
}

fn disconnect(body: &str) -> Result<Option<DisconnectPolicy>, RefusedJob> {
    let text = format!("job \"a\" {{\ngroup \"g\" {{\n{body}\ntask \"t\" {{\ndriver = \"d\"\n}}\n}}\n}}\n");
    decode_job(&read(&text).job.unwrap()).map(|spec| spec.groups[0].disconnect)
}

#[test]
fn older_keys_mean_what_disconnect_says() {
    let policy = |lost_after, stop_on_client_after, replace| DisconnectPolicy {
        lost_after,
        stop_on_client_after,
        replace,
        reconcile: Reconcile::BestScore,
    };
    let hour = Some(Span::hours(1));
    for (body, expected) in [
        ("", None),
        ("prevent_reschedule_on_lost = false", None),
        ("max_client_disconnect = \"1h\"", Some(policy(hour, None, true))),
        ("stop_after_client_disconnect = \"1h\"", Some(policy(None, hour, true))),
        (
            "max_client_disconnect = \"1h\"\nprevent_reschedule_on_lost = true",
            Some(policy(hour, None, false)),
        ),
        ("disconnect {}", Some(policy(None, None, true))),
        ("disconnect {\nstop_on_client_after = \"1h\"\n}", Some(policy(None, hour, true))),
    ] {
        assert_eq!(disconnect(body), Ok(expected), "{body}");
    }
    for (body, why) in [
        ("disconnect {\nreconcile = \"x\"\n}", "\"x\" is unknown; it is one of best_score"),
        ("max_client_disconnect = \"1h\"\ndisconnect {}", "leave those out"),
    ] {
        assert!(disconnect(body).is_err_and(|e| e.to_string().contains(why)), "{body}");
    }
}
