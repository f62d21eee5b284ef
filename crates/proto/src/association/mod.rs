//! One association (RFC 9260 §4): its parts, and the order in which they are called. The parts make the decisions; here are the
//! steps. The application's messages are handled in `messages.rs`, received packets in `inbound.rs` (§8.5.1, §6.10), packets to be sent in
//! `output.rs`, timers in `timeout.rs`, set-up in `handshake.rs` (§5.1) and `collision.rs` (§5.2), shutdown in `shutdown.rs` (§9.2), failure
//! in `failure.rs` (§8.1, §8.2).

mod addresses;
mod arrival;
mod authentication;
mod chunk_rules;
mod collision;
mod deadlines;
mod ending;
mod failover;
mod failure;
mod handshake;
mod icmp;
mod identity;
mod inbound;
mod messages;
mod notices;
mod output;
mod packet_notes;
mod peer_addresses;
mod ports;
mod protection;
mod reconfiguration;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod recovery_model;
mod scheduling;
mod set_up;
mod shutdown;
mod skipping;
mod stall;
mod state;
mod streams;
mod timeout;
mod tracing;
mod transmissions;

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_wire::cause::Cause;
use anabranch_wire::{StreamId, VerificationTag};
use bytes::Bytes;

pub(crate) use handshake::Blueprint;
pub use output::BurstLimit;
pub use protection::KeyManager;
pub use reconfiguration::Reconfigure;
pub use streams::Stream;

use crate::association_state::{AssociationState, permit};
use crate::close_reason::CloseReason;
use crate::config::{Config, PathSettings};
use crate::control::ControlQueue;
use crate::error::PathRequestError;
use crate::event::Event;
use crate::extension::auth::Authentication;
use crate::extension::dynamic_addresses::DynamicAddresses;
use crate::extension::protection::Protection;
use crate::extension::reconfiguration::Reconfiguration;
use crate::negotiation::{Capabilities, CookieMint};
use crate::path::{PathId, PathState, Paths};
use crate::random::Random;
use crate::receive::Receiver;
use crate::stats::{AssociationStats, Counters, StreamStats};
use crate::time::Timestamp;
use crate::trace::Trace;
use crate::transmit::{Assembler, Cx, Sender};
pub use addresses::LocalAddresses;
pub use authentication::AuthenticationKeys;
use ending::Ending;
use identity::Identity;
use notices::Notices;
use stall::Stall;
use state::State;

/// The most bytes of an application's reason that an ABORT carries.
const MOST_REASON: usize = 1024;

/// One association with a peer.
#[derive(Debug)]
pub struct Association {
    config: Arc<Config>,
    random: Random,
    mint: CookieMint,
    identity: Identity,
    state: State,
    /// Whether this endpoint sent the INIT, to a UDP port that its application named.
    initiated: bool,
    capabilities: Capabilities,
    authentication: Authentication,
    protection: Protection,
    addresses: DynamicAddresses,
    /// The Adaptation Code Point of the peer (RFC 5061 §4.2.6).
    adaptation_layer: Option<u32>,
    paths: Paths,
    sender: Sender,
    receiver: Receiver,
    control: ControlQueue,
    ending: Ending,
    stall: Stall,
    reconfiguration: Reconfiguration,
    /// The association's error counter: consecutive errors over all paths (§8.1).
    error_count: u32,
    notices: Notices,
    counters: Counters,
    /// When the last step was made.
    stepped_at: Timestamp,
    /// When the last step found nothing to send. Nothing would be found again until the time changes, or another step changes anything.
    exhausted: Option<Timestamp>,
    trace: Trace,
}

/// Ending at once.
impl Association {
    /// Ends the association at once (ABORT, RFC 9260 §9.1). The peer receives the first 1,024 bytes of `reason`.
    pub fn abort(&mut self, now: Timestamp, reason: Bytes) {
        let reason = reason.slice(..reason.len().min(MOST_REASON));
        let cause = Cause::UserInitiatedAbort(reason);
        self.step(now, |it| it.abort_with(cause, CloseReason::Aborted));
    }

