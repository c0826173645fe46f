//! This machine's network interfaces, and the one that the node is known by.
//!
//! Refuses to know: other machines. See client.md 4.3 and client.md 4.4.

use model::claims::{DEFAULT_HOST_NETWORK, NodeAddress};
use model::node::NodeNetwork;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Mbit/s of a link that does not tell (client.md 4.3).
const UNKNOWN_SPEED_MBIT: i64 = 1000;
const LOOPBACK: &str = "lo";

/// The named interface; else that of the default route; else the first with an address; else the loopback.
/// `None`: there is none with an address.
pub fn chosen(named: Option<&str>, all: &BTreeMap<String, Vec<IpAddr>>) -> Option<NodeNetwork> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let device = match named {
        Some(name) => name.to_string(),
        None => default_device(&read("/proc/net/route"), &read("/proc/net/ipv6_route"))
            .filter(|d| all.contains_key(d))
            .or_else(|| all.keys().find(|d| *d != LOOPBACK).cloned())
            .unwrap_or_else(|| LOOPBACK.to_string()),
    };
    Some(described(&device, all.get(&device)?))
}

fn described(device: &str, all: &[IpAddr]) -> NodeNetwork {
    let field = |name: &str| {
        fs::read_to_string(format!("/sys/class/net/{device}/{name}")).unwrap_or_default().trim().to_string()
    };
    let speed_mbit = field("speed").parse().ok().filter(|s| *s > 0).unwrap_or(UNKNOWN_SPEED_MBIT);
    NodeNetwork { mac: field("address"), speed_mbit, addresses: usable(all), device: device.to_string() }
}

/// The interfaces that tasks are reached at, the chosen one first, and their addresses under every name that they have.
pub fn named(chosen: Option<NodeNetwork>, networks: &[HostNetwork]) -> (Vec<NodeNetwork>, Vec<NodeAddress>) {
    let all = addresses();
    let mut interfaces: Vec<NodeNetwork> = chosen.into_iter().collect();
    let mut named = Vec::new();
    for network in &interfaces {
        named.extend(
            network.addresses.iter().map(|a| address_named(DEFAULT_HOST_NETWORK, &network.device, a, "")),
        );
    }
    for wanted in networks {
        for (device, addresses) in &all {
            let on_it = wanted.interface.is_empty() || wanted.interface == *device;
            let within =
                |ip: &&IpAddr| wanted.cidrs.is_empty() || wanted.cidrs.iter().any(|c| contains(*c, **ip));
            let mine: Vec<IpAddr> = addresses.iter().filter(|ip| on_it && within(ip)).copied().collect();
            if !mine.is_empty() && interfaces.iter().all(|i| i.device != *device) {
                interfaces.push(described(device, addresses));
            }
            let one = |a: &String| address_named(&wanted.name, device, a, &wanted.reserved_ports);
            named.extend(usable(&mine).iter().map(one));
        }
    }
    (interfaces, named)
}

/// A host network of the configuration.
#[derive(Clone, Debug, Default)]
pub struct HostNetwork {
    pub name: String,
    /// None: all addresses.
    pub cidrs: Vec<(IpAddr, u8)>,
    /// Empty: any.
    pub interface: String,
    pub reserved_ports: String,
}

fn address_named(alias: &str, device: &str, address: &str, reserved_ports: &str) -> NodeAddress {
    NodeAddress {
        alias: alias.to_string(),
        device: device.to_string(),
        address: address.to_string(),
        reserved_ports: reserved_ports.to_string(),
    }
}

/// `10.0.0.0/8`
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, bits) = text.split_once('/')?;
    let (ip, bits): (IpAddr, u8) = (ip.parse().ok()?, bits.parse().ok()?);
    (bits <= if ip.is_ipv4() { 32 } else { 128 }).then_some((ip, bits))
}

fn contains((network, bits): (IpAddr, u8), ip: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u8| bits == 0 || (a ^ b) >> (width - bits) == 0;
    match (network, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
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
    found.sort_by_key(|a| a.is_ipv6());
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
    fn cidr_ranges_contain_their_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (cidr, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.168.1.7/32", "192.168.1.7", "192.168.1.6"),
            ("0.0.0.0/0", "1.2.3.4", "::1"),
            ("fe80::/10", "febf::1", "fec0::1"),
        ] {
            let range = parse_cidr(cidr).unwrap();
            assert!(contains(range, ip(inside)) && !contains(range, ip(outside)), "{cidr}");
        }
        for bad in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129"] {
            assert_eq!(parse_cidr(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_address_has_every_name_that_is_given_to_it() {
        let all = addresses();
        let lo = chosen(Some("lo"), &all);
        let wanted = |name: &str, cidr: &str, interface: &str| HostNetwork {
            name: name.into(),
            cidrs: parse_cidr(cidr).into_iter().collect(),
            interface: interface.into(),
            reserved_ports: "22".into(),
        };
        let networks = [
            wanted("mine", "127.0.0.0/8", ""),
            wanted("nobodys", "240.0.0.0/8", ""),
            wanted("elsewhere", "", "nosuch0"),
        ];
        let (interfaces, named) = named(lo, &networks);
        assert_eq!(interfaces[0].device, "lo");
        let aliases: Vec<&str> =
            named.iter().filter(|a| a.address == "127.0.0.1").map(|a| a.alias.as_str()).collect();
        assert_eq!(aliases, ["default", "mine"]);
        assert!(named.iter().all(|a| a.alias != "nobodys" && a.alias != "elsewhere"));
    }

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
        assert_eq!(chosen(Some("no-such-device"), &addresses()), None);
    }
}
