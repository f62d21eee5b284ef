//! The DTLS connections of an endpoint, and the certificate to which each association belongs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use anabranch_dtls::{DtlsConfig, DtlsError, Effects, Fingerprint, Peers};
use anabranch_proto::{AssociationId, Config, LowerLayer, MultipathMode, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::sent_marks::SentMarks;
use crate::error::DtlsLimit;
use crate::lock::lock;
use crate::pool::Pool;

/// The DTLS connections of an endpoint.
#[derive(Debug)]
pub(super) struct DtlsLayer {
    pub(super) peers: Peers<SocketAddr>,
    started: Instant,
    /// The associations of each peer.
    pub(super) users: Mutex<BTreeMap<SocketAddr, Vec<AssociationId>>>,
    /// Connections that ended and whose associations were not told yet.
    pub(super) ended: Mutex<Vec<(SocketAddr, DtlsError)>>,
    /// A timeout may be nearer than before, or a connection ended.
    pub(super) wake: Notify,
    /// Output without content, whose memory is used again.
    spare: Mutex<Vec<Effects<SocketAddr>>>,
    /// The memory of packets.
    pub(super) pool: Pool,
    /// The datagrams that ICMP messages may quote.
    pub(super) sent: Mutex<SentMarks>,
}

/// The certificate with which a packet came; `None` without DTLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin(pub(super) Option<Fingerprint>);

/// The bond of an association with the DTLS connections of its peer. A peer is its certificate: the address changes when an address
/// translator chooses another port, and somebody else may get the address.
#[derive(Debug)]
pub(crate) struct Bond {
    /// The certificate of the packet that began the association, or that answered its INIT.
    certificate: OnceLock<Fingerprint>,
    /// The peer's present address.
    pub(super) address: Mutex<SocketAddr>,
    /// A connection that this endpoint began ended because the peer did not answer: it begins others.
    seeks: AtomicBool,
    /// Why the connection ended.
    pub(super) ended: OnceLock<DtlsError>,
}

impl Bond {
    pub(super) fn new(remote: SocketAddr, origin: Origin) -> Self {
        Self {
            certificate: origin.0.map(OnceLock::from).unwrap_or_default(),
            address: Mutex::new(key(remote)),
            seeks: AtomicBool::new(false),
            ended: OnceLock::new(),
        }
    }

    /// Whether a packet with this origin is of the association's peer. The first packet decides which certificate that is.
    pub(super) fn accepts(&self, origin: Origin) -> bool {
        origin
            .0
            .is_none_or(|seen| *self.certificate.get_or_init(|| seen) == seen)
    }

    pub(super) fn origin(&self) -> Origin {
        Origin(self.certificate())
    }

    /// The peer's certificate, if the peer has answered.
    pub(crate) fn certificate(&self) -> Option<Fingerprint> {
        self.certificate.get().copied()
    }

    /// The end of the connection, if it ended.
    pub(crate) fn ended(&self) -> Option<DtlsError> {
        self.ended.get().cloned()
    }

    /// Whether the end of a connection or a handshake leaves the peer where it may be: it has been there, and did not close the connection. Only
    /// a client's connection can end for want of an answer. Everybody can make the handshakes after that fail.
    pub(super) fn seeks_after(&self, reason: &DtlsError) -> bool {
        match reason {
            DtlsError::Timeout if self.certificate().is_some() => {
                self.seeks.store(true, Ordering::Relaxed);
                true
            }
            DtlsError::Alert(_) | DtlsError::Failed(_) => self.seeks(),
            _ => false,
        }
    }

    /// Whether this endpoint has lost its peer once, and begins the handshakes.
    pub(super) fn seeks(&self) -> bool {
        self.seeks.load(Ordering::Relaxed)
    }

    pub(super) fn address(&self) -> SocketAddr {
        *lock(&self.address)
    }
}

/// Limit of unused outputs. No more calls than this run at the same time on most machines.
const KEPT: usize = 16;

impl DtlsLayer {
    /// `started` is the beginning of the endpoint's time.
    pub(super) fn new(config: DtlsConfig, started: Instant) -> Self {
        Self {
            peers: Peers::new(config),
            started,
            users: Mutex::default(),
            ended: Mutex::default(),
            wake: Notify::new(),
            spare: Mutex::default(),
            pool: Pool::default(),
            sent: Mutex::default(),
        }
    }

    /// Whether something still carries the packets of an association, after this end of a connection or a handshake with its peer.
    pub(super) fn carries(&self, peer: SocketAddr, bond: &Bond, reason: &DtlsError) -> bool {
        match bond.certificate() {
            Some(certificate) => self.peers.has(peer, certificate),
            // The association waits for the answer to its INIT. A connection that is there may be dead; these reasons say that the
            // handshake beside it cannot succeed.
            None if matches!(reason, DtlsError::Refused(_) | DtlsError::NothingThere) => false,
            None => self.peers.has_any(peer),
        }
    }

    /// Keeps the memory of an output for a later call.
    pub(super) fn reuse(&self, mut effects: Effects<SocketAddr>) {
        effects.clear();
        let mut spare = lock(&self.spare);
        if spare.len() < KEPT {
            spare.push(effects);
        }
    }

    /// Calls the connections. Packets in clear text and datagrams to be sent are returned; ends wait for `Hub::keep_dtls`.
    pub(super) fn call(
        &self,
        call: impl FnOnce(&Peers<SocketAddr>, Timestamp, &mut Effects<SocketAddr>),
    ) -> Effects<SocketAddr> {
        let mut effects = lock(&self.spare).pop().unwrap_or_default();
        call(
            &self.peers,
            Timestamp::ZERO + self.started.elapsed(),
            &mut effects,
        );
        for (peer, fingerprint) in &effects.established {
            tracing::debug!(%peer, %fingerprint, "a DTLS connection is complete");
        }
        if !effects.ended.is_empty() || effects.timeout_is_earlier {
            lock(&self.ended).append(&mut effects.ended);
            self.wake.notify_one();
        }
        effects
    }
}

/// The key of a peer: an address in one form.
pub(super) fn key(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(mut v6) if v6.ip().to_ipv4_mapped().is_none() => {
            v6.set_flowinfo(0);
            v6.into()
        }
        other => SocketAddr::new(other.ip().to_canonical(), other.port()),
    }
}

/// Adapts settings to DTLS.
pub(crate) fn fit_dtls(config: &mut Config) -> Result<(), DtlsLimit> {
    if !config.local_addresses.is_empty() {
        return Err(DtlsLimit::SeveralAddresses);
    }
    if config.dynamic_addresses.is_some() {
        return Err(DtlsLimit::DynamicAddresses);
    }
    if config.multipath.mode != MultipathMode::Off {
        return Err(DtlsLimit::Multipath);
    }
    config.lower_layer = LowerLayer::Dtls {
        overhead: anabranch_dtls::OVERHEAD,
    };
    config.path_mtu_limit = config.path_mtu_limit.min(anabranch_dtls::MAX_PACKET);
    Ok(())
}
