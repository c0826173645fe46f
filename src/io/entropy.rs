//! Random numbers from the kernel: seeds for brains, ids for machines, keys for regions.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

fn fill(out: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < out.len() {
        filled += getrandom(&mut out[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}

pub fn u64() -> io::Result<u64> {
    bytes().map(u64::from_le_bytes)
}

pub fn u128() -> io::Result<u128> {
    bytes().map(u128::from_le_bytes)
}

pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    fill(&mut bytes)?;
    Ok(bytes)
}
