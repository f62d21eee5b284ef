//! Which stream sends next (RFC 8260 §3), and what that does for an urgent message.

mod desk;
mod giving_way;
mod losses;
mod order;
mod statistics;
mod thin_link;
