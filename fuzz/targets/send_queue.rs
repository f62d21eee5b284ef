//! Command sequences against a simple model: see `anabranch_fuzz::send_queue`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::send_queue(input));
