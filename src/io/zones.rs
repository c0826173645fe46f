//! Time zones from the database of this machine.

use jiff::tz::TimeZone;

/// By its name in the IANA's database. `None`: the machine has no such zone.
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}
