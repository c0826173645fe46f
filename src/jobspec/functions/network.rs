//! Functions of IP networks.

use super::Error;
use super::arguments::{Arguments, Outcome, texts};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde_json::Value;

pub fn call(name: &str, args: &Arguments<'_>) -> Option<Outcome> {
    Some(match name {
        "cidrhost" => host(args),
        "cidrnetmask" => netmask(args),
        "cidrsubnet" => subnet(args),
        "cidrsubnets" => subnets(args),
        _ => return None,
    })
}

/// A network: the bits of its address, left-aligned in `width` bits.
#[derive(Clone, Copy)]
struct Network {
    bits: u128,
    prefix: u32,
    width: u32,
}

impl Network {
    fn read(text: &str) -> Result<Network, Error> {
        let bad = || Error::Failed(format!("{text:?} is no network: write it like \"10.0.0.0/8\""));
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let prefix: u32 = prefix.parse().map_err(|_| bad())?;
        let (bits, width) = match address.parse().map_err(|_| bad())? {
            IpAddr::V4(a) => (u128::from(u32::from(a)), 32),
            IpAddr::V6(a) => (u128::from(a), 128),
        };
        if prefix > width {
            return Err(bad());
        }
        Ok(Network { bits: bits & mask(prefix, width), prefix, width })
    }

    fn address(self) -> IpAddr {
        match self.width {
            32 => IpAddr::V4(Ipv4Addr::from(self.bits as u32)),
            _ => IpAddr::V6(Ipv6Addr::from(self.bits)),
        }
    }

    fn text(self) -> String {
        format!("{}/{}", self.address(), self.prefix)
    }

    /// The `number`th network of those that are `newbits` smaller.
    fn part(self, newbits: u32, number: u128) -> Result<Network, Error> {
        let prefix = self.prefix.saturating_add(newbits);
        if prefix > self.width {
            return Err(format!("{} has no room for {newbits} more bits", self.text()).into());
        }
        if newbits < 128 && number >> newbits != 0 {
            return Err(format!("{newbits} bits have no number {number}").into());
        }
        let bits = self.bits | number.checked_shl(self.width - prefix).unwrap_or(0);
        Ok(Network { bits, prefix, width: self.width })
    }
}

fn mask(prefix: u32, width: u32) -> u128 {
    let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    all & !all.checked_shr(prefix).unwrap_or(0)
}

/// A negative number counts from the end.
fn host(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let network = Network::read(&args.text(0)?)?;
    let number = args.int(1)?;
    let room = network.width - network.prefix;
    let highest = mask(network.width, network.width) & !mask(network.prefix, network.width);
    let wanted = u128::from(number.unsigned_abs());
    let offset = if number >= 0 { Some(wanted) } else { highest.checked_sub(wanted - 1) };
    let offset = offset.filter(|o| *o <= highest);
    let offset = offset.ok_or_else(|| Error::Failed(format!("{room} bits have no host {number}")))?;
    Ok(Value::String(Network { bits: network.bits | offset, ..network }.address().to_string()))
}

fn netmask(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let network = Network::read(&args.text(0)?)?;
    Ok(Value::String(Network { bits: mask(network.prefix, network.width), ..network }.address().to_string()))
}

fn subnet(args: &Arguments<'_>) -> Outcome {
    args.exactly(3)?;
    let network = Network::read(&args.text(0)?)?;
    let newbits = u32::try_from(args.count(1)?).unwrap_or(u32::MAX);
    Ok(Value::String(network.part(newbits, args.count(2)? as u128)?.text()))
}

/// One after the other, each aligned to its own size.
fn subnets(args: &Arguments<'_>) -> Outcome {
    args.between(1, usize::MAX)?;
    let network = Network::read(&args.text(0)?)?;
    let mut out = Vec::new();
    let mut next = network.bits;
    let mut full = false;
    for i in 1..args.len() {
        let newbits = u32::try_from(args.count(i)?).unwrap_or(u32::MAX);
        let prefix = network.part(newbits, 0)?.prefix;
        let size = 1_u128.checked_shl(network.width - prefix).unwrap_or(0);
        let start = if size == 0 { next } else { next.div_ceil(size).saturating_mul(size) };
        if full || start & mask(network.prefix, network.width) != network.bits {
            return Err(format!("{} has no room for argument {}", network.text(), i + 1).into());
        }
        out.push(Network { bits: start, prefix, width: network.width }.text());
        match start.checked_add(size).filter(|_| size > 0) {
            Some(n) => next = n,
            None => full = true,
        }
    }
    Ok(texts(out))
}
