//! Bulk transfers for measurements: an application that always has messages to send, and one that counts received bytes.

use core::time::Duration;

use anabranch_netsim::{Application, HostApi, LinkConfig, LossModel};
use anabranch_proto::{AssociationId, Config, Event, SendOptions, StreamId, Timestamp};
use bytes::Bytes;

use crate::pair::{Pair, Setup, Side};

/// Sends messages of one size as long as the send buffer takes them.
#[derive(Debug)]
pub struct Greedy {
    message: Bytes,
    options: SendOptions,
}

impl Greedy {
    /// Ordered, reliable messages of this many bytes on stream 0.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            message: vec![0; size].into(),
            options: SendOptions::default(),
        }
    }

    /// Makes the messages unordered.
    #[must_use]
    pub fn unordered(mut self) -> Self {
        self.options.unordered = true;
        self
    }

    fn fill(&self, api: &mut HostApi<'_>, id: AssociationId) {
        let now = api.now();
        let Some(association) = api.association(id) else {
            return;
        };
        while association
            .send(now, StreamId(0), self.message.clone(), self.options)
            .is_ok()
        {}
    }
}

impl Application for Greedy {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        if matches!(event, Event::Established { .. } | Event::Writable(_)) {
            self.fill(api, id);
        }
    }
}

/// Reads every message at once and counts its bytes.
#[derive(Debug, Default)]
pub struct Sink {
    /// Bytes of user data received so far.
    pub bytes: u64,
    /// The longest time between two arrivals.
    pub longest_pause: Duration,
    last: Option<Timestamp>,
}

impl Application for Sink {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        if let (Event::Readable, Some(association)) = (event, api.association(id)) {
            while let Some(part) = association.recv(now) {
                self.bytes += part.payload.len() as u64;
            }
            let pause = now.saturating_duration_since(self.last.unwrap_or(now));
            self.longest_pause = self.longest_pause.max(pause);
            self.last = Some(now);
        }
    }
}

/// A transfer from A to Z that has no end.
pub struct Bulk {
    /// The hosts; A runs [`Greedy`], Z [`Sink`].
    pub pair: Pair,
}

impl Bulk {
    /// Starts a transfer with ordered messages of 1,000 bytes.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self::of(setup, Greedy::new(1000))
    }

    /// Starts a transfer with the messages of `greedy`.
    #[must_use]
    pub fn of(setup: Setup, greedy: Greedy) -> Self {
        let mut pair = setup.captured(false).build();
        pair.host_mut(Side::A).run(greedy, None);
        pair.host_mut(Side::Z).run(Sink::default(), None);
        pair.begin();
        Self { pair }
    }

    /// Starts a transfer over these links with the same settings on both hosts. The links from Z to A lose nothing.
    #[must_use]
    pub fn over(seed: u64, links: &[LinkConfig], config: &Config) -> Self {
        let setup = links.iter().fold(Setup::new(seed), |setup, there| {
            let back = LinkConfig {
                loss: LossModel::default(),
                ..there.clone()
            };
            setup.path_of(there.clone(), back)
        });
        Self::new(setup.config(config.clone()))
    }

    /// The sink, which counts what Z has received.
    ///
    /// # Panics
    /// If the test gave Z another application.
    #[must_use]
    pub fn sink(&self) -> &Sink {
        self.pair
            .host(Side::Z)
            .application()
            .expect("the host runs a sink")
    }

    /// Runs for this time and returns the goodput in Mbit/s.
    pub fn run_for(&mut self, duration: Duration) -> f64 {
        let before = self.sink().bytes;
        self.pair.run_for(duration);
        (self.sink().bytes - before) as f64 * 8.0 / duration.as_secs_f64() / 1e6
    }
}
