//! Any packets against an association: see `anabranch_fuzz::association`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::association(input));