    /// Ends the association at once because this endpoint has not enough resources for it: the ABORT has the cause Out of Resource
    /// (RFC 9260 §3.3.10.4).
    pub fn refuse(&mut self, now: Timestamp) {
        self.step(now, |it| {
            it.abort_with(Cause::OutOfResource, CloseReason::Aborted)
        });
    }
}

/// Steps and their consequences.
impl Association {
    /// The only way in which an association changes: `work` changes it, and the consequences follow. A method that reads a message or polls
    /// an event makes none, because it takes out what waits and changes nothing else.
    #[inline(always)]
    fn step<R>(&mut self, now: Timestamp, work: impl FnOnce(&mut Self) -> R) -> R {
        let result = work(self);
        self.stepped_at = now;
        let found_nothing = core::mem::take(&mut self.sender.found_nothing);
        let exhausted = found_nothing && !self.sender.has_news();
        self.settle(now);
        self.exhausted = exhausted.then_some(now);
        result
    }

    /// A step at the time of the last one, for calls whose effect does not depend on the time.
    fn change<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.step(self.stepped_at, work)
    }

    /// Runs a step of the data sender, and applies its effects on the association.
    fn sending<R>(&mut self, now: Timestamp, work: impl FnOnce(&mut Sender, &mut Cx<'_>) -> R) -> R {
        let (assembler, mut cx) = self.parts(now);
        let result = work(assembler.sender, &mut cx);
        if core::mem::take(&mut self.sender.happened.answered) {
            self.error_count = 0;
        }
        self.apply_happened();
        result
    }

    /// The parts that handle data, and the context that they are given.
    #[inline(always)]
    fn parts(&mut self, now: Timestamp) -> (Assembler<'_>, Cx<'_>) {
        let assembler = Assembler {
            sender: &mut self.sender,
            receiver: &mut self.receiver,
            control: &mut self.control,
            protection: &mut self.protection,
            header: self.identity.header(),
            probe_due: false,
        };
        let cx = Cx {
            now,
            config: &self.config,
            paths: &mut self.paths,
            counters: &mut self.counters,
            state: self.state.kind(),
            capabilities: self.capabilities,
            signer: self.authentication.signer(),
        };
        (assembler, cx)
    }

    #[inline(always)]
    fn apply_happened(&mut self) {
        self.sender.settle(&mut self.paths);
        if self.sender.has_news() {
            self.pass_on();
        }
    }

    /// Applies the events in the data sender; usually there are none.
    #[cold]
    fn pass_on(&mut self) {
        let happened = &mut self.sender.happened;
        for undelivered in happened.abandoned.drain(..) {
            self.notices.tell(Event::Abandoned(undelivered));
        }
        for acknowledged in happened.acknowledged.drain(..) {
            self.notices.tell(Event::Acknowledged(acknowledged));
        }
        for path in happened.changed.drain(..) {
            self.notices.tell_path(self.paths.path(path));
        }
        for stream in self.sender.queue.take_low() {
            self.notices.tell(Event::BufferedAmountLow(stream));
        }
        if let Some(what) = happened.violation.take() {
            self.abort_for_violation(what);
        }
    }

    /// The peer violated the protocol: ABORT with the cause Protocol Violation (§3.3.10.13).
    fn abort_for_violation(&mut self, what: &'static str) {
        if self.authentication.keeps_association() {
            return;
        }
        let cause = Cause::ProtocolViolation(Bytes::from_static(what.as_bytes()));
        self.abort_with(cause, CloseReason::ProtocolViolation(what));
    }

    /// The consequences of a step: requests and a shutdown that wait for data go on, and the application is told of room in the send buffer,
    /// of readable messages, and that everything sent is acknowledged.
    fn settle(&mut self, now: Timestamp) {
        self.apply_happened();
        if self.state.is_closed() {
            return;
        }
        if !self.reconfiguration.is_at_rest() {
            self.reconfigure(now).advance();
        }
        // Most steps have no shutdown to advance.
        if self.ending.is_asked() || matches!(self.state, State::ShutdownPending | State::ShutdownReceived) {
            self.advance_shutdown(now);
        }
        if self.receiver.is_readable() {
            self.notices.on_readable();
        }
        if self.receiver.has_news() {
            self.notices.tell_streams(self.receiver.take_news());
        }
        if self.sender.buffer.has_refused()
            && self.state.may(permit::BEGIN_MESSAGES)
            && !self.ending.is_asked()
        {
            self.notices.tell_writable(&mut self.sender);
        }
        if self.sender.is_empty() {
            self.notices.on_dry();
        }
    }
}

