//! The DTLS connections of an endpoint, by the addresses of their peers.
//!
//! There is a lock for the table of connections, one for each connection, and one for the cookies of strangers. The lock of a connection is
//! held while its cryptography runs, so that its records stay in order; the lock of the table only for look-ups, insertions and
//! removals. A thread with one of these locks takes no other, with one exception: a new connection is locked before anybody can
//! find it in the table, which waits for nobody. So after its work on a connection, a thread tells the table what has changed, if anything has.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anabranch_proto::Timestamp;
use dimpl::crypto::aws_lc_rs::default_provider;

use crate::certificate::Fingerprint;
use crate::connection::{Connection, DtlsError, Shared};
use crate::effects::{Collected, Effects};
use crate::entry::Entry;
use crate::front::{self, Cookie, Front, ILLEGAL_PARAMETER, LATER, Read};
use crate::hello::is_client_hello;
use crate::key::PeerKey;
use crate::settings::DtlsConfig;
use crate::table::{Table, lock};

/// The most bytes that DTLS adds to a packet: DTLS 1.2 with AES-GCM has a header of 13, a nonce of 8 and an authentication tag of 16
/// (RFC 6347 §4.3.1, RFC 5288). DTLS 1.3 adds fewer.
pub const OVERHEAD: u16 = 37;

/// The largest SCTP packet that fits a record (RFC 9147 §4).
pub const MAX_PACKET: u16 = 1 << 14;

/// The last message of a handshake may be lost: the library sends it again after 1 s and after 3 s. The connection is complete for the client
/// meanwhile, but a ClientHello would end the server's half of it.
const SETTLING: Duration = Duration::from_secs(4);

/// The DTLS connections of an endpoint. `K` is the address of a peer.
#[derive(Debug)]
pub struct Peers<K> {
    config: DtlsConfig,
    dtls: Arc<dimpl::Config>,
    front: Mutex<Front>,
    table: Mutex<Table<K>>,
}

impl<K: PeerKey> Peers<K> {
    /// No connections yet.
    #[must_use]
    pub fn new(config: DtlsConfig) -> Self {
        Self {
            table: Mutex::new(Table::new(&config)),
            config,
            dtls: Arc::new(front::library(default_provider().key_provider)),
            front: Mutex::new(Front::new()),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<K>> {
        lock(&self.table)
    }

    /// This endpoint's settings.
    #[must_use]
    pub fn config(&self) -> &DtlsConfig {
        &self.config
    }

    /// Handshakes that are not complete.
    #[must_use]
    pub fn handshakes(&self) -> usize {
        self.table().handshakes.len()
    }

    /// Complete connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.table().established.len()
    }

    /// Complete connections that no association uses.
    #[must_use]
    pub fn unused(&self) -> usize {
        self.table().unused.len()
    }

    /// The certificate of a peer with a complete connection; if several peers use the address, that of the latest.
    #[must_use]
    pub fn peer(&self, key: K) -> Option<Fingerprint> {
        self.table().established.find(key, None)?.certificate
    }

    /// Whether there is a complete connection to the peer with this certificate at this address.
    #[must_use]
    pub fn has(&self, key: K, certificate: Fingerprint) -> bool {
        self.table().established.find(key, Some(certificate)).is_some()
    }

    /// Whether there is a complete connection to a peer at this address, or a handshake with it.
    #[must_use]
    pub fn has_any(&self, key: K) -> bool {
        let table = self.table();
        table.established.has(key) || table.handshakes.contains_key(&key)
    }

    /// Whether there is a handshake with this address.
    #[must_use]
    pub fn is_in_handshake(&self, key: K) -> bool {
        self.table().handshakes.contains_key(&key)
    }

    /// Begins a connection to a peer as the client, unless there is one.
    pub fn connect(&self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        let table = self.table();
        if !table.established.has(key) {
            self.begin_as_client(now, key, table, effects);
        }
    }

    /// The peer does not answer: begins another connection to it beside the present one, as the client. An address translator may have
    /// forgotten this endpoint, or the peer its connection (RFC 6347 §4.2.8). The new connection replaces that of the same certificate when it
    /// is complete. If the peer's certificate is given, only the endpoint that began the present connection begins another, so that no two
    /// handshakes meet. Without effect during a handshake, and in the first 4 s of the present connection.
    pub fn renew(&self, now: Timestamp, key: K, certificate: Option<Fingerprint>, effects: &mut Effects<K>) {
        let table = self.table();
        let may = match table.established.find(key, certificate) {
            Some(entry) => {
                let began = certificate.is_none() || entry.is_client;
                began && now >= entry.completed + SETTLING
            }
            None => certificate.is_none(),
        };
        if may {
            self.begin_as_client(now, key, table, effects);
        }
    }

    fn begin_as_client(
        &self,
        now: Timestamp,
        key: K,
        mut table: MutexGuard<'_, Table<K>>,
        effects: &mut Effects<K>,
    ) {
        if table.handshakes.contains_key(&key) {
            return;
        }
        let new = Shared::new(Mutex::new(Connection::new(&self.config, true, now)));
        let mut connection = lock(&new);
        let entry = Entry::new(&new, true, None, now);
        table.handshakes.insert(key, entry);
        drop(table);
        connection.start(&self.config, &self.dtls, now);
        self.work(now, key, (&new, connection), effects, |connection, out| {
            connection.handle_timeout(now, out);
        });
    }

    /// An association with a peer begins: its connection is kept, unless it is idle for too long.
    pub fn hold(&self, now: Timestamp, key: K) {
        self.table().hold(now, key);
    }

    /// The last association with a peer ended. If no other begins, the connection is closed after 30 s.
    pub fn release(&self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        self.table().release(now, key, effects);
        self.tell_leaving(now, effects);
    }

    /// Encrypts an SCTP packet to a peer. Without a connection it is lost.
    pub fn send(&self, now: Timestamp, key: K, packet: &[u8], effects: &mut Effects<K>) {
        self.send_to(now, key, None, packet, effects);
    }

    /// Encrypts an SCTP packet to the peer with this certificate; without one, to the peer whose connection is the latest. Without a
    /// connection the packet is lost. While this endpoint makes another connection, because the present one may be dead, the packet goes over
    /// both.
    pub fn send_to(
        &self,
        now: Timestamp,
        key: K,
        certificate: Option<Fingerprint>,
        packet: &[u8],
        effects: &mut Effects<K>,
    ) {
        self.send_batch(now, key, certificate, std::iter::once(packet), effects);
    }

    /// The same for several packets, whose records follow each other.
    pub fn send_batch<'a>(
        &self,
        now: Timestamp,
        key: K,
        certificate: Option<Fingerprint>,
        packets: impl Iterator<Item = &'a [u8]> + Clone,
        effects: &mut Effects<K>,
    ) {
        let (present, handshake) = {
            let table = self.table();
            let present = table.established.find(key, certificate);
            let handshake = table.handshakes.get(&key);
            let handshake = handshake.filter(|handshake| handshake.is_client || present.is_none());
            let shared = |entry: &Entry| Arc::clone(&entry.connection);
            (present.map(shared), handshake.map(shared))
        };
        for connection in present.into_iter().chain(handshake) {
            self.on(now, key, &connection, effects, |connection, out| {
                for packet in packets.clone() {
                    connection.send(now, certificate, packet, out);
                }
            });
        }
    }

