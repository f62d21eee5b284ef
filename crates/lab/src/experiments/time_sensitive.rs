//! Basto and Freitas, *SCTP extensions for time sensitive traffic*: the effect of early discard and selective forward TSN on an ordered
//! stream without retransmissions, on a lossy path without cross traffic.

mod claims;
mod figures;
mod model;
mod simulation;

use anabranch_proto::{DiscardReduction, Timestamp};

use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::trial::Knob;
use simulation::simulate;

/// Bytes of user data in a message. A packet of 1,500 bytes has space for the message and a discard notice.
const MESSAGE: usize = 1440;
/// Bytes of a message whose chunk fills the packet: no space is left for a notice.
const FULL_MESSAGE: usize = 1452;
/// Begin of the losses and of the measured time.
const LOSS_BEGINS: Timestamp = Timestamp::from_millis(30_000);
/// The round-trip time in seconds.
const RTT: f64 = 0.225;
/// The time with losses, in seconds.
const LOSSY: f64 = 270.0;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "service",
        value: "one ordered stream, no retransmission, infinite source",
        from_paper: true,
    },
    Parameter {
        name: "loss",
        value: "random, from 30 s to 300 s, which is the measured time",
        from_paper: true,
    },
    Parameter {
        name: "lost acknowledgements",
        value: "at the rate of the data, except in the variants with only data lost: p is symmetrical in the paper's model (section 3), and \
                its section 4 does not say whether the simulation lost acknowledgements",
        from_paper: false,
    },
    Parameter {
        name: "receive window",
        value: "65,536 B",
        from_paper: true,
    },
    Parameter {
        name: "recovery",
        value: "RFC 2960: four missing reports, no fast recovery; delayed acknowledgement 200 ms",
        from_paper: true,
    },
    Parameter {
        name: "distance",
        value: "a discard notice one packet after its message",
        from_paper: true,
    },
    Parameter {
        name: "round trip, rate",
        value: "225 ms, 10 Mbit/s, no queue limit",
        from_paper: false,
    },
    Parameter {
        name: "chunk",
        value: "1,456 B, which leaves space for a notice of 12 B; a SACK for every second packet, except in the variants with a SACK for each",
        from_paper: false,
    },
    Parameter {
        name: "RTO.Min, RTO.Initial",
        value: "1 s, 3 s",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "rtt",
        unit: "ms",
        about: "round-trip time",
        usual: "225",
        range: (1.0, 10_000.0),
    },
    Knob {
        name: "rto_min",
        unit: "ms",
        about: "RTO.Min",
        usual: "1000",
        range: (1.0, 3_000.0),
    },
    Knob {
        name: "window",
        unit: "B",
        about: "receive window",
        usual: "65536",
        range: (4_096.0, 16_777_216.0),
    },
    Knob {
        name: "reports",
        unit: "",
        about: "missing reports that trigger a fast retransmission, except in the variant with one report",
        usual: "4",
        range: (1.0, 16.0),
    },
    Knob {
        name: "distance",
        unit: "packets",
        about: "packets from a message to its discard notice",
        usual: "1",
        range: (1.0, 64.0),
    },
    Knob {
        name: "forward_waits",
        unit: "",
        about: "1: the acknowledgements of the first round trip do not count for the retransmission of a FORWARD-TSN",
        usual: "0",
        range: (0.0, 1.0),
    },
    Knob {
        name: "return_loss",
        unit: "",
        about: "1: acknowledgements are lost at the same rate as data; 0: they are not lost. The variants with only data lost have 0",
        usual: "1",
        range: (0.0, 1.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "time with losses",
        usual: "270, or 60 without loss with --quick",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "blocking_mean",
        "s",
        "time from arrival to delivery (head-of-line blocking), mean over the delivered messages",
    ),
    metric("blocking_max", "s", "time from arrival to delivery, maximum"),
    metric(
        "blocking_std",
        "s",
        "time from arrival to delivery, standard deviation",
    ),
    metric(
        "interarrival_mean",
        "s",
        "time between deliveries to the application, mean",
    ),
    metric("interarrival_max", "s", "time between deliveries, maximum"),
    metric(
        "interarrival_std",
        "s",
        "time between deliveries, standard deviation",
    ),
    metric(
        "buffer_data",
        "messages",
        "messages held by the receiver, summed over the arrivals after which it held any",
    ),
    metric(
        "buffer_events",
        "",
        "arrivals after which the receive buffer was not empty",
    ),
    metric("buffer_mean", "messages", "buffer_data / buffer_events"),
    metric(
        "window_mean",
        "packets",
        "congestion window in packets of 1,468 B after IP and SCTP headers, mean over time",
    ),
    metric("send_rate", "packets/s", "data packets sent"),
    metric("goodput", "Mbit/s", "user data delivered"),
    metric("delivered", "messages", "messages delivered"),
    metric("timeouts", "", "T3-rtx expirations"),
    metric(
        "cuts",
        "",
        "window reductions by fast retransmission or early discard, without timeouts",
    ),
    metric("forward_tsns", "", "FORWARD-TSN chunks sent"),
    metric("notices", "", "selective forward TSNs sent"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "time-sensitive",
        question: "Messages are not retransmitted but delivered in order: how long do lost messages block later ones?",
        source: "Basto, Freitas: SCTP extensions for time sensitive traffic",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 8,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures::figures,
        timelines: &figures::timelines,
    }
}

