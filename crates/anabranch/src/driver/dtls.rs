//! DTLS between SCTP and the sockets (RFC 8261): packets to peers are encrypted, datagrams from peers are decrypted, and handshakes are
//! made.

use std::collections::btree_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_dtls::{DtlsError, Effects, Peers};
use anabranch_proto::{
    AssociationId, AssociationState, Dscp, EcnCodepoint, IcmpKind, IcmpMessage, PathError,
};
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::dtls_layer::{Bond, DtlsLayer, Origin, key};
use super::hub::{Hub, Shared, stopped};
use super::state::State;
use crate::datagram::{Datagram, Outgoing};
use crate::lock::lock;

/// So many timeouts in a row make an association with data in flight doubt its DTLS connection: a single one is often a lost packet. An
/// association without data sends only a heartbeat in half a minute, and doubts its connection after the first that is not answered. So it
/// does during set-up.
const DOUBTS: u32 = 2;

/// Room for so many datagrams: the most that one call of the kernel joins.
const BATCH: usize = 64;

impl Hub {
    /// Encrypts a batch that has not been sent yet, for the peer with this certificate. Without a complete connection nothing is left of it:
    /// the packet waits for the end of the handshake, or is lost.
    pub(super) fn seal(&self, batch: &mut Outgoing, buffer: &mut Vec<u8>, to: Origin) {
        let Some(layer) = &self.dtls else { return };
        let peer = key(batch.destination);
        let mut effects = layer.call(|peers, now, effects| {
            let packets = buffer[..batch.len].chunks(batch.segment.max(1));
            peers.send_batch(now, peer, to.0, packets, effects);
        });
        (batch.len, batch.segment) = effects.take_batch(buffer).unwrap_or_else(|| {
            // DTLS added a message of its own, or the handshake is not complete.
            for (_, datagram) in effects.datagrams() {
                self.send_sealed(batch.source, batch.destination, datagram);
            }
            (0, 0)
        });
        let mut sent = lock(&layer.sent);
        for datagram in buffer[..batch.len].chunks(batch.segment.max(1)) {
            sent.push(datagram);
        }
        drop(sent);
        layer.reuse(effects);
    }

    /// The same for the packets of an association, whose peer may have another port than before.
    pub(super) fn seal_for(&self, association: &Shared, batch: &mut Outgoing, buffer: &mut Vec<u8>) {
        if let Some(layer) = &self.dtls {
            self.follow_peer(layer, association, key(batch.destination));
            self.seal(batch, buffer, association.bond.origin());
        }
    }

