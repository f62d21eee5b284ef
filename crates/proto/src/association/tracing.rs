//! The trace of an association (`trace`): the application's calls, and when the trace looks.

use anabranch_wire::StreamId;

use super::Association;
use crate::inbound::Inbound;
use crate::message::MessageId;
use crate::time::Timestamp;
use crate::trace::{Observed, TraceLog};
use crate::trace_event::{TraceEvent, TraceLevel};
use crate::transmit::Transmit;

impl Association {
    /// Sets how much [`Association::poll_trace`] reports from now on. Tracing changes no packet. Default [`TraceLevel::Off`], which costs
    /// next to nothing.
    pub fn set_tracing(&mut self, level: TraceLevel) {
        self.trace.set(level);
        let on = self.trace.is_on();
        self.sender.outstanding.journal.set(on);
        self.receiver.trace(on);
    }

    /// The next trace event, if tracing is on ([`Association::set_tracing`]). At most 65,536 events wait; the oldest are dropped, which
    /// [`crate::TraceKind::EventsDropped`] reports. Poll after every call.
    pub fn poll_trace(&mut self) -> Option<TraceEvent> {
        self.trace.poll()
    }
}

/// Lets the trace look at the parts of the association.
#[cold]
#[inline(never)]
fn look(of: &mut Association, now: Timestamp, what: impl FnOnce(&mut TraceLog, &mut Observed<'_>)) {
    let mut seen = Observed {
        now,
        state: of.state.kind(),
        sender: &mut of.sender,
        receiver: &mut of.receiver,
        paths: &of.paths,
        types: of.config.chunk_types,
        extensions: of.capabilities.extensions(),
    };
    of.trace.with(|log| what(log, &mut seen));
}

/// Handles a packet and records its effects.
#[cold]
pub(super) fn handle_packet(of: &mut Association, now: Timestamp, inbound: Inbound) {
    look(of, now, |log, seen| log.on_arrival(seen, &inbound));
    of.step(now, |of| of.take_packet(now, inbound));
    look(of, now, TraceLog::observe);
}

/// The application gave a message, or a part of one, to a stream: its bytes, and whether the message ends.
#[cold]
pub(super) fn queued(
    of: &mut Association,
    now: Timestamp,
    message: MessageId,
    stream: StreamId,
    part: (usize, bool),
) {
    look(of, now, |log, seen| {
        log.observe(seen);
        log.on_queued(seen, message, stream, part);
    });
}

/// Builds a batch of packets and records it.
#[cold]
pub(super) fn poll_transmit(
    of: &mut Association,
    now: Timestamp,
    buffer: &mut Vec<u8>,
    max_datagrams: usize,
) -> Option<Transmit> {
    of.protection.keep_plain();
    let transmit = of.next_batch(now, buffer, max_datagrams);
    let plain = of.protection.take_plain();
    look(of, now, |log, seen| {
        log.observe(seen);
        match &transmit {
            Some(transmit) => log.on_sent(seen, transmit, &buffer[buffer.len() - transmit.len..], &plain),
            None => log.note_wait(seen),
        }
    });
    transmit
}
