//! Filter expressions under the fuzzer: `cargo fuzz run filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::filter(bytes));
