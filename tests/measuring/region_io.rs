//! Of the outside world, what a server's thread needs: clocks and the store's file. Nothing else of it is in this program.

#[path = "../../src/io/clock.rs"]
pub mod clock;
#[path = "../../src/io/disk.rs"]
pub mod disk;
