//! The keeper's journal and the rotation of logs under the fuzzer: `cargo fuzz run keeper`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::keeper(bytes));
