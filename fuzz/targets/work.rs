//! What a peer can make an endpoint do for each byte: see `anabranch_fuzz::work`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::work(input));
