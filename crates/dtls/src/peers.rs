//! The DTLS connections of an endpoint, by the addresses of their peers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::certificate::Fingerprint;
use crate::connection::{Connection, DtlsError, State};
use crate::effects::{Collected, Effects};
use crate::settings::DtlsConfig;

/// The most bytes that DTLS adds to a packet: DTLS 1.2 with AES-GCM has a header of 13, a nonce of 8 and an authentication tag of 16
/// (RFC 6347 §4.3.1, RFC 5288). DTLS 1.3 adds fewer.
pub const OVERHEAD: u16 = 37;

/// The largest SCTP packet that fits a record (RFC 9147 §4).
pub const MAX_PACKET: u16 = 1 << 14;

pub(crate) const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// The least time between two timeouts of a connection.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The DTLS connections of an endpoint. `K` is the address of a peer.
#[derive(Debug)]
pub struct Peers<K> {
    config: DtlsConfig,
    dtls: Arc<dimpl::Config>,
    /// Complete connections.
    established: BTreeMap<K, Connection>,
    /// Handshakes, each with the number of its begin. A peer that restarted has one beside its old connection (RFC 6347 §4.2.8).
    handshakes: BTreeMap<K, (u64, Connection)>,
    /// The handshakes by their begin.
    order: BTreeMap<u64, K>,
    begun: u64,
    timeouts: Timeouts<K>,
}

