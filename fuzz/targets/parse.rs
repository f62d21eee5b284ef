//! Any bytes as a packet: see `anabranch_fuzz::parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::parse(input));
