//! Where a machine is: its region, and its number there. Refuses to know what runs on it.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerAt {
    pub region: usize,
    pub server: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAt {
    pub region: usize,
    pub node: usize,
}

/// What a link leads to, and what has a clock and a disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Machine {
    Server(ServerAt),
    Node(NodeAt),
}

/// A process that is started again after its death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    Server(ServerAt),
    Agent(NodeAt),
    Keeper(NodeAt),
}

/// Servers of one region have consecutive ids, and each id is of one region.
const IDS_PER_REGION: u64 = 1000;

impl ServerAt {
    /// As servers and nodes name it in frames.
    pub fn id(self) -> u64 {
        self.region as u64 * IDS_PER_REGION + self.server as u64 + 1
    }

    pub fn of_id(id: u64) -> Option<ServerAt> {
        let number = id.checked_sub(1)?;
        let (region, server) = (number / IDS_PER_REGION, number % IDS_PER_REGION);
        Some(ServerAt { region: usize::try_from(region).ok()?, server: usize::try_from(server).ok()? })
    }
}

impl fmt::Display for ServerAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}/{}", self.region, self.server)
    }
}

impl fmt::Display for NodeAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}/{}", self.region, self.node)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::Server(at) => at.fmt(f),
            Machine::Node(at) => at.fmt(f),
        }
    }
}

impl fmt::Debug for ServerAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for NodeAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[test]
fn a_server_is_found_by_its_id() {
    for at in [ServerAt { region: 0, server: 0 }, ServerAt { region: 2, server: 4 }] {
        assert_eq!(ServerAt::of_id(at.id()), Some(at));
    }
    assert_eq!((ServerAt { region: 0, server: 0 }.id(), ServerAt::of_id(0)), (1, None));
}
