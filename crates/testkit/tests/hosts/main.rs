//! Hosts with several addresses (RFC 9260 §5.1.2, §5.4, §6.4, §8.4): the source addresses of packets, and the addresses of the
//! peer that an endpoint uses.

mod machine;
mod matrix;
mod scenarios;
mod translated;
