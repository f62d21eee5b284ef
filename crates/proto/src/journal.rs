//! The journal of a room: trace events that only the room itself can see, until the trace of the association takes them.

use crate::trace_event::TraceKind;

/// The events of a room since the trace last took them. Off by default: a check of one pointer is its only cost.
#[derive(Debug, Default)]
pub(crate) struct Journal(Option<Vec<TraceKind>>);

impl Journal {
    /// Whether events are recorded.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts or stops recording.
    pub(crate) fn set(&mut self, on: bool) {
        if on {
            self.0.get_or_insert_default();
        } else {
            self.0 = None;
        }
    }

    /// Records an event, if events are recorded.
    #[inline]
    pub(crate) fn note(&mut self, event: impl FnOnce() -> TraceKind) {
        if let Some(events) = &mut self.0 {
            events.push(event());
        }
    }

    /// Removes and returns the events, in their order.
    pub(crate) fn take(&mut self) -> Vec<TraceKind> {
        self.0.as_mut().map(core::mem::take).unwrap_or_default()
    }
}
