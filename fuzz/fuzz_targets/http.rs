//! HTTP requests under the fuzzer: `cargo fuzz run http`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::http(bytes));
