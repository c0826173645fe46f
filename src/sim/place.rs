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

impl ServerAt {
    /// Another one for each machine, for what it draws.
    pub fn number(self) -> u64 {
        self.region as u64 * 1000 + self.server as u64
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
