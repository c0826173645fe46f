//! Join tokens under the fuzzer: `cargo fuzz run token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::token(bytes));
