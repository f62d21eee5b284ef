//! A peer connection for data channels: ICE (RFC 8445), DTLS, SCTP (RFC 8261) and the channels, without socket or thread.

mod clock;
mod learned;
mod route;
mod stack;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use anabranch_dtls::{DtlsConfig, DtlsError, Effects, Fingerprint, Peers};
use anabranch_proto::{Association, CloseReason, Event, PathError, PathId, Timestamp};
use bytes::Bytes;

use crate::channels::Channels;
use crate::config::ChannelConfig;
use crate::interface::{ChannelEvent, ChannelId, ChannelMessage, ChannelSendError, OpenError, Role};
use crate::sdp::{Description, SdpError, Sections, Setup, candidate_of};
use crate::session_config::{SessionConfig, SessionError};
use route::{Route, RouteEvent};
use stack::{SCTP_PORT, Stack};

/// Datagrams of ICE and DTLS that wait for the socket; further ones are lost, as in a network.
const MOST_WAITING: usize = 1024;

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEnd {
    /// DTLS ended: the peer closed, its certificate is another than announced, or the handshake failed.
    Dtls(DtlsError),
    /// The association ended.
    Sctp(CloseReason),
    /// No path to the peer works: nothing was heard of it for 30 s.
    Unreachable,
    /// This side closed it.
    Closed,
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The association is set up: everything is encrypted, and the peer's certificate is that of its description.
    Connected,
    /// An event of the channels.
    Channel(ChannelEvent),
    /// Nothing was heard of the peer for 10 s. The session goes on if the peer is heard within 30 s (RFC 7675), or after
    /// [`Session::restart_ice`], from which the time counts again.
    Silent,
    /// The peer was silent, and is heard again.
    Heard,
    /// The session has ended. There are no later events.
    Closed(SessionEnd),
}

/// Where datagrams go, whose bytes are in the buffer of [`Session::poll_transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionTransmit {
    /// The local address, one of [`SessionConfig::local`].
    pub source: SocketAddr,
    /// The peer's address.
    pub destination: SocketAddr,
    /// The bytes of all datagrams.
    pub len: usize,
    /// The length of each datagram but the last, which may be shorter.
    pub segment: usize,
}

/// A datagram to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The local address, one of [`SessionConfig::local`].
    pub source: SocketAddr,
    /// The peer's address.
    pub destination: SocketAddr,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A peer connection for data channels. After one or more calls, call [`Session::poll_event`] and then [`Session::poll_transmit`], both until
/// `None`, as long as one of them returns something. Call [`Session::handle_timeout`] at the time of [`Session::poll_timeout`].
/// Acknowledgements are made when datagrams are polled: one for all datagrams that arrived since.
pub struct Session {
    route: Route,
    /// `None` until the peer's description is known.
    dtls: Option<Peers<()>>,
    sctp: Stack,
    channels: Channels,
    role: Role,
    peer_port: u16,
    /// The certificates that the peer may have. None before its description is known.
    trusted: Vec<Fingerprint>,
    /// The sections of the last offer of either side.
    sections: Sections,
    awaits_answer: bool,
    /// The number of this session in its descriptions, and the version of the last one (RFC 8866 §5.2).
    origin: (u64, u64),
    /// Whether the application asked for a graceful end.
    is_shutting_down: bool,
    datagrams: VecDeque<Datagram>,
    events: VecDeque<SessionEvent>,
    is_connected: bool,
    ended: bool,
    /// The end, until the application was told: it is the last event.
    end: Option<SessionEnd>,
    config: SessionConfig,
    /// The output of DTLS, whose memory is used again.
    effects: Effects<()>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("route", &self.route.chosen())
            .field("association", &self.sctp.association().map(Association::state))
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Begins a session with an offer. Its text goes to the peer, and the peer's answer to [`Session::accept_answer`].
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn offer(now: Timestamp, config: SessionConfig) -> Result<(Self, String), SessionError> {
        let mut session = Self::new(now, config)?;
        session.awaits_answer = true;
        let offer = session.describe(Setup::ActPass);
        Ok((session, offer))
    }