    /// Decrypts datagrams, if this endpoint has DTLS; else `keep` keeps their bytes.
    pub(super) fn unseal<P: AsRef<[u8]>>(
        &self,
        datagrams: impl Iterator<Item = Datagram<P>>,
        keep: impl Fn(P) -> Bytes,
    ) -> Vec<(Datagram, Origin)> {
        let Some(layer) = &self.dtls else {
            let mut kept = Vec::with_capacity(BATCH);
            kept.extend(datagrams.map(|datagram| (datagram.keep(&keep), Origin::default())));
            return kept;
        };
        let mut clear = Vec::new();
        for datagram in datagrams {
            let peer = key(datagram.remote);
            let effects = layer.call(|peers, now, effects| {
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
                    payload: layer.pool.copy(packet),
                };
                (clear, Origin(Some(certificate)))
            }));
            layer.reuse(effects);
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
        if let Some(layer) = &self.dtls {
            self.send_all(&layer.call(|peers, now, effects| peers.connect(now, key(remote), effects)));
        }
    }

    /// A timer of an association expired. If the peer has not answered several times, its DTLS connection may be dead, although nothing
    /// tells it: begins another one.
    pub(super) fn doubt_dtls(&self, association: &Shared, state: &State) {
        let Some(layer) = &self.dtls else { return };
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
        let peer = key(state.core.remote_address());
        let certificate = association.bond.certificate().filter(|certificate| {
            // Without a connection, nothing else says that this endpoint began it.
            !association.bond.seeks() || layer.peers.has(peer, *certificate)
        });
        self.send_all(&layer.call(|peers, now, effects| peers.renew(now, peer, certificate, effects)));
    }

    /// An association uses the connection with this address, which is kept as long as one does.
    fn add_user(&self, layer: &DtlsLayer, peer: SocketAddr, id: AssociationId) {
        lock(&layer.users).entry(peer).or_default().push(id);
        layer.call(|peers, now, _| peers.hold(now, peer));
    }

    fn remove_user(&self, layer: &DtlsLayer, peer: SocketAddr, id: AssociationId) {
        let mut users = lock(&layer.users);
        if let Entry::Occupied(mut user) = users.entry(peer) {
            user.get_mut().retain(|other| *other != id);
            if user.get().is_empty() {
                user.remove();
                self.send_all(&layer.call(|peers, now, effects| peers.release(now, peer, effects)));
            }
        }
    }

    /// The association now sends to this address.
    fn follow_peer(&self, layer: &DtlsLayer, association: &Shared, peer: SocketAddr) {
        let former = std::mem::replace(&mut *lock(&association.bond.address), peer);
        if former != peer {
            tracing::debug!(association = association.id.0, %former, %peer, "the peer has another address or UDP port");
            self.remove_user(layer, former, association.id);
            self.add_user(layer, peer, association.id);
        }
    }

    /// An association begins: its end depends on the connection of its peer.
    pub(super) fn use_dtls(&self, association: &Shared) {
        if let Some(layer) = &self.dtls {
            self.add_user(layer, association.bond.address(), association.id);
        }
    }

    pub(super) fn leave_dtls(&self, association: &Shared) {
        if let Some(layer) = &self.dtls {
            self.remove_user(layer, association.bond.address(), association.id);
        }
    }

    /// A closed port ends a handshake at once, if the message quotes the ClientHello.
    pub(super) fn dtls_icmp(&self, message: &IcmpMessage) {
        if let Some(layer) = &self.dtls
            && message.kind == IcmpKind::PortUnreachable
        {
            layer.call(|peers, now, effects| {
                peers.handle_port_unreachable(now, key(message.destination), &message.quote, effects);
            });
        }
    }

    /// The associations whose encrypted packets the message is about, if its quote proves that its sender saw one of this endpoint's datagrams.
    pub(super) fn quoted_users(&self, message: &IcmpMessage) -> Vec<AssociationId> {
        let Some(layer) = &self.dtls else {
            return Vec::new();
        };
        if !lock(&layer.sent).has(&message.quote) {
            return Vec::new();
        }
        let users = lock(&layer.users);
        users.get(&key(message.destination)).cloned().unwrap_or_default()
    }

    /// The task that keeps the time of DTLS and tells associations about ends.
    pub(super) async fn keep_dtls(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let Some(layer) = &self.dtls else { return };
        loop {
            self.send_all(&layer.call(Peers::handle_timeout));
            let ended = std::mem::take(&mut *lock(&layer.ended));
            for (peer, reason) in ended {
                self.end_users(layer, peer, &reason);
            }
            let next = layer.peers.timeout().map(|due| self.instant(due));
            let far = Instant::now() + std::time::Duration::from_secs(3600);
            tokio::select! {
                () = layer.wake.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or(far)) => {}
                () = stopped(&mut stop) => return,
            }
        }
    }

    /// Tells all peers that their connections end. The endpoint's tasks still run, so that the alerts leave an in-process link.
    pub(super) fn close_dtls(&self) {
        if let Some(layer) = &self.dtls {
            self.send_all(&layer.call(|peers, now, effects| peers.close_all(now, effects)));
        }
    }

    /// Whether the peer may still be there: begins another handshake if it only does not answer. The timers of SCTP decide how long to go on.
    fn seeks(&self, layer: &DtlsLayer, bond: &Bond, peer: SocketAddr, reason: &DtlsError) -> bool {
        let seeks = bond.seeks_after(reason);
        if seeks && *reason == DtlsError::Timeout {
            self.send_all(&layer.call(|peers, now, effects| peers.renew(now, peer, None, effects)));
        }
        seeks
    }

    /// A connection or a handshake with this address ended: ends the associations that have no connection any more.
    fn end_users(self: &Arc<Self>, layer: &DtlsLayer, peer: SocketAddr, reason: &DtlsError) {
        let Some(ids) = lock(&layer.users).get(&peer).cloned() else {
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
            if layer.carries(peer, &association.bond, reason)
                || self.seeks(layer, &association.bond, peer, reason)
            {
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
