//! The example of `docs/CONGESTION-CONTROLLERS.md`, which shows this file: additive increase, multiplicative decrease.

use anabranch_proto::controller::{Controller, NewPath, Reduction, Report};

/// A window that grows by one packet for each window acknowledged, and is halved when chunks are lost. No slow start.
#[derive(Debug)]
pub struct AdditiveIncrease {
    packet: usize,
    window: usize,
    /// Bytes acknowledged towards the next packet.
    acked: usize,
}

impl AdditiveIncrease {
    /// Begins with the initial window of the path.
    #[must_use]
    pub fn new(path: &NewPath) -> Self {
        let (packet, window) = (path.max_data, path.initial_window);
        Self {
            packet,
            window,
            acked: 0,
        }
    }
}

impl Controller for AdditiveIncrease {
    fn on_report(&mut self, report: &Report) {
        if let Some(reduction) = report.reduction {
            self.acked = 0;
            self.window = match reduction {
                Reduction::Loss | Reduction::Ecn => (self.window / 2).max(2 * self.packet),
                Reduction::Timeout => self.packet,
            };
        } else if !report.recovering && report.prior_flight >= self.window {
            self.acked += report.acked;
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += self.packet;
            }
        }
    }

    fn on_packet_size(&mut self, max_data: usize) {
        self.packet = max_data;
    }

    fn window(&self) -> usize {
        self.window
    }
}
