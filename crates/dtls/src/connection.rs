//! One DTLS connection. Everything that the library for DTLS does happens in [`Connection::run`], which contains its panics.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_proto::Timestamp;
use dimpl::{Dtls, Output};

use crate::certificate::Fingerprint;
use crate::clock;
use crate::effects::Collected;
use crate::front::HANDSHAKE_FAILURE;
use crate::hello::{HANDSHAKE, is_client_hello};
use crate::reason;
use crate::settings::{DtlsConfig, Trust};

/// Packets that wait for the end of the handshake. SCTP sends an INIT again and again, nothing else.
const MOST_WAITING: usize = 4;

/// The largest record (RFC 9147 §4: 2^14 bytes of data) with its header and its authentication tag.
const RECORD_LEN: usize = (1 << 14) + 256;

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DtlsError {
    /// The peer's certificate is not accepted.
    #[error("the peer's certificate {0} is not accepted; if it is right, add its fingerprint")]
    Refused(Fingerprint),
    /// The peer closed the connection (close_notify).
    #[error("the peer closed the DTLS connection; it may have refused this endpoint's certificate")]
    ClosedByPeer,
    /// The peer has no certificate that this endpoint can use.
    #[error(
        "the peer has no certificate with an ECDSA key of the curve P-256 or P-384 (RFC 8827, section 6.5); RSA certificates are \
         not supported: give the peer another one"
    )]
    NoEcdsaCertificate,
    /// The peer ended the handshake with this alert (RFC 8446 §6.2).
    #[error("the peer ended the DTLS handshake with alert {0}: {words}", words = reason::in_words(*.0))]
    Alert(u8),
    /// The handshake or a record failed.
    #[error("DTLS failed: {0}")]
    Failed(String),
    /// The peer did not answer, or not in a way that can be used: the handshake took too long. A client may have used the connection already,
    /// because it is complete for the client before the server has the client's last message (RFC 8446 §4.4.4).
    #[error("the peer does not answer in the DTLS handshake")]
    Timeout,
    /// The handshake was dropped because too many others began.
    #[error("too many DTLS handshakes began at the same time")]
    Dropped,
    /// No program receives at the peer's address and port.
    #[error("no program receives there (port unreachable)")]
    NothingThere,
    /// A peer with another certificate took the address.
    #[error("a peer with another certificate now uses the same address")]
    Replaced,
    /// There was no traffic for the idle time.
    #[error("the DTLS connection was idle for too long")]
    Idle,
    /// No association used the connection for 30 s, or others needed its place.
    #[error("no association used the DTLS connection")]
    Unused,
    /// This endpoint closed the connection.
    #[error("this endpoint closed the DTLS connection")]
    Closed,
}

/// The bytes before the random number in a ClientHello: the headers of record and message, and the version (RFC 6347 §4.1, §4.2.2).
const BEFORE_RANDOM: usize = 13 + 12 + 2;
const RANDOM_LEN: usize = 32;

/// The random number of a ClientHello, of which the datagram or its beginning is given.
fn hello_random(datagram: &[u8]) -> Option<[u8; RANDOM_LEN]> {
    let rest = datagram.get(BEFORE_RANDOM..)?;
    rest.first_chunk().filter(|_| is_client_hello(datagram)).copied()
}

/// The least time between two timeouts of a connection.
pub(crate) const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The same during the handshake: while a flight of DTLS 1.3 has a gap, the library acknowledges the rest of it at each timeout, and wants the
/// next one at once. RFC 9147 §7.1 proposes a quarter of the retransmission timer, which is 250 ms at first.
const LEAST_HANDSHAKE_WAIT: Duration = Duration::from_millis(100);

/// Where a connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Handshake,
    /// The peer's certificate was accepted.
    Established(Fingerprint),
    Ended(DtlsError),
}

/// A change of a connection, for the table of connections.
pub(crate) struct News {
    pub(crate) state: State,
    /// When time must pass for the connection next.
    pub(crate) due: Option<Timestamp>,
}

/// A connection with its lock. A thread may still use it when it has left the table: it has ended then, or another one has its place.
pub(crate) type Shared = Arc<Mutex<Connection>>;

