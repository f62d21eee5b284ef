//! Several paths, one at a time and together, and network address translators, on real sockets in network namespaces. Each test
//! creates its namespaces. If it cannot (no root, no `ip`), it says so and is skipped. The delay of 40 ms is that of the in-process
//! link, on one side. A path fails permanently when the device at the *far* end goes down, so that the sender's packets vanish
//! without an error.
#![cfg(target_os = "linux")]

#[path = "namespaces/bed.rs"]
mod bed;
#[path = "common/captured.rs"]
mod captured;
#[path = "namespaces/failover.rs"]
mod failover;
#[path = "namespaces/hosts.rs"]
mod hosts;
#[path = "namespaces/interfaces.rs"]
mod interfaces;
#[path = "namespaces/moves.rs"]
mod moves;
#[path = "namespaces/multipath.rs"]
mod multipath;
#[path = "common/peer_messages.rs"]
mod peer_messages;
#[path = "namespaces/refusals.rs"]
mod refusals;
#[path = "common/transfer.rs"]
mod transfer;
#[path = "namespaces/translator.rs"]
mod translator;
#[path = "namespaces/usrsctp.rs"]
mod usrsctp;
#[path = "namespaces/usrsctp_addresses.rs"]
mod usrsctp_addresses;
#[path = "namespaces/usrsctp_at_once.rs"]
mod usrsctp_at_once;
