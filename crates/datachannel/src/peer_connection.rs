//! A session on a socket of tokio: peer connections and data channels as handles.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use anabranch::{DatagramSocket, Transmit};
use anabranch_proto::Timestamp;
use bytes::Bytes;
use tokio::sync::Notify;

use crate::config::ChannelConfig;
use crate::interface::{ChannelEvent, ChannelId, ChannelMessage, ChannelSendError, OpenError};
use crate::session::{Session, SessionEnd, SessionEvent, SessionTransmit};
use crate::session_config::{SessionConfig, SessionError};

/// The largest UDP datagram.
const DATAGRAM: usize = 65_535;
/// Datagrams received in a row before other tasks run.
const IN_A_ROW: usize = 64;

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dtls(error) => write!(f, "{error}"),
            Self::Sctp(reason) => write!(f, "the association is over: {reason}"),
            Self::Unreachable => f.write_str(
                "no path to the peer works; check that its addresses can be reached from here, and that no firewall is between",
            ),
            Self::Closed => f.write_str("this side closed the connection"),
        }
    }
}

impl std::error::Error for SessionEnd {}

/// A peer connection for data channels: a [`Session`] and its socket. Cheap to clone. Dropping the last handle, those of its channels
/// included, closes it.
#[derive(Clone, Debug)]
pub struct PeerConnection {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(|state, now| state.session.close(now));
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The beginning of the session's time.
    started: Instant,
    socket: Box<dyn DatagramSocket>,
    /// The task of the socket has something to do.
    work: Notify,
    /// Something changed for the application.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    session: Session,
    is_connected: bool,
    is_silent: bool,
    end: Option<SessionEnd>,
    accepted: VecDeque<u64>,
    /// The channels that have handles or wait for `accept`. A number of the protocol may belong to several of them one after the other, so
    /// they are numbered here.
    channels: BTreeMap<u64, Known>,
    /// The channel that has the number now, or had it last.
    current: BTreeMap<ChannelId, u64>,
    begun: u64,
    /// Space for received datagrams.
    buffer: Vec<u8>,
    /// Space for datagrams to be sent.
    outgoing: Vec<u8>,
    /// The datagrams in `outgoing`, if the socket was full.
    blocked: Option<SessionTransmit>,
    /// The timeout for which the task of the socket waits.
    armed: Option<Timestamp>,
    /// A task waits for room in the send buffer.
    awaits_room: bool,
}

/// A channel, whose messages are in the session until they are read.
#[derive(Debug)]
struct Known {
    id: ChannelId,
    config: ChannelConfig,
    is_open: bool,
    is_closed: bool,
}

