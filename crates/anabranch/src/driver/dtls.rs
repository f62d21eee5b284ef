//! DTLS between SCTP and the sockets (RFC 8261): packets to peers are encrypted, datagrams from peers are decrypted, and handshakes are
//! made.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};

use anabranch_dtls::{DtlsConfig, DtlsError, Effects, Fingerprint, Peers};
use anabranch_proto::{
    AssociationId, AssociationState, Dscp, EcnCodepoint, IcmpKind, IcmpMessage, PathError,
};
use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::association::{Shared, State};
use super::sent_marks::SentMarks;
use super::{Hub, lock, stopped};
use crate::pool::Pool;
use crate::socket::{Datagram, Outgoing};

/// The DTLS connections of an endpoint.
#[derive(Debug)]
pub(super) struct DtlsDoor {
    peers: Mutex<Peers<SocketAddr>>,
    /// The associations of each peer.
    users: Mutex<BTreeMap<SocketAddr, Vec<AssociationId>>>,
    /// Connections that ended and whose associations were not told yet.
    ended: Mutex<Vec<(SocketAddr, DtlsError)>>,
    /// A timeout may be nearer than before, or a connection ended.
    wake: Notify,
    /// Output without content, whose memory is used again.
    spare: Mutex<Vec<Effects<SocketAddr>>>,
    /// The memory of packets.
    pool: Pool,
    /// The datagrams that ICMP messages may quote.
    sent: Mutex<SentMarks>,
}

/// So many timeouts in a row make an association with data in flight doubt its DTLS connection: a single one is often a lost packet. An
/// association without data sends only a heartbeat in half a minute, and doubts its connection after the first that is not answered. So it
/// does during set-up.
const DOUBTS: u32 = 2;

/// The certificate with which a packet came; `None` without DTLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin(Option<Fingerprint>);

/// The bond of an association with the DTLS connections of its peer. A peer is its certificate: the address changes when an address
/// translator chooses another port, and somebody else may get the address.
#[derive(Debug)]
pub(crate) struct Bond {
    /// The certificate of the packet that began the association, or that answered its INIT.
    certificate: OnceLock<Fingerprint>,
    /// The peer's present address.
    address: Mutex<SocketAddr>,
    /// Why the connection ended.
    ended: OnceLock<DtlsError>,
}

impl Bond {
    pub(super) fn new(remote: SocketAddr, origin: Origin) -> Self {
        Self {
            certificate: origin.0.map(OnceLock::from).unwrap_or_default(),
            address: Mutex::new(key(remote)),
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

    fn address(&self) -> SocketAddr {
        *lock(&self.address)
    }
}

/// Limit of unused outputs. No more calls than this run at the same time on most machines.
const KEPT: usize = 16;

impl DtlsDoor {
    pub(super) fn new(config: DtlsConfig) -> Self {
        Self {
            peers: Mutex::new(Peers::new(config)),
            users: Mutex::default(),
            ended: Mutex::default(),
            wake: Notify::new(),
            spare: Mutex::default(),
            pool: Pool::default(),
            sent: Mutex::default(),
        }
    }

    /// Whether something still carries the packets of an association, after this end of a connection or a handshake with its peer.
    fn carries(&self, peer: SocketAddr, bond: &Bond, reason: &DtlsError) -> bool {
        let peers = lock(&self.peers);
        match bond.certificate() {
            Some(certificate) => peers.has(peer, certificate),
            // The association waits for the answer to its INIT. A connection that is there may be dead; these reasons say that the
            // handshake beside it cannot succeed.
            None if matches!(reason, DtlsError::Refused(_) | DtlsError::NothingThere) => false,
            None => peers.peer(peer).is_some() || peers.is_in_handshake(peer),
        }
    }

    /// Keeps the memory of an output for a later call.
    fn reuse(&self, mut effects: Effects<SocketAddr>) {
        effects.clear();
        let mut spare = lock(&self.spare);
        if spare.len() < KEPT {
            spare.push(effects);
        }
    }

    /// Calls the connections. Packets in clear text and datagrams to be sent are returned; ends wait for [`Hub::keep_dtls`].
    fn call(
        &self,
        call: impl FnOnce(&mut Peers<SocketAddr>, std::time::Instant, &mut Effects<SocketAddr>),
    ) -> Effects<SocketAddr> {
        let mut effects = lock(&self.spare).pop().unwrap_or_default();
        let mut peers = lock(&self.peers);
        let before = peers.timeout();
        call(&mut peers, Instant::now().into_std(), &mut effects);
        let after = peers.timeout();
        drop(peers);
        for (peer, fingerprint) in &effects.established {
            tracing::debug!(%peer, %fingerprint, "a DTLS connection is complete");
        }
        let sooner = after.is_some_and(|after| before.is_none_or(|before| after < before));
        if !effects.ended.is_empty() || sooner {
            lock(&self.ended).append(&mut effects.ended);
            self.wake.notify_one();
        }
        effects
    }
}

/// The key of a peer: an address in one form.
fn key(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(mut v6) if v6.ip().to_ipv4_mapped().is_none() => {
            v6.set_flowinfo(0);
            v6.into()
        }
        other => SocketAddr::new(other.ip().to_canonical(), other.port()),
    }
}

impl Hub {
    /// Encrypts a batch that has not been sent yet, for the peer with this certificate. Without a complete connection nothing is left of it:
    /// the packet waits for the end of the handshake, or is lost.
    pub(super) fn seal(&self, batch: &mut Outgoing, buffer: &mut Vec<u8>, to: Origin) {
        let Some(door) = &self.dtls else { return };
        let peer = key(batch.destination);
        let mut effects = door.call(|peers, now, effects| {
            for packet in buffer[..batch.len].chunks(batch.segment.max(1)) {
                peers.send_to(now, peer, to.0, packet, effects);
            }
        });
        (batch.len, batch.segment) = effects.take_batch(buffer).unwrap_or_else(|| {
            // DTLS added a message of its own, or the handshake is not complete.
            for (_, datagram) in effects.datagrams() {
                self.send_sealed(batch.source, batch.destination, datagram);
            }
            (0, 0)
        });
        let mut sent = lock(&door.sent);
        for datagram in buffer[..batch.len].chunks(batch.segment.max(1)) {
            sent.push(datagram);
        }
        drop(sent);
        door.reuse(effects);
    }

