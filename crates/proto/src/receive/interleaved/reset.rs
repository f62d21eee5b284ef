//! Resets of streams with interleaving (RFC 6525; RFC 8260 §2.2.1): MIDs begin again.

use anabranch_wire::StreamId;

use super::{Interleaved, Key, Order, Outlet};
use crate::reconfiguration::StreamSelection;

impl Interleaved {
    /// Streams are reset (RFC 6525 §5.2.2 E3): their next messages have MID 0. Incomplete messages will not be completed.
    pub(in super::super) fn reset_streams(&mut self, selection: &StreamSelection, out: &mut Outlet<'_>) {
        let streams = match selection {
            StreamSelection::All => core::mem::take(&mut self.used),
            StreamSelection::Listed(streams) => streams.clone(),
        };
        for stream in streams {
            self.reset_stream(stream, *selection != StreamSelection::All, out);
        }
    }

    fn reset_stream(&mut self, stream: StreamId, used: bool, out: &mut Outlet<'_>) {
        let Some(order) = self.streams.at_mut(stream) else {
            return;
        };
        let key = |unordered, generation, mid| Key {
            stream,
            unordered,
            generation,
            mid,
        };
        let fresh = Order {
            generation: order.generation.wrapping_add(1),
            used: used && order.used,
            ..Order::default()
        };
        let old = core::mem::replace(order, fresh);
        self.truncate(key(false, old.generation, old.next), out);
        if let Some(mid) = old.in_parts {
            self.truncate(key(true, old.generation, mid), out);
        }
        let range = key(false, 0, 0)..=key(true, u32::MAX, u32::MAX);
        if let Some(repairs) = &mut self.repairs {
            out.window.release(repairs.skip(range.clone()));
        }
        let waiting: Vec<_> = self
            .messages
            .range(range)
            .map(|(key, message)| (*key, message.is_complete()))
            .collect();
        for (key, complete) in waiting {
            if complete {
                self.deliver(key, out);
            } else {
                self.drop_message(key, out);
            }
        }
        if !self.skipped.is_empty() {
            let skipped: Vec<_> = self
                .skipped
                .range((stream, 0)..=(stream, u32::MAX))
                .copied()
                .collect();
            skipped.iter().for_each(|one| {
                self.skipped.remove(one);
            });
        }
    }
}
