//! A peer connection for data channels: ICE (RFC 8445), DTLS, SCTP (RFC 8261) and the channels, without socket or thread.

mod route;
mod stack;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use anabranch_dtls::{DtlsConfig, DtlsError, Effects, Peers};
use anabranch_proto::{Association, CloseReason, Event, PathError, PathId};
use bytes::Bytes;

use crate::channels::{ChannelEvent, ChannelId, ChannelMessage, ChannelSendError, Channels, OpenError, Role};
use crate::config::ChannelConfig;
use crate::sdp::{Description, SdpError, Sections, Setup};
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
    /// No path to the peer works.
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
    offered: Option<Description>,
    datagrams: VecDeque<Datagram>,
    events: VecDeque<SessionEvent>,
    ended: bool,
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
    pub fn offer(now: Instant, config: SessionConfig) -> Result<(Self, String), SessionError> {
        let mut session = Self::new(now, config)?;
        let offer = session.describe(Setup::ActPass, Sections::alone());
        let text = offer.write(random_number()?);
        session.offered = Some(offer);
        Ok((session, text))
    }

    /// Begins a session with the answer to a peer's offer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn answer(now: Instant, config: SessionConfig, offer: &str) -> Result<(Self, String), SessionError> {
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
        let answer = session.describe(setup, offer.sections.clone());
        session.begin(now, &offer, role, false)?;
        Ok((session, answer.write(random_number()?)))
    }

    /// The peer's answer to this side's offer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn accept_answer(&mut self, now: Instant, answer: &str) -> Result<(), SessionError> {
        let answer = Description::read(answer)?;
        if let Some(offer) = &self.offered {
            answer.sections.check_answer(&offer.sections)?;
        }
        let role = match answer.setup {
            Setup::Active => Role::Server,
            Setup::Passive => Role::Client,
            Setup::ActPass => return Err(SdpError::Setup.into()),
        };
        if self.offered.take().is_none() {
            return Err(SessionError::NoAnswerExpected);
        }
        self.begin(now, &answer, role, true)
    }

    /// A datagram arrived at the local address `destination`. Datagrams of strangers have no effect.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
    ) {
        // RFC 7983 §7.
        match bytes.first() {
            Some(0..=3) => {
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
    pub fn handle_timeout(&mut self, now: Instant) {
        self.route.handle_timeout(now);
        self.after_route(now);
        self.on_dtls(now, |dtls, effects| dtls.handle_timeout(now, effects));
        self.sctp.handle_timeout(now);
    }

    /// When [`Session::handle_timeout`] must be called.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.ended {
            return None;
        }
        let dtls = self.dtls.as_ref().and_then(Peers::timeout);
        let timeouts = [self.route.poll_timeout(), dtls, self.sctp.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// The next datagrams to be sent, at most `max_datagrams` of one length, for segmentation offload. Their bytes are the first of `buffer`,
    /// whose former content is lost.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
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
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Datagram> {
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
    pub fn poll_event(&mut self, now: Instant) -> Option<SessionEvent> {
        self.take_events(now);
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let (association, at) = self.sctp.association_at(now)?;
        let event = self.channels.poll_event(association, at);
        event.map(SessionEvent::Channel)
    }

    /// Opens a channel, as soon as [`SessionEvent::Connected`] was told.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&mut self, now: Instant, config: ChannelConfig) -> Result<ChannelId, OpenError> {
        let (association, at) = self.sctp.association_at(now).ok_or(OpenError::NotConnected)?;
        self.channels.open(association, at, config)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// See [`ChannelSendError`].
    pub fn send(
        &mut self,
        now: Instant,
        id: ChannelId,
        message: ChannelMessage,
    ) -> Result<(), ChannelSendError> {
        let (association, at) = self.sctp.association_at(now).ok_or(ChannelSendError::Closed)?;
        self.channels.send(association, at, id, message)
    }

    /// Closes a channel.
    pub fn close_channel(&mut self, now: Instant, id: ChannelId) {
        if let Some((association, at)) = self.sctp.association_at(now) {
            self.channels.close(association, at, id);
        }
    }

    /// The next message of a channel ([`Channels::recv`]). Messages are taken from the association only here, so that a slow application slows
    /// the peer.
    pub fn recv(&mut self, now: Instant, id: ChannelId) -> Option<ChannelMessage> {
        let (association, at) = self.sctp.association_at(now)?;
        self.channels.recv(association, at, id)
    }

    /// Bytes of the channel that wait for their first transmission.
    #[must_use]
    pub fn buffered_amount(&self, id: ChannelId) -> usize {
        let association = self.sctp.association();
        association.map_or(0, |association| self.channels.buffered_amount(association, id))
    }

    /// From now on, [`ChannelEvent::BufferedAmountLow`] tells when the buffered amount falls to `threshold` or below.
    pub fn set_buffered_amount_low_threshold(&mut self, now: Instant, id: ChannelId, threshold: usize) {
        if let Some((association, at)) = self.sctp.association_at(now) {
            self.channels
                .set_buffered_amount_low_threshold(association, at, id, threshold);
        }
    }

    /// Ends the session at once: the peer is told by ABORT and close_notify.
    pub fn close(&mut self, now: Instant) {
        if let Some((association, at)) = self.sctp.association_at(now) {
            association.abort(at, Bytes::from_static(b"closed"));
        }
        // The ABORT is before close_notify.
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
    fn new(now: Instant, config: SessionConfig) -> Result<Self, SessionError> {
        Ok(Self {
            route: Route::new(now, &config.local, config.ice_lite)?,
            dtls: None,
            sctp: Stack::new(now, config.sctp.clone())?,
            channels: Channels::new(Role::Client, config.limits),
            role: Role::Client,
            peer_port: SCTP_PORT,
            offered: None,
            datagrams: VecDeque::new(),
            events: VecDeque::new(),
            ended: false,
            config,
            effects: Effects::default(),
        })
    }

    fn describe(&self, setup: Setup, sections: Sections) -> Description {
        Description {
            credentials: self.route.credentials(),
            is_lite: self.route.is_lite(),
            fingerprints: vec![self.config.certificate.fingerprint()],
            setup,
            sctp_port: SCTP_PORT,
            max_message: self.config.limits.max_message,
            candidates: self.route.candidates(),
            sections,
        }
    }

    /// Both descriptions are known.
    fn begin(
        &mut self,
        now: Instant,
        peer: &Description,
        role: Role,
        offered: bool,
    ) -> Result<(), SessionError> {
        self.route.begin(now, peer, offered)?;
        let trust = DtlsConfig::new(self.config.certificate.clone()).trust(peer.fingerprints.clone());
        self.dtls = Some(Peers::new(trust));
        self.role = role;
        self.peer_port = peer.sctp_port;
        let mut limits = self.config.limits;
        limits.peer_max_message = peer.max_message.min(self.config.sctp.buffers.max_message);
        self.channels = Channels::new(role, limits);
        self.after_route(now);
        Ok(())
    }

    fn after_route(&mut self, now: Instant) {
        while let Some(datagram) = self.route.poll_datagram() {
            self.put(datagram);
        }
        while let Some(event) = self.route.poll_event() {
            match event {
                RouteEvent::Nominated if self.role == Role::Client && !self.ended => {
                    self.on_dtls(now, |dtls, effects| dtls.connect(now, (), effects));
                }
                RouteEvent::Nominated => {}
                RouteEvent::Unreachable => self.end(SessionEnd::Unreachable),
            }
        }
    }

    fn on_dtls(&mut self, now: Instant, call: impl FnOnce(&mut Peers<()>, &mut Effects<()>)) {
        let Some(dtls) = &mut self.dtls else { return };
        let mut effects = std::mem::take(&mut self.effects);
        call(dtls, &mut effects);
        self.settle_dtls(now, &effects);
        effects.clear();
        self.effects = effects;
    }

    fn settle_dtls(&mut self, now: Instant, effects: &Effects<()>) {
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
            if let Some((association, at)) = self.sctp.association_at(now) {
                association.handle_path_error(at, PathId(0), PathError::Closed);
            }
            self.end(SessionEnd::Dtls(reason.clone()));
        }
    }

    /// Takes the association's events.
    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.sctp.poll_event(now) {
            if let Some((association, at)) = self.sctp.association_at(now) {
                self.channels.handle_event(association, at, &event);
            }
            match event {
                Event::Established { .. } => self.events.push_back(SessionEvent::Connected),
                Event::Closed(reason) => self.end(SessionEnd::Sctp(reason)),
                _ => {}
            }
        }
    }

    /// The association's next packets, encrypted. `None` if there are none; `Some(None)` if they are no batch: then they wait as datagrams,
    /// or, without a route, are lost.
    fn transmit(
        &mut self,
        now: Instant,
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

    fn end(&mut self, end: SessionEnd) {
        if !std::mem::replace(&mut self.ended, true) {
            self.events.push_back(SessionEvent::Closed(end));
        }
    }
}

fn random_number() -> Result<u64, SessionError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| SessionError::Random(error.to_string()))?;
    // RFC 9429 §5.2.1: 62 bits.
    Ok(u64::from_be_bytes(bytes) >> 2)
}
