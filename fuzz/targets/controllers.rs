//! Congestion controllers over a bottleneck that the input controls: see `anabranch_fuzz::controllers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::controllers(input));
