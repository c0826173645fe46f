//! Checks of a group's members that exclude each other, and of several spellings of one member (`lost_after` and the older keys).
//!
//! Refuses to know: what nodes there are.

use super::{ApiJobDecoder, Given};
use model::job::{DisconnectPolicy, TaskGroup};
use model::time::Span;

impl ApiJobDecoder<'_> {
    pub(super) fn volumes(&mut self, group: &TaskGroup, path: &str) {
        for (name, _) in group.volumes.iter().filter(|(_, volume)| volume.kind == "csi") {
            self.checker.unbuilt("volume type \"csi\"", &format!("{path}.Volumes[{name}]"));
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
