//! The data sender (RFC 9260 §6.1, §6.3, §7): messages that wait, chunks that are outstanding, and what leaves with them.
//!
//! A transmission goes through `abandonment` (what expired), `eligibility` (may a chunk leave, and where) and `assemble` (the
//! packet), which asks `data` and `sources` for what goes in. An acknowledgement goes through `acknowledgement`.

mod abandonment;
mod acknowledgement;
mod assemble;
mod congestion_echo;
mod data;
mod eligibility;
mod loss_timers;
mod peer_window;
mod sources;
mod timeout;

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::chunk::GapAckBlock;
use anabranch_wire::{StreamId, Tsn};

pub(crate) use assemble::{Assembler, Search, write_packet};
use eligibility::Wait;
pub(crate) use peer_window::PeerWindow;

use crate::config::Config;
use crate::ecn::EcnCodepoint;
use crate::event::Undelivered;
use crate::extension::ControlSources;
use crate::message::{AbandonPolicy, Persistence};
use crate::negotiation::{Capabilities, Negotiated};
use crate::path::{PathId, Paths};
use crate::recovery::{AckOutcome, Outstanding};
use crate::send::SendQueue;
use crate::stats::Counters;
use crate::time::Timestamp;

/// A batch of datagrams for one destination, written to the buffer given to [`crate::Association::poll_transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The path it goes by.
    pub path: PathId,
    /// The local address to send from, if it is fixed.
    pub source: Option<IpAddr>,
    /// Address and UDP port (0 without encapsulation).
    pub destination: SocketAddr,
    /// Bytes in the buffer.
    pub len: usize,
    /// If there are several datagrams: the length of each but the last, which may be shorter.
    pub segment_size: Option<usize>,
    /// Whether routers, or the system itself, may fragment the packet (RFC 9260 §7.3): a chunk that has its TSN already and
    /// no longer fits the path. All others are to be sent with "don't fragment", as path MTU discovery wants.
    pub may_fragment: bool,
    /// The codepoint of all its packets. ECT(0) if ECN was negotiated, the path is not known to drop such packets, and the packets
    /// have DATA chunks that leave for the first time, with nothing else but acknowledgements, CWR and what rides with data. All others are
    /// Not-ECT: set-up, heartbeats and other control chunks, retransmissions (RFC 3168 §6.1.5), probes of a closed window (§6.1.6)
    /// and of the path MTU.
    pub ecn: EcnCodepoint,
}

/// What the state of the association lets the sender do (RFC 9260 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataPhase {
    /// COOKIE-WAIT, before the peer could take data.
    SettingUp,
    /// COOKIE-ECHOED: data may leave beside the COOKIE ECHO.
    CookieEchoed,
    /// ESTABLISHED.
    Open,
    /// SHUTDOWN-PENDING and SHUTDOWN-RECEIVED: what was taken leaves, and no more comes.
    Ending,
    /// No data leaves any more.
    Over,
    /// CLOSED: nothing leaves any more but answers that wait.
    Closed,
}

impl DataPhase {
    fn sends_data(self) -> bool {
        matches!(self, Self::CookieEchoed | Self::Open | Self::Ending)
    }

    fn is_setting_up(self) -> bool {
        matches!(self, Self::SettingUp | Self::CookieEchoed)
    }
}

/// What a step of the sender is given beside its own state.
pub(crate) struct Cx<'a> {
    pub(crate) now: Timestamp,
    pub(crate) config: &'a Config,
    pub(crate) paths: &'a mut Paths,
    pub(crate) counters: &'a mut Counters,
    pub(crate) phase: DataPhase,
    pub(crate) capabilities: Capabilities,
    /// The application waits for room in the send buffer.
    pub(crate) application_waits: bool,
}

/// What happened in the sender that concerns the association, until it is taken.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// Messages that were abandoned.
    pub(crate) abandoned: Vec<Undelivered>,
    /// Paths whose state changed.
    pub(crate) changed: Vec<PathId>,
    /// The peer answered: its errors in a row are over (§8.1).
    pub(crate) answered: bool,
    /// The peer broke the protocol.
    pub(crate) violation: Option<&'static str>,
}

impl Happened {
    /// Whether there is anything to be told.
    pub(crate) fn concerns_others(&self) -> bool {
        !self.abandoned.is_empty() || !self.changed.is_empty() || self.violation.is_some()
    }
}