    /// Begins a session with the answer to a peer's offer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn answer(
        now: Timestamp,
        config: SessionConfig,
        offer: &str,
    ) -> Result<(Self, String), SessionError> {
        let offer = Description::read(offer)?;
        let mut session = Self::new(now, config)?;
        let setup = match offer.setup {
            // The peer's handshake then begins as soon as it knows this side's address.
            Setup::ActPass | Setup::Active => Setup::Passive,
            Setup::Passive => Setup::Active,
        };
        let role = match setup {
            Setup::Active => Role::Client,
            _ => Role::Server,
        };
        session.begin(now, &offer, role, false)?;
        session.sections = offer.sections;
        let answer = session.describe(setup);
        Ok((session, answer))
    }

    /// The peer's answer to this side's offer, or to that of [`Session::restart_ice`].
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn accept_answer(&mut self, now: Timestamp, answer: &str) -> Result<(), SessionError> {
        let answer = Description::read(answer)?;
        let role = match answer.setup {
            Setup::Active => Role::Server,
            Setup::Passive => Role::Client,
            Setup::ActPass => return Err(SdpError::Setup.into()),
        };
        if !self.awaits_answer {
            return Err(SessionError::NoAnswerExpected);
        }
        answer.sections.check_answer(&self.sections)?;
        if self.trusted.is_empty() {
            self.begin(now, &answer, role, true)?;
        } else {
            self.check_peer(&answer)?;
            self.route.accept_restart(now, &answer);
            self.after_route(now);
        }
        self.awaits_answer = false;
        Ok(())
    }

    /// Looks for new routes to the peer, as after a change of the network, or after [`SessionEvent::Silent`] (ICE restart, RFC 8445 §9).
    /// `local` are the addresses at which this side receives from now on; none if they have not changed. Returns an offer for the peer,
    /// whose answer goes to [`Session::accept_answer`]. Data takes the former route until a new one is found.
    ///
    /// # Errors
    /// See [`SessionError`]; [`SessionError::NotBegun`] before the peer's description is known, and after the end.
    pub fn restart_ice(&mut self, now: Timestamp, local: &[SocketAddr]) -> Result<String, SessionError> {
        if self.trusted.is_empty() || self.ended {
            return Err(SessionError::NotBegun);
        }
        self.route.offer_restart(now, local)?;
        self.awaits_answer = true;
        Ok(self.describe(Setup::ActPass))
    }

    /// A further offer of the peer in a session that has begun, as for an ICE restart. Returns the answer. An own offer that waits for its
    /// answer is withdrawn: if both sides make one at the same time, the application decides which side does not pass on the other's.
    ///
    /// # Errors
    /// See [`SessionError`]; [`SessionError::OtherPeer`] if the offer is that of another session of the peer.
    pub fn accept_offer(&mut self, now: Timestamp, offer: &str) -> Result<String, SessionError> {
        let offer = Description::read(offer)?;
        if self.trusted.is_empty() || self.ended {
            return Err(SessionError::NotBegun);
        }
        self.check_peer(&offer)?;
        self.awaits_answer = false;
        self.route.answer(now, &offer)?;
        self.after_route(now);
        let setup = match self.role {
            Role::Client => Setup::Active,
            Role::Server => Setup::Passive,
        };
        self.sections = offer.sections;
        Ok(self.describe(setup))
    }

    /// A candidate of the peer that is not in its description (trickle ICE, RFC 8838): the line `candidate:…`, with or without `a=`. An empty
    /// text says that there are no more. Candidates that cannot be used are ignored: those over TCP, with names of mDNS, or of a former
    /// description.
    ///
    /// # Errors
    /// [`SdpError::Attribute`] if the line is no candidate, and [`SessionError::NotBegun`] before the peer's description is known.
    pub fn add_candidate(&mut self, now: Timestamp, candidate: &str) -> Result<(), SessionError> {
        if self.trusted.is_empty() {
            return Err(SessionError::NotBegun);
        }
        if let Some(candidate) = candidate_of(candidate)? {
            self.route.add_candidate(candidate);
            self.route.handle_timeout(now);
            self.after_route(now);
        }
        Ok(())
    }

    /// A datagram arrived at the local address `destination`. Datagrams of strangers have no effect.
    pub fn handle_datagram(
        &mut self,
        now: Timestamp,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
    ) {
        // RFC 7983 §7.
        match bytes.first() {
            // The answers of a session that has ended would keep the peer waiting for it (RFC 7675 §5.2).
            Some(0..=3) if !self.ended => {
                self.route.handle_stun(now, source, destination, bytes);
                self.after_route(now);
            }
            Some(20..=63) if self.route.admits(source, destination) => {
                self.on_dtls(now, |dtls, effects| dtls.handle_datagram(now, (), bytes, effects));
            }
            _ => {}
        }
    }

    /// Whether a STUN message that arrived is for this session: for programs with several sessions on one socket.
    #[must_use]
    pub fn accepts(&self, bytes: &[u8]) -> bool {
        self.route.accepts(bytes)
    }

    /// The time has come that [`Session::poll_timeout`] returned.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.route.handle_timeout(now);
        self.after_route(now);
        self.on_dtls(now, |dtls, effects| dtls.handle_timeout(now, effects));
        self.sctp.handle_timeout(now);
        if let Some(association) = self.sctp.association_mut()
            && self.channels.poll_timeout().is_some_and(|due| due <= now)
        {
            self.channels.handle_timeout(association, now);
        }
    }

    /// When [`Session::handle_timeout`] must be called.
    pub fn poll_timeout(&mut self) -> Option<Timestamp> {
        if self.ended {
            return None;
        }
        let dtls = self.dtls.as_ref().and_then(Peers::timeout);
        let sctp = self.sctp.poll_timeout(self.channels.poll_timeout());
        let timeouts = [self.route.poll_timeout(), dtls, sctp];
        timeouts.into_iter().flatten().min()
    }

    /// The next datagrams to be sent, at most `max_datagrams` of one length, for segmentation offload. Their bytes are the first of `buffer`,
    /// whose former content is lost.
    pub fn poll_transmit(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<SessionTransmit> {
        self.take_events(now);
        loop {
            if let Some(datagram) = self.datagrams.pop_front() {
                let transmit = SessionTransmit {
                    source: datagram.source,
                    destination: datagram.destination,
                    len: datagram.bytes.len(),
                    segment: datagram.bytes.len(),
                };
                buffer.clear();
                buffer.extend_from_slice(&datagram.bytes);
                return Some(transmit);
            }
            if let Some(transmit) = self.transmit(now, buffer, max_datagrams)? {
                return Some(transmit);
            }
        }
    }

    /// The next datagram to be sent: [`Session::poll_transmit`] without offload.
    pub fn poll_datagram(&mut self, now: Timestamp) -> Option<Datagram> {
        let mut bytes = Vec::new();
        let transmit = self.poll_transmit(now, &mut bytes, 1)?;
        bytes.truncate(transmit.len);
        Some(Datagram {
            source: transmit.source,
            destination: transmit.destination,
            bytes,
        })
    }

    /// The next event.
    pub fn poll_event(&mut self, now: Timestamp) -> Option<SessionEvent> {
        self.take_events(now);
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.ended && self.end.is_none() {
            return None;
        }
        if let Some(association) = self.sctp.association_mut()
            && let Some(event) = self.channels.poll_event(association, now)
        {
            return Some(SessionEvent::Channel(event));
        }
        self.end.take().map(SessionEvent::Closed)
    }

    /// Opens a channel, as soon as [`SessionEvent::Connected`] was told.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&mut self, now: Timestamp, config: ChannelConfig) -> Result<ChannelId, OpenError> {
        let association = self.sctp.association_mut().ok_or(OpenError::NotConnected)?;
        if self.ended {
            return Err(OpenError::Ended);
        }
        self.channels.open(association, now, config)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// See [`ChannelSendError`].
    pub fn send(
        &mut self,
        now: Timestamp,
        id: ChannelId,
        message: ChannelMessage,
    ) -> Result<(), ChannelSendError> {
        let association = self.sctp.association_mut().ok_or(ChannelSendError::Closed)?;
        self.channels.send(association, now, id, message)
    }

    /// Sets whether the lifetime of a channel's messages is a deadline ([`ChannelConfig::lifetime_is_deadline`]): for channels that the peer
    /// opened.
    pub fn set_lifetime_is_deadline(&mut self, id: ChannelId, is_deadline: bool) {
        if let Some(association) = self.sctp.association_mut() {
            self.channels
                .set_lifetime_is_deadline(association, id, is_deadline);
        }
    }

    /// Closes a channel.
    pub fn close_channel(&mut self, now: Timestamp, id: ChannelId) {
        if let Some(association) = self.sctp.association_mut() {
            self.channels.close(association, now, id);
        }
    }

    /// The next message of a channel ([`Channels::recv`]). Messages are taken from the association only here, so that a slow application slows
    /// the peer.
    pub fn recv(&mut self, now: Timestamp, id: ChannelId) -> Option<ChannelMessage> {
        let association = self.sctp.association_mut()?;
        self.channels.recv(association, now, id)
    }

    /// Bytes of the channel that wait for their first transmission.
    #[must_use]
    pub fn buffered_amount(&self, id: ChannelId) -> usize {
        let association = self.sctp.association();
        association.map_or(0, |association| self.channels.buffered_amount(association, id))
    }

    /// From now on, [`ChannelEvent::BufferedAmountLow`] tells when the buffered amount falls to `threshold` or below.
    pub fn set_buffered_amount_low_threshold(&mut self, now: Timestamp, id: ChannelId, threshold: usize) {
        if let Some(association) = self.sctp.association_mut() {
            self.channels
                .set_buffered_amount_low_threshold(association, now, id, threshold);
        }
    }

    /// Ends the session when the peer has acknowledged all messages: the channels take no more. If the peer does not acknowledge them, the
    /// session ends nevertheless (`Config::shutdown_guard`). A session that is not connected ends at once.
    pub fn shutdown(&mut self, now: Timestamp) {
        let Some(association) = self.sctp.association_mut() else {
            return self.close(now);
        };
        association.shutdown(now);
        self.is_shutting_down = true;
    }

    /// Ends the session at once: the peer is told by ABORT and close_notify.
    pub fn close(&mut self, now: Timestamp) {
        if let Some(association) = self.sctp.association_mut() {
            association.abort(now, Bytes::from_static(b"closed"));
        }
        self.close_below(now);
    }

    /// Ends DTLS after SCTP: the last packet is before close_notify.
    fn close_below(&mut self, now: Timestamp) {
        let mut buffer = Vec::new();
        while let Some(transmit) = self.transmit(now, &mut buffer, 1) {
            self.datagrams.extend(transmit.map(|transmit| Datagram {
                source: transmit.source,
                destination: transmit.destination,
                bytes: buffer[..transmit.len].to_vec(),
            }));
        }
        self.end(SessionEnd::Closed);
        self.on_dtls(now, |dtls, effects| dtls.close_all(now, effects));
        self.dtls = None;
    }

    /// The association's statistics; `None` before it begins.
    #[must_use]
    pub fn stats(&self) -> Option<anabranch_proto::AssociationStats> {
        self.sctp.association().map(|association| association.stats())
    }

    /// The properties of a channel.
    #[must_use]
    pub fn channel(&self, id: ChannelId) -> Option<&ChannelConfig> {
        self.channels.config(id)
    }
}

