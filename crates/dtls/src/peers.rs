//! The DTLS connections of an endpoint, by the addresses of their peers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dimpl::crypto::aws_lc_rs::default_provider;

use crate::certificate::Fingerprint;
use crate::connection::{Connection, DtlsError, State};
use crate::effects::{Collected, Effects};
use crate::established::Established;
use crate::front::{self, Cookie, Front, ILLEGAL_PARAMETER, LATER, Read};
use crate::hello::is_client_hello;
use crate::key::PeerKey;
use crate::places::Places;
use crate::settings::DtlsConfig;
use crate::timeouts::Timeouts;

/// The most bytes that DTLS adds to a packet: DTLS 1.2 with AES-GCM has a header of 13, a nonce of 8 and an authentication tag of 16
/// (RFC 6347 §4.3.1, RFC 5288). DTLS 1.3 adds fewer.
pub const OVERHEAD: u16 = 37;

/// The largest SCTP packet that fits a record (RFC 9147 §4).
pub const MAX_PACKET: u16 = 1 << 14;

/// A complete connection that no association uses is closed after this time.
const UNUSED: Duration = Duration::from_secs(30);

/// The connections without an association that one host may have at least.
const LEAST_SHARE: usize = 8;

/// The least time between two timeouts of a connection.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The same during the handshake: while a flight of DTLS 1.3 has a gap, the library acknowledges the rest of it at each timeout, and wants the
/// next one at once. RFC 9147 §7.1 proposes a quarter of the retransmission timer, which is 250 ms at first.
const LEAST_HANDSHAKE_WAIT: Duration = Duration::from_millis(100);

/// The DTLS connections of an endpoint. `K` is the address of a peer.
#[derive(Debug)]
pub struct Peers<K> {
    config: DtlsConfig,
    dtls: Arc<dimpl::Config>,
    front: Front,
    /// Complete connections.
    established: Established<K>,
    /// Handshakes. A peer that restarted has one beside its old connection (RFC 6347 §4.2.8).
    handshakes: BTreeMap<K, Connection>,
    /// The handshakes that peers began.
    begun: Places<K>,
    /// Peers with an association.
    held: BTreeSet<K>,
    /// Complete connections of peers without one.
    unused: Places<K>,
    timeouts: Timeouts<K>,
}

impl<K: PeerKey> Peers<K> {
    /// No connections yet.
    #[must_use]
    pub fn new(config: DtlsConfig) -> Self {
        Self {
            begun: Places::new(config.max_handshakes / 4),
            unused: Places::new((config.max_connections / 256).max(LEAST_SHARE)),
            config,
            dtls: Arc::new(front::library(default_provider().key_provider)),
            front: Front::new(),
            established: Established::default(),
            handshakes: BTreeMap::new(),
            held: BTreeSet::new(),
            timeouts: Timeouts::default(),
        }
    }

    /// This endpoint's settings.
    #[must_use]
    pub fn config(&self) -> &DtlsConfig {
        &self.config
    }

    /// Handshakes that are not complete.
    #[must_use]
    pub fn handshakes(&self) -> usize {
        self.handshakes.len()
    }

