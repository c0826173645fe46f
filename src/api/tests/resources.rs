//! What jobs ask for beyond cpu, memory and disk, as the API shows it: in jobs, allocations and nodes.

use crate::shape::alloc::AllocShape;
use crate::shape::job::JobShape;
use crate::shape::node::NodeShape;
use jobspec::{Vars, decode_job, parse};
use model::claims::{
    DeviceAttribute, DeviceGroup, DeviceInstance, DeviceValue, HeldDevice, HeldNetwork, HeldPort, HostVolume,
    NodeAddress, NodeOffers, PortRange, TaskHoldings,
};
use model::job::JobSpec;
use serde::Serialize;
use serde_json::{Value, json};
use state::samples::{Region, alloc, eval, eval_id, node_id, register, spec};

const FILE: &str = r#"
job "a" {
  ui {
    description = "What it does"
    link {
      label = "Runbook"
      url   = "https://example.org/a"
    }
  }
  group "g" {
    network {
      port "web" { static = 80 }
      port "rpc" { to = -1 }
    }
    volume "v" {
      type   = "host"
      source = "disk"
    }
    disconnect {
      lost_after = "6h"
      reconcile  = "longest_running"
    }
    task "t" {
      driver = "raw_exec"
      volume_mount {
        volume      = "v"
        destination = "/d"
      }
      resources {
        cores      = 1
        memory_max = 400
        device "gpu" {}
      }
    }
  }
}
"#;

fn ask_client() -> JobSpec {
    let parsed = parse("t.nomad.hcl", FILE, &Vars::default(), None);
    decode_job(&parsed.job.expect("parses")).expect("is a job")
}

fn shown(shape: &impl Serialize) -> Value {
    serde_json::to_value(shape).expect("is JSON")
}

#[test]
fn a_job_is_shown_as_it_is_submitted() {
    let spec = ask_client();
    let job = shown(&JobShape::of_spec(&spec));
    let link = json!({"Label": "Runbook", "URL": "https://example.org/a"});
    assert_eq!(job["UI"], json!({"Description": "What it does", "Links": [link]}));
    let group = &job["TaskGroups"][0];
    assert_eq!(
        group["Networks"],
        json!([{"Mode": "", "Device": "", "CIDR": "", "IP": "", "MBits": 0, "DNS": null,
            "ReservedPorts": [{"Label": "web", "Value": 80, "To": 0, "HostNetwork": "default"}],
            "DynamicPorts": [{"Label": "rpc", "Value": 0, "To": -1, "HostNetwork": "default"}]}])
    );
    assert_eq!(
        group["Volumes"],
        json!({"v": {"Name": "v", "Type": "host", "Source": "disk", "ReadOnly": false, "Sticky": false,
            "AccessMode": "", "AttachmentMode": "", "MountOptions": null, "PerAlloc": false}})
    );
    assert_eq!(
        group["Disconnect"],
        json!({"LostAfter": 21_600_000_000_000_i64, "StopOnClientAfter": null, "Replace": true,
            "Reconcile": "longest_running"})
    );
    let task = &group["Tasks"][0];
    assert_eq!(
        task["VolumeMounts"],
        json!([{"Volume": "v", "Destination": "/d", "ReadOnly": false, "PropagationMode": "private", "SELinuxLabel": ""}])
    );
    let resources = &task["Resources"];
    assert_eq!(
        (&resources["CPU"], &resources["Cores"], &resources["MemoryMaxMB"]),
        (&json!(0), &json!(1), &json!(400))
    );
    assert_eq!(
        resources["Devices"],
        json!([{"Name": "gpu", "Count": 1, "Constraints": null, "Affinities": null}])
    );
    assert_eq!(decode_job(&job), Ok(spec));
}

