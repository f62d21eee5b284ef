//! A whole session under attack: see `anabranch_fuzz::session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::session(input));
