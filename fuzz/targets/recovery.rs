//! Loss recovery over a network that the input controls: see `anabranch_fuzz::recovery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::recovery(input));