/// The extensions of the paper that are on, and other differences from its setting.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    early_discard: bool,
    selective_forward_tsn: bool,
    nr_sack: bool,
    /// Missing reports that trigger a fast retransmission.
    reports: u8,
    /// Bytes of user data in a message.
    message: usize,
    /// Packets for each acknowledgement: b in the paper's equations.
    sack_frequency: u32,
    /// Whether acknowledgements are lost at the same rate as data.
    return_loss: bool,
    /// When a chunk that early discard abandons counts as a loss. The paper triggers a FORWARD-TSN at the first report, and says (section 3)
    /// that the behaviour of the sender does not change: to the letter, four reports reduce the window. The first report is our choice.
    reduces: DiscardReduction,
}

/// RFC 2960 §7.2.4.
const STANDARD_REPORTS: u8 = 4;

/// Fast retransmission detects a loss as soon as early discard does: this variant shows the part of the gain that comes from the detection
/// of losses without timeouts.
const ONE_REPORT: Variant = Variant {
    name: "standard, one report",
    reports: 1,
    ..VARIANTS[0]
};

/// The sender may send while less than cwnd is in flight (RFC 9260 §6.1 B). If chunks are smaller than the unit of cwnd, a window of n packets
/// lets n + 1 chunks leave: at four packets a quarter more. Chunks that fill the packet show what this makes of the paper's numbers.
/// With selective forward TSN, a packet must keep space for a notice, so the sender splits each such message into two chunks.
const FULL_PACKETS: [Variant; 3] = [
    Variant {
        name: "standard, full packets",
        message: FULL_MESSAGE,
        ..VARIANTS[0]
    },
    Variant {
        name: "both, full packets",
        message: FULL_MESSAGE,
        ..VARIANTS[3]
    },
    Variant {
        name: "both and nr-sack, full packets",
        message: FULL_MESSAGE,
        ..VARIANTS[4]
    },
];

/// The setting of this experiment until 26 November 2026: no acknowledgement is lost.
const ONLY_DATA_LOST: [Variant; 6] = [
    Variant {
        name: "standard, only data lost",
        return_loss: false,
        ..VARIANTS[0]
    },
    Variant {
        name: "standard, one report, only data lost",
        return_loss: false,
        ..ONE_REPORT
    },
    Variant {
        name: "standard, full packets, only data lost",
        return_loss: false,
        ..FULL_PACKETS[0]
    },
    Variant {
        name: "early discard, only data lost",
        return_loss: false,
        ..VARIANTS[1]
    },
    Variant {
        name: "both, only data lost",
        return_loss: false,
        ..VARIANTS[3]
    },
    Variant {
        name: "both and nr-sack, only data lost",
        return_loss: false,
        ..VARIANTS[4]
    },
];