    /// A datagram arrived. Datagrams that are not DTLS, or from strangers without a ClientHello, have no effect.
    pub fn handle_datagram(&self, now: Timestamp, key: K, datagram: &[u8], effects: &mut Effects<K>) {
        if is_client_hello(datagram) {
            self.on_hello(now, key, datagram, effects);
            return;
        }
        let (established, handshake) = self.table().all(key);
        for connection in established.into_iter().flatten().chain(handshake) {
            let before = effects.collected.packets();
            self.on(now, key, &connection, effects, |connection, out| {
                connection.handle_datagram(now, datagram, out);
            });
            if effects.collected.packets() > before {
                return;
            }
        }
    }

    /// A ClientHello arrived, or a part of one. It is never for a complete connection, which would answer it and disturb the new handshake.
    fn on_hello(&self, now: Timestamp, key: K, datagram: &[u8], effects: &mut Effects<K>) {
        let Some(address) = key.address() else {
            self.on_hello_of_proved(now, key, datagram, effects);
            return;
        };
        let read = lock(&self.front).read(now, address, datagram);
        match read {
            Read::Proved(cookie, first) => self.on_proved(now, key, (cookie, &first), datagram, effects),
            Read::First(hello) if !self.table().is_client_of(key) => {
                let (hello, out) = ((&hello, datagram), &mut effects.collected);
                lock(&self.front).answer(now, address, &self.config, hello, out);
            }
            Read::Forged if !self.has_any(key) => {
                let out = &mut effects.collected;
                out.copy_datagram(&front::alert(LATER, ILLEGAL_PARAMETER));
            }
            Read::First(_) | Read::Forged | Read::Nothing => {}
        }
        effects.assign(key, None);
    }

    /// A ClientHello, or a part of one, of a peer whose address another protocol has proved.
    fn on_hello_of_proved(&self, now: Timestamp, key: K, datagram: &[u8], effects: &mut Effects<K>) {
        let table = self.table();
        let call = |connection: &mut Connection, out: &mut Collected| {
            connection.handle_datagram(now, datagram, out);
        };
        if let Some(handshake) = table.handshake(key) {
            drop(table);
            self.on(now, key, &handshake, effects, call);
        } else {
            self.begin_as_server(now, key, None, table, effects, call);
        }
    }

