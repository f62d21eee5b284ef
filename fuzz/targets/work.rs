//! The work that a peer can cause for each byte that it sends: see `anabranch_fuzz::work`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::work(input));
