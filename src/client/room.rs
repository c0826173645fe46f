//! What a node says of itself while its disk is full. Nothing is written then, so nothing that must be stored first is
//! started; what runs goes on, and so do heartbeats, stops and removals.
//!
//! Refuses to know: disks. Others say whether there is room.

use model::node::NodeInfo;

/// Of an allocation that is to start.
pub const WAITS: &str =
    "Waiting for room: the node's disk is full, and nothing is started there until some of it is freed";
/// Of a driver. An unhealthy one is sent no new work.
const NO_STARTS: &str =
    "the node's disk is full: running tasks go on, and nothing is started until some of it is freed";

/// The machine as the servers are to see it.
pub fn described(info: &NodeInfo, room: bool) -> Box<NodeInfo> {
    let mut info = info.clone();
    if !room {
        for driver in info.drivers.values_mut().filter(|d| d.detected && d.healthy) {
            (driver.healthy, driver.description) = (false, NO_STARTS.into());
        }
    }
    Box::new(info)
}

pub fn trouble(room: bool) -> Option<String> {
    (!room).then(|| NO_STARTS.to_string())
}
