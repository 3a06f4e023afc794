//! See `weir_wire::fuzzing::frontend`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_wire::fuzzing::frontend(data));
