//! Hosts with several addresses (RFC 9260 §5.1.2, §5.4, §6.4, §8.4): from which address packets leave, and which addresses of
//! the peer are used.

mod machine;
mod matrix;
mod scenarios;
