//! Stores whose very first opening is cut off, at any disk operation: the next one begins again.
//!
//! Refuses to know what is stored later.

use super::super::disk::{Operation, SimBackend, SimDisk};
use state::client_store::ClientStore;
use state::store::{Options, Store, StoreFiles};

/// How often an opening was cut off, of which the next one began again.
fn cut_off(open: impl Fn(StoreFiles<SimBackend>) -> Result<(), String>) -> usize {
    let fails: fn(&SimDisk, u64) = |disk, n| {
        disk.fail_next_of([Operation::Write, Operation::SetLength, Operation::Sync][n as usize % 3])
    };
    let faults = [SimDisk::cut_power_after, SimDisk::forget_at_sync, fails];
    let mut cut_off = 0;
    for operations in 1..60 {
        for (n, strike) in faults.iter().enumerate() {
            let disk = SimDisk::new(operations);
            strike(&disk, operations);
            cut_off += usize::from(open(disk.media()).is_err());
            disk.detach();
            disk.heal();
            if disk.is_dead() {
                disk.power_on();
            }
            open(disk.media()).unwrap_or_else(|e| panic!("fault {n} after {operations}: {e}"));
        }
    }
    cut_off
}

#[test]
fn a_first_opening_of_a_clients_store_is_begun_again() {
    let found = cut_off(|media| ClientStore::open(media.log).map(drop).map_err(|e| e.to_string()));
    assert!(found > 5, "{found} were cut off");
}

#[test]
fn a_first_opening_of_a_servers_store_is_begun_again() {
    let open = |media| Store::open(media, Options::default()).map(drop).map_err(|e| e.to_string());
    let found = cut_off(open);
    assert!(found > 20, "{found} were cut off");
}
