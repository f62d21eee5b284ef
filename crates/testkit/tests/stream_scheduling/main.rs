//! Stream schedulers (RFC 8260 §3): which stream sends next, and the delay of urgent messages.

mod desk;
mod giving_way;
mod losses;
mod order;
mod statistics;
mod thin_link;