/// The sending half of an association.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) queue: SendQueue,
    pub(crate) outstanding: Outstanding,
    pub(crate) window: PeerWindow,
    /// When the closed window of the peer is probed (§6.1 A).
    window_probe: Option<Timestamp>,
    /// Bytes beyond which no messages are taken.
    limit: usize,
    /// When messages are abandoned.
    policy: AbandonPolicy,
    sources: ControlSources,
    pub(crate) happened: Happened,
    /// Why no data left when the sender was last asked for a packet.
    wait: Wait,
    /// When the timers of loss detection were looked at.
    loss_timers_ran: Timestamp,
    /// Kept between acknowledgements for their memory.
    outcome: AckOutcome,
    ack_blocks: [Vec<GapAckBlock>; 2],
}

impl Sender {
    pub(crate) fn new(initial_tsn: Tsn, config: &Config) -> Self {
        Self {
            queue: SendQueue::new(config.streams.outbound, config.scheduler),
            outstanding: Outstanding::new(initial_tsn, config.recovery, config.multipath),
            window: PeerWindow::default(),
            window_probe: None,
            limit: config.buffers.send,
            policy: AbandonPolicy::default(),
            sources: ControlSources::new(config),
            happened: Happened::default(),
            wait: Wait::Phase,
            loss_timers_ran: Timestamp::ZERO,
            outcome: AckOutcome::default(),
            ack_blocks: Default::default(),
        }
    }

    /// The peer restarted (§5.2.4 A): nothing is outstanding, and all that names one of the old paths is forgotten.
    pub(crate) fn restart(&mut self, initial_tsn: Tsn, config: &Config) {
        self.outstanding = Outstanding::new(initial_tsn, config.recovery, config.multipath);
        self.sources = ControlSources::new(config);
        self.window_probe = None;
    }

    /// Takes over what set-up has negotiated; answers the messages of streams that there are not.
    pub(crate) fn adopt(
        &mut self,
        cx: &mut Cx<'_>,
        capabilities: Capabilities,
        negotiated: &Negotiated<'_>,
    ) -> Vec<Undelivered> {
        let format = capabilities.data_format();
        self.window = PeerWindow::new(negotiated.peer_rwnd);
        if format.numbers_transmissions() {
            self.outstanding
                .name_sendings(cx.config.multipath.eca.time_rule, cx.paths);
        }
        self.policy = AbandonPolicy::Never;
        if capabilities.has(Capabilities::PARTIAL_RELIABILITY) {
            self.policy = AbandonPolicy::Partial;
            let distance = cx.config.partial_reliability.selective_forward_tsn;
            if let Some(distance) = distance.filter(|_| capabilities.has(Capabilities::SELECTIVE_FORWARD_TSN))
            {
                self.sources.notices.enable(distance, format);
            }
        }
        self.sources.ecn.set_enabled(capabilities.has(Capabilities::ECN));
        self.sources.forward.set_format(format);
        self.queue.set_format(format);
        let unsent = self.queue.set_stream_count(negotiated.outbound_streams);
        unsent.iter().map(|unsent| unsent.undelivered()).collect()
    }

    /// Nothing waits and nothing is outstanding.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_empty()
    }

    /// No timer runs any more.
    pub(crate) fn stop(&mut self) {
        self.window_probe = None;
        self.wait = Wait::Phase;
    }

    /// The first deadline of the timers that belong to no path.
    pub(crate) fn deadline(&self, config: &Config) -> Option<Timestamp> {
        let forward = self.sources.forward.timer(&self.outstanding);
        let paced = match self.wait {
            Wait::Pacer(until) => Some(until),
            _ => None,
        };
        let timers = [self.window_probe, forward, self.expiry(config), paced];
        timers.into_iter().flatten().min()
    }

    /// The timer of a closed window has expired, if it has.
    pub(crate) fn on_window_probe_timer(&mut self, now: Timestamp) {
        if self.window_probe.take_if(|due| *due <= now).is_some() {
            self.window.on_probe_timer();
        }
    }
}

/// The send buffer.
impl Sender {
    /// Bytes that count against the send buffer.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.queue.bytes() + self.outstanding.bytes()
    }

    /// Whether the send buffer has room.
    pub(crate) fn has_room(&self) -> bool {
        self.buffered_bytes() < self.limit
    }

    /// Makes room for a message if there is none: by a larger buffer, or at the cost of less important messages.
    pub(crate) fn make_room_for(
        &mut self,
        cx: &mut Cx<'_>,
        stream: StreamId,
        persistence: Persistence,
    ) -> bool {
        self.has_room() || self.grow(cx) || self.make_room(cx, stream, persistence)
    }

    /// Where half of the send buffer is in flight the network could take more: the buffer grows.
    fn grow(&mut self, cx: &Cx<'_>) -> bool {
        let buffers = &cx.config.buffers;
        let most = buffers.send.saturating_mul(buffers.growth as usize);
        let grows = self.limit < most && cx.paths.payload_in_flight() >= self.limit / 2;
        if grows {
            self.limit = (2 * self.limit).min(most);
        }
        grows
    }
}
