//! Random numbers from the kernel: seeds for brains, ids for machines.

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
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

pub fn u128() -> io::Result<u128> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}
