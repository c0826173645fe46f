//! Stored and sent records under the fuzzer: `cargo fuzz run record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::record(bytes));
