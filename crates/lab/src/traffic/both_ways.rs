//! A host that sends and receives messages.

use anabranch_netsim::{Application, HostApi};
use anabranch_proto::{AssociationId, Event};

use super::{Sink, Source};

/// A source and a sink on one host.
pub(crate) struct BothWays {
    pub(crate) source: Source,
    pub(crate) sink: Sink,
}

impl BothWays {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            sink: Sink::default(),
        }
    }
}

impl Application for BothWays {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        self.sink.on_event(api, id, event.clone());
        self.source.on_event(api, id, event);
    }

    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        self.source.on_timer(api);
    }
}