#[test]
fn an_allocation_shows_what_it_holds() {
    let mut region = Region::default();
    region.run(&register(spec("a", 1), Some(eval(1, "a"))));
    let job = region.job("a");
    let mut a = alloc(1, &job, node_id(1), eval_id(1));
    let port = |label: &str, value, fixed| HeldPort {
        label: label.into(),
        value,
        to: if fixed { 7 } else { -1 },
        host_ip: "10.0.0.1".into(),
        host_network: "default".into(),
        fixed,
    };
    let ports = vec![port("web", 80, true), port("rpc", 21_000, false)];
    a.resources.networks =
        vec![HeldNetwork { mode: String::new(), device: "eth0".into(), ip: "10.0.0.1".into(), ports }];
    let device =
        HeldDevice { vendor: "nvidia".into(), kind: "gpu".into(), name: "x".into(), ids: vec!["i".into()] };
    let task = a.resources.tasks.get_mut("t").expect("has a task");
    task.held =
        TaskHoldings { memory_max_mb: 128, cores: vec![2, 3], networks: vec![], devices: vec![device] };
    let all = shown(&AllocShape::new(&a, Some(&job)));
    let network = json!({"Mode": "", "Device": "eth0", "CIDR": "", "IP": "10.0.0.1", "MBits": 0, "DNS": null,
        "ReservedPorts": [{"Label": "web", "Value": 80, "To": 7, "HostNetwork": "default"}],
        "DynamicPorts": [{"Label": "rpc", "Value": 21_000, "To": 21_000, "HostNetwork": "default"}]});
    assert_eq!(
        all["AllocatedResources"]["Shared"],
        json!({"DiskMB": 300, "Networks": [network], "Ports": [
            {"Label": "web", "Value": 80, "To": 7, "HostIP": "10.0.0.1"},
            {"Label": "rpc", "Value": 21_000, "To": 21_000, "HostIP": "10.0.0.1"}
        ]})
    );
    assert_eq!(
        all["AllocatedResources"]["Tasks"]["t"],
        json!({"Cpu": {"CpuShares": 100, "ReservedCores": [2, 3]}, "Memory": {"MemoryMB": 64, "MemoryMaxMB": 128},
            "Networks": null,
            "Devices": [{"Vendor": "nvidia", "Type": "gpu", "Name": "x", "DeviceIDs": ["i"]}]})
    );
    assert_eq!(
        (&all["SharedResources"]["Networks"], &all["Resources"]["Networks"]),
        (&json!([network]), &json!([network]))
    );
    let legacy = &all["TaskResources"]["t"];
    assert_eq!((&legacy["Cores"], &legacy["MemoryMaxMB"]), (&json!(2), &json!(128)));
}

#[test]
fn a_node_shows_what_it_offers() {
    let mut region = Region::default();
    let id = region.ready_node(1);
    let mut node = region.view().node(id).expect("reads").map(|n| (*n).clone()).expect("exists");
    let address = |alias: &str, reserved: &str| NodeAddress {
        alias: alias.into(),
        device: "eth0".into(),
        address: "10.0.0.1".into(),
        reserved_ports: reserved.into(),
    };
    let attribute = DeviceAttribute { value: DeviceValue::Int(8), unit: "GiB".into() };
    let device = DeviceGroup {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        name: "x".into(),
        attributes: [("memory".to_string(), attribute)].into(),
        instances: vec![DeviceInstance { id: "i".into(), healthy: true, description: String::new() }],
    };
    let (mac, addresses) = ("aa".to_string(), vec!["10.0.0.1".to_string()]);
    node.info.networks =
        vec![model::node::NodeNetwork { device: "eth0".into(), mac, speed_mbit: 1_000, addresses }];
    node.info.offers = NodeOffers {
        addresses: vec![address("default", ""), address("lan", "22")],
        dynamic_ports: PortRange { min: 1, max: 2 },
        reserved_ports: "80".into(),
        cores: vec![1],
        reserved_cores: vec![0],
        volumes: [("disk".to_string(), HostVolume { path: "/srv".into(), read_only: true })].into(),
        devices: vec![device],
        ..NodeOffers::default()
    };
    let all = shown(&NodeShape::new(&node));
    assert_eq!(all["HostVolumes"], json!({"disk": {"Name": "disk", "Path": "/srv", "ReadOnly": true}}));
    assert_eq!(
        all["HostNetworks"],
        json!({"lan": {"Name": "lan", "CIDR": "", "Interface": "eth0", "ReservedPorts": "22"}})
    );
    let resources = &all["NodeResources"];
    assert_eq!((&resources["MinDynamicPort"], &resources["MaxDynamicPort"]), (&json!(1), &json!(2)));
    assert_eq!(resources["Cpu"]["ReservableCpuCores"], json!([1]));
    assert_eq!(
        resources["NodeNetworks"][0]["Addresses"][1],
        json!({"Family": "ipv4", "Alias": "lan", "Address": "10.0.0.1", "ReservedPorts": "22", "Gateway": ""})
    );
    assert_eq!(resources["Networks"][0]["CIDR"], json!("10.0.0.1/32"));
    assert_eq!(
        resources["Devices"],
        json!([{"Vendor": "nvidia", "Type": "gpu", "Name": "x",
            "Instances": [{"ID": "i", "Healthy": true, "HealthDescription": "", "Locality": null}],
            "Attributes": {"memory": {"Int": 8, "Unit": "GiB"}}}])
    );
    let reserved = &all["ReservedResources"];
    assert_eq!(reserved["Networks"], json!({"ReservedHostPorts": "80"}));
    assert_eq!(reserved["Cpu"]["ReservedCpuCores"], json!([0]));
}
