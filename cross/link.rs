//! How the linker writes addresses that the loader has to move: packed, a quarter of a megabyte less, where the binary is made
//! for the system that it is built on and that system's C library can load it (glibc 2.36, 2022). A binary for elsewhere, or
//! beside an older library, is linked as ever.

// a build asks its system, and speaks to cargo
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::print_stdout)]

use std::env;
use std::process::Command;

const LOADS_PACKED: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=cross/link.rs");
    let of = |name| env::var(name).unwrap_or_default();
    let at_home = of("HOST") == of("TARGET") && of("CARGO_CFG_TARGET_ENV") == "gnu";
    if at_home && glibc().is_some_and(|version| version >= LOADS_PACKED) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// As in `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
