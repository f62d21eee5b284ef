//! Dynamic address reconfiguration (RFC 5061): an association whose endpoints change their addresses.

mod attacks;
mod fixture;
mod multihomed;
mod pairs;
mod ports;
mod roaming;
mod rules;
mod swarm;
