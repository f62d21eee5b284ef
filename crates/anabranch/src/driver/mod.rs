//! The driver of an [`crate::Endpoint`]: its sockets, the core's endpoint, and the associations by id.
//!
//! An endpoint has its associations, and each association its endpoint: the types of both are in `hub.rs` and `state.rs`. The
//! other files implement methods of these types.
//!
//! The tasks and their work:
//! * Each socket has a task that receives batches. The core routes each packet to the inbox of its association, and each ICMP
//!   message to the association whose packet it quotes (`receive.rs`, `inbox.rs`). If the whole batch belongs to one
//!   association, the same task handles its inbox; otherwise the tasks of the associations do, on any free processor.
//! * Each association has a task that handles its inbox, keeps its timers, sends the application's messages, and waits while
//!   a socket is full (`association.rs`).
//! * The in-process link, if there is one, has a task that takes packets out of the link when they are due (`link.rs`).
//! * If the application wishes, a task follows the addresses of the host (`follow.rs`), and opens and closes the sockets of paths
//!   (`sockets.rs`).
//! * When the endpoint is closed and its last association has ended, a task sends copies of the last packets, waits while a peer may
//!   still need an answer, and then ends the tasks of the sockets and of the link (`ending.rs`).
//!
//! Locks are held briefly and never across an await. The order is: association, endpoint, inbox. A thread that holds a lock
//! takes only locks that come later in this order, so that a thread with the endpoint's lock never waits for the work of an
//! association. Under the endpoint's lock, packets are only routed, and INITs and COOKIE ECHOs of peers without an
//! association are answered; the length of the packet limits this work.
//!
//! Two locks are outside of this order: the turn of `follow.rs` comes before that of an association, and the lock of the list of sockets
//! comes last.
//!
//! With DTLS, the locks of its layer come after all of these: first that of the associations by peer, then one of a connection, of
//! the table of connections (the crate `anabranch-dtls`), or of memory that is kept. Under the lock of a connection only its
//! cryptography and the application's `Trust::Check` run.
//!
//! With encrypted packets, the TLS handshakes of an association run under its lock, in its task or in that of a socket (`keys.rs`).
//!
//! A panic in an association's code ends only this association ([`anabranch_proto::CloseReason::InternalError`]). A panic in
//! the endpoint's code loses the rest of the batch of packets.

mod association;
#[cfg(feature = "dtls")]
mod dtls;
#[cfg(not(feature = "dtls"))]
#[path = "no_dtls.rs"]
mod dtls;
#[cfg(feature = "dtls")]
mod dtls_layer;
#[cfg(not(feature = "dtls"))]
#[path = "no_dtls_layer.rs"]
mod dtls_layer;
mod ending;
mod events;
mod follow;
mod following;
mod hub;
mod inbox;
#[cfg(feature = "tls")]
mod keys;
#[cfg(not(feature = "tls"))]
#[path = "no_keys.rs"]
mod keys;
mod last_packets;
#[cfg(feature = "link")]
mod link;
#[cfg(not(feature = "link"))]
#[path = "no_link.rs"]
mod link;
#[cfg(feature = "link")]
mod link_layer;
#[cfg(not(feature = "link"))]
#[path = "no_link_layer.rs"]
mod link_layer;
mod readiness;
mod receive;
#[cfg(feature = "dtls")]
mod sent_marks;
mod sockets;
mod state;

pub(crate) use dtls_layer::Origin;
#[cfg(feature = "dtls")]
pub(crate) use dtls_layer::fit_dtls;
pub(crate) use hub::{Hub, Layers, Limits, Registry, Shared};
#[cfg(feature = "tls")]
pub(crate) use keys::TlsSettings;
pub(crate) use keys::protection;
pub(crate) use link_layer::LinkPlan;
pub(crate) use sockets::OpenSocket;
pub(crate) use state::State;