impl<K: Copy + Ord> Peers<K> {
    /// No connections yet.
    #[must_use]
    pub fn new(config: DtlsConfig) -> Self {
        Self {
            config,
            dtls: Arc::new(dimpl::Config::default()),
            established: BTreeMap::new(),
            handshakes: BTreeMap::new(),
            order: BTreeMap::new(),
            begun: 0,
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

    /// The certificate of a peer with a complete connection.
    #[must_use]
    pub fn peer(&self, key: K) -> Option<Fingerprint> {
        match self.established.get(&key)?.state {
            State::Established(fingerprint) => Some(fingerprint),
            _ => None,
        }
    }

    /// Begins a connection to a peer as the client, unless there is one.
    pub fn connect(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        if !self.established.contains_key(&key) && !self.handshakes.contains_key(&key) {
            self.begin(now, key, true, effects);
            self.on_handshake(now, key, effects, |connection, out| {
                connection.handle_timeout(now, out)
            });
        }
    }

    /// Encrypts an SCTP packet to a peer. Without a connection it is lost.
    pub fn send(&mut self, now: Instant, key: K, packet: &[u8], effects: &mut Effects<K>) {
        if let Some(connection) = self.established.get_mut(&key) {
            connection.send(now, packet, &mut effects.collected);
            self.settle(now, key, effects);
        } else {
            self.on_handshake(now, key, effects, |connection, out| {
                connection.send(now, packet, out)
            });
        }
    }

    /// A datagram arrived. Datagrams that are not DTLS, or from strangers without a ClientHello, have no effect.
    pub fn handle_datagram(&mut self, now: Instant, key: K, datagram: &[u8], effects: &mut Effects<K>) {
        let hello = is_client_hello(datagram);
        // A ClientHello is never for a complete connection, which would answer it and disturb the new handshake.
        if let Some(connection) = self.established.get_mut(&key).filter(|_| !hello) {
            let before = effects.collected.packets();
            connection.handle_datagram(now, datagram, &mut effects.collected);
            let taken = effects.collected.packets() > before;
            self.settle(now, key, effects);
            if taken {
                return;
            }
        }
        if hello && !self.handshakes.contains_key(&key) {
            if self.established.len() >= self.config.max_connections && !self.established.contains_key(&key) {
                return;
            }
            self.begin(now, key, false, effects);
        }
        self.on_handshake(now, key, effects, |connection, out| {
            connection.handle_datagram(now, datagram, out);
        });
    }

    /// When [`Peers::handle_timeout`] must be called.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.timeouts.first()
    }

    /// Time has passed: handshakes are continued, and idle connections are closed.
    pub fn handle_timeout(&mut self, now: Instant, effects: &mut Effects<K>) {
        while let Some(key) = self.timeouts.take_due(now) {
            if let Some(connection) = self.established.get_mut(&key) {
                if now >= connection.last_used + self.config.idle_timeout {
                    connection.close(now, DtlsError::Idle, &mut effects.collected);
                } else {
                    connection.handle_timeout(now, &mut effects.collected);
                }
                self.settle(now, key, effects);
            }
            self.on_handshake(now, key, effects, |connection, out| {
                connection.handle_timeout(now, out)
            });
            self.schedule(now, key);
        }
    }

    /// Ends the handshake with a peer at whose address no program receives. A complete connection stays.
    pub fn give_up(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        self.on_handshake(now, key, effects, |connection, out| {
            connection.close(now, DtlsError::NothingThere, out);
        });
    }

    /// Closes the connection to a peer.
    pub fn close(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        if let Some(connection) = self.established.get_mut(&key) {
            connection.close(now, DtlsError::Closed, &mut effects.collected);
            self.settle(now, key, effects);
        }
        self.on_handshake(now, key, effects, |connection, out| {
            connection.close(now, DtlsError::Closed, out);
        });
    }

    /// Closes all connections.
    pub fn close_all(&mut self, now: Instant, effects: &mut Effects<K>) {
        let keys: BTreeSet<K> = self
            .established
            .keys()
            .chain(self.handshakes.keys())
            .copied()
            .collect();
        for key in keys {
            self.close(now, key, effects);
        }
    }

    fn begin(&mut self, now: Instant, key: K, is_client: bool, effects: &mut Effects<K>) {
        while self.handshakes.len() >= self.config.max_handshakes.max(1) {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            if self.handshakes.remove(&oldest).is_some() {
                effects.ended.push((oldest, DtlsError::Dropped));
                self.schedule(now, oldest);
            }
        }
        let connection = Connection::new(&self.config, &self.dtls, is_client, now);
        self.begun += 1;
        self.order.insert(self.begun, key);
        self.handshakes.insert(key, (self.begun, connection));
    }

    fn on_handshake(
        &mut self,
        now: Instant,
        key: K,
        effects: &mut Effects<K>,
        call: impl FnOnce(&mut Connection, &mut Collected),
    ) {
        let Some((_, connection)) = self.handshakes.get_mut(&key) else {
            return;
        };
        call(connection, &mut effects.collected);
        match connection.state {
            State::Handshake => {}
            State::Established(fingerprint) => {
                let (_, connection) = self.remove_handshake(key).expect("it was there");
                // The old connection of a peer that restarted ends without a word.
                self.established.insert(key, connection);
                effects.established.push((key, fingerprint));
            }
            State::Ended(ref reason) => {
                effects.ended.push((key, reason.clone()));
                self.remove_handshake(key);
            }
        }
        effects.assign(key);
        self.schedule(now, key);
    }

    fn remove_handshake(&mut self, key: K) -> Option<(u64, Connection)> {
        let removed = self.handshakes.remove(&key)?;
        self.order.remove(&removed.0);
        Some(removed)
    }

    /// After a call of an established connection: takes its output, and removes it if it ended.
    fn settle(&mut self, now: Instant, key: K, effects: &mut Effects<K>) {
        if let Some(connection) = self.established.get(&key)
            && let State::Ended(reason) = &connection.state
        {
            effects.ended.push((key, reason.clone()));
            self.established.remove(&key);
        }
        effects.assign(key);
        self.schedule(now, key);
    }

    /// Notes when the connections of a peer need time to pass.
    fn schedule(&mut self, now: Instant, key: K) {
        let established = self.established.get(&key);
        let established = established.map(|connection| {
            connection
                .timeout
                .min(connection.last_used + self.config.idle_timeout)
        });
        let handshake = self
            .handshakes
            .get(&key)
            .map(|(_, connection)| connection.timeout);
        if let Some(at) = established.into_iter().chain(handshake).min() {
            self.timeouts.note(at.max(now + LEAST_WAIT), key);
        }
    }
}

/// The next timeout of each peer. It may be early: a connection that was used meanwhile is noted again.
#[derive(Debug)]
struct Timeouts<K> {
    by_time: BTreeSet<(Instant, K)>,
    by_key: BTreeMap<K, Instant>,
}

impl<K> Default for Timeouts<K> {
    fn default() -> Self {
        Self {
            by_time: BTreeSet::new(),
            by_key: BTreeMap::new(),
        }
    }
}

impl<K: Copy + Ord> Timeouts<K> {
    fn note(&mut self, at: Instant, key: K) {
        if let Some(former) = self.by_key.get(&key).copied() {
            if former <= at {
                return;
            }
            self.by_time.remove(&(former, key));
        }
        self.by_key.insert(key, at);
        self.by_time.insert((at, key));
    }

    fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    fn take_due(&mut self, now: Instant) -> Option<K> {
        let (at, key) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.by_time.remove(&(at, key));
        self.by_key.remove(&key);
        Some(key)
    }
}

/// Whether a datagram begins with a ClientHello without encryption, in epoch 0 (RFC 6347 §4.1, §4.2.2).
fn is_client_hello(datagram: &[u8]) -> bool {
    matches!(datagram, [HANDSHAKE, _, _, 0, 0, ..]) && datagram.get(13) == Some(&CLIENT_HELLO)
}
