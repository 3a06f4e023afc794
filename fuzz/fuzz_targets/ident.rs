//! See `weir_access::fuzzing::ident`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_access::fuzzing::ident(data));
