//! Whole-trace scripts: a client among simulated peers, and what it did as lines of text.

mod alone;
mod asks;
mod ends;
mod faults;
mod full_disk;
mod healthy;
mod random_walks;
pub mod samples;
mod scripts;
mod told;
mod world;
