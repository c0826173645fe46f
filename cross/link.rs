//! What the linker does to make the binary smaller, where it can.
//!
//! Addresses that the loader has to move are packed, a quarter of a megabyte less, where the binary is made for the system that it
//! is built on and that system's C library can load it (glibc 2.36, 2022). Functions of the same code become one, and so do constants of
//! the same bytes, where the linker knows how (lld, which is Rust's own for x86_64, mold, gold). A binary for elsewhere, beside an
//! older library or of another linker is linked as ever.

// a build asks its system, and speaks to cargo
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::print_stdout)]

use std::env;
use std::path::Path;
use std::process::Command;

const LOADS_PACKED: (u32, u32) = (2, 36);
/// In the order of what they give. Nothing here asks whether two functions or constants have the same address.
const FOLDING: [&str; 2] = ["-Wl,--icf=all", "-Wl,--ignore-data-address-equality"];

fn main() {
    println!("cargo:rerun-if-changed=cross/link.rs");
    let at_home = of("HOST") == of("TARGET") && of("CARGO_CFG_TARGET_ENV") == "gnu";
    if at_home && glibc().is_some_and(|version| version >= LOADS_PACKED) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // in other builds, every function keeps its name in a backtrace
    if of("PROFILE") == "release" {
        for argument in FOLDING.into_iter().filter(|argument| links_with(argument)) {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}

fn of(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// As in `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether the smallest program links so, with what links the binary.
fn links_with(argument: &str) -> bool {
    let out = of("OUT_DIR");
    let (source, program) = (Path::new(&out).join("smallest.rs"), Path::new(&out).join("smallest"));
    if std::fs::write(&source, "fn main() {}").is_err() {
        return false;
    }
    let mut rustc = Command::new(of("RUSTC"));
    rustc.arg(source).arg("-o").arg(program).args([
        "--target",
        &of("TARGET"),
        "-C",
        &format!("link-arg={argument}"),
    ]);
    rustc.args(of("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    rustc.output().is_ok_and(|done| done.status.success())
}
