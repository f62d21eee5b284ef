//! Command sequences against a simple model: see `anabranch_fuzz::outstanding`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::outstanding(input));
