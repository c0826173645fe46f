//! Bodies of job registrations under the fuzzer: `cargo fuzz run json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::json(bytes));
