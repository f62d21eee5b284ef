//! Command sequences against a simple model: see `anabranch_fuzz::reassembly`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::reassembly(input));
