//! See `weir_wire::fuzzing::options`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_wire::fuzzing::options(data));