impl PeerConnection {
    /// Begins with an offer on this socket. The text goes to the peer; the peer's answer goes to [`PeerConnection::accept_answer`]. If
    /// `config` lists no address, the socket's is used, which must not be unspecified. Must be called within a runtime.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn offer(socket: impl DatagramSocket, config: SessionConfig) -> Result<(Self, String), SessionError> {
        let config = with_address(&socket, config)?;
        let started = Instant::now();
        let (session, offer) = Session::offer(Timestamp::ZERO, config)?;
        Ok((Self::start(socket, session, started), offer))
    }

    /// Begins with the answer to a peer's offer, as [`PeerConnection::offer`] otherwise.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn answer(
        socket: impl DatagramSocket,
        config: SessionConfig,
        offer: &str,
    ) -> Result<(Self, String), SessionError> {
        let config = with_address(&socket, config)?;
        let started = Instant::now();
        let (session, answer) = Session::answer(Timestamp::ZERO, config, offer)?;
        Ok((Self::start(socket, session, started), answer))
    }

    /// The peer's answer to this side's offer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn accept_answer(&self, answer: &str) -> Result<(), SessionError> {
        self.shared()
            .with(|state, now| state.session.accept_answer(now, answer))
    }

    /// Waits until everything is set up.
    ///
    /// # Errors
    /// The session ended before.
    pub async fn connected(&self) -> Result<(), SessionEnd> {
        self.shared()
            .when(|state, _| match (&state.end, state.is_connected) {
                (_, true) => Some(Ok(())),
                (Some(end), false) => Some(Err(end.clone())),
                (None, false) => None,
            })
            .await
    }

    /// Opens a channel, as soon as everything is set up, and waits until the peer confirms it.
    ///
    /// # Errors
    /// See [`OpenError`]; [`OpenError::Refused`] if the peer closed the channel at once.
    pub async fn open(&self, config: ChannelConfig) -> Result<DataChannel, OpenError> {
        self.connected().await.map_err(|_| OpenError::Ended)?;
        let (number, id) = self.shared().with(|state, now| {
            let id = state.session.open(now, config.clone())?;
            let is_open = config.negotiated.is_some();
            Ok((state.add(id, config, is_open), id))
        })?;
        let channel = self.channel(number, id);
        let opened = self.shared().when(|state, _| match state.channels.get(&number) {
            Some(channel) if channel.is_open => Some(Ok(())),
            _ if state.end.is_some() => Some(Err(OpenError::Ended)),
            Some(channel) if !channel.is_closed => None,
            _ => Some(Err(OpenError::Refused)),
        });
        opened.await.map(|()| channel)
    }

    /// The next channel that the peer opened; `None` after the end. Cancel safe.
    pub async fn accept(&self) -> Option<DataChannel> {
        let next = self.shared().when(|state, _| match state.accepted.pop_front() {
            Some(number) => Some(Some((number, state.channels[&number].id))),
            None if state.end.is_some() => Some(None),
            None => None,
        });
        next.await.map(|(number, id)| self.channel(number, id))
    }

    /// The end of the session. Cancel safe.
    pub async fn closed(&self) -> SessionEnd {
        self.shared().when(|state, _| state.end.clone()).await
    }

    /// Looks for new routes to the peer, as after a change of the network ([`Session::restart_ice`]). Returns an offer for the peer; its answer
    /// goes to [`PeerConnection::accept_answer`].
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn restart_ice(&self) -> Result<String, SessionError> {
        self.shared()
            .with(|state, now| state.session.restart_ice(now, &[]))
    }

    /// A further offer of the peer, as for an ICE restart ([`Session::accept_offer`]). Returns the answer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn accept_offer(&self, offer: &str) -> Result<String, SessionError> {
        self.shared()
            .with(|state, now| state.session.accept_offer(now, offer))
    }

    /// A candidate of the peer that is not in its description ([`Session::add_candidate`]).
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn add_candidate(&self, candidate: &str) -> Result<(), SessionError> {
        self.shared()
            .with(|state, now| state.session.add_candidate(now, candidate))
    }

    /// Waits until nothing has been heard of the peer for 10 s ([`SessionEvent::Silent`]), or the session has ended. Then an ICE restart may
    /// find another route. Cancel safe.
    pub async fn silent(&self) {
        self.shared()
            .when(|state, _| (state.is_silent || state.end.is_some()).then_some(()))
            .await;
    }

    /// Ends the connection when the peer has acknowledged all messages, and waits for the end ([`Session::shutdown`]).
    pub async fn shutdown(&self) -> SessionEnd {
        self.shared().with(|state, now| state.session.shutdown(now));
        self.closed().await
    }

    /// Closes the connection at once. Messages that the peer has not acknowledged may be lost.
    pub fn close(&self) {
        self.shared().with(|state, now| state.session.close(now));
    }

    /// The association's statistics; `None` before it begins.
    #[must_use]
    pub fn stats(&self) -> Option<anabranch_proto::AssociationStats> {
        self.shared().with(|state, _| state.session.stats())
    }

    fn channel(&self, number: u64, id: ChannelId) -> DataChannel {
        DataChannel {
            inner: Arc::new(Channel {
                handle: Arc::clone(&self.handle),
                number,
                id,
            }),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn start(socket: impl DatagramSocket, session: Session, started: Instant) -> Self {
        let state = State {
            session,
            is_connected: false,
            is_silent: false,
            end: None,
            accepted: VecDeque::new(),
            channels: BTreeMap::new(),
            current: BTreeMap::new(),
            begun: 0,
            buffer: vec![0; DATAGRAM],
            outgoing: Vec::new(),
            blocked: None,
            armed: None,
            awaits_room: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            started,
            socket: Box::new(socket),
            work: Notify::new(),
            changed: Notify::new(),
        });
        tokio::spawn(Arc::clone(&shared).drive());
        Self {
            handle: Arc::new(Handle { shared }),
        }
    }
}