/// Requests and statistics.
impl Association {
    /// Sends new data on this path from now on, while it is active (RFC 9260 §6.4, SET PRIMARY §11.1.6).
    ///
    /// # Errors
    /// There is no such path, or it is not confirmed.
    pub fn set_primary_path(&mut self, path: PathId) -> Result<(), PathRequestError> {
        if !self.paths.has(path) {
            return Err(PathRequestError::Unknown(path.0));
        }
        if self.paths.path(path).state == PathState::Unconfirmed {
            return Err(PathRequestError::Unconfirmed(path.0));
        }
        self.change(|it| it.paths.set_primary(path));
        Ok(())
    }

    /// Changes settings of one path (RFC 6458 §8.1.12). They last as long as the path: until the peer deletes its address, or restarts.
    ///
    /// # Errors
    /// There is no such path, or a setting is out of range.
    pub fn set_path(
        &mut self,
        now: Timestamp,
        path: PathId,
        settings: &PathSettings,
    ) -> Result<(), PathRequestError> {
        if !self.paths.has(path) {
            return Err(PathRequestError::Unknown(path.0));
        }
        settings.validate()?;
        self.step(now, |it| {
            let (sends_heartbeats, random) = (it.state.may(permit::HEARTBEAT), &mut it.random);
            let path = it.paths.path_mut(path);
            path.set(now, settings, &it.config, random, sends_heartbeats);
        });
        Ok(())
    }

    /// Sends a heartbeat on this path now (REQUEST HEARTBEAT, RFC 9260 §11.1.10).
    ///
    /// # Errors
    /// There is no such path.
    pub fn request_heartbeat(&mut self, now: Timestamp, path: PathId) -> Result<(), PathRequestError> {
        if !self.paths.has(path) {
            return Err(PathRequestError::Unknown(path.0));
        }
        self.step(now, |it| it.send_heartbeat(now, path));
        Ok(())
    }

    /// The state of the association.
    #[must_use]
    pub fn state(&self) -> AssociationState {
        self.state.kind()
    }

    /// The local and the remote SCTP port.
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        (self.identity.local_port, self.identity.remote_port)
    }

    /// The verification tags: that of this endpoint, and that of the peer (0 before it is known).
    #[must_use]
    pub fn tags(&self) -> (VerificationTag, VerificationTag) {
        (self.identity.local_tag, self.identity.peer_tag)
    }

    /// The address and UDP port of the primary path.
    #[must_use]
    pub fn remote_address(&self) -> SocketAddr {
        self.paths.path(self.paths.primary()).route.remote
    }

    /// The number of outbound streams; before set-up is complete, the number requested.
    #[must_use]
    pub fn outbound_streams(&self) -> u16 {
        self.sender.queue.stream_count()
    }

    /// Counters since set-up.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All statistics of the association and its paths (STATUS, RFC 9260 §11.1.8).
    #[must_use]
    pub fn stats(&self) -> AssociationStats {
        let primary = self.paths.primary();
        AssociationStats {
            counters: self.counters,
            extensions: self.capabilities.extensions(),
            authentication: self.authentication.stats(),
            protection: self.protection.stats(),
            paths: self
                .paths
                .present()
                .map(|path| path.stats(primary, self.sender.ecn_stats(path.id)))
                .collect(),
            queued_bytes: self.sender.queue.bytes(),
            outstanding_bytes: self.sender.outstanding.bytes(),
            gap_acked_bytes: self.sender.outstanding.gap_acked_bytes(),
            peer_rwnd: self.sender.window.left(self.paths.payload_in_flight()),
            a_rwnd: self.receiver.a_rwnd(),
            unread_bytes: self.receiver.unread_bytes(),
        }
    }

    /// Statistics of one outbound stream; zero if nothing was sent on it.
    #[must_use]
    pub fn stream_stats(&self, stream: StreamId) -> StreamStats {
        self.sender.queue.stream_stats(stream)
    }
}