pub(crate) struct Connection {
    /// `None` before the start and after a panic.
    dtls: Option<Dtls>,
    trust: Trust,
    pub(crate) state: State,
    peer: Option<(Fingerprint, bool)>,
    /// Packets that wait for the end of the handshake, some of them for a peer with this certificate only.
    waiting: VecDeque<(Option<Fingerprint>, Vec<u8>)>,
    /// This endpoint began the connection.
    pub(crate) is_client: bool,
    /// The random number of this client's ClientHello.
    random: Option<[u8; RANDOM_LEN]>,
    /// A client that has received nothing yet. The library ends a handshake whose first answer is no handshake record.
    awaits_answer: bool,
    /// The ClientHellos that such a client has sent, and how many of them there were when an alert refused one.
    hellos: usize,
    refused: Option<usize>,
    /// The alert that tells the peer why its ClientHello cannot be served.
    pub(crate) refusal: Option<u8>,
    /// A fatal alert without encryption, after which no other record has arrived. Anybody can send one: it ends the handshake only if the
    /// peer's next flight does not arrive before the present one is sent again.
    alert: Option<u8>,
    /// The latest time of a call.
    clock: Timestamp,
    timeout: Timestamp,
    pub(crate) last_used: Timestamp,
    /// The time at which the table lets time pass for the connection at the latest; `None` if it does not know of the latest change.
    told: Option<Timestamp>,
}

impl Connection {
    /// A connection that has not started.
    pub(crate) fn new(config: &DtlsConfig, is_client: bool, now: Timestamp) -> Self {
        Self {
            dtls: None,
            trust: config.trust.clone(),
            state: State::Handshake,
            peer: None,
            waiting: VecDeque::new(),
            is_client,
            random: None,
            awaits_answer: is_client,
            hellos: 0,
            refused: None,
            refusal: None,
            alert: None,
            clock: now,
            timeout: now,
            last_used: now,
            told: None,
        }
    }

    /// Starts a connection: as the client, or as the server that waits for a ClientHello. To read the key takes long.
    pub(crate) fn start(&mut self, config: &DtlsConfig, dtls: &Arc<dimpl::Config>, now: Timestamp) {
        let mut engine = Dtls::new_auto(
            Arc::clone(dtls),
            config.certificate.for_dtls(),
            clock::instant(now),
        );
        if self.is_client {
            engine.set_active(true);
        }
        self.dtls = Some(engine);
    }

    /// The latest change, if the table does not know it yet.
    pub(crate) fn news(&mut self, now: Timestamp, idle_timeout: Duration) -> Option<News> {
        let due = match self.state {
            State::Handshake => Some(self.timeout.max(now + LEAST_HANDSHAKE_WAIT)),
            State::Established(_) => {
                let next = self.timeout.min(self.last_used + idle_timeout);
                Some(next.max(now + LEAST_WAIT))
            }
            State::Ended(_) => None,
        };
        let at = due.unwrap_or(now);
        if self.told.is_some_and(|told| told <= at) {
            return None;
        }
        self.told = Some(at);
        let state = self.state.clone();
        Some(News { state, due })
    }

    /// The table has forgotten when time must pass.
    pub(crate) fn forget_told(&mut self) {
        self.told = None;
    }

    fn set_state(&mut self, state: State) {
        self.state = state;
        self.told = None;
    }

    /// The peer's certificate, if the peer has shown one.
    pub(crate) fn certificate(&self) -> Option<Fingerprint> {
        self.peer.map(|(fingerprint, _)| fingerprint)
    }

    /// An ICMP message reports that no program receives at the peer's address. It quotes the beginning of a datagram. Anybody can send it,
    /// so it counts only while nothing has arrived, and only if it quotes the random number of the ClientHello: then its sender has
    /// seen that datagram.
    pub(crate) fn is_refuted_by(&self, quote: &[u8]) -> bool {
        self.awaits_answer && self.random.is_some() && hello_random(quote) == self.random
    }

