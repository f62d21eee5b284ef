//! A message between a client and a server of the forwarder: see `anabranch_fuzz::forward`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| anabranch_fuzz::forward(input));