impl Session {
    fn new(now: Timestamp, config: SessionConfig) -> Result<Self, SessionError> {
        Ok(Self {
            route: Route::new(now, &config.local, config.ice_lite)?,
            dtls: None,
            sctp: Stack::new(config.sctp.clone())?,
            channels: Channels::new(Role::Client, config.limits),
            role: Role::Client,
            peer_port: SCTP_PORT,
            trusted: Vec::new(),
            sections: Sections::alone(),
            awaits_answer: false,
            origin: (random_number()?, 1),
            is_shutting_down: false,
            datagrams: VecDeque::new(),
            events: VecDeque::new(),
            is_connected: false,
            ended: false,
            end: None,
            config,
            effects: Effects::default(),
        })
    }

    /// The next description of this side.
    fn describe(&mut self, setup: Setup) -> String {
        let (id, version) = self.origin;
        self.origin.1 += 1;
        let description = Description {
            credentials: self.route.credentials(),
            is_lite: self.route.is_lite(),
            fingerprints: vec![self.config.certificate.fingerprint()],
            setup,
            sctp_port: SCTP_PORT,
            max_message: self.config.limits.max_message,
            candidates: self.route.candidates(),
            sections: self.sections.clone(),
        };
        description.write(id, version)
    }

    /// A further description must be of the same DTLS connection.
    fn check_peer(&self, peer: &Description) -> Result<(), SessionError> {
        let may_be = match peer.setup {
            Setup::ActPass => true,
            Setup::Active => self.role == Role::Server,
            Setup::Passive => self.role == Role::Client,
        };
        let is_known = |fingerprint| self.trusted.contains(fingerprint);
        if !may_be || !peer.fingerprints.iter().any(is_known) {
            return Err(SessionError::OtherPeer);
        }
        Ok(())
    }

