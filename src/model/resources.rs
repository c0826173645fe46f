//! Amounts of a machine, and how a group's tasks add up to one ask.

use super::claims::{Claim, DeviceAsk, HeldNetwork, Network, TaskHoldings};
use super::schema::policies::NUMA;
use super::schema::{ValueKind, block, filled, maybe, named, nullable, one, soon, words, zeroed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What metrics call `Amount::allocs`.
pub const TOO_MANY: &str = "max allocation exceeded";

/// The share of a task that asks for no whole cores.
pub const DEFAULT_CPU_MHZ: i64 = 100;

block! {
    /// What a task asks for.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct Resources in named("resources", "Resources") => {
        pub cpu_mhz: i64 = DEFAULT_CPU_MHZ => nullable("cpu", "CPU");
        /// Whole cores; 0: a share of cpu instead.
        pub cores: i64 => nullable("cores", "Cores");
        pub memory_mb: i64 = 300 => nullable("memory", "MemoryMB");
        /// How far it may go beyond its memory. 0: nowhere; -1: as far as there is.
        pub memory_max_mb: i64 => nullable("memory_max", "MemoryMaxMB");
        pub networks: Vec<Network> => nullable("network", "Networks");
        pub devices: Vec<DeviceAsk> => nullable("device", "Devices");
    }
    and [
        soon(maybe("disk", "DiskMB", ValueKind::Int)).always_zero(),
        soon(maybe("iops", "IOPS", ValueKind::Int)).always_zero(),
        soon(filled(one("numa", "NUMA", &NUMA), r#"{"Affinity":"none"}"#)),
        soon(maybe("secrets", "SecretsMB", ValueKind::Int)).always_zero(),
    ]
}

block! {
    /// The disk that an allocation has to itself. Nothing of it moves on to the next one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct EphemeralDisk in named("ephemeral_disk", "EphemeralDisk") => {
        pub size_mb: i64 = 300 => nullable("size", "SizeMB");
    }
    and [
        soon(maybe("sticky", "Sticky", ValueKind::Bool)).always_zero(),
        soon(maybe("migrate", "Migrate", ValueKind::Bool)).always_zero(),
    ]
}

/// What is scheduled: MHz of cpu, MiB of memory, MiB of disk, and places for allocations. Signed, because differences are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    pub cpu_mhz: i64,
    pub memory_mb: i64,
    pub disk_mb: i64,
    /// Follows from what else is stored: each allocation is one, and of a node see `Node::available`.
    #[serde(skip)]
    pub allocs: i64,
}

impl Amount {
    pub const ZERO: Amount = Amount { cpu_mhz: 0, memory_mb: 0, disk_mb: 0, allocs: 0 };

    pub fn plus(self, o: Amount) -> Amount {
        Amount {
            cpu_mhz: self.cpu_mhz.saturating_add(o.cpu_mhz),
            memory_mb: self.memory_mb.saturating_add(o.memory_mb),
            disk_mb: self.disk_mb.saturating_add(o.disk_mb),
            allocs: self.allocs.saturating_add(o.allocs),
        }
    }

    pub fn minus(self, o: Amount) -> Amount {
        Amount {
            cpu_mhz: self.cpu_mhz.saturating_sub(o.cpu_mhz),
            memory_mb: self.memory_mb.saturating_sub(o.memory_mb),
            disk_mb: self.disk_mb.saturating_sub(o.disk_mb),
            allocs: self.allocs.saturating_sub(o.allocs),
        }
    }

    fn max(self, o: Amount) -> Amount {
        Amount {
            cpu_mhz: self.cpu_mhz.max(o.cpu_mhz),
            memory_mb: self.memory_mb.max(o.memory_mb),
            disk_mb: self.disk_mb.max(o.disk_mb),
            allocs: self.allocs.max(o.allocs),
        }
    }

    /// The first dimension in which `self` does not hold `ask`, by the name that metrics use.
    pub fn lacks(self, ask: Amount) -> Option<&'static str> {
        if ask.allocs > self.allocs {
            Some(TOO_MANY)
        } else if ask.cpu_mhz > self.cpu_mhz {
            Some("cpu")
        } else if ask.memory_mb > self.memory_mb {
            Some("memory")
        } else if ask.disk_mb > self.disk_mb {
            Some("disk")
        } else {
            None
        }
    }
}

words! {
    /// When a task runs within its group: `lifecycle` in the job file. None of these is a main task.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Hook {
        Prestart = "prestart",
        Poststart = "poststart",
        Poststop = "poststop",
    }
}

block! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Lifecycle in named("lifecycle", "Lifecycle") => {
        pub hook: Hook = Hook::Prestart => zeroed("hook", "Hook");
        /// For prestart and poststart: the task keeps running beside the main tasks.
        pub sidecar: bool => zeroed("sidecar", "Sidecar");
    }
}

