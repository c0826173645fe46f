//! Connections' bytes under the fuzzer: `cargo fuzz run message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::message(bytes));
