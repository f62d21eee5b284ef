//! The key management of one association: the first handshake, rekeying, and the keys that the driver installs
//! (draft-porfiri-tsvwg-sctp-dtls-handshake §6).

use core::time::Duration;
use std::borrow::Cow;
use std::collections::VecDeque;

use anabranch_proto::{Agreement, FIRST_EPOCH, KeyRole, KeyUsage, RecordKey, Timestamp};
use bytes::Bytes;
use rustls::{CertificateError, Connection};

use crate::METHOD;
use crate::exporter::{KeyUse, export};
use crate::key_log::LoggedKey;
use crate::message::{Message, is_client_hello};
use crate::peer::{PeerIdentity, ShownIdentity};
use crate::restart_keys::RestartKeys;
use crate::settings::TlsSettings;
use crate::suite::Suite;
use crate::verifier::NotAccepted;

/// How long a handshake may take. SCTP retransmits its messages.
const HANDSHAKE_TIME: Duration = Duration::from_secs(60);

/// How long a handshake waits after one that failed, while the keys in use are still good.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// How many handshakes in a row may fail while an association lasts.
const MOST_FAILURES: u32 = 3;

/// How long keys of the epoch before are kept (§6.2.3): one maximum segment lifetime if the peer uses the new keys.
const DRAIN: Duration = Duration::from_secs(120);

/// The same if nothing shows yet that the peer has them: as long as SCTP may retransmit the message that tells the peer.
const LONG_DRAIN: Duration = Duration::from_secs(303);

/// The most bytes of a message of the peer: a handshake with a chain of certificates is far shorter.
const MOST_MESSAGE: usize = 1 << 16;

/// The most messages of the peer in one handshake.
const MOST_MESSAGES: u32 = 64;

/// A rekeying begins after so many records of one direction: fewer than 100 GB (§3.4) even if each has 16,384 bytes.
const MOST_RECORDS: u64 = 6_000_000;

/// The driver does these, in their order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Action {
    /// Send this message ([`anabranch_proto::KeyManager::send`]).
    Send(Bytes),
    /// Install this key for packets of the peer ([`anabranch_proto::KeyManager::install_receiving`]).
    InstallReceiving(u64, Box<dyn RecordKey>),
    /// Encrypt with this key ([`anabranch_proto::KeyManager::install_sending`]).
    InstallSending(u64, Box<dyn RecordKey>),
    /// Forget the key of this epoch for packets of the peer ([`anabranch_proto::KeyManager::remove_receiving`]).
    RemoveReceiving(u64),
    /// Keep these restart keys of the epoch, the first for packets of the peer and the second for packets to it
    /// ([`anabranch_proto::KeyManager::install_restart`]).
    InstallRestart(u64, Box<dyn RecordKey>, Box<dyn RecordKey>),
    /// Store these restart keys in place of the former ones, if this endpoint stores any, before the next action.
    StoreRestart(Box<RestartKeys>),
    /// Forget the restart keys with which the association was restarted ([`anabranch_proto::KeyManager::end_restart`]).
    EndRestart,
    /// Accept protected packets alone ([`anabranch_proto::KeyManager::require`]).
    Require,
    /// End the association ([`anabranch_proto::KeyManager::fail`]).
    Fail(Cow<'static, str>),
}

/// The key management of one association: see the [crate's documentation](crate).
#[derive(Debug)]
pub struct KeyManagement {
    settings: TlsSettings,
    agreement: Agreement,
    /// The epoch of the keys in use; `None` before the first.
    epoch: Option<u64>,
    handshake: Option<Handshake>,
    suite: Option<Suite>,
    peer: Option<PeerIdentity>,
    not_accepted: Option<ShownIdentity>,
    /// The last message of the handshake in which this endpoint was the server: it leaves when the client's arrives.
    closing: Option<Bytes>,
    /// When the next handshake begins.
    rekey_at: Timestamp,
    /// Restart keys protected the association before the first keys.
    restarted: bool,
    /// Keys that are forgotten, and when.
    draining: Option<(Former, Timestamp)>,
    failures: u32,
    failed: bool,
    actions: VecDeque<Action>,
}

/// Keys that were in use before the present ones.
#[derive(Clone, Copy, Debug)]
enum Former {
    /// Those of this epoch.
    Epoch(u64),
    /// Restart keys.
    Restart,
}