    /// The same for the packets of an association, whose peer may have another port than before.
    pub(super) fn seal_for(&self, association: &Shared, batch: &mut Outgoing, buffer: &mut Vec<u8>) {
        if let Some(door) = &self.dtls {
            self.follow_peer(door, association, key(batch.destination));
            self.seal(batch, buffer, association.bond.origin());
        }
    }

    /// Decrypts datagrams, if this endpoint has DTLS; else `keep` keeps their bytes.
    pub(super) fn unseal<P: AsRef<[u8]>>(
        &self,
        datagrams: impl Iterator<Item = Datagram<P>>,
        keep: impl Fn(P) -> Bytes,
    ) -> Vec<(Datagram, Origin)> {
        let Some(door) = &self.dtls else {
            return datagrams
                .map(|datagram| (datagram.keep(&keep), Origin::default()))
                .collect();
        };
        let mut clear = Vec::new();
        for datagram in datagrams {
            let peer = key(datagram.remote);
            let effects = door.call(|peers, now, effects| {
                peers.handle_datagram(now, peer, datagram.payload.as_ref(), effects);
            });
            for (to, answer) in effects.datagrams() {
                if to == peer {
                    self.send_sealed(datagram.local, datagram.remote, answer);
                } else {
                    // A connection that made room for this one.
                    self.send_sealed(None, to, answer);
                }
            }
            clear.extend(effects.certified_packets().map(|(certificate, packet)| {
                let clear = Datagram {
                    local: datagram.local,
                    remote: datagram.remote,
                    ecn: datagram.ecn,
                    payload: door.pool.copy(packet),
                };
                (clear, Origin(Some(certificate)))
            }));
            door.reuse(effects);
        }
        clear
    }

    /// Sends a DTLS datagram. If the socket is full, it is lost.
    fn send_sealed(&self, source: Option<IpAddr>, destination: SocketAddr, datagram: &[u8]) {
        let mut outgoing = Outgoing {
            source,
            destination,
            len: datagram.len(),
            segment: datagram.len(),
            may_fragment: true,
            ecn: EcnCodepoint::NotEct,
            dscp: Dscp::default(),
            sent: 0,
        };
        if let Err(error) = self.try_send(&mut outgoing, datagram) {
            tracing::debug!(%destination, %error, "a DTLS datagram was not sent");
        }
    }

    fn send_all(&self, effects: &Effects<SocketAddr>) {
        for (peer, datagram) in effects.datagrams() {
            self.send_sealed(None, peer, datagram);
        }
    }

    /// Whether everything is encrypted.
    pub(crate) fn has_dtls(&self) -> bool {
        self.dtls.is_some()
    }

    /// Begins a connection to a peer.
    pub(crate) fn connect_dtls(&self, remote: SocketAddr) {
        if let Some(door) = &self.dtls {
            self.send_all(&door.call(|peers, now, effects| peers.connect(now, key(remote), effects)));
        }
    }

    /// A timer of an association expired. If the peer has not answered several times, its DTLS connection may be dead, although nothing
    /// tells it: begins another one.
    pub(super) fn doubt_dtls(&self, association: &Shared, state: &State) {
        let Some(door) = &self.dtls else { return };
        if state.core.state() == AssociationState::Closed {
            return;
        }
        // During set-up, the timer is that of INIT or COOKIE ECHO.
        if state.established {
            let doubts = if state.dry { 1 } else { DOUBTS };
            let errors = state.core.stats().paths.first().map(|path| path.error_count);
            if errors.is_none_or(|errors| errors < doubts) {
                return;
            }
        }
        let (peer, certificate) = (key(state.core.remote_address()), association.bond.certificate());
        self.send_all(&door.call(|peers, now, effects| peers.renew(now, peer, certificate, effects)));
    }

