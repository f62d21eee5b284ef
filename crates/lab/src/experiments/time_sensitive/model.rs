//! The paper's equations: the mean window (1), the sender's rate (2) and the buffered packets (6) as printed, and the mean blocking time,
//! (3) to (5), as printed and with corrections.
//!
//! The errors of (3) to (5) and their corrections:
//!
//! 1. (3) uses the mean window as the upper index of a binomial, but this is not a whole number. The correction rounds it.
//! 2. (4) squares p twice for the extensions, and treats the arrival of a notice as the arrival of a packet. In fact W (1 - p)
//!    packets of a window of W arrive, with the extensions or without.
//! 3. (5) divides a time by packets. The mean over packets is instead the share of blocked packets, times half of the wait of the
//!    first blocked packet.
//! 4. In (5) a gap lasts for a round-trip time or for the time of the reports, whichever is longer. In fact it lasts for both: the
//!    last report leaves when enough packets have arrived, each of which is reported at once, and the sender's reaction takes a
//!    round-trip time. The gap blocks all packets that arrive in this time, which is more than a window.
//! 5. In (5) T3-rtx expires if a whole window is lost. In fact it expires if too few packets arrive after the loss to report it.
//!    These are the packets of the window, and the packets that their acknowledgements release.
//! 6. In (5) the extensions wait for all reports. In fact early discard waits for one.
//! 7. In (5) no acknowledgement is lost, although p is symmetrical in the paper's model. In fact a packet reports the loss only if the packet and its
//!    acknowledgement both arrive, with the probability (1 - p)².

use std::sync::LazyLock;

use super::RTT;

/// Seconds until T3-rtx expires: RTO.Min.
const TIMEOUT: f64 = 1.0;
/// Packets for each acknowledgement, b.
const PACKETS: f64 = 2.0;
/// The longest time by which an acknowledgement is delayed, in seconds: sgt.
const ACK_DELAY: f64 = 0.2;
/// Missing reports that declare a loss: frt.
const REPORTS: u32 = 4;

/// The parameters of the formula.
#[derive(Clone, Copy, Debug)]
struct Model {
    loss: f64,
    rtt: f64,
    packets: f64,
    /// Early discard and selective forward TSN.
    extended: bool,
}

impl Model {
    /// The mean congestion window in packets, (1), after Padhye and others.
    fn window(self) -> f64 {
        let (p, b) = (self.loss, self.packets);
        let start = (2.0 + b) / (3.0 * b);
        start + (8.0 * (1.0 - p) / (3.0 * b * p) + start * start).sqrt()
    }

    /// Packets that the sender sends in a second, (2), after Padhye and others.
    fn rate(self) -> f64 {
        let (p, b) = (self.loss, self.packets);
        let timeout = TIMEOUT * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
        1.0 / (self.rtt * (2.0 * b * p / 3.0).sqrt() + timeout)
    }

    /// Packets that arrive in a round, (4) as printed. Only the upper index is rounded, because the binomial needs a whole number. With the
    /// extensions (4) squares a square.
    fn received(self) -> f64 {
        let missing = if self.extended {
            self.loss.powi(4)
        } else {
            self.loss
        };
        self.window() - f64::from(self.whole_window()) * missing
    }

    /// Buffered packets for each buffering event, (6).
    fn buffered(self) -> f64 {
        self.window() + (1.0 / (1.0 - self.loss) - 1.0) * self.received()
    }

    /// The mean congestion window as a whole number of packets.
    fn whole_window(self) -> u32 {
        self.window().round().max(1.0) as u32
    }

    /// The probability that a packet blocks later packets: it is lost and, with the extensions, so is its notice.
    fn blocking_loss(self) -> f64 {
        if self.extended {
            self.loss * self.loss
        } else {
            self.loss
        }
    }

    /// The probability that a window has such a packet, (3).
    fn blocks(self) -> f64 {
        1.0 - (1.0 - self.blocking_loss()).powi(self.whole_window() as i32)
    }

    /// The mean blocking time in seconds, (5) as printed.
    fn printed(self) -> f64 {
        let received = self.received();
        let reports = f64::from(REPORTS) / (received / self.packets + self.rtt / ACK_DELAY);
        let timeout = self.loss.powf(received) * TIMEOUT;
        (self.rtt * reports.max(1.0) * self.blocks() + timeout) / (received / 2.0)
    }

    /// The mean blocking time in seconds with the corrections.
    fn corrected(self) -> f64 {
        let reports = if self.extended { 1 } else { REPORTS };
        let reported = (1.0 - self.loss).powi(2);
        let hole = self.rtt * (1.0 + f64::from(reports) / (self.window() * reported));
        let blocked = (self.blocks() * hole / self.rtt).min(1.0);
        let behind = 2 * (self.whole_window() - 1);
        blocked * (hole + fewer(behind, reported, reports) * TIMEOUT) / 2.0
    }
}

