//! Whole-trace scripts: a client among simulated peers, and what it did as lines of text.

mod address_book;
mod assigning;
mod disconnected;
mod endpoints;
mod faults;
pub mod fixtures;
mod forwarding;
mod full_disk;
mod generations;
mod health;
mod kills;
mod measured;
mod random_walks;
mod reported;
mod run_limit;
mod scripts;
mod world;