    /// An association uses the connection with this address, which is kept as long as one does.
    fn add_user(&self, door: &DtlsDoor, peer: SocketAddr, id: AssociationId) {
        lock(&door.users).entry(peer).or_default().push(id);
        door.call(|peers, now, _| peers.hold(now, peer));
    }

    fn remove_user(&self, door: &DtlsDoor, peer: SocketAddr, id: AssociationId) {
        let mut users = lock(&door.users);
        if let Entry::Occupied(mut user) = users.entry(peer) {
            user.get_mut().retain(|other| *other != id);
            if user.get().is_empty() {
                user.remove();
                self.send_all(&door.call(|peers, now, effects| peers.release(now, peer, effects)));
            }
        }
    }

    /// The association now sends to this address.
    fn follow_peer(&self, door: &DtlsDoor, association: &Shared, peer: SocketAddr) {
        let former = std::mem::replace(&mut *lock(&association.bond.address), peer);
        if former != peer {
            tracing::debug!(association = association.id.0, %former, %peer, "the peer has another address or UDP port");
            self.remove_user(door, former, association.id);
            self.add_user(door, peer, association.id);
        }
    }

    /// An association begins: its end depends on the connection of its peer.
    pub(super) fn use_dtls(&self, association: &Shared) {
        if let Some(door) = &self.dtls {
            self.add_user(door, association.bond.address(), association.id);
        }
    }

    pub(super) fn leave_dtls(&self, association: &Shared) {
        if let Some(door) = &self.dtls {
            self.remove_user(door, association.bond.address(), association.id);
        }
    }

    /// A closed port ends a handshake at once, if the message quotes the ClientHello.
    pub(super) fn dtls_icmp(&self, message: &IcmpMessage) {
        if let Some(door) = &self.dtls
            && message.kind == IcmpKind::PortUnreachable
        {
            door.call(|peers, now, effects| {
                peers.handle_port_unreachable(now, key(message.destination), &message.quote, effects);
            });
        }
    }

    /// The associations whose encrypted packets the message is about, if its quote proves that its sender saw one of this endpoint's datagrams.
    pub(super) fn quoted_users(&self, message: &IcmpMessage) -> Vec<AssociationId> {
        let Some(door) = &self.dtls else {
            return Vec::new();
        };
        if !lock(&door.sent).has(&message.quote) {
            return Vec::new();
        }
        let users = lock(&door.users);
        users.get(&key(message.destination)).cloned().unwrap_or_default()
    }

    /// The task that keeps the time of DTLS and tells associations about ends.
    pub(super) async fn keep_dtls(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let Some(door) = &self.dtls else { return };
        loop {
            self.send_all(&door.call(Peers::handle_timeout));
            let ended = std::mem::take(&mut *lock(&door.ended));
            for (peer, reason) in ended {
                self.end_users(door, peer, &reason);
            }
            let next = lock(&door.peers).timeout().map(Instant::from_std);
            let far = Instant::now() + std::time::Duration::from_secs(3600);
            tokio::select! {
                () = door.wake.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or(far)) => {}
                () = stopped(&mut stop) => return,
            }
        }
    }

    /// Tells all peers that their connections end. The endpoint's tasks still run, so that the alerts leave an in-process link.
    pub(super) fn close_dtls(&self) {
        if let Some(door) = &self.dtls {
            self.send_all(&door.call(|peers, now, effects| peers.close_all(now, effects)));
        }
    }

    /// A connection or a handshake with this address ended: ends the associations that have no connection any more.
    fn end_users(self: &Arc<Self>, door: &DtlsDoor, peer: SocketAddr, reason: &DtlsError) {
        let Some(ids) = lock(&door.users).get(&peer).cloned() else {
            return;
        };
        tracing::debug!(%peer, %reason, "a DTLS connection ended");
        let associations: Vec<_> = {
            let registry = lock(&self.registry);
            ids.iter()
                .filter_map(|id| registry.associations.get(id).cloned())
                .collect()
        };
        for association in associations {
            if door.carries(peer, &association.bond, reason) {
                continue;
            }
            let _ = association.bond.ended.set(reason.clone());
            let _ = association.try_with(|state, now| {
                let paths = state.core.stats().paths;
                if let Some(path) = paths.first() {
                    state.core.handle_path_error(now, path.id, PathError::Closed);
                }
            });
        }
    }
}

#[cfg(test)]
mod quotes;
#[cfg(test)]
mod swarm;
#[cfg(test)]
mod tests;