    /// A datagram arrived.
    pub(crate) fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8], out: &mut Collected) {
        if self.awaits_answer && datagram.first() != Some(&HANDSHAKE) {
            if let Some(code) = fatal_alert(datagram) {
                self.on_refusal(code);
            }
            return;
        }
        self.awaits_answer = false;
        let stripped = match self.state {
            State::Handshake => reason::without_alerts(datagram),
            _ => None,
        };
        let datagram = match &stripped {
            Some((rest, alert)) if rest.is_empty() => {
                self.alert = self.alert.or(*alert);
                return;
            }
            Some((rest, _)) => rest,
            None => datagram,
        };
        self.alert = None;
        let before = out.packets();
        self.run(now, out, |dtls| dtls.handle_packet(datagram));
        if out.packets() > before {
            self.last_used = now;
        }
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp, out: &mut Collected) {
        let before = out.datagrams.len();
        self.run(now, out, |_| Ok(()));
        if self.awaits_answer {
            self.hellos += out.datagrams.len() - before;
        }
        if let Some(alert) = self.alert
            && out.datagrams.len() > before
        {
            self.end(DtlsError::Alert(alert));
        }
    }

    /// Time has passed: ends the connection if there was no traffic for too long.
    pub(crate) fn pass_time(&mut self, now: Timestamp, idle_timeout: Duration, out: &mut Collected) {
        let is_complete = matches!(self.state, State::Established(_));
        if is_complete && now >= self.last_used + idle_timeout {
            self.close(now, DtlsError::Idle, out);
        } else {
            self.handle_timeout(now, out);
        }
    }

    /// An alert answers the first ClientHello of this client. Anybody can forge one, so that it counts only if the server has had another
    /// ClientHello meanwhile, and again answers with nothing but an alert.
    fn on_refusal(&mut self, code: u8) {
        if self.hellos > *self.refused.get_or_insert(self.hellos) {
            self.end(DtlsError::Alert(code));
        }
    }

    /// Encrypts an SCTP packet for a peer with this certificate, or with any. During the handshake, a few packets wait for its end; more
    /// are lost, as on a slow link.
    pub(crate) fn send(
        &mut self,
        now: Timestamp,
        certificate: Option<Fingerprint>,
        packet: &[u8],
        out: &mut Collected,
    ) {
        match self.state {
            State::Established(peer) if certificate.is_none_or(|wanted| wanted == peer) => {
                self.last_used = now;
                self.run(now, out, |dtls| dtls.send_application_data(packet).map(|_| ()));
            }
            State::Handshake if self.waiting.len() < MOST_WAITING => {
                self.waiting.push_back((certificate, packet.to_vec()));
            }
            State::Established(_) | State::Handshake | State::Ended(_) => {}
        }
    }

    /// Closes the connection with a close_notify, if the handshake is complete.
    pub(crate) fn close(&mut self, now: Timestamp, reason: DtlsError, out: &mut Collected) {
        if !matches!(self.state, State::Ended(_)) {
            self.run(now, out, Dtls::close);
            self.set_state(State::Ended(reason));
        }
    }

    /// Ends a connection whose ClientHello the library ignores.
    pub(crate) fn refuse(&mut self) {
        self.refusal = Some(HANDSHAKE_FAILURE);
        self.end(DtlsError::Failed(
            "the peer offers nothing that can be used".to_owned(),
        ));
    }

    /// Calls the library and collects its output. It has a clock of its own, which must be set before each call: a server that did not
    /// know the time has panicked at its first ClientHello.
    fn run(
        &mut self,
        now: Timestamp,
        out: &mut Collected,
        call: impl FnOnce(&mut Dtls) -> Result<(), dimpl::Error>,
    ) {
        let Some(dtls) = &mut self.dtls else { return };
        // Threads may read the clock before they take the lock, but the library's time must not run backwards.
        let now = now.max(self.clock);
        self.clock = now;
        let packets = out.packets();
        let mut events = Vec::new();
        // The library panics if there is no room for the peer's certificate. Later, packets need less room.
        let room = match self.state {
            State::Established(_) => 0,
            State::Handshake | State::Ended(_) => RECORD_LEN,
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = dtls.handle_timeout(clock::instant(now)).and_then(|()| call(dtls));
            (poll(dtls, out, &mut events, room), result)
        }));
        let Ok((timeout, result)) = result else {
            // The state that the library left behind is not used any more. Even its end may panic.
            let broken = self.dtls.take();
            let _ = catch_unwind(AssertUnwindSafe(|| drop(broken)));
            tracing::error!("the DTLS library panicked: this is a bug; the connection ends");
            self.end(DtlsError::Failed(
                "the DTLS library panicked; this is a bug".to_owned(),
            ));
            return;
        };
        self.timeout = timeout.unwrap_or(now);
        if self.is_client && self.random.is_none() {
            self.random = out.latest_datagram().and_then(hello_random);
        }
        match result {
            Err(error) if reason::is_harmless(&error) => self.awaits_answer = true,
            Err(error) => {
                self.refusal = refusal(&error);
                self.end(reason::of(&error));
            }
            Ok(()) => {}
        }
        for event in events {
            match event {
                Told::Certificate(certificate) => {
                    self.peer = Some((Fingerprint::of(&certificate), self.trust.accepts(&certificate)));
                }
                Told::Connected => self.on_connected(now, out),
                Told::CloseNotify => self.end(DtlsError::ClosedByPeer),
            }
        }
        if self.peer.is_none_or(|(_, accepted)| !accepted) {
            // Nothing of such a peer reaches SCTP.
            out.forget_packets(packets);
        }
    }

    fn on_connected(&mut self, now: Timestamp, out: &mut Collected) {
        match self.peer {
            _ if self.state != State::Handshake => {}
            Some((fingerprint, true)) => {
                self.set_state(State::Established(fingerprint));
                self.last_used = now;
                for (certificate, packet) in std::mem::take(&mut self.waiting) {
                    self.send(now, certificate, &packet, out);
                }
            }
            Some((fingerprint, false)) => {
                self.close(now, DtlsError::Refused(fingerprint), out);
            }
            None => {
                self.close(
                    now,
                    DtlsError::Failed("the peer has no certificate".to_owned()),
                    out,
                );
            }
        }
    }

    fn end(&mut self, reason: DtlsError) {
        if !matches!(self.state, State::Ended(_)) {
            self.set_state(State::Ended(reason));
        }
    }
}

