//! The table of an endpoint's connections: who is there, who has a place, and when the next one needs time to pass. Its lock is held
//! for look-ups, insertions and removals alone: the connections, which do the cryptography, have locks of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_proto::Timestamp;

use crate::connection::{DtlsError, LEAST_WAIT, News, Shared, State};
use crate::effects::Effects;
use crate::entry::Entry;
use crate::established::{Established, MOST};
use crate::key::PeerKey;
use crate::places::Places;
use crate::settings::DtlsConfig;
use crate::timeouts::Timeouts;

/// A complete connection that no association uses is closed after this time.
const UNUSED: Duration = Duration::from_secs(30);

/// The connections without an association that one host may have at least.
const LEAST_SHARE: usize = 8;

/// Takes a lock, also if another thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct Table<K> {
    max_handshakes: usize,
    max_connections: usize,
    /// Complete connections.
    pub(crate) established: Established<K>,
    /// Handshakes. A peer that restarted has one beside its old connection (RFC 6347 §4.2.8).
    pub(crate) handshakes: BTreeMap<K, Entry>,
    /// The handshakes that peers began.
    pub(crate) begun: Places<K>,
    /// Peers with an association.
    held: BTreeSet<K>,
    /// Complete connections of peers without one.
    pub(crate) unused: Places<K>,
    pub(crate) timeouts: Timeouts<K>,
}

impl<K: PeerKey> Table<K> {
    pub(crate) fn new(config: &DtlsConfig) -> Self {
        Self {
            max_handshakes: config.max_handshakes.max(1),
            max_connections: config.max_connections.max(1),
            established: Established::default(),
            handshakes: BTreeMap::new(),
            begun: Places::new(config.max_handshakes / 4),
            held: BTreeSet::new(),
            unused: Places::new((config.max_connections / 256).max(LEAST_SHARE)),
            timeouts: Timeouts::default(),
        }
    }

    /// Whether this endpoint makes a handshake with a peer as the client.
    pub(crate) fn is_client_of(&self, key: K) -> bool {
        self.handshakes.get(&key).is_some_and(|entry| entry.is_client)
    }

    /// The handshake with a peer.
    pub(crate) fn handshake(&self, key: K) -> Option<Shared> {
        self.handshakes
            .get(&key)
            .map(|entry| Arc::clone(&entry.connection))
    }

    /// The connections of a peer: the complete ones, and then the handshake.
    pub(crate) fn all(&self, key: K) -> ([Option<Shared>; MOST], Option<Shared>) {
        let mut established = [const { None }; MOST];
        for (place, entry) in established.iter_mut().zip(self.established.of(key)) {
            *place = Some(Arc::clone(&entry.connection));
        }
        (established, self.handshake(key))
    }

    /// A peer begins a handshake. If there are too many, the oldest one of its host is dropped, or, if the host has no more than its share,
    /// the oldest one of all.
    pub(crate) fn begin(&mut self, now: Timestamp, key: K, mut entry: Entry, effects: &mut Effects<K>) {
        entry.place = self.begun.add(key);
        self.handshakes.insert(key, entry);
        if self.begun.len() > self.max_handshakes
            && let Some(dropped) = self.begun.too_many(key).or_else(|| self.begun.oldest())
        {
            self.remove_handshake(dropped);
            effects.ended.push((dropped, DtlsError::Dropped));
            self.schedule(now, dropped, None, effects);
        }
    }

    pub(crate) fn remove_handshake(&mut self, key: K) -> Option<Entry> {
        let removed = self.handshakes.remove(&key)?;
        self.begun.remove(removed.place);
        Some(removed)
    }

    /// Whether there may be another complete connection. If there are too many, the oldest unused one is closed.
    pub(crate) fn has_room(&mut self, now: Timestamp, effects: &mut Effects<K>) -> bool {
        if self.established.len() < self.max_connections {
            return true;
        }
        let oldest = self.unused.oldest();
        if let Some(oldest) = oldest {
            self.close_unused(now, oldest, effects);
        }
        oldest.is_some()
    }

    /// An association with a peer begins.
    pub(crate) fn hold(&mut self, now: Timestamp, key: K) {
        self.held.insert(key);
        self.note_use(now, key);
    }

    /// The last association with a peer ended.
    pub(crate) fn release(&mut self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        self.held.remove(&key);
        self.note_use(now, key);
        self.make_room(now, key, effects);
        self.schedule(now, key, None, effects);
    }

