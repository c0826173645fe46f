//! This machine's network interfaces, and the one that the node is known by.
//!
//! Refuses to know: other machines. Reference: client 4.

use crate::model::node::NodeNetwork;
use crate::model::order::Order;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Mbit/s of a link that does not tell (reference: client 4).
const UNKNOWN_SPEED_MBIT: i64 = 1000;
const LOOPBACK: &str = "lo";

/// The named interface; else that of the default route; else the first with an address; else the loopback.
/// `None`: there is none with an address.
pub fn chosen(named: Option<&str>) -> Option<NodeNetwork> {
    let all = addresses();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let device = match named {
        Some(name) => name.to_string(),
        None => default_device(&read("/proc/net/route"), &read("/proc/net/ipv6_route"))
            .filter(|d| all.contains_key(d))
            .or_else(|| all.keys().find(|d| *d != LOOPBACK).cloned())
            .unwrap_or_else(|| LOOPBACK.to_string()),
    };
    let addresses = usable(all.get(&device)?);
    let field = |name: &str| read(&format!("/sys/class/net/{device}/{name}")).trim().to_string();
    let speed_mbit = field("speed").parse().ok().filter(|s| *s > 0).unwrap_or(UNKNOWN_SPEED_MBIT);
    Some(NodeNetwork { mac: field("address"), speed_mbit, addresses, device })
}

/// IPv4 first; link-local addresses only where there are no others.
fn usable(all: &[IpAddr]) -> Vec<String> {
    let local = |a: &&IpAddr| match a {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    };
    let mut found: Vec<&IpAddr> = all.iter().filter(|a| !local(a)).collect();
    if found.is_empty() {
        found = all.iter().collect();
    }
    found.order_by_key(|a| a.is_ipv6());
    found.into_iter().map(ToString::to_string).collect()
}

/// The device of the default route with the lowest metric; of IPv6 only if IPv4 has none.
fn default_device(v4: &str, v6: &str) -> Option<String> {
    const UP: u32 = 1;
    let best = |routes: &mut dyn Iterator<Item = (u64, String)>| routes.min().map(|(_, device)| device);
    let of_v4 = |line: &str| {
        let f: Vec<&str> = line.split_ascii_whitespace().collect();
        let (flags, mask) = (u32::from_str_radix(f.get(3)?, 16).ok()?, *f.get(7)?);
        let is_default = f.get(1) == Some(&"00000000") && mask == "00000000" && flags & UP != 0;
        is_default.then_some((f.get(6)?.parse().ok()?, f.first()?.to_string()))
    };
    let of_v6 = |line: &str| {
        let f: Vec<&str> = line.split_ascii_whitespace().collect();
        let device = f.last().filter(|d| **d != LOOPBACK)?;
        let is_default = f.first()?.bytes().all(|b| b == b'0') && f.get(1) == Some(&"00");
        is_default.then_some((u64::from_str_radix(f.get(5)?, 16).ok()?, device.to_string()))
    };
    best(&mut v4.lines().filter_map(of_v4)).or_else(|| best(&mut v6.lines().filter_map(of_v6)))
}

/// Addresses by device.
pub fn addresses() -> BTreeMap<String, Vec<IpAddr>> {
    let mut found: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs fills `list` with a linked list that stays valid until freeifaddrs, which is called once after
    // the last use; names are NUL-terminated; an address's real type is told by its family, and it is copied out.
    unsafe {
        if libc::getifaddrs(&mut list) != 0 {
            return found;
        }
        let mut next = list;
        while let Some(entry) = next.as_ref() {
            if let Some(address) = address(entry.ifa_addr) {
                let name = CStr::from_ptr(entry.ifa_name).to_string_lossy().into_owned();
                found.entry(name).or_default().push(address);
            }
            next = entry.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    found
}

/// # Safety
/// `address` is null or points to a socket address as large as its family says.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: promised by the caller; reads are unaligned because the list gives no promise of alignment.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_is_found() {
        let head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
        let route = |device: &str, to: &str, flags: &str, metric: u32, mask: &str| {
            format!("{device}\t{to}\t0101A8C0\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n")
        };
        let wlan = route("wlan0", "00000000", "0003", 600, "00000000");
        let eth = route("eth0", "00000000", "0003", 100, "00000000");
        let down = route("eth1", "00000000", "0002", 1, "00000000");
        let lan = route("eth2", "0001A8C0", "0001", 0, "00FFFFFF");
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000003     eth6\n\
            {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n"
        );
        for (v4, v6, want) in [
            (format!("{head}{wlan}{eth}{down}{lan}"), "", Some("eth0")),
            (format!("{head}{lan}"), v6.as_str(), Some("eth6")),
            (format!("{head}{lan}"), "", None),
            (String::new(), "", None),
        ] {
            assert_eq!(default_device(&v4, v6).as_deref(), want);
        }
    }

    #[test]
    fn link_local_addresses_come_last_and_v4_first() {
        let ip = |t: &str| t.parse::<IpAddr>().expect("an address");
        let all = [ip("fe80::1"), ip("2001:db8::1"), ip("169.254.0.9"), ip("10.0.0.1")];
        assert_eq!(usable(&all), ["10.0.0.1", "2001:db8::1"]);
        assert_eq!(usable(&all[..1]), ["fe80::1"]);
        assert!(addresses()[LOOPBACK].contains(&ip("127.0.0.1")));
        assert_eq!(chosen(Some("no-such-device")), None);
    }
}