/// The code of a fatal alert without encryption, in a datagram of its own (RFC 6347 §4.1, RFC 8446 §6).
fn fatal_alert(datagram: &[u8]) -> Option<u8> {
    match datagram {
        [21, 254, _, 0, 0, .., 0, 2, 2, code] if datagram.len() == 15 => Some(*code),
        _ => None,
    }
}

/// The alert for a ClientHello that offers nothing that this endpoint can use (RFC 8446 §6.2). The library sends none.
fn refusal(error: &dimpl::Error) -> Option<u8> {
    use dimpl::SecurityError as Reason;
    const PROTOCOL_VERSION: u8 = 70;
    let dimpl::Error::SecurityError(reason) = error else {
        return None;
    };
    match reason {
        Reason::NoCommonCipherSuite
        | Reason::NoMutuallyAcceptableCipherSuite
        | Reason::NoCommonKeyExchangeGroup
        | Reason::ExtendedMasterSecretNotNegotiated => Some(HANDSHAKE_FAILURE),
        Reason::UnsupportedClientVersion(_) | Reason::ClientHelloLegacyVersionNotDtls12 => {
            Some(PROTOCOL_VERSION)
        }
        _ => None,
    }
}

/// The library's engine holds secrets.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// The library's events.
enum Told {
    Certificate(Vec<u8>),
    Connected,
    CloseNotify,
}

/// Takes all output, with at first this room for a record. Returns the time of the next timeout.
fn poll(dtls: &mut Dtls, out: &mut Collected, told: &mut Vec<Told>, mut room: usize) -> Option<Timestamp> {
    loop {
        match dtls.poll_output(out.room(room)) {
            Output::Packet(datagram) => {
                let len = datagram.len();
                out.push_datagram(len);
            }
            Output::ApplicationData(packet) => {
                let len = packet.len();
                out.push_packet(len);
            }
            Output::PeerCert(certificate) => told.push(Told::Certificate(certificate.to_vec())),
            Output::Connected => told.push(Told::Connected),
            Output::CloseNotify => told.push(Told::CloseNotify),
            Output::Timeout(at) => return Some(clock::timestamp(at)),
            Output::BufferTooSmall { needed } if needed > room => room = needed,
            Output::BufferTooSmall { .. } => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Certificate;

    #[test]
    fn a_panic_of_the_library_ends_the_connection() {
        let now = Timestamp::ZERO;
        let config = DtlsConfig::new(Certificate::generate().unwrap());
        let mut connection = Connection::new(&config, true, now);
        connection.start(&config, &Arc::new(dimpl::Config::default()), now);
        let mut out = Collected::default();
        connection.run(now, &mut out, |_| panic!("as the library would"));
        assert!(matches!(connection.state, State::Ended(DtlsError::Failed(_))));
        // Later calls have no effect.
        connection.handle_datagram(now, &[22, 1, 2], &mut out);
        connection.handle_timeout(now, &mut out);
        connection.send(now, None, b"packet", &mut out);
        assert_eq!((out.datagrams.len(), out.packets()), (0, 0));
    }
}
