//! The trace of an association: trace events ([`TraceKind`]) in a bounded queue, until the driver polls them.
//!
//! Tracing observes, and changes nothing: the same inputs give the same packets with and without it. Three sources give the events:
//!
//! * `packets` reads the packets that arrived and the packets that were built, so that the code that handles them need not know of tracing;
//! * the journals of `recovery` and `receive` hold what only these rooms see: losses, and messages that wait for their turn;
//! * `observe` compares states after each input with those before it.

mod messages;
mod observe;
mod packets;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::ExperimentalChunkTypes;

use crate::association_state::AssociationState;
use crate::path::{PathState, Paths};
use crate::receive::Receiver;
use crate::seq::{ExtendedTsn, extend_tsn};
use crate::stats::Extensions;
use crate::time::Timestamp;
use crate::trace_event::{Blocked, CopyWait, LossRule, PathMetrics, TraceEvent, TraceKind, TraceLevel};
use crate::transmit::Sender;
use messages::Messages;

/// The most events that wait for the driver. The oldest are dropped.
const MOST_EVENTS: usize = 1 << 16;

/// The most messages that are remembered as blocked: as many as there can be chunks above the cumulative TSN.
const MOST_BLOCKED: usize = 1 << 16;

/// The trace of an association, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Box<TraceLog>>);

/// The parts of an association that the trace observes.
pub(crate) struct Observed<'a> {
    pub(crate) now: Timestamp,
    pub(crate) state: AssociationState,
    pub(crate) sender: &'a mut Sender,
    pub(crate) receiver: &'a mut Receiver,
    pub(crate) paths: &'a Paths,
    pub(crate) types: ExperimentalChunkTypes,
    pub(crate) extensions: Extensions,
}

/// The events, and what is known from earlier ones.
#[derive(Debug)]
pub(crate) struct TraceLog {
    level: TraceLevel,
    events: VecDeque<TraceEvent>,
    /// Events dropped since the driver last polled.
    dropped: u64,
    state: AssociationState,
    paths: Vec<Option<PathSeen>>,
    wait: Option<Blocked>,
    /// The early copy that was last reported as waiting, and why it waits.
    copy_wait: Option<(Tsn, CopyWait)>,
    messages: Messages,
    /// Events of the packet that is being handled.
    arriving: Vec<TraceKind>,
    /// Chunks declared lost and not yet retransmitted, and why.
    lost: BTreeMap<ExtendedTsn, LossRule>,
    /// Complete messages that wait for their turn, by their first TSNs, and since when.
    blocked: BTreeMap<u32, Timestamp>,
}

/// The last known values of a path.
#[derive(Clone, Copy, Debug)]
struct PathSeen {
    metrics: PathMetrics,
    state: PathState,
    remote: SocketAddr,
}

impl Trace {
    /// Whether events are recorded: the only cost of tracing while it is off.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sets how much is recorded. Turning it off drops all events.
    pub(crate) fn set(&mut self, level: TraceLevel) {
        if level == TraceLevel::Off {
            self.0 = None;
        } else {
            self.0.get_or_insert_with(|| Box::new(TraceLog::new())).level = level;
        }
    }

    /// The next event.
    pub(crate) fn poll(&mut self) -> Option<TraceEvent> {
        let log = self.0.as_deref_mut()?;
        let first = log.events.front()?;
        if log.dropped > 0 {
            let count = core::mem::take(&mut log.dropped);
            let kind = TraceKind::EventsDropped { count };
            return Some(TraceEvent { at: first.at, kind });
        }
        log.events.pop_front()
    }

    /// Runs `work` if events are recorded.
    pub(crate) fn with(&mut self, work: impl FnOnce(&mut TraceLog)) {
        if let Some(log) = self.0.as_deref_mut() {
            work(log);
        }
    }
}

impl TraceLog {
    fn new() -> Self {
        Self {
            level: TraceLevel::Off,
            events: VecDeque::new(),
            dropped: 0,
            state: AssociationState::Closed,
            paths: Vec::new(),
            wait: None,
            copy_wait: None,
            messages: Messages::default(),
            arriving: Vec::new(),
            lost: BTreeMap::new(),
            blocked: BTreeMap::new(),
        }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, at: Timestamp, kind: TraceKind) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(TraceEvent { at, kind });
    }

    /// Takes the events of the journals, and completes them.
    fn take_journals(&mut self, now: Timestamp, sender: &mut Sender, receiver: &mut Receiver) {
        let journal = &mut sender.outstanding.journal;
        // A restart of the peer makes new rooms.
        journal.set(true);
        let of_sender = journal.take();
        let base = sender.outstanding.base();
        for event in of_sender {
            match &event {
                TraceKind::ChunkLost { tsn, rule, .. } => {
                    self.lost.insert(extend_tsn(*tsn, base), *rule);
                }
                TraceKind::MessageAbandoned { message, .. } => self.messages.forget(*message),
                TraceKind::CopyWaits { tsn, reason, .. } => {
                    let wait = Some((*tsn, *reason));
                    if core::mem::replace(&mut self.copy_wait, wait) == wait {
                        continue;
                    }
                }
                _ => {}
            }
            self.push(now, event);
        }
        receiver.trace(true);
        for mut event in receiver.take_trace() {
            match &mut event {
                TraceKind::MessageBlocked { tsn, .. } => {
                    if self.blocked.len() >= MOST_BLOCKED {
                        self.blocked.clear();
                    }
                    self.blocked.insert(tsn.0, now);
                }
                TraceKind::MessageDelivered {
                    tsn: Some(Tsn(tsn)),
                    blocked,
                    ..
                } => {
                    if let Some(since) = self.blocked.remove(tsn) {
                        *blocked = now.saturating_duration_since(since);
                    }
                }
                _ => {}
            }
            self.push(now, event);
        }
    }
}