    /// Both descriptions are known.
    fn begin(
        &mut self,
        now: Timestamp,
        peer: &Description,
        role: Role,
        offered: bool,
    ) -> Result<(), SessionError> {
        self.route.begin(now, peer, offered)?;
        let trust = DtlsConfig::new(self.config.certificate.clone()).trust(peer.fingerprints.clone());
        self.dtls = Some(Peers::new(trust));
        self.trusted.clone_from(&peer.fingerprints);
        self.role = role;
        self.peer_port = peer.sctp_port;
        let mut limits = self.config.limits;
        limits.peer_max_message = peer.max_message.min(self.config.sctp.buffers.max_message);
        self.channels = Channels::new(role, limits);
        self.after_route(now);
        Ok(())
    }

    fn after_route(&mut self, now: Timestamp) {
        while let Some(datagram) = self.route.poll_datagram() {
            self.put(datagram);
        }
        while let Some(event) = self.route.poll_event() {
            match event {
                RouteEvent::Nominated { changed } => {
                    if self.role == Role::Client && !self.ended {
                        self.on_dtls(now, |dtls, effects| dtls.connect(now, (), effects));
                    }
                    if let Some(association) = self.sctp.association_mut().filter(|_| changed) {
                        association.handle_path_error(now, PathId(0), PathError::RouteChanged);
                    }
                }
                RouteEvent::Silent => self.tell(SessionEvent::Silent),
                RouteEvent::Heard => {
                    if let Some(association) = self.sctp.association_mut() {
                        // Its answer ends the back-off of SCTP's timers. The path exists.
                        let _ = association.request_heartbeat(now, PathId(0));
                    }
                    self.tell(SessionEvent::Heard);
                }
                RouteEvent::Unreachable => self.lose(now, SessionEnd::Unreachable),
            }
        }
    }