    /// A connection of the table has changed. If two threads tell changes of one connection, the order in which they come does not matter.
    pub(crate) fn settle(
        &mut self,
        now: Timestamp,
        key: K,
        connection: &Shared,
        news: &News,
        effects: &mut Effects<K>,
    ) {
        let is_handshake = self
            .handshakes
            .get(&key)
            .is_some_and(|entry| entry.is(connection));
        match &news.state {
            State::Established(fingerprint) if is_handshake => {
                let mut entry = self.remove_handshake(key).expect("it was there");
                (entry.certificate, entry.completed) = (Some(*fingerprint), now);
                if let Some((former, is_of_another)) = self.established.insert(key, entry) {
                    self.leave(&former);
                    if is_of_another {
                        effects.ended.push((key, DtlsError::Replaced));
                    }
                }
                effects.established.push((key, *fingerprint));
                self.note_use(now, key);
                self.make_room(now, key, effects);
            }
            State::Handshake | State::Established(_) => {}
            State::Ended(reason) => {
                let removed = if is_handshake {
                    self.remove_handshake(key).into_iter().collect()
                } else {
                    self.established.take(key, |entry| entry.is(connection))
                };
                for entry in removed {
                    self.leave(&entry);
                    effects.ended.push((key, reason.clone()));
                }
            }
        }
        self.schedule(now, key, news.due, effects);
    }

    /// A connection left the table.
    fn leave(&mut self, entry: &Entry) {
        if entry.unused_since.is_some() {
            self.unused.remove(entry.place);
        }
    }

    /// A connection is complete, or an association began or ended. A peer whose address another protocol has proved needs no association.
    fn note_use(&mut self, now: Timestamp, key: K) {
        let is_used = self.held.contains(&key) || key.address().is_none();
        for entry in self.established.of_mut(key) {
            if is_used && entry.unused_since.take().is_some() {
                self.unused.remove(entry.place);
            } else if !is_used && entry.unused_since.is_none() {
                entry.unused_since = Some(now);
                entry.place = self.unused.add(key);
            }
        }
    }

    /// Closes unused connections while there are too many, of all peers or of this peer's host.
    fn make_room(&mut self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        while let Some(oldest) = self.unused.too_many(key).or_else(|| {
            let oldest = self.unused.oldest();
            oldest.filter(|_| self.established.len() > self.max_connections)
        }) {
            self.close_unused(now, oldest, effects);
        }
    }

    /// Closes the connections of a peer that has no association.
    fn close_unused(&mut self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        let entries = self.established.take(key, |_| true);
        self.close(now, key, entries, &DtlsError::Unused, effects);
    }

    /// Time has passed for a peer: closes those of its connections that were unused for too long.
    pub(crate) fn expire(&mut self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        let is_old = |entry: &Entry| entry.unused_since.is_some_and(|since| now >= since + UNUSED);
        let entries = self.established.take(key, is_old);
        self.close(now, key, entries, &DtlsError::Unused, effects);
    }

    /// Removes all connections of a peer, and its handshake.
    pub(crate) fn close_all(&mut self, now: Timestamp, key: K, effects: &mut Effects<K>) {
        let mut entries = self.established.take(key, |_| true);
        entries.extend(self.remove_handshake(key));
        self.close(now, key, entries, &DtlsError::Closed, effects);
    }

    /// These connections have left the table. Their peers are told when its lock is released: that is cryptography.
    fn close(
        &mut self,
        now: Timestamp,
        key: K,
        entries: Vec<Entry>,
        reason: &DtlsError,
        effects: &mut Effects<K>,
    ) {
        for entry in entries {
            self.leave(&entry);
            effects.ended.push((key, reason.clone()));
            effects.leaving.push((key, entry.connection, reason.clone()));
        }
        self.schedule(now, key, None, effects);
    }

    /// Notes when the connections of a peer need time to pass: at `due`, or when one of them has been unused for too long.
    fn schedule(&mut self, now: Timestamp, key: K, due: Option<Timestamp>, effects: &mut Effects<K>) {
        if !self.established.has(key) && !self.handshakes.contains_key(&key) {
            self.timeouts.forget(key);
            return;
        }
        let unused = self.established.of(key).iter();
        let unused = unused.filter_map(|entry| {
            entry
                .unused_since
                .map(|since| (since + UNUSED).max(now + LEAST_WAIT))
        });
        if let Some(at) = unused.chain(due).min() {
            let before = self.timeouts.first();
            self.timeouts.note(at, key);
            effects.timeout_is_earlier |= before.is_none_or(|before| at < before);
        }
    }
}
