//! A peer connection for data channels: ICE (RFC 8445), DTLS, SCTP (RFC 8261) and the channels, without socket or thread.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anabranch_dtls::{DtlsConfig, DtlsError, Effects, OVERHEAD, Peers};
use anabranch_proto::{
    Association, AssociationId, CloseReason, ConnectOptions, EcnCodepoint, Endpoint, Event, Handling,
    PathError, PathId, Timestamp,
};
use bytes::Bytes;
use is::stun::{StunMessage, StunPacket};
use is::{Candidate, IceAgent, IceAgentEvent, IceConnectionState, IceCreds};

use crate::channels::{ChannelEvent, ChannelId, ChannelMessage, ChannelSendError, Channels, OpenError, Role};
use crate::config::ChannelConfig;
use crate::sdp::{Description, SdpError, Sections, Setup};
use crate::session_config::{SessionConfig, SessionError};

/// The SCTP port of this side (RFC 8841 §5).
const SCTP_PORT: u16 = 5000;
/// The address of the peer in SCTP's eyes: DTLS carries the packets, whatever the address is (RFC 8261 §5).
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 5000);
/// Streams to the peer: as many as browsers use.
const STREAMS: u16 = 1024;
/// The largest IP packet: path MTU discovery must not find a larger one, because Chromium ends the connection if a DTLS record has more
/// than 2,048 bytes, whatever the path carries.
const LARGEST_PACKET: u16 = 1500;
/// The most datagrams of a batch: a UDP socket takes at most 65,507 bytes in one call.
const MOST_IN_BATCH: usize = 65_507 / LARGEST_PACKET as usize;
/// The first moment of SCTP's clock.
const FIRST: Duration = Duration::from_secs(1);
/// The most local candidates.
const MOST_LOCAL: usize = 16;

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
    started: Instant,
    ice: IceAgent,
    /// The addresses that ICE chose: this side's and the peer's.
    route: Option<(SocketAddr, SocketAddr)>,
    /// `None` until the peer's description is known.
    dtls: Option<Peers<()>>,
    endpoint: Endpoint,
    association: Option<(AssociationId, Box<Association>)>,
    channels: Channels,
    role: Role,
    peer_port: u16,
    offered: Option<Description>,
    datagrams: VecDeque<Datagram>,
    events: VecDeque<SessionEvent>,
    is_connected: bool,
    ended: bool,
    config: SessionConfig,
    /// The packets of a batch, before they are encrypted.
    buffer: Vec<u8>,
    /// The output of DTLS, whose memory is used again.
    effects: Effects<()>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("route", &self.route)
            .field("is_connected", &self.is_connected)
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
                if let Ok(message) = StunMessage::parse(bytes)
                    && self.ice.accepts_message(&message)
                {
                    let packet = StunPacket {
                        proto: is::Protocol::Udp,
                        source,
                        destination,
                        message,
                    };
                    self.ice.handle_packet(now, packet);
                    self.after_ice(now);
                }
            }
            Some(20..=63) if self.ice.has_viable_remote_candidate(source) => {
                // The peer may begin with DTLS before it nominates a path.
                self.route.get_or_insert((destination, source));
                self.on_dtls(now, |dtls, effects| dtls.handle_datagram(now, (), bytes, effects));
            }
            _ => {}
        }
    }

    /// Whether a STUN message that arrived is for this session: for programs with several sessions on one socket.
    #[must_use]
    pub fn accepts(&self, bytes: &[u8]) -> bool {
        StunMessage::parse(bytes).is_ok_and(|message| self.ice.accepts_message(&message))
    }

    /// The time has come that [`Session::poll_timeout`] returned.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.ice.handle_timeout(now);
        self.after_ice(now);
        self.on_dtls(now, |dtls, effects| dtls.handle_timeout(now, effects));
        let at = self.at(now);
        if let Some((_, association)) = &mut self.association
            && association.poll_timeout().is_some_and(|due| due <= at)
        {
            association.handle_timeout(at);
        }
    }

    /// When [`Session::handle_timeout`] must be called.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.ended {
            return None;
        }
        let sctp = self
            .association
            .as_ref()
            .and_then(|(_, association)| association.poll_timeout());
        let sctp = sctp.map(|at| self.started + Duration::from_nanos(at.0).saturating_sub(FIRST));
        let dtls = self.dtls.as_ref().and_then(Peers::timeout);
        [self.ice.poll_timeout(), dtls, sctp].into_iter().flatten().min()
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

    /// The next event. Messages are taken from the association only here, so that a slow application slows the peer.
    pub fn poll_event(&mut self, now: Instant) -> Option<SessionEvent> {
        self.take_events(now);
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let at = self.at(now);
        let (_, association) = self.association.as_mut()?;
        let event = self.channels.poll_event(association, at);
        event.map(SessionEvent::Channel)
    }

    /// Opens a channel, as soon as [`SessionEvent::Connected`] was told.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&mut self, now: Instant, config: ChannelConfig) -> Result<ChannelId, OpenError> {
        let at = self.at(now);
        let (_, association) = self.association.as_mut().ok_or(OpenError::NotConnected)?;
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
        let at = self.at(now);
        let (_, association) = self.association.as_mut().ok_or(ChannelSendError::Closed)?;
        self.channels.send(association, at, id, message)
    }

    /// Closes a channel.
    pub fn close_channel(&mut self, now: Instant, id: ChannelId) {
        let at = self.at(now);
        if let Some((_, association)) = &mut self.association {
            self.channels.close(association, at, id);
        }
    }

    /// Whether [`Session::poll_event`] reads messages of this channel ([`Channels::set_reading`]).
    pub fn set_reading(&mut self, id: ChannelId, reads: bool) {
        self.channels.set_reading(id, reads);
    }

    /// Bytes of the channel that wait for their first transmission.
    #[must_use]
    pub fn buffered_amount(&self, id: ChannelId) -> usize {
        let association = self.association.as_ref();
        association.map_or(0, |(_, association)| {
            self.channels.buffered_amount(association, id)
        })
    }

    /// From now on, [`ChannelEvent::BufferedAmountLow`] tells when the buffered amount falls to `threshold` or below.
    pub fn set_buffered_amount_low_threshold(&mut self, now: Instant, id: ChannelId, threshold: usize) {
        let at = self.at(now);
        if let Some((_, association)) = &mut self.association {
            self.channels
                .set_buffered_amount_low_threshold(association, at, id, threshold);
        }
    }

    /// Ends the session at once: the peer is told by ABORT and close_notify.
    pub fn close(&mut self, now: Instant) {
        let at = self.at(now);
        if let Some((_, association)) = &mut self.association {
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
        self.association
            .as_ref()
            .map(|(_, association)| association.stats())
    }

    /// The properties of a channel.
    #[must_use]
    pub fn channel(&self, id: ChannelId) -> Option<&ChannelConfig> {
        self.channels.config(id)
    }
}

