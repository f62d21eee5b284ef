//! Resets of outbound streams (RFC 6525 §5.1.2 A1): messages given to `send` after the request are held back until the reset is done.

use super::hold::Hold;
use super::outbound_stream::OutboundStream;
use super::{MessageNumbers, SendQueue};
use crate::message::MessageId;
use crate::reconfiguration::StreamSelection;

impl SendQueue {
    /// Holds messages of these streams back from now on. Messages queued before are still sent. There is no other hold.
    pub(crate) fn hold(&mut self, selection: &StreamSelection) {
        debug_assert!(self.hold.is_none(), "one reset at a time");
        let streams = match selection {
            StreamSelection::All => Vec::new(),
            StreamSelection::Listed(streams) => streams.clone(),
        };
        for stream in &streams {
            self.streams.touch(*stream).get_or_insert_default().held = true;
        }
        self.hold = Some(Hold {
            from: MessageId(self.next_message),
            all: *selection == StreamSelection::All,
            undrained: streams.clone(),
            streams,
            with_messages: Vec::new(),
            count: 0,
        });
    }

    /// Whether all messages of the held streams from before the hold were sent or dropped.
    pub(crate) fn is_drained(&mut self) -> bool {
        let Some(hold) = &mut self.hold else {
            return true;
        };
        if hold.all {
            return self.messages == hold.count;
        }
        while let Some(stream) = hold.undrained.last() {
            let state = self.streams.at(*stream).and_then(Option::as_ref);
            if state.is_some_and(|state| hold.unheld(true, &state.messages) > 0) {
                return false;
            }
            hold.undrained.pop();
        }
        true
    }

    /// Ends the hold: the messages held back may be sent. If the streams were `reset`, they begin with SSN 0, or MID 0.
    pub(crate) fn release(&mut self, reset: bool) {
        let Some(hold) = self.hold.take() else {
            return;
        };
        if reset && hold.all {
            for stream in core::mem::take(&mut self.numbered) {
                if let Some(state) = self.stream_mut(stream) {
                    state.next = MessageNumbers::default();
                    state.numbered = false;
                }
            }
        }
        for stream in hold.streams {
            if let Some(state) = self.stream_mut(stream) {
                state.held = false;
                if reset {
                    state.next = MessageNumbers::default();
                }
            }
        }
        let mut streams = hold.with_messages;
        streams.sort_unstable();
        streams.dedup();
        let mut released = Vec::with_capacity(hold.count);
        for id in streams {
            if let Some(stream) = self.stream(id) {
                let first = stream.messages.partition_point(|message| message.id < hold.from);
                released.extend(stream.messages.range(first..).map(|message| (message.id, id)));
            }
        }
        released.sort_unstable();
        self.scheduler.on_released(&released);
    }

    /// Whether these streams have nothing queued, and begin with SSN 0, or MIDs 0, already.
    pub(crate) fn are_at_zero(&mut self, selection: &StreamSelection) -> bool {
        let at_zero = |state: &OutboundStream| {
            state.messages.is_empty() && state.next.ordered() == 0 && state.next.unordered() == 0
        };
        match selection {
            StreamSelection::All => self.messages == 0 && self.forget_zeros(),
            StreamSelection::Listed(streams) => streams
                .iter()
                .all(|stream| self.stream(*stream).is_none_or(at_zero)),
        }
    }

    /// Removes streams at zero from the end of `numbered`; returns whether none is left. Each is removed once for each time that it was
    /// put there.
    fn forget_zeros(&mut self) -> bool {
        while let Some(last) = self.numbered.last().copied() {
            if let Some(state) = self.stream_mut(last) {
                if state.next.ordered() != 0 || state.next.unordered() != 0 {
                    return false;
                }
                state.numbered = false;
            }
            self.numbered.pop();
        }
        true
    }

    /// The peer accepted so many more streams.
    pub(crate) fn add_streams(&mut self, count: u16) {
        self.stream_count = self.stream_count.saturating_add(count);
    }
}