/// A data channel. Cheap to clone; it keeps its connection. Dropping the last handle closes the channel.
#[derive(Clone, Debug)]
pub struct DataChannel {
    inner: Arc<Channel>,
}

#[derive(Debug)]
struct Channel {
    handle: Arc<Handle>,
    number: u64,
    id: ChannelId,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.handle.shared.with(|state, now| {
            state.channels.remove(&self.number);
            if state.is_current(self.number, self.id) {
                state.current.remove(&self.id);
                // Unread messages are dropped, so that they do not fill the receive window.
                state.session.close_channel(now, self.id);
            }
        });
    }
}

impl DataChannel {
    /// The channel's number.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.inner.id
    }

    /// The channel's properties: label, protocol, order, reliability and priority.
    #[must_use]
    pub fn config(&self) -> ChannelConfig {
        let config = |state: &mut State, _| Some(state.channels.get(&self.inner.number)?.config.clone());
        // The properties are kept as long as there is a handle.
        self.shared()
            .with(config)
            .unwrap_or_else(|| ChannelConfig::new(""))
    }

    /// Sets whether the lifetime of the channel's messages is a deadline ([`ChannelConfig::lifetime_is_deadline`]): for channels that the peer
    /// opened, in a browser with `maxPacketLifeTime`.
    pub fn set_lifetime_is_deadline(&self, is_deadline: bool) {
        self.shared().with(|state, _| {
            let Some(channel) = state.channels.get_mut(&self.inner.number) else {
                return;
            };
            channel.config.lifetime_is_deadline = is_deadline;
            if state.is_current(self.inner.number, self.inner.id) {
                state.session.set_lifetime_is_deadline(self.inner.id, is_deadline);
            }
        });
    }

    /// Sends a text. Waits while the send buffer is full. Cancel safe: a cancelled call has sent nothing.
    ///
    /// # Errors
    /// See [`ChannelSendError`].
    pub async fn send_text(&self, text: impl Into<String>) -> Result<(), ChannelSendError> {
        let bytes = Bytes::from(text.into());
        self.send(ChannelMessage { is_text: true, bytes }).await
    }

    /// Sends bytes, as [`DataChannel::send_text`] sends a text.
    ///
    /// # Errors
    /// See [`ChannelSendError`].
    pub async fn send_bytes(&self, bytes: impl Into<Bytes>) -> Result<(), ChannelSendError> {
        let bytes = bytes.into();
        self.send(ChannelMessage {
            is_text: false,
            bytes,
        })
        .await
    }

    /// Sends a message, as [`DataChannel::send_text`] sends a text.
    ///
    /// # Errors
    /// See [`ChannelSendError`].
    pub async fn send(&self, message: ChannelMessage) -> Result<(), ChannelSendError> {
        self.shared()
            .when(|state, now| match self.send_now(state, now, message.clone()) {
                Err(ChannelSendError::Full) => {
                    state.awaits_room = true;
                    None
                }
                sent => Some(sent),
            })
            .await
    }

    /// Sends a message, or fails if the send buffer is full.
    ///
    /// # Errors
    /// See [`ChannelSendError`].
    pub fn try_send(&self, message: ChannelMessage) -> Result<(), ChannelSendError> {
        self.shared()
            .with(|state, now| self.send_now(state, now, message))
    }

    /// The next message; `None` after the channel was closed, when its last message was returned. Cancel safe.
    ///
    /// Messages that are not read fill the receive window of the connection, and then the peer cannot send in any channel: read every channel,
    /// or drop its handles.
    pub async fn recv(&self) -> Option<ChannelMessage> {
        self.shared()
            .when(|state, now| {
                if state.is_current(self.inner.number, self.inner.id)
                    && let Some(message) = state.session.recv(now, self.inner.id)
                {
                    return Some(Some(message));
                }
                self.is_closed(state).then_some(None)
            })
            .await
    }

    /// Bytes of the channel that wait for their first transmission.
    #[must_use]
    pub fn buffered_amount(&self) -> usize {
        self.shared().with(|state, _| self.amount(state))
    }

    /// Waits until the buffered amount is at most `threshold`, or the channel is closed. Cancel safe.
    pub async fn buffered_amount_low(&self, threshold: usize) {
        self.shared()
            .when(|state, now| {
                if self.amount(state) <= threshold {
                    return Some(());
                }
                state.awaits_room = true;
                let session = &mut state.session;
                session.set_buffered_amount_low_threshold(now, self.inner.id, threshold);
                None
            })
            .await;
    }

    /// Closes the channel: messages sent before still arrive. Unread messages are dropped.
    pub fn close(&self) {
        self.shared().with(|state, now| {
            if !self.is_closed(state) {
                state.session.close_channel(now, self.inner.id);
            }
        });
    }

    /// Waits until the channel is closed, by either side. Cancel safe.
    pub async fn closed(&self) {
        self.shared()
            .when(|state, _| self.is_closed(state).then_some(()))
            .await;
    }

    fn send_now(
        &self,
        state: &mut State,
        now: Timestamp,
        message: ChannelMessage,
    ) -> Result<(), ChannelSendError> {
        if self.is_closed(state) {
            return Err(ChannelSendError::Closed);
        }
        state.session.send(now, self.inner.id, message)
    }

    fn is_closed(&self, state: &State) -> bool {
        let channel = state.channels.get(&self.inner.number);
        state.end.is_some() || channel.is_none_or(|channel| channel.is_closed)
    }

    /// The buffered amount; 0 of a closed channel.
    fn amount(&self, state: &State) -> usize {
        if self.is_closed(state) {
            0
        } else {
            state.session.buffered_amount(self.inner.id)
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.handle.shared
    }
}