impl Former {
    /// The driver forgets the keys.
    fn forget(self) -> Action {
        match self {
            Self::Epoch(epoch) => Action::RemoveReceiving(epoch),
            Self::Restart => Action::EndRestart,
        }
    }
}

/// A handshake.
struct Handshake {
    epoch: u64,
    role: KeyRole,
    tls: Connection,
    deadline: Timestamp,
    messages: u32,
    /// The client's key, which it uses when the server says that it has the other one.
    waiting: Option<Box<dyn RecordKey>>,
    /// The client's restart keys, which it stores then: before, the server may not have them.
    unstored: Option<Box<RestartKeys>>,
}

impl core::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Handshake")
            .field("epoch", &self.epoch)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

impl KeyManagement {
    /// Begins: the client sends its first message. `agreement` is the result of set-up.
    #[must_use]
    pub fn new(now: Timestamp, settings: TlsSettings, agreement: Agreement) -> Self {
        let role = agreement.role;
        let mut management = Self::idle(settings, agreement);
        if management.agreement.method == METHOD {
            management.begin(now, role);
        } else {
            management.fail("the key management method is not TLS 1.3");
        }
        management
    }

    /// The key management of an association that was restarted with restart keys: the client begins a handshake for new keys at once.
    /// `agreement` is the result of the new set-up. `peer` and `suite` are those of the restart keys; the peer has to show the same identity
    /// again.
    #[must_use]
    pub fn after_restart(
        now: Timestamp,
        settings: TlsSettings,
        agreement: Agreement,
        peer: PeerIdentity,
        suite: Suite,
    ) -> Self {
        let mut management = Self {
            peer: Some(peer),
            suite: Some(suite),
            restarted: true,
            ..Self::idle(settings, agreement)
        };
        if management.agreement.method != METHOD {
            management.fail("the key management method is not TLS 1.3");
        } else if management.agreement.role == KeyRole::Client {
            management.begin(now, KeyRole::Client);
        } else {
            // In case the client does not begin.
            management.rekey_at = now + RETRY_AFTER;
        }
        management
    }

    fn idle(settings: TlsSettings, agreement: Agreement) -> Self {
        Self {
            settings,
            agreement,
            epoch: None,
            handshake: None,
            suite: None,
            peer: None,
            not_accepted: None,
            closing: None,
            rekey_at: Timestamp::MAX,
            restarted: false,
            draining: None,
            failures: 0,
            failed: false,
            actions: VecDeque::new(),
        }
    }

    /// The next action, if there is one.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The certificate or key of the peer in the first handshake; all further ones showed the same.
    #[must_use]
    pub fn peer(&self) -> Option<&PeerIdentity> {
        self.peer.as_ref().filter(|_| self.has_keys())
    }

    /// The certificate or key that the peer showed in a handshake that failed because the settings do not name it.
    #[must_use]
    pub fn not_accepted(&self) -> Option<ShownIdentity> {
        self.not_accepted
    }

    fn has_keys(&self) -> bool {
        self.restarted || self.epoch.is_some()
    }

    /// The epoch of the keys in use; `None` before the first, also under restart keys.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// The cipher suite of the keys in use.
    #[must_use]
    pub fn suite(&self) -> Option<Suite> {
        self.suite
    }

