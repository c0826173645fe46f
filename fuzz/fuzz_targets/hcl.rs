//! Job files in HCL under the fuzzer: `cargo fuzz run hcl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::hcl(bytes));
