//! Command sequences against a simple model: see `anabranch_fuzz::tsn_tracker`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::tsn_tracker(input));