    /// When [`KeyManagement::handle_timeout`] is to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let handshake = self.handshake.as_ref().map(|handshake| handshake.deadline);
        let draining = self.draining.map(|(_, until)| until);
        let rekey = Some(self.rekey_at).filter(|at| self.handshake.is_none() && *at != Timestamp::MAX);
        [handshake, draining, rekey].into_iter().flatten().min()
    }

    /// The time of [`KeyManagement::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if let Some((former, _)) = self.draining.take_if(|(_, until)| *until <= now) {
            self.actions.push_back(former.forget());
        }
        if self
            .handshake
            .as_ref()
            .is_some_and(|handshake| handshake.deadline <= now)
        {
            self.give_up(now, "the handshake took too long".into());
        }
        if self.rekey_at <= now {
            self.rekey(now);
        }
    }

    /// Begins a rekeying, unless a handshake has begun and not ended (§6.2).
    pub fn rekey(&mut self, now: Timestamp) {
        if self.handshake.is_none() && self.has_keys() && !self.failed {
            self.begin(now, KeyRole::Client);
        }
    }

    /// The keys in use were used so often: half of the limit of the suite, or 6,000,000 times, begins a rekeying.
    pub fn handle_usage(&mut self, now: Timestamp, usage: KeyUsage) {
        let limits = self.suite.map(Suite::limits);
        let often = |limits: anabranch_proto::KeyLimits| {
            let records = MOST_RECORDS.min(limits.sealed / 2);
            usage.sealed >= records || usage.opened >= records || usage.failed >= limits.failed / 2
        };
        if limits.is_some_and(often) && self.rekey_at > now && self.failures == 0 {
            self.rekey(now);
        }
    }

    /// A message of the peer arrived, in a protected packet or in clear.
    pub fn handle_message(&mut self, now: Timestamp, message: &Bytes, protected: bool) {
        if self.failed {
            return;
        }
        let decoded = Some(message).filter(|message| message.len() <= MOST_MESSAGE);
        match decoded.and_then(Message::decode) {
            Some((epoch, Message::Records(records))) => self.on_records(now, epoch, &records, protected),
            Some((epoch, Message::Established)) => self.on_established(now, epoch, protected),
            // After the first keys, nobody but the peer can send messages: one of an unknown type may be of a later version.
            None if self.has_keys() => {}
            None => self.fail("a message of the peer is malformed"),
        }
    }

    fn on_records(&mut self, now: Timestamp, epoch: u8, records: &Bytes, protected: bool) {
        let next = self.next_epoch();
        // A message of a handshake that has ended, such as its close_notify.
        if epoch != low(next) {
            self.actions.extend(self.closing.take().map(Action::Send));
            return;
        }
        if let Some(handshake) = &self.handshake {
            // Both began: the handshake of the endpoint with the role of the client goes on (§6.2.4).
            let crosses = handshake.role == KeyRole::Client && is_client_hello(records);
            if crosses && self.agreement.role == KeyRole::Client {
                return;
            }
            if crosses {
                // The peer has stopped a handshake for which this side has its key already.
                if handshake.waiting.is_some() {
                    self.actions.push_back(Action::RemoveReceiving(handshake.epoch));
                }
                self.handshake = None;
            }
        }
        if self.handshake.is_none() {
            if !is_client_hello(records) {
                return;
            }
            self.begin(now, KeyRole::Server);
        }
        self.feed(now, records, protected);
    }

    /// The epoch of the present handshake, or of the next one.
    fn next_epoch(&self) -> u64 {
        self.epoch.map_or(FIRST_EPOCH, |epoch| epoch + 1)
    }

    fn begin(&mut self, now: Timestamp, role: KeyRole) {
        let tls = match role {
            KeyRole::Client => self.settings.connect(),
            KeyRole::Server => self.settings.accept(),
        };
        match tls {
            Ok(tls) => {
                self.handshake = Some(Handshake {
                    epoch: self.next_epoch(),
                    role,
                    tls,
                    deadline: now + HANDSHAKE_TIME,
                    messages: 0,
                    waiting: None,
                    unstored: None,
                });
                self.rekey_at = Timestamp::MAX;
                self.flush();
            }
            Err(error) => self.give_up(now, error.to_string().into()),
        }
    }

    /// Gives records to the handshake.
    fn feed(&mut self, now: Timestamp, all: &[u8], protected: bool) {
        let Some(handshake) = &mut self.handshake else {
            return;
        };
        let mut records = all;
        handshake.messages += 1;
        let finished = handshake.waiting.is_some();
        if handshake.messages > MOST_MESSAGES {
            self.fail("the handshake of the peer has too many messages");
            return;
        }
        while !records.is_empty() {
            let (is_alert, error) = match handshake.tls.read_tls(&mut records) {
                // TLS reads nothing after a close_notify of the peer.
                Ok(0) => break,
                Ok(_) => match handshake.tls.process_new_packets() {
                    Ok(_) => continue,
                    Err(error) => {
                        self.not_accepted = shown(&error);
                        (matches!(error, rustls::Error::AlertReceived(_)), in_words(&error))
                    }
                },
                Err(error) => (false, error.to_string()),
            };
            // The peer gave its rekeying up, and begins another one.
            let begins_again =
                handshake.role == KeyRole::Server && handshake.messages > 1 && is_client_hello(all);
            if begins_again && self.epoch.is_some() {
                self.begin(now, KeyRole::Server);
                self.feed(now, all, protected);
                return;
            }
            // The alert.
            self.flush();
            // Both endpoints may read this text, so it names their roles.
            let own = self.agreement.role;
            let refuses = if is_alert { own.other() } else { own };
            let (refuses, refused) = (name(refuses), name(refuses.other()));
            let why = format!("the {refuses} refused the {refused}: {error}");
            self.give_up(now, why.into());
            return;
        }
        if finished && !protected {
            // In clear, nothing but an alert follows the last message of the server.
            self.fail("a message of the peer came when none was due");
        } else if handshake.tls.is_handshaking() || finished {
            self.flush();
        } else {
            self.complete(now);
        }
    }

    /// The handshake is complete on this side: the keys are there.
    fn complete(&mut self, now: Timestamp) {
        let Some(handshake) = &mut self.handshake else {
            return;
        };
        let (epoch, role) = (handshake.epoch, handshake.role);
        let certificates = handshake.tls.peer_certificates().unwrap_or_default();
        let Some(peer) = PeerIdentity::of(certificates, self.settings.is_raw()) else {
            self.fail("the peer showed no certificate");
            return;
        };
        if self.peer.as_ref().is_some_and(|known| !known.is_same(&peer)) {
            self.fail("the peer showed another certificate than before");
            return;
        }
        let get = |sender| {
            let material = export(&handshake.tls, KeyUse::Primary, sender, &self.agreement)?;
            let key = material.key();
            if let Some(log) = self.settings.log() {
                // A rekeying may turn the roles of TLS round; a log names the same endpoint by the same word.
                let own = self.agreement.role;
                let sender = if sender == role { own } else { own.other() };
                log.log(&LoggedKey::new(&self.agreement, sender, epoch, material));
            }
            key
        };
        let keys = (get(role.other()), get(role));
        let (Some(receiving), Some(sending)) = keys else {
            self.fail("no keys can be exported");
            return;
        };
        let restart = restart_keys(handshake, &self.agreement, &peer);
        self.peer = Some(peer);
        self.suite = handshake.tls.negotiated_cipher_suite().and_then(Suite::of);
        self.actions
            .push_back(Action::InstallReceiving(epoch, Box::new(receiving)));
        if let Some((receiving, sending)) = restart.as_ref().and_then(|restart| restart.keys()) {
            let (receiving, sending) = (Box::new(receiving), Box::new(sending));
            self.actions
                .push_back(Action::InstallRestart(epoch, receiving, sending));
        }
        match role {
            // The last messages of the client leave with the former keys, or in clear.
            KeyRole::Client => {
                handshake.waiting = Some(Box::new(sending));
                handshake.unstored = restart;
                self.flush();
            }
            KeyRole::Server => {
                self.actions
                    .push_back(Action::InstallSending(epoch, Box::new(sending)));
                // Before the message after which the client forgets the former ones.
                self.actions.extend(restart.map(Action::StoreRestart));
                // The server accepts no packet in clear after this message, so no acknowledgement either before the client has it. A probe
                // retransmits one message: the other one follows later.
                self.closing = self.close();
                self.send(epoch, &Message::Established);
                if epoch == FIRST_EPOCH {
                    self.actions.push_back(Action::Require);
                }
                self.establish(now, epoch, LONG_DRAIN);
            }
        }
    }

    /// The server protects its packets: the client does the same from now on.
    fn on_established(&mut self, now: Timestamp, epoch: u8, protected: bool) {
        let waits = self
            .handshake
            .as_mut()
            .filter(|handshake| low(handshake.epoch) == epoch);
        let sending = waits.and_then(|handshake| {
            let key = handshake.waiting.take()?;
            Some((handshake.epoch, key, handshake.unstored.take()))
        });
        match sending {
            Some((epoch, key, restart)) if protected => {
                self.actions.push_back(Action::InstallSending(epoch, key));
                self.actions.extend(restart.map(Action::StoreRestart));
                // Not before: until now the server may refuse this side, and after this TLS reads nothing more.
                let closing = self.close();
                self.actions.extend(closing.map(Action::Send));
                if epoch == FIRST_EPOCH {
                    self.actions.push_back(Action::Require);
                }
                self.establish(now, epoch, DRAIN);
            }
            None if self.has_keys() => {}
            _ => self.fail("the peer says in clear that it protects its packets"),
        }
    }

    /// The keys of this epoch are in use. Those of the epoch before are forgotten after a time.
    fn establish(&mut self, now: Timestamp, epoch: u64, drain: Duration) {
        self.handshake = None;
        self.failures = 0;
        self.rekey_at = now + self.settings.rekey_time();
        if let Some((older, _)) = self.draining.take() {
            self.actions.push_back(older.forget());
        }
        let former = match self.epoch.replace(epoch) {
            Some(former) => Some(Former::Epoch(former)),
            None => self.restarted.then_some(Former::Restart),
        };
        self.draining = former.map(|former| (former, now + drain));
    }

    /// Closes the TLS connection, whose keys are installed (*Initial Establishment* in the draft of the handshake). Returns the message for the
    /// peer.
    fn close(&mut self) -> Option<Bytes> {
        self.handshake.as_mut()?.tls.send_close_notify();
        self.ready_records()
    }

    fn send(&mut self, epoch: u64, message: &Message) {
        self.actions.push_back(Action::Send(message.encode(epoch)));
    }

    /// Sends the records that the handshake has ready.
    fn flush(&mut self) {
        let ready = self.ready_records();
        self.actions.extend(ready.map(Action::Send));
    }

    /// The message with these records.
    fn ready_records(&mut self) -> Option<Bytes> {
        let handshake = self.handshake.as_mut()?;
        let mut records = Vec::new();
        while handshake.tls.wants_write() {
            // A vector takes everything.
            if handshake.tls.write_tls(&mut records).is_err() {
                break;
            }
        }
        (!records.is_empty()).then(|| Message::Records(records.into()).encode(handshake.epoch))
    }

    /// A handshake failed. The first one ends the association; a later one is tried again while the keys in use are good (§7). After the
    /// client has its keys, the peer may use them too, so that there is no way back.
    fn give_up(&mut self, now: Timestamp, why: Cow<'static, str>) {
        let handshake = self.handshake.take();
        let has_keys = handshake.is_some_and(|handshake| handshake.waiting.is_some());
        self.failures += 1;
        if self.epoch.is_none() || has_keys || self.failures > MOST_FAILURES {
            self.fail(why);
        } else {
            self.rekey_at = now + RETRY_AFTER;
        }
    }

    fn fail(&mut self, why: impl Into<Cow<'static, str>>) {
        self.failed = true;
        self.handshake = None;
        self.draining = None;
        self.rekey_at = Timestamp::MAX;
        self.actions.push_back(Action::Fail(why.into()));
    }
}

