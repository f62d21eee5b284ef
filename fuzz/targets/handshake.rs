//! DTLS handshakes under attack: see `anabranch_fuzz::handshake`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::handshake(input));
