//! Readers of log files under the fuzzer: `cargo fuzz run logs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::logs(bytes));