    /// A second ClientHello arrived, whose cookie proves that the peer receives at its address.
    fn on_proved(
        &self,
        now: Timestamp,
        key: K,
        first: (Cookie, &[u8]),
        datagram: &[u8],
        effects: &mut Effects<K>,
    ) {
        let cookie = Some(first.0);
        let mut table = self.table();
        if let Some(handshake) = table.handshakes.get(&key)
            && handshake.cookie.is_none_or(|known| Some(known) == cookie)
        {
            // The answer was lost, or this endpoint is the client.
            let connection = Arc::clone(&handshake.connection);
            drop(table);
            self.on(now, key, &connection, effects, |connection, out| {
                connection.handle_datagram(now, datagram, out);
            });
            return;
        }
        let is_replay = table
            .established
            .of(key)
            .iter()
            .any(|entry| entry.cookie == cookie);
        if is_replay || !table.established.has(key) && !table.has_room(now, effects) {
            return;
        }
        // A peer that restarted during a handshake begins another one.
        table.remove_handshake(key);
        self.begin_as_server(now, key, cookie, table, effects, |connection, out| {
            front::begin(connection, now, first, datagram, out);
        });
    }

    fn begin_as_server(
        &self,
        now: Timestamp,
        key: K,
        cookie: Option<Cookie>,
        mut table: MutexGuard<'_, Table<K>>,
        effects: &mut Effects<K>,
        call: impl FnOnce(&mut Connection, &mut Collected),
    ) {
        let new = Shared::new(Mutex::new(Connection::new(&self.config, false, now)));
        let mut connection = lock(&new);
        table.begin(now, key, Entry::new(&new, false, cookie, now), effects);
        drop(table);
        connection.start(&self.config, &self.dtls, now);
        self.work(now, key, (&new, connection), effects, call);
        self.tell_leaving(now, effects);
    }

    /// When [`Peers::handle_timeout`] must be called.
    #[must_use]
    pub fn timeout(&self) -> Option<Timestamp> {
        self.table().timeouts.first()
    }

    /// Time has passed: handshakes are continued, and idle connections are closed.
    pub fn handle_timeout(&self, now: Timestamp, effects: &mut Effects<K>) {
        loop {
            let mut table = self.table();
            let Some(key) = table.timeouts.take_due(now) else {
                return;
            };
            table.expire(now, key, effects);
            let (established, handshake) = table.all(key);
            drop(table);
            self.tell_leaving(now, effects);
            for connection in established.into_iter().flatten().chain(handshake) {
                self.on(now, key, &connection, effects, |connection, out| {
                    connection.forget_told();
                    connection.pass_time(now, self.config.idle_timeout, out);
                });
            }
        }
    }

    /// An ICMP message reports that no program receives at this address; `quote` is the beginning of the datagram that it quotes. It ends a
    /// handshake of which nothing has arrived, if it quotes the ClientHello. A complete connection stays.
    pub fn handle_port_unreachable(&self, now: Timestamp, key: K, quote: &[u8], effects: &mut Effects<K>) {
        let handshake = self.table().handshake(key);
        if let Some(handshake) = handshake {
            self.on(now, key, &handshake, effects, |connection, out| {
                if connection.is_refuted_by(quote) {
                    connection.close(now, DtlsError::NothingThere, out);
                }
            });
        }
    }

    /// Closes the connection to a peer.
    pub fn close(&self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        self.table().close_all(now, key, effects);
        self.tell_leaving(now, effects);
    }

    /// Closes all connections.
    pub fn close_all(&self, now: Timestamp, effects: &mut Effects<K>) {
        let keys: BTreeSet<K> = {
            let table = self.table();
            let handshakes = table.handshakes.keys().copied();
            table.established.keys().chain(handshakes).collect()
        };
        for key in keys {
            self.close(now, key, effects);
        }
    }

    /// Work on one connection under its lock.
    fn on(
        &self,
        now: Timestamp,
        key: K,
        shared: &Shared,
        effects: &mut Effects<K>,
        call: impl FnOnce(&mut Connection, &mut Collected),
    ) {
        self.work(now, key, (shared, lock(shared)), effects, call);
    }

    /// Work on a connection that this thread has locked. Then the table learns of the changes.
    fn work(
        &self,
        now: Timestamp,
        key: K,
        (shared, mut connection): (&Shared, MutexGuard<'_, Connection>),
        effects: &mut Effects<K>,
        call: impl FnOnce(&mut Connection, &mut Collected),
    ) {
        call(&mut connection, &mut effects.collected);
        effects.assign(key, connection.certificate());
        let news = connection.news(now, self.config.idle_timeout);
        drop(connection);
        if let Some(news) = news {
            self.table().settle(now, key, shared, &news, effects);
            self.tell_leaving(now, effects);
        }
    }

    /// Tells the peers of connections that have left the table.
    fn tell_leaving(&self, now: Timestamp, effects: &mut Effects<K>) {
        for (key, connection, reason) in std::mem::take(&mut effects.leaving) {
            let mut connection = lock(&connection);
            connection.close(now, reason, &mut effects.collected);
            effects.assign(key, connection.certificate());
        }
    }
}

#[cfg(test)]
mod tests;
