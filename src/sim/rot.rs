//! Bits that rot on the disks under the stores, while their processes live and while they are down. With one server there
//! is no other copy: a store that is damaged has to be refused, every time, until somebody has put back what was
//! written there ("a good copy"); then nothing may be missing.
//!
//! Refuses to know how a store finds out. A store that calls a sound disk damaged fails the run.

use super::faults::Fault;
use super::world::{Event, Who, World};
use model::random::Stream;
use model::time::Span;
use state::{client_store, fault};

/// redb's header and its seal: the only bytes that are written in place.
const HEADER_BYTES: usize = 328;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rot {
    /// Whose disk: a node's, or the server's.
    pub node: Option<usize>,
    pub place: Place,
    pub bits: u64,
    /// Its process is killed first, and meets the damage when it starts again.
    pub asleep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Header,
    Anywhere,
}

impl Rot {
    pub fn draw(node: Option<usize>, draws: &mut Stream) -> Rot {
        let (place, most) = if draws.below(4) == 0 { (Place::Header, 3) } else { (Place::Anywhere, 200) };
        Rot { node, place, bits: 1 + draws.below(most), asleep: draws.below(2) == 0 }
    }
}

impl World {
    pub fn strike_rot(&mut self, rot: Rot) {
        match rot.node {
            None if rot.asleep && self.server.is_up() => self.strike_server(Fault::ServerKilled),
            Some(n) if rot.asleep && self.nodes[n].client.is_some() => self.crash_agent(n),
            _ => {}
        }
        let disk = rot.node.map_or(&self.server.disk, |n| &self.nodes[n].disk);
        match rot.place {
            Place::Header => disk.rot_below(HEADER_BYTES, rot.bits),
            Place::Anywhere => disk.rot(rot.bits),
        }
    }

    pub fn server_found_rot(&mut self, fault: &fault::Fault) -> Result<(), String> {
        match fault {
            fault::Fault::Corrupt(_) if self.server.disk.is_rotten() => {
                self.faults.fired("server found rot alive");
                Ok(())
            }
            fault::Fault::Corrupt(_) => Err(format!("the server takes a sound disk for damaged: {fault}")),
            _ => Ok(()),
        }
    }

    pub fn agent_found_rot(
        &mut self,
        n: usize,
        fault: &client_store::ClientStoreFault,
    ) -> Result<(), String> {
        match fault.damaged {
            true if self.nodes[n].disk.is_rotten() => {
                self.faults.fired("agent found rot alive");
                Ok(())
            }
            true => Err(format!("the agent of node {n} takes a sound disk for damaged: {fault}")),
            false => Ok(()),
        }
    }

    /// It refuses again and again, until somebody has mended its disk.
    pub fn server_refuses(&mut self, fault: &fault::Fault) -> Result<(), String> {
        self.note(|_| format!("server  refuses its state: {fault}"));
        if !self.server.disk.is_rotten() {
            return Err(format!("the server refuses a sound disk: {fault}"));
        }
        self.faults.fired("server refused rotten state");
        if self.faults.draw(2) == 0 {
            self.server.disk.mend();
            self.faults.fired("server state restored");
        }
        self.start_later(Who::Server);
        Ok(())
    }

    pub fn agent_refuses(&mut self, n: usize, why: &str) -> Result<(), String> {
        self.note(|_| format!("node {n}  agent refuses its store: {why}"));
        if !self.nodes[n].disk.is_rotten() {
            return Err(format!("the agent of node {n} refuses a sound disk: {why}"));
        }
        self.faults.fired("agent refused rotten store");
        if self.faults.draw(2) == 0 {
            self.nodes[n].disk.mend();
            self.faults.fired("client store restored");
        }
        self.start_later(Who::Agent(n));
        Ok(())
    }

    fn start_later(&mut self, who: Who) {
        let back_after = self.delay(Span::seconds(1), Span::seconds(10));
        self.after(back_after, Event::Start(who));
    }

    /// Under nobody: whoever lives on a rotten disk is killed first.
    pub fn mend_all_rot(&mut self) {
        if self.server.disk.is_rotten() {
            if self.server.is_up() {
                self.stop_server(Span::seconds(1));
            }
            self.server.disk.mend();
        }
        for n in 0..self.nodes.len() {
            if self.nodes[n].disk.is_rotten() {
                if self.nodes[n].client.is_some() {
                    self.crash_agent(n);
                }
                self.nodes[n].disk.mend();
            }
        }
    }
}
