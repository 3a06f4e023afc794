//! See `weir_route::fuzzing::hba`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_route::fuzzing::hba(data));
