//! What a group and its tasks ask for beyond cpu, memory and disk, and what becomes of a group while its node is away.
//!
//! Refuses to know: which of it a node has.

use super::{Decoder, Given};
use model::claims::{GroupAsks, TaskAsks, VolumeAsk};
use model::job::{DisconnectPolicy, TaskGroup};
use model::time::Span;
use std::collections::BTreeMap;

impl Decoder<'_> {
    pub(super) fn group_asks(&mut self, g: Given<'_>, path: &str) -> GroupAsks {
        let volumes: BTreeMap<String, VolumeAsk> = self.field(g, "Volumes", path);
        for (name, _) in volumes.iter().filter(|(_, volume)| volume.kind == "csi") {
            self.checker.unbuilt("volume type \"csi\"", &format!("{path}.Volumes[{name}]"));
        }
        GroupAsks { volumes, networks: self.field(g, "Networks", path) }
    }

    pub(super) fn task_asks(&mut self, t: Given<'_>, path: &str) -> TaskAsks {
        let mounts = self.field(t, "VolumeMounts", path);
        let Some(r) = t.inner("Resources") else {
            return TaskAsks { mounts, ..TaskAsks::default() };
        };
        let path = format!("{path}.Resources");
        TaskAsks {
            memory_max_mb: r.int("MemoryMaxMB").unwrap_or(0),
            cores: r.int("Cores").unwrap_or(0),
            networks: self.field(r, "Networks", &path),
            devices: self.field(r, "Devices", &path),
            mounts,
        }
    }

    /// The three older keys say the same in other words; both ways at once is said to be wrong.
    pub(super) fn disconnect(&mut self, group: &mut TaskGroup, g: Given<'_>, path: &str) {
        let older = (
            g.span("MaxClientDisconnect"),
            g.span("StopAfterClientDisconnect"),
            g.flag("PreventRescheduleOnLost").unwrap_or(false),
        );
        let is_older = older != (None, None, false);
        match &mut group.disconnect {
            Some(policy) => {
                policy.lost_after = policy.lost_after.filter(|after| *after != Span::ZERO);
                if is_older {
                    self.checker.wrong(format!(
                        "{path}.Disconnect: it says all that max_client_disconnect, stop_after_client_disconnect \
                         and prevent_reschedule_on_lost say; leave those out"
                    ));
                }
            }
            None if is_older => {
                let (lost_after, stop_on_client_after, prevented) = older;
                let replace = !prevented;
                let policy =
                    DisconnectPolicy { lost_after, stop_on_client_after, replace, ..Default::default() };
                group.disconnect = Some(policy);
            }
            None => {}
        }
    }
}