/// An acknowledgement for each packet: the paper's b = 1, without extensions and with both.
const EACH_ACKNOWLEDGED: [Variant; 2] = [
    Variant {
        name: "standard, SACK for each packet",
        sack_frequency: 1,
        ..VARIANTS[0]
    },
    Variant {
        name: "both, SACK for each packet",
        sack_frequency: 1,
        ..VARIANTS[3]
    },
];

const VARIANTS: [Variant; 5] = [
    variant("standard", false, false),
    variant("early discard", true, false),
    variant("selective forward", false, true),
    variant("both", true, true),
    Variant {
        nr_sack: true,
        ..variant("both and nr-sack", true, true)
    },
];

const fn variant(name: &'static str, early_discard: bool, selective_forward_tsn: bool) -> Variant {
    Variant {
        name,
        early_discard,
        selective_forward_tsn,
        nr_sack: false,
        reports: STANDARD_REPORTS,
        message: MESSAGE,
        sack_frequency: 2,
        return_loss: true,
        reduces: DiscardReduction::FirstReport,
    }
}

/// The extensions with the window reduction where the standard sender has it, at the fourth report.
const REDUCED_BY_COUNT: [Variant; 3] = [
    Variant {
        name: "early discard, four reports reduce",
        reduces: DiscardReduction::ReportCount,
        ..VARIANTS[1]
    },
    Variant {
        name: "both, four reports reduce",
        reduces: DiscardReduction::ReportCount,
        ..VARIANTS[3]
    },
    Variant {
        name: "both and nr-sack, four reports reduce",
        reduces: DiscardReduction::ReportCount,
        ..VARIANTS[4]
    },
];

/// The cells of each extent. The quick extent has those that claims need and those of the tables at 10 % loss; without loss a run takes most
/// time.
fn cells(extent: Extent) -> Vec<Cell> {
    let losses: &[f64] = &[0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3];
    let is_quick = extent == Extent::Quick;
    let cell = |(loss, variant): (f64, Variant)| {
        let coordinates = vec![("variant", variant.name.to_owned()), ("loss", loss.to_string())];
        // Without loss the runs of all seeds are nearly equal, and the receive window limits each to 2.2 Mbit/s.
        let lossy = if is_quick && loss == 0.0 { 60.0 } else { LOSSY };
        Cell::new(coordinates, move |trial| simulate(variant, loss, lossy, trial))
    };
    let grid = losses
        .iter()
        .flat_map(|loss| VARIANTS.map(|variant| (*loss, variant)))
        .filter(|(loss, variant)| match variant.name {
            "standard" | "both" => true,
            "both and nr-sack" => !is_quick || *loss > 0.0,
            _ => !is_quick || [0.05, 0.1, 0.3].contains(loss),
        });
    let ablation = losses.iter().filter(|loss| (0.05..=0.1).contains(*loss));
    let each_acknowledged = losses
        .iter()
        .filter(|loss| **loss >= 0.1 && !(is_quick && [0.15, 0.2].contains(*loss)));
    let by_count = losses
        .iter()
        .filter(|loss| [0.05, 0.1, 0.3].contains(*loss) && !(is_quick && **loss != 0.1));
    let at_a_tenth = FULL_PACKETS[1..].iter().chain(&ONLY_DATA_LOST);
    grid.chain(ablation.flat_map(|loss| [(*loss, ONE_REPORT), (*loss, FULL_PACKETS[0])]))
        .chain(each_acknowledged.flat_map(|loss| EACH_ACKNOWLEDGED.map(|variant| (*loss, variant))))
        .chain(by_count.flat_map(|loss| REDUCED_BY_COUNT.map(|variant| (*loss, variant))))
        .chain(at_a_tenth.map(|variant| (0.1, *variant)))
        .map(cell)
        .collect()
}