    fn tell(&mut self, event: SessionEvent) {
        if !self.ended {
            self.events.push_back(event);
        }
    }

    fn on_dtls(&mut self, now: Timestamp, call: impl FnOnce(&Peers<()>, &mut Effects<()>)) {
        let Some(dtls) = &self.dtls else { return };
        let mut effects = std::mem::take(&mut self.effects);
        call(dtls, &mut effects);
        self.settle_dtls(now, &effects);
        effects.clear();
        self.effects = effects;
    }

    fn settle_dtls(&mut self, now: Timestamp, effects: &Effects<()>) {
        if let Some((source, destination)) = self.route.chosen() {
            for (_, bytes) in effects.datagrams() {
                self.put(Datagram {
                    source,
                    destination,
                    bytes: bytes.to_vec(),
                });
            }
        }
        // The DTLS client begins the association; the server may begin one too.
        if !effects.established.is_empty()
            && self.role == Role::Client
            && self.sctp.connect(now, self.peer_port).is_err()
        {
            self.end(SessionEnd::Unreachable);
        }
        for (_, packet) in effects.packets() {
            if let Some(answer) = self.sctp.handle_packet(now, Bytes::copy_from_slice(packet)) {
                self.on_dtls(now, |dtls, effects| dtls.send(now, (), &answer, effects));
            }
        }
        // A handshake that somebody else began beside the connection ends without harm.
        let is_connected = self.dtls.as_ref().is_some_and(|dtls| dtls.peer(()).is_some());
        for (_, reason) in effects.ended.iter().filter(|_| !is_connected) {
            self.lose(now, SessionEnd::Dtls(reason.clone()));
        }
    }

