//! Two endpoints over impaired paths: see `anabranch_fuzz::pair`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::pair(input));
