//! TLS handshakes for DTLS chunks under attack: see `anabranch_fuzz::keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::keys(input));