impl Session {
    fn new(now: Instant, mut config: SessionConfig) -> Result<Self, SessionError> {
        if config.local.is_empty() || config.local.len() > MOST_LOCAL {
            return Err(SessionError::Local(format!("{} were given", config.local.len())));
        }
        let mut ice = IceAgent::new(IceCreds::new());
        ice.set_ice_lite(config.ice_lite);
        for address in &config.local {
            let refused = |why: String| SessionError::Local(format!("{address}: {why}"));
            if address.ip().is_unspecified() || address.port() == 0 {
                return Err(refused("it is unspecified".to_owned()));
            }
            let candidate = Candidate::host(*address, "udp").map_err(|error| refused(error.to_string()))?;
            ice.add_local_candidate(candidate);
        }
        // The agent's clock must run before the peer's first check: a check that comes before the peer's description would stop it.
        IceAgent::handle_timeout(&mut ice, now);
        config.sctp.zero_checksum = true;
        config.sctp.lower_layer_overhead = OVERHEAD;
        config.sctp.udp_encapsulation = true;
        config.sctp.max_paths = 1;
        config.sctp.path_mtu_limit = config.sctp.path_mtu_limit.min(LARGEST_PACKET);
        config.sctp.local_addresses.clear();
        config.sctp.dynamic_addresses = None;
        config.sctp.reconfiguration.offer = true;
        config.sctp.streams.outbound = STREAMS;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| SessionError::Random(error.to_string()))?;
        let sctp = |error: &dyn fmt::Display| SessionError::Sctp(error.to_string());
        let mut endpoint = Endpoint::new(config.sctp.clone(), seed).map_err(|error| sctp(&error))?;
        endpoint.listen(SCTP_PORT).map_err(|error| sctp(&error))?;
        Ok(Self {
            started: now,
            ice,
            route: None,
            dtls: None,
            endpoint,
            association: None,
            channels: Channels::new(Role::Client, config.limits),
            role: Role::Client,
            peer_port: SCTP_PORT,
            offered: None,
            datagrams: VecDeque::new(),
            events: VecDeque::new(),
            is_connected: false,
            ended: false,
            config,
            buffer: Vec::new(),
            effects: Effects::default(),
        })
    }

    fn describe(&self, setup: Setup, sections: Sections) -> Description {
        Description {
            credentials: self.ice.local_credentials().clone(),
            is_lite: self.config.ice_lite,
            fingerprint: self.config.certificate.fingerprint(),
            setup,
            sctp_port: SCTP_PORT,
            max_message: self.config.limits.max_message,
            candidates: self.ice.local_candidates().collect(),
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
        if peer.is_lite && self.config.ice_lite {
            return Err(SessionError::BothLite);
        }
        // RFC 8445 §6.1.1.
        self.ice
            .set_controlling(!self.config.ice_lite && (offered || peer.is_lite));
        self.ice.set_remote_credentials(peer.credentials.clone());
        for candidate in &peer.candidates {
            self.ice.add_remote_candidate(candidate.clone());
        }
        let trust = DtlsConfig::new(self.config.certificate.clone()).trust(peer.fingerprint);
        self.dtls = Some(Peers::new(trust));
        self.role = role;
        self.peer_port = peer.sctp_port;
        let mut limits = self.config.limits;
        limits.peer_max_message = peer.max_message.min(self.config.sctp.buffers.max_message);
        self.channels = Channels::new(role, limits);
        self.ice.handle_timeout(now);
        self.after_ice(now);
        Ok(())
    }

    /// SCTP's time.
    fn at(&self, now: Instant) -> Timestamp {
        let since = now.saturating_duration_since(self.started) + FIRST;
        Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    fn after_ice(&mut self, now: Instant) {
        while let Some(transmit) = self.ice.poll_transmit() {
            self.datagrams.push_back(Datagram {
                source: transmit.source,
                destination: transmit.destination,
                bytes: transmit.contents.into(),
            });
        }
        while let Some(event) = self.ice.poll_event() {
            match event {
                IceAgentEvent::NominatedSend {
                    source, destination, ..
                } => {
                    self.route = Some((source, destination));
                    if self.role == Role::Client && !self.ended {
                        self.on_dtls(now, |dtls, effects| dtls.connect(now, (), effects));
                    }
                }
                IceAgentEvent::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                    self.end(SessionEnd::Unreachable);
                }
                _ => {}
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
        if let Some((source, destination)) = self.route {
            let datagrams = effects.datagrams().map(|(_, bytes)| Datagram {
                source,
                destination,
                bytes: bytes.to_vec(),
            });
            self.datagrams.extend(datagrams);
        }
        if !effects.established.is_empty() && self.association.is_none() && self.role == Role::Client {
            self.connect(now);
        }
        for (_, packet) in effects.packets() {
            self.on_packet(now, Bytes::copy_from_slice(packet));
        }
        for (_, reason) in &effects.ended {
            let at = self.at(now);
            if let Some((_, association)) = &mut self.association {
                association.handle_path_error(at, PathId(0), PathError::Closed);
            }
            self.end(SessionEnd::Dtls(reason.clone()));
        }
    }

    /// The DTLS client begins the association; the server may begin one too (RFC 9260 §5.2.1).
    fn connect(&mut self, now: Instant) {
        let at = self.at(now);
        let options = ConnectOptions::default().local_port(SCTP_PORT);
        match self.endpoint.connect(at, PEER, self.peer_port, options) {
            Ok((id, association)) => self.adopt(now, id, association),
            Err(_) => self.end(SessionEnd::Unreachable),
        }
    }

    fn adopt(&mut self, now: Instant, id: AssociationId, mut association: Box<Association>) {
        Channels::prepare(&mut association, self.at(now));
        self.association = Some((id, association));
    }

    fn on_packet(&mut self, now: Instant, packet: Bytes) {
        let at = self.at(now);
        match self
            .endpoint
            .handle_datagram(at, None, PEER, packet, EcnCodepoint::NotEct)
        {
            Handling::Reply(reply) => {
                self.on_dtls(now, |dtls, effects| dtls.send(now, (), &reply.packet, effects))
            }
            Handling::Deliver(id, inbound) => {
                if let Some((_, association)) = self.association.as_mut().filter(|(own, _)| *own == id) {
                    association.handle_packet(at, inbound);
                }
            }
            // A session has one association.
            Handling::Accept(id, association) if self.association.is_none() => {
                self.adopt(now, id, association)
            }
            Handling::Accept(id, mut association) => {
                association.refuse(at);
                while let Some(event) = association.poll_endpoint_event() {
                    self.endpoint.handle_event(at, id, event);
                }
            }
            Handling::Done => {}
        }
    }

    /// Takes the association's events.
    fn take_events(&mut self, now: Instant) {
        let at = self.at(now);
        let Some((id, association)) = &mut self.association else {
            return;
        };
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(at, *id, event);
        }
        let mut end = None;
        while let Some(event) = association.poll_event() {
            self.channels.handle_event(association, at, &event);
            match event {
                Event::Established { .. } => {
                    self.is_connected = true;
                    self.events.push_back(SessionEvent::Connected);
                }
                Event::Closed(reason) => end = Some(SessionEnd::Sctp(reason)),
                _ => {}
            }
        }
        if let Some(end) = end {
            self.end(end);
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
        let at = self.at(now);
        let (_, association) = self.association.as_mut()?;
        let burst = association.burst_limit().datagrams;
        let most = max_datagrams.min(burst).clamp(1, MOST_IN_BATCH);
        self.buffer.clear();
        let packets = association.poll_transmit(at, &mut self.buffer, most)?;
        let dtls = self.dtls.as_mut()?;
        let mut effects = std::mem::take(&mut self.effects);
        let segment = packets.segment_size.unwrap_or(packets.len).max(1);
        for packet in self.buffer[..packets.len].chunks(segment) {
            dtls.send(now, (), packet, &mut effects);
        }
        let batch = self.route.and_then(|(source, destination)| {
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