    /// Complete connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.established.len()
    }

    /// Complete connections that no association uses.
    #[must_use]
    pub fn unused(&self) -> usize {
        self.unused.len()
    }

    /// The certificate of a peer with a complete connection; if several peers use the address, that of the latest.
    #[must_use]
    pub fn peer(&self, key: K) -> Option<Fingerprint> {
        self.established.find(key, None)?.certificate()
    }

    /// Whether there is a complete connection to the peer with this certificate at this address.
    #[must_use]
    pub fn has(&self, key: K, certificate: Fingerprint) -> bool {
        self.established.find(key, Some(certificate)).is_some()
    }

    /// Whether there is a handshake with this address.
    #[must_use]
    pub fn is_in_handshake(&self, key: K) -> bool {
        self.handshakes.contains_key(&key)
    }

    /// Begins a connection to a peer as the client, unless there is one.
    pub fn connect(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        if !self.established.has(key) {
            self.renew(now, key, None, effects);
        }
    }

    /// The peer does not answer: begins another connection to it beside the present one, as the client. An address translator may have
    /// forgotten this endpoint, or the peer its connection (RFC 6347 §4.2.8). The new connection replaces that of the same certificate when it
    /// is complete. If the peer's certificate is given, only the endpoint that began the present connection begins another, so that no two
    /// handshakes meet. Without effect during a handshake.
    pub fn renew(
        &mut self,
        now: Instant,
        key: K,
        certificate: Option<Fingerprint>,
        effects: &mut Effects<K>,
    ) {
        let began = |connection: &Connection| connection.is_client;
        let may = certificate.is_none() || self.established.find(key, certificate).is_some_and(began);
        if may && !self.handshakes.contains_key(&key) {
            let connection = Connection::new(&self.config, &self.dtls, true, now);
            self.handshakes.insert(key, connection);
            self.on_handshake(now, key, effects, |connection, out| {
                connection.handle_timeout(now, out)
            });
        }
    }

    /// An association with a peer begins: its connection is kept, unless it is idle for too long.
    pub fn hold(&mut self, now: Instant, key: K) {
        self.held.insert(key);
        self.note_use(now, key);
        self.schedule(now, key);
    }

    /// The last association with a peer ended. If no other begins, the connection is closed after 30 s.
    pub fn release(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        self.held.remove(&key);
        self.note_use(now, key);
        self.make_room(now, key, effects);
        self.schedule(now, key);
    }

    /// Encrypts an SCTP packet to a peer. Without a connection it is lost.
    pub fn send(&mut self, now: Instant, key: K, packet: &[u8], effects: &mut Effects<K>) {
        self.send_to(now, key, None, packet, effects);
    }

    /// Encrypts an SCTP packet to the peer with this certificate; without one, to the peer whose connection is the latest. Without a
    /// connection the packet is lost. While this endpoint makes another connection, because the present one may be dead, the packet goes over
    /// both.
    pub fn send_to(
        &mut self,
        now: Instant,
        key: K,
        certificate: Option<Fingerprint>,
        packet: &[u8],
        effects: &mut Effects<K>,
    ) {
        let present = self.established.find_mut(key, certificate);
        let is_there = present.is_some();
        if let Some(connection) = present {
            connection.send(now, certificate, packet, &mut effects.collected);
            effects.assign(key, connection.certificate());
            self.settle(now, key, effects);
        }
        if let Some(handshake) = self.handshakes.get(&key)
            && (handshake.is_client || !is_there)
        {
            self.on_handshake(now, key, effects, |connection, out| {
                connection.send(now, certificate, packet, out)
            });
        }
    }

    /// A datagram arrived. Datagrams that are not DTLS, or from strangers without a ClientHello, have no effect.
    pub fn handle_datagram(&mut self, now: Instant, key: K, datagram: &[u8], effects: &mut Effects<K>) {
        if is_client_hello(datagram) {
            self.on_hello(now, key, datagram, effects);
            return;
        }
        if self.handle_record(now, key, datagram, effects) {
            return;
        }
        self.on_handshake(now, key, effects, |connection, out| {
            connection.handle_datagram(now, datagram, out);
        });
    }

    /// A ClientHello arrived, or a part of one. It is never for a complete connection, which would answer it and disturb the new handshake.
    fn on_hello(&mut self, now: Instant, key: K, datagram: &[u8], effects: &mut Effects<K>) {
        let Some(address) = key.address() else {
            if !self.handshakes.contains_key(&key) {
                let connection = Connection::new(&self.config, &self.dtls, false, now);
                self.begin(now, key, connection, effects);
            }
            self.on_handshake(now, key, effects, |connection, out| {
                connection.handle_datagram(now, datagram, out);
            });
            return;
        };
        let out = &mut effects.collected;
        match self.front.read(now, address, datagram) {
            Read::Proved(cookie, first) => self.on_proved(now, key, (cookie, &first), datagram, effects),
            Read::First(hello) if !self.is_client_of(key) => {
                let hello = (&hello, datagram);
                self.front.answer(now, address, &self.config, hello, out);
            }
            Read::Forged if !self.handshakes.contains_key(&key) && !self.established.has(key) => {
                out.copy_datagram(&front::alert(LATER, ILLEGAL_PARAMETER));
            }
            Read::First(_) | Read::Forged | Read::Nothing => {}
        }
        effects.assign(key, None);
    }

    /// Whether this endpoint makes a handshake with a peer as the client.
    fn is_client_of(&self, key: K) -> bool {
        let handshake = self.handshakes.get(&key);
        handshake.is_some_and(|connection| connection.is_client)
    }

    /// A second ClientHello arrived, whose cookie proves that the peer receives at its address.
    fn on_proved(
        &mut self,
        now: Instant,
        key: K,
        first: (Cookie, &[u8]),
        datagram: &[u8],
        effects: &mut Effects<K>,
    ) {
        let cookie = Some(first.0);
        let is_known = |connection: &Connection| connection.cookie.is_none_or(|known| Some(known) == cookie);
        if let Some(connection) = self.handshakes.get(&key)
            && is_known(connection)
        {
            // The answer was lost, or this endpoint is the client.
            self.on_handshake(now, key, effects, |connection, out| {
                connection.handle_datagram(now, datagram, out);
            });
            return;
        }
        let mut established = self.established.of(key).iter();
        let is_replay = established.any(|connection| connection.cookie == cookie);
        if is_replay || !self.established.has(key) && !self.has_room(now, effects) {
            return;
        }
        let mut connection = Connection::new(&self.config, &self.dtls, false, now);
        connection.cookie = cookie;
        // A peer that restarted during a handshake begins another one.
        self.remove_handshake(key);
        self.begin(now, key, connection, effects);
        self.on_handshake(now, key, effects, |connection, out| {
            front::begin(connection, now, first, datagram, out);
        });
    }

    /// Whether there may be another complete connection. If there are too many, the oldest unused one is closed.
    fn has_room(&mut self, now: Instant, effects: &mut Effects<K>) -> bool {
        if self.established.len() < self.config.max_connections.max(1) {
            return true;
        }
        let oldest = self.unused.oldest();
        if let Some(oldest) = oldest {
            self.close_unused(now, oldest, effects);
        }
        oldest.is_some()
    }

    /// Gives a datagram to the complete connections with this address. Returns whether it was a packet of one of them.
    fn handle_record(&mut self, now: Instant, key: K, datagram: &[u8], effects: &mut Effects<K>) -> bool {
        let before = effects.collected.packets();
        for connection in self.established.of_mut(key) {
            connection.handle_datagram(now, datagram, &mut effects.collected);
            effects.assign(key, connection.certificate());
            if effects.collected.packets() > before {
                break;
            }
        }
        self.settle(now, key, effects);
        effects.collected.packets() > before
    }

    /// When [`Peers::handle_timeout`] must be called.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.timeouts.first()
    }

    /// Time has passed: handshakes are continued, and idle connections are closed.
    pub fn handle_timeout(&mut self, now: Instant, effects: &mut Effects<K>) {
        while let Some(key) = self.timeouts.take_due(now) {
            for connection in self.established.of_mut(key) {
                let out = &mut effects.collected;
                if now >= connection.last_used + self.config.idle_timeout {
                    connection.close(now, DtlsError::Idle, out);
                } else if connection.unused_since.is_some_and(|since| now >= since + UNUSED) {
                    connection.close(now, DtlsError::Unused, out);
                } else {
                    connection.handle_timeout(now, out);
                }
                effects.assign(key, connection.certificate());
            }
            self.settle(now, key, effects);
            self.on_handshake(now, key, effects, |connection, out| {
                connection.handle_timeout(now, out)
            });
            self.schedule(now, key);
        }
    }

    /// An ICMP message reports that no program receives at this address; `quote` is the beginning of the datagram that it quotes. It ends a
    /// handshake of which nothing has arrived, if it quotes the ClientHello. A complete connection stays.
    pub fn handle_port_unreachable(&mut self, now: Instant, key: K, quote: &[u8], effects: &mut Effects<K>) {
        if let Some(connection) = self.handshakes.get(&key)
            && connection.is_refuted_by(quote)
        {
            self.on_handshake(now, key, effects, |connection, out| {
                connection.close(now, DtlsError::NothingThere, out);
            });
        }
    }

    /// Closes the connection to a peer.
    pub fn close(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        for connection in self.established.of_mut(key) {
            connection.close(now, DtlsError::Closed, &mut effects.collected);
            effects.assign(key, connection.certificate());
        }
        self.settle(now, key, effects);
        self.on_handshake(now, key, effects, |connection, out| {
            connection.close(now, DtlsError::Closed, out);
        });
    }

    /// Closes all connections.
    pub fn close_all(&mut self, now: Instant, effects: &mut Effects<K>) {
        let keys: BTreeSet<K> = self
            .established
            .keys()
            .chain(self.handshakes.keys().copied())
            .collect();
        for key in keys {
            self.close(now, key, effects);
        }
    }

    /// A peer begins a handshake. If there are too many, the oldest one of its host is dropped, or, if the host has no more than its share,
    /// the oldest one of all.
    fn begin(&mut self, now: Instant, key: K, mut connection: Connection, effects: &mut Effects<K>) {
        connection.place = self.begun.add(key);
        self.handshakes.insert(key, connection);
        if self.begun.len() > self.config.max_handshakes.max(1)
            && let Some(dropped) = self.begun.too_many(key).or_else(|| self.begun.oldest())
        {
            self.remove_handshake(dropped);
            effects.ended.push((dropped, DtlsError::Dropped));
            self.schedule(now, dropped);
        }
    }

    fn on_handshake(
        &mut self,
        now: Instant,
        key: K,
        effects: &mut Effects<K>,
        call: impl FnOnce(&mut Connection, &mut Collected),
    ) {
        let Some(connection) = self.handshakes.get_mut(&key) else {
            return;
        };
        call(connection, &mut effects.collected);
        let certificate = connection.certificate();
        effects.assign(key, certificate);
        match connection.state {
            State::Handshake => {}
            State::Established(fingerprint) => {
                let connection = self.remove_handshake(key).expect("it was there");
                if let Some((former, is_of_another)) = self.established.insert(key, connection) {
                    self.leave(&former);
                    if is_of_another {
                        effects.ended.push((key, DtlsError::Replaced));
                    }
                }
                effects.established.push((key, fingerprint));
                self.note_use(now, key);
                self.make_room(now, key, effects);
            }
            State::Ended(ref reason) => {
                effects.ended.push((key, reason.clone()));
                self.remove_handshake(key);
            }
        }
        self.schedule(now, key);
    }

    fn remove_handshake(&mut self, key: K) -> Option<Connection> {
        let removed = self.handshakes.remove(&key)?;
        self.begun.remove(removed.place);
        Some(removed)
    }

    /// A connection left the table.
    fn leave(&mut self, connection: &Connection) {
        if connection.unused_since.is_some() {
            self.unused.remove(connection.place);
        }
    }

    /// A connection is complete, or an association began or ended. A peer whose address another protocol has proved needs no association.
    fn note_use(&mut self, now: Instant, key: K) {
        let is_used = self.held.contains(&key) || key.address().is_none();
        for connection in self.established.of_mut(key) {
            if is_used && connection.unused_since.take().is_some() {
                self.unused.remove(connection.place);
            } else if !is_used && connection.unused_since.is_none() {
                connection.unused_since = Some(now);
                connection.place = self.unused.add(key);
            }
        }
    }

    /// Closes unused connections while there are too many, of all peers or of this peer's host.
    fn make_room(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        while let Some(oldest) = self.unused.too_many(key).or_else(|| {
            let oldest = self.unused.oldest();
            oldest.filter(|_| self.established.len() > self.config.max_connections.max(1))
        }) {
            self.close_unused(now, oldest, effects);
        }
    }

    /// Closes the connections of a peer that has no association.
    fn close_unused(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        for connection in self.established.of_mut(key) {
            connection.close(now, DtlsError::Unused, &mut effects.collected);
            effects.assign(key, connection.certificate());
        }
        self.settle(now, key, effects);
    }

    /// After a call of complete connections: removes those that ended.
    fn settle(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        for (connection, reason) in self.established.take_ended(key) {
            self.leave(&connection);
            effects.ended.push((key, reason));
        }
        self.schedule(now, key);
    }

    /// Notes when the connections of a peer need time to pass.
    fn schedule(&mut self, now: Instant, key: K) {
        let established = self.established.of(key).iter().map(|connection| {
            let unused = connection.unused_since.map(|since| since + UNUSED);
            let idle = connection.last_used + self.config.idle_timeout;
            connection.timeout.min(idle).min(unused.unwrap_or(idle))
        });
        let handshake = self.handshakes.get(&key);
        let handshake = handshake.map(|connection| connection.timeout.max(now + LEAST_HANDSHAKE_WAIT));
        match established.chain(handshake).min() {
            Some(at) => self.timeouts.note(at.max(now + LEAST_WAIT), key),
            None => self.timeouts.forget(key),
        }
    }
}
