//! Bits that rot on the disks under the stores, while their processes live and while they are down. With one server there
//! is no other copy: a store that is damaged has to be refused, every time, until somebody has put back what was
//! written there ("a good copy"); then nothing may be missing.
//!
//! Refuses to know how a store finds out. A store that calls a sound disk damaged fails the run.

use super::faults::{Kind, ServerFault};
use super::place::{Daemon, Machine, NodeAt, ServerAt};
use super::world::{Event, World};
use ::keeper::journal::{self, JournalEntry};
use model::random::Stream;
use model::time::Span;
use state::fault;

/// redb's header and its seal: the only bytes that are written in place.
const HEADER_BYTES: usize = 328;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rot {
    /// Whose disk.
    pub machine: Machine,
    pub place: RotPlace,
    pub bits: u64,
    /// The process is killed first, and meets the damage when it starts again.
    pub while_down: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotPlace {
    Header,
    Anywhere,
}

impl Rot {
    pub fn draw(machine: Machine, draws: &mut Stream) -> Rot {
        let (place, most) =
            if draws.below(4) == 0 { (RotPlace::Header, 3) } else { (RotPlace::Anywhere, 200) };
        Rot { machine, place, bits: 1 + draws.below(most), while_down: draws.below(2) == 0 }
    }
}

impl World {
    pub fn strike_rot(&mut self, rot: Rot) {
        match rot.machine {
            Machine::Server(at) if rot.while_down => self.strike_server(at, ServerFault::Killed),
            Machine::Node(n) if rot.while_down && self.regions[n].client.is_some() => self.crash_agent(n),
            _ => {}
        }
        let disk = match rot.machine {
            Machine::Server(at) => &self.regions[at].disk,
            Machine::Node(n) => &self.regions[n].disk,
        };
        match rot.place {
            RotPlace::Header => disk.rot_below(HEADER_BYTES, rot.bits),
            RotPlace::Anywhere => disk.rot(rot.bits),
        }
    }

    pub fn server_found_rot(&mut self, at: ServerAt, fault: &fault::Fault) -> Result<(), String> {
        match fault {
            fault::Fault::Corrupt(_) if self.regions[at].disk.is_rotten() => {
                self.faults.fired(Kind::ServerFoundRotAlive);
                Ok(())
            }
            fault::Fault::Corrupt(_) => Err(format!("{at} takes a sound disk for damaged: {fault}")),
            _ => Ok(()),
        }
    }

    /// The server refuses again and again, until somebody has mended its disk.
    pub fn server_refuses(&mut self, at: ServerAt, fault: &fault::Fault) -> Result<(), String> {
        self.note(|_| format!("{at}  refuses its state: {fault}"));
        if !self.regions[at].disk.is_rotten() {
            return Err(format!("{at} refuses a sound disk: {fault}"));
        }
        self.faults.fired(Kind::ServerRefusedRottenState);
        if self.faults.draw(2) == 0 {
            self.regions[at].disk.mend();
            self.faults.fired(Kind::ServerStateRestored);
        }
        self.start_later(Daemon::Server(at));
        Ok(())
    }

    pub fn agent_refuses(&mut self, n: NodeAt, why: &str) -> Result<(), String> {
        self.note(|_| format!("{n}  agent refuses its store: {why}"));
        if !self.regions[n].disk.is_rotten() {
            return Err(format!("the agent of {n} refuses a sound disk: {why}"));
        }
        self.faults.fired(Kind::AgentRefusedRottenStore);
        if self.faults.draw(2) == 0 {
            self.regions[n].disk.mend();
            self.faults.fired(Kind::ClientStoreRestored);
        }
        self.start_later(Daemon::Agent(n));
        Ok(())
    }

    fn start_later(&mut self, daemon: Daemon) {
        let back_after = self.delay(Span::seconds(1), Span::seconds(10));
        self.after(back_after, Event::Start(daemon));
    }

    /// Bits of a keeper's journal flip. Nobody can tell from then on what it had of the runs whose entries they hit.
    pub fn rot_journal(&mut self, n: NodeAt, bits: u64, killed: bool) {
        let host = &mut self.regions[n];
        let known = journal::read(&host.journal.contents()).entries;
        let before = host.journal.counts().bits_rotten;
        host.journal.rot(bits);
        if host.journal.counts().bits_rotten > before {
            let left = journal::read(&host.journal.contents()).entries;
            host.doubtful.extend(known.iter().filter(|e| !left.contains(e)).map(JournalEntry::run));
        }
        if killed && host.keeper.is_some() {
            self.crash_keeper(n);
        }
    }

    /// Under nobody: whoever lives on a rotten disk is killed first.
    pub fn mend_all_rot(&mut self) {
        for at in self.regions.servers() {
            if self.regions[at].disk.is_rotten() {
                if self.regions[at].is_up() {
                    self.stop_server(at, Span::seconds(1));
                }
                self.regions[at].disk.mend();
            }
        }
        for n in self.regions.nodes() {
            if self.regions[n].disk.is_rotten() {
                if self.regions[n].client.is_some() {
                    self.crash_agent(n);
                }
                self.regions[n].disk.mend();
            }
        }
    }
}