/// The probability that fewer than `least` of `count` packets arrive. `arrives` is the probability of each packet.
fn fewer(count: u32, arrives: f64, least: u32) -> f64 {
    let mut ways = 1.0;
    (0..least.min(count + 1))
        .map(|arrived| {
            let term = ways * arrives.powi(arrived as i32) * (1.0 - arrives).powi((count - arrived) as i32);
            ways *= f64::from(count - arrived) / f64::from(arrived + 1);
            term
        })
        .sum()
}

type Points = LazyLock<Vec<(f64, f64)>>;

fn over_loss(extended: bool, formula: fn(Model) -> f64) -> Vec<(f64, f64)> {
    let point = |loss: f64| {
        let model = Model {
            loss,
            rtt: RTT,
            packets: PACKETS,
            extended,
        };
        (loss, formula(model))
    };
    [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3].map(point).into()
}

/// Loss and mean window in packets, (1).
pub(super) static WINDOW: Points = LazyLock::new(|| over_loss(false, Model::window));

/// Loss and packets sent in a second, (2).
pub(super) static RATE: Points = LazyLock::new(|| over_loss(false, Model::rate));

/// Loss and buffered packets for each event, (6), without extensions and with both.
pub(super) static BUFFERED: [Points; 2] = [
    LazyLock::new(|| over_loss(false, Model::buffered)),
    LazyLock::new(|| over_loss(true, Model::buffered)),
];

/// Loss and mean blocking as printed, without extensions and with both.
pub(super) static PRINTED: [Points; 2] = [
    LazyLock::new(|| over_loss(false, Model::printed)),
    LazyLock::new(|| over_loss(true, Model::printed)),
];

/// Loss and mean blocking with the corrections, without extensions and with both.
pub(super) static CORRECTED: [Points; 2] = [
    LazyLock::new(|| over_loss(false, Model::corrected)),
    LazyLock::new(|| over_loss(true, Model::corrected)),
];

/// Loss and the reduction of the mean blocking by both extensions in percent, as printed and with the corrections.
pub(super) static REDUCED: [Points; 2] = [
    LazyLock::new(|| reduction(&PRINTED)),
    LazyLock::new(|| reduction(&CORRECTED)),
];

fn reduction([standard, extended]: &[Points; 2]) -> Vec<(f64, f64)> {
    let saved = |(standard, extended): (&(f64, f64), &(f64, f64))| {
        (standard.0, 100.0 * (1.0 - extended.1 / standard.1))
    };
    standard.iter().zip(extended.iter()).map(saved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(loss: f64, packets: f64, rtt: f64) -> [Model; 2] {
        [false, true].map(|extended| Model {
            loss,
            rtt,
            packets,
            extended,
        })
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 6e-5, "{value} {expected}");
    }

    /// By hand, from the equations.
    #[test]
    fn the_printed_formula_gives_values_computed_by_hand() {
        close(model(0.1, 1.0, 0.2)[0].window(), 6.0);
        for (loss, packets, rtt, standard, extended) in [
            (0.1, 2.0, 0.1, 0.0303, 0.0029),
            (0.1, 2.0, 0.2, 0.0501, 0.0049),
            (0.3, 1.0, 0.2, 0.1804, 0.0411),
        ] {
            let [without, with] = model(loss, packets, rtt);
            close(without.printed(), standard);
            close(with.printed(), extended);
        }
    }

    /// By hand, from the equations: at 10 %, b = 2 and 250 ms the timeouts take 0.82 · 0.132 s for each packet.
    #[test]
    fn rate_and_buffer_have_values_computed_by_hand() {
        let [without, with] = model(0.1, 2.0, 0.25);
        close(without.window(), 4.194_34);
        close(without.rate(), 1.0 / (0.25 * 0.365_148 + 0.821_584 * 0.132));
        close(without.buffered(), 4.194_34 + 3.794_34 / 9.0);
        close(with.buffered(), 4.194_34 + 4.193_94 / 9.0);
    }

    #[test]
    fn fewer_is_a_sum_of_a_binomial() {
        close(fewer(6, 0.9, 4), 0.01585);
        close(fewer(2, 0.7, 1), 0.09);
        close(fewer(2, 0.7, 4), 1.0);
        close(fewer(0, 0.7, 1), 1.0);
    }

    /// By hand: a gap of 0.5443 s blocks 0.7488 of the packets, and one in 11.5 takes a second more.
    #[test]
    fn the_corrected_formula_gives_values_computed_by_hand() {
        let [without, with] = model(0.1, 2.0, 0.25);
        close(without.corrected(), 0.5 * 0.748_80 * (0.544_34 + 0.086_98));
        assert!(with.corrected() < without.corrected() / 10.0);
    }
}
