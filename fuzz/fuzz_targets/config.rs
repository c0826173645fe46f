//! The agent's configuration under the fuzzer: `cargo fuzz run config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::config(bytes));
