//! Authenticated chunks (RFC 4895): signed transfers, chunks that are discarded, keys, and the parameters of INIT.

#[path = "../dynamic_addresses/fixture.rs"]
#[allow(dead_code, reason = "the tests of dynamic addresses use the rest")]
mod fixture;
mod keys;
mod multipath;
mod parameters;
mod signing;
