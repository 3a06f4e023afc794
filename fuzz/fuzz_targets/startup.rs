//! See `weir_wire::fuzzing::startup`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_wire::fuzzing::startup(data));
