//! A connection as the table of connections knows it: everything that can be read without the lock of the connection.

use std::sync::Arc;

use anabranch_proto::Timestamp;

use crate::certificate::Fingerprint;
use crate::connection::Shared;
use crate::front::Cookie;

/// A connection as the table knows it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) connection: Shared,
    /// This endpoint began the connection.
    pub(crate) is_client: bool,
    /// The cookie of the ClientHello that began this connection, if the peer's address had to be proved.
    pub(crate) cookie: Option<Cookie>,
    /// The peer's certificate, when the handshake is complete.
    pub(crate) certificate: Option<Fingerprint>,
    /// When the handshake was completed; before, when it began.
    pub(crate) completed: Timestamp,
    /// The place among the handshakes, or among the connections that no association uses, and the time from which on it is unused.
    pub(crate) place: u64,
    pub(crate) unused_since: Option<Timestamp>,
}

impl Entry {
    pub(crate) fn new(connection: &Shared, is_client: bool, cookie: Option<Cookie>, now: Timestamp) -> Self {
        Self {
            connection: Arc::clone(connection),
            is_client,
            cookie,
            certificate: None,
            completed: now,
            place: 0,
            unused_since: None,
        }
    }

    pub(crate) fn is(&self, connection: &Shared) -> bool {
        Arc::ptr_eq(&self.connection, connection)
    }
}
