//! Stream schedulers (RFC 8260 §3): which stream sends next, and the delay of urgent messages.

mod fixture;
mod full_buffer;
mod losses;
mod order;
mod shares;
mod statistics;
mod thin_link;