impl Shared {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of the application, and its effects.
    fn with<R>(&self, call: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        let mut state = self.lock();
        let was_blocked = state.blocked.is_some();
        let result = call(&mut state, self.now());
        self.settle(&mut state);
        let next = state.session.poll_timeout();
        let sooner = next.is_some_and(|next| state.armed.is_none_or(|armed| next < armed));
        // The task of the socket has another reason to wait than before.
        if sooner || state.end.is_some() || state.blocked.is_some() != was_blocked {
            self.work.notify_one();
        }
        result
    }

    /// Waits until `answer` has one.
    async fn when<R>(&self, mut answer: impl FnMut(&mut State, Timestamp) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(result) = self.with(&mut answer) {
                return result;
            }
            changed.await;
        }
    }

    /// Takes events and datagrams out of the session.
    fn settle(&self, state: &mut State) {
        let mut is_changed = false;
        loop {
            let mut is_idle = true;
            while let Some(event) = state.session.poll_event(self.now()) {
                (is_changed, is_idle) = (true, false);
                state.on_event(event);
            }
            while self.transmit(state) {
                is_idle = false;
            }
            if is_idle {
                break;
            }
        }
        if is_changed {
            self.changed.notify_waiters();
        }
    }

    /// Sends the next datagrams. Returns false if there are none, or the socket is full: then they wait.
    fn transmit(&self, state: &mut State) -> bool {
        let segments = self.socket.max_segments();
        let next = state.blocked.take().or_else(|| {
            state
                .session
                .poll_transmit(self.now(), &mut state.outgoing, segments)
        });
        let Some(next) = next else { return false };
        let mut transmit = Transmit::new(next.destination, &state.outgoing[..next.len]);
        transmit.segment = next.segment;
        match self.socket.try_send(&transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.blocked = Some(next);
                false
            }
            // Any other error loses the datagrams, as a network may.
            _ => true,
        }
    }

    /// Receives what is there. The session acknowledges all of it together.
    fn receive(&self) {
        let mut state = self.lock();
        let Ok(local) = self.socket.local_addr() else {
            return;
        };
        let mut buffer = std::mem::take(&mut state.buffer);
        for _ in 0..IN_A_ROW {
            match self.socket.try_recv(&mut buffer) {
                Ok(received) => {
                    let now = self.now();
                    for datagram in buffer[..received.len].chunks(received.segment.max(1)) {
                        state
                            .session
                            .handle_datagram(now, received.source, local, datagram);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An ICMP message about an earlier datagram: the timers decide.
                Err(_) => {}
            }
        }
        state.buffer = buffer;
        self.settle(&mut state);
        self.offer_room(&mut state);
    }

    /// The peer may have acknowledged messages, or messages may have expired: those who wait for room try again.
    fn offer_room(&self, state: &mut State) {
        if std::mem::take(&mut state.awaits_room) {
            self.changed.notify_waiters();
        }
    }

    /// The task of the socket.
    async fn drive(self: Arc<Self>) {
        loop {
            let (next, is_blocked) = {
                let mut state = self.lock();
                let now = self.now();
                if state.session.poll_timeout().is_some_and(|due| due <= now) {
                    state.session.handle_timeout(now);
                    self.offer_room(&mut state);
                }
                self.settle(&mut state);
                if state.end.is_some() {
                    self.changed.notify_waiters();
                    return;
                }
                state.armed = state.session.poll_timeout();
                (state.armed, state.blocked.is_some())
            };
            let far = self.now() + Duration::from_secs(3600);
            let next = self.started + Duration::from_nanos(next.unwrap_or(far).0);
            tokio::select! {
                readable = self.socket.readable() => {
                    if readable.is_err() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    self.receive();
                }
                // `settle` sends the datagrams that wait.
                writable = self.socket.writable(), if is_blocked => {
                    if writable.is_err() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
                () = tokio::time::sleep_until(next.into()) => {}
                () = self.work.notified() => {}
            }
            tokio::task::consume_budget().await;
        }
    }
}

impl State {
    fn add(&mut self, id: ChannelId, config: ChannelConfig, is_open: bool) -> u64 {
        self.begun += 1;
        let known = Known {
            id,
            config,
            is_open,
            is_closed: false,
        };
        self.channels.insert(self.begun, known);
        self.current.insert(id, self.begun);
        self.begun
    }

    /// Whether the number of the protocol still means this channel.
    fn is_current(&self, number: u64, id: ChannelId) -> bool {
        self.current.get(&id) == Some(&number)
    }

    fn known(&mut self, id: ChannelId) -> Option<&mut Known> {
        self.channels.get_mut(self.current.get(&id)?)
    }

    fn on_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Connected => self.is_connected = true,
            SessionEvent::Silent => self.is_silent = true,
            SessionEvent::Heard => self.is_silent = false,
            SessionEvent::Closed(end) => self.end = Some(end),
            SessionEvent::Channel(ChannelEvent::Opened(id)) => {
                if let Some(channel) = self.known(id) {
                    channel.is_open = true;
                }
            }
            SessionEvent::Channel(ChannelEvent::Accepted(id, config)) => {
                let number = self.add(id, config, true);
                self.accepted.push_back(number);
            }
            SessionEvent::Channel(ChannelEvent::Closed(id)) => {
                if let Some(channel) = self.known(id) {
                    channel.is_closed = true;
                }
            }
            SessionEvent::Channel(
                ChannelEvent::Readable(_)
                | ChannelEvent::BufferedAmountLow(_)
                | ChannelEvent::Writable(_)
                | ChannelEvent::Refused(..),
            ) => {}
        }
    }
}

fn with_address(
    socket: &impl DatagramSocket,
    mut config: SessionConfig,
) -> Result<SessionConfig, SessionError> {
    if config.local.is_empty() {
        let address = socket
            .local_addr()
            .map_err(|error| SessionError::Local(error.to_string()))?;
        config.local.push(address);
    }
    Ok(config)
}
