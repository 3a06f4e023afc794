//! See `weir_access::fuzzing::ldap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_access::fuzzing::ldap(data));