    /// Takes the association's events.
    fn take_events(&mut self, now: Timestamp) {
        while let Some(event) = self.sctp.poll_event(now) {
            if let Some(association) = self.sctp.association_mut() {
                self.channels.handle_event(association, now, &event);
            }
            match event {
                Event::Established { .. } if !std::mem::replace(&mut self.is_connected, true) => {
                    self.tell(SessionEvent::Connected);
                }
                Event::Closed(CloseReason::Shutdown) if self.is_shutting_down => self.close_below(now),
                Event::Closed(reason) => self.end(SessionEnd::Sctp(reason)),
                _ => {}
            }
        }
    }

    /// The association's next packets, encrypted. `None` if there are none; `Some(None)` if they are no batch: then they wait as datagrams,
    /// or, without a route, are lost.
    fn transmit(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Option<SessionTransmit>> {
        let packets = self.sctp.poll_packets(now, max_datagrams)?;
        let dtls = self.dtls.as_mut()?;
        let mut effects = std::mem::take(&mut self.effects);
        for packet in packets {
            dtls.send(now, (), packet, &mut effects);
        }
        let batch = self.route.chosen().and_then(|(source, destination)| {
            let (len, segment) = effects.take_batch(buffer)?;
            Some(SessionTransmit {
                source,
                destination,
                len,
                segment,
            })
        });
        self.settle_dtls(now, &effects);
        effects.clear();
        self.effects = effects;
        Some(batch)
    }

    fn put(&mut self, datagram: Datagram) {
        if self.datagrams.len() < MOST_WAITING {
            self.datagrams.push_back(datagram);
        }
    }

    /// The layers below SCTP have ended, and with them the association.
    fn lose(&mut self, now: Timestamp, end: SessionEnd) {
        if let Some(association) = self.sctp.association_mut() {
            association.handle_path_error(now, PathId(0), PathError::Closed);
        }
        self.dtls = None;
        self.end(end);
    }

    fn end(&mut self, end: SessionEnd) {
        if !std::mem::replace(&mut self.ended, true) {
            self.end = Some(end);
        }
    }
}

fn random_number() -> Result<u64, SessionError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| SessionError::Random(error.to_string()))?;
    // RFC 9429 §5.2.1: 62 bits.
    Ok(u64::from_be_bytes(bytes) >> 2)
}