/// The restart keys of a handshake, if both endpoints keep them.
fn restart_keys(
    handshake: &Handshake,
    agreement: &Agreement,
    peer: &PeerIdentity,
) -> Option<Box<RestartKeys>> {
    let get = |sender| export(&handshake.tls, KeyUse::Restart, sender, agreement);
    if !agreement.permits_restart() {
        return None;
    }
    let (receiving, sending) = (get(handshake.role.other())?, get(handshake.role)?);
    Some(Box::new(RestartKeys::new(
        handshake.epoch,
        receiving,
        sending,
        peer.clone(),
    )))
}

/// The bits of an epoch in a message.
fn low(epoch: u64) -> u8 {
    epoch as u8 & 0x7F
}

/// The role, for texts.
fn name(role: KeyRole) -> &'static str {
    match role {
        KeyRole::Client => "client",
        KeyRole::Server => "server",
    }
}

/// Why TLS ended a handshake. The library's words for an error of this crate name the library's type.
fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(own)) => own.to_string(),
        other => other.to_string(),
    }
}

/// The certificate or key of a peer that the settings do not name.
fn shown(error: &rustls::Error) -> Option<ShownIdentity> {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(own)) => {
            own.0.downcast_ref::<NotAccepted>()?.0
        }
        _ => None,
    }
}
