//! A client's store whose very first opening is cut off, at any disk operation: the next one begins again.
//!
//! Refuses to know what is stored later.

use super::super::disk::SimDisk;
use state::client_store::ClientStore;

#[test]
fn a_first_opening_that_is_cut_off_is_begun_again() {
    let mut cut_off = 0;
    for operations in 1..60 {
        for power in [false, true] {
            let disk = SimDisk::new(operations);
            match power {
                true => disk.cut_power_after(operations),
                false => disk.forget_at_sync(operations),
            }
            cut_off += u64::from(ClientStore::open(disk.media().log).is_err());
            disk.detach();
            disk.heal();
            if disk.is_dead() {
                disk.power_on();
            }
            ClientStore::open(disk.media().log).unwrap_or_else(|e| panic!("{operations} {power}: {e}"));
        }
    }
    assert!(cut_off > 5, "{cut_off} were cut off");
}