/// What one task of an allocation holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResources {
    pub cpu_mhz: i64,
    pub memory_mb: i64,
    pub lifecycle: Option<Lifecycle>,
    pub held: TaskHoldings,
}

/// What an allocation holds on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocResources {
    pub tasks: BTreeMap<String, TaskResources>,
    pub disk_mb: i64,
    /// The group's.
    pub networks: Vec<HeldNetwork>,
}

/// What a node has less of while an allocation is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub amount: Amount,
    pub claims: Vec<Claim>,
}

impl AllocResources {
    /// The most that the allocation ever holds at once: `max(prestart with its sidecars, main with all sidecars and
    /// poststart, poststop)` (scheduler.md 15.1).
    pub fn total(&self) -> Amount {
        let (mut prestart, mut sidecars, mut main, mut poststart, mut poststop) =
            (Amount::ZERO, Amount::ZERO, Amount::ZERO, Amount::ZERO, Amount::ZERO);
        for t in self.tasks.values() {
            let a = Amount { cpu_mhz: t.cpu_mhz, memory_mb: t.memory_mb, ..Amount::ZERO };
            let sum = match t.lifecycle {
                None => &mut main,
                Some(Lifecycle { hook: Hook::Prestart, sidecar: false }) => &mut prestart,
                Some(Lifecycle { hook: Hook::Prestart, sidecar: true }) => &mut sidecars,
                Some(Lifecycle { hook: Hook::Poststart, .. }) => &mut poststart,
                Some(Lifecycle { hook: Hook::Poststop, .. }) => &mut poststop,
            };
            *sum = sum.plus(a);
        }
        let running = prestart.plus(sidecars).max(main.plus(sidecars).plus(poststart)).max(poststop);
        running.plus(Amount { disk_mb: self.disk_mb, allocs: 1, ..Amount::ZERO })
    }

    /// With the ports, devices and cores of `old`, which is of the same tasks.
    pub fn keeping(mut self, old: &AllocResources) -> AllocResources {
        self.networks.clone_from(&old.networks);
        for (name, task) in &mut self.tasks {
            if let Some(before) = old.tasks.get(name) {
                task.held.clone_from(&before.held);
                task.cpu_mhz = before.cpu_mhz;
            }
        }
        self
    }

    pub fn claims(&self) -> impl Iterator<Item = Claim> {
        let of_tasks = self.tasks.values().flat_map(|t| t.held.claims());
        self.networks.iter().flat_map(HeldNetwork::claims).chain(of_tasks)
    }

    pub fn holding(&self) -> Holding {
        let mut claims = Vec::new();
        self.networks.iter().for_each(|n| claims.extend(n.claims()));
        self.tasks.values().for_each(|t| claims.extend(t.held.claims()));
        Holding { amount: self.total(), claims }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(mhz: i64, lifecycle: Option<(Hook, bool)>) -> TaskResources {
        let lifecycle = lifecycle.map(|(hook, sidecar)| Lifecycle { hook, sidecar });
        TaskResources { cpu_mhz: mhz, memory_mb: mhz, lifecycle, ..TaskResources::default() }
    }

    #[test]
    fn a_group_asks_for_its_busiest_phase() {
        let cases: [(&[TaskResources], i64); 4] = [
            (&[task(100, None), task(50, None)], 150),
            (&[task(100, None), task(500, Some((Hook::Prestart, false)))], 500),
            (
                &[
                    task(100, None),
                    task(50, Some((Hook::Prestart, true))),
                    task(120, Some((Hook::Prestart, false))),
                ],
                170,
            ),
            (
                &[
                    task(100, None),
                    task(30, Some((Hook::Poststart, true))),
                    task(90, Some((Hook::Poststop, false))),
                ],
                130,
            ),
        ];
        for (tasks, mhz) in cases {
            let tasks = tasks.iter().cloned().enumerate().map(|(i, t)| (i.to_string(), t)).collect();
            let total = AllocResources { tasks, disk_mb: 300, ..AllocResources::default() }.total();
            assert_eq!(total, Amount { cpu_mhz: mhz, memory_mb: mhz, disk_mb: 300, allocs: 1 });
        }
    }

    #[test]
    fn the_first_missing_dimension_is_named() {
        let have = Amount { cpu_mhz: 10, memory_mb: 10, disk_mb: 10, allocs: 1 };
        assert_eq!(have.lacks(have), None);
        assert_eq!(have.lacks(Amount { cpu_mhz: 11, memory_mb: 11, ..Amount::ZERO }), Some("cpu"));
        assert_eq!(have.lacks(Amount { cpu_mhz: 11, allocs: 2, ..have }), Some(TOO_MANY));
        assert_eq!(have.lacks(Amount { memory_mb: 11, ..have }), Some("memory"));
        assert_eq!(have.lacks(Amount { disk_mb: 11, ..have }), Some("disk"));
    }
}
