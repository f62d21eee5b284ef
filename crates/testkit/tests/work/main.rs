//! The work that a peer can cause in an endpoint for each byte that it sends: the tests of the section on work in
//! docs/LIMITS.md.

mod budget;
mod extensions;
mod shapes;
