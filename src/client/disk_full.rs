//! What a node reports while its disk is full. Nothing is written then, so nothing that must be stored first is
//! started; what runs goes on, and so do heartbeats, stops and removals.
//!
//! Refuses to know: disks. The agent reports whether there is room.

use model::node::NodeInfo;

/// The description of an allocation that is to start.
pub const WAITING_FOR_SPACE: &str =
    "Waiting for room: the node's disk is full, and nothing is started there until some of it is freed";
/// A driver's health description. Servers send no new work to an unhealthy driver.
const NO_STARTS: &str =
    "the node's disk is full: running tasks go on, and nothing is started until some of it is freed";

/// The machine as the servers are to see it.
pub fn with_disk_state(info: &NodeInfo, disk_has_space: bool) -> Box<NodeInfo> {
    let mut info = info.clone();
    if !disk_has_space {
        for driver in info.drivers.values_mut().filter(|d| d.detected && d.healthy) {
            (driver.healthy, driver.description) = (false, NO_STARTS.into());
        }
    }
    Box::new(info)
}

pub fn trouble(disk_has_space: bool) -> Option<String> {
    (!disk_has_space).then(|| NO_STARTS.to_string())
}
