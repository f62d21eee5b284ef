//! The receiving application: it reads every message at once and notes the time.

use anabranch_netsim::{Application, HostApi};
use anabranch_proto::{AssociationId, Event, Timestamp};

use super::{FirstTimes, message_of};

/// Reads every message that is delivered.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    delivered: FirstTimes,
    deliveries: Vec<(Timestamp, u32)>,
}

impl Sink {
    /// When each message was delivered.
    #[must_use]
    pub fn delivered(&self) -> &FirstTimes {
        &self.delivered
    }

    /// All deliveries in order: when, and which message.
    #[must_use]
    pub fn deliveries(&self) -> &[(Timestamp, u32)] {
        &self.deliveries
    }
}

impl Application for Sink {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        if !matches!(event, Event::Readable) {
            return;
        }
        let now = api.now();
        let Some(association) = api.association(id) else {
            return;
        };
        while let Some(part) = association.recv(now) {
            if part.ending {
                self.delivered.note(message_of(part.ppid), now);
                self.deliveries.push((now, message_of(part.ppid)));
            }
        }
    }
}
