//! The server's store on simulated disks: power cuts, full and failing disks, damage, and what a change costs. Each test
//! drives the real store; nothing else of the world is there.

mod beginning;
mod damage;
mod histories;
mod installing;
mod rotting;
mod scheduling;
mod segments;
mod storing;
