//! Dynamic address reconfiguration (RFC 5061): an association whose endpoints change their addresses.
#![allow(dead_code)]

mod attacks;
mod fixture;
mod multihomed;
mod roaming;
mod rules;
