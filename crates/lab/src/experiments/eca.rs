//! Kim, Seo and Song, *ECA-SCTP: Enhanced Cooperative ACK*: the time to repair a loss on one of three unequal paths, and the causes that
//! determine it.

mod claims;
mod figures;
mod repairs;
mod setting;
mod simulation;

use anabranch_proto::AckRouting;
use setting::{Buffer, Protocol, Reports, Setting, Variant};

use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::stage::{Stage, simulated_with};
use crate::trial::Knob;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "paths",
        value: "2.0 Mbit/s, 50 ms, 0.1 %; 1.6 Mbit/s, 80 ms, 1 %; 0.8 Mbit/s, 160 ms, 3 to 15 %",
        from_paper: true,
    },
    Parameter {
        name: "traffic",
        value: "bulk data on one stream without bundling",
        from_paper: true,
    },
    Parameter {
        name: "initial windows",
        value: "cwnd of two packets, ssthresh of 65,536 bytes",
        from_paper: true,
    },
    Parameter {
        name: "receive buffer",
        value: "in KiB, as the axis `buffer` says; the paper has 64 for each of the three paths, maintained commonly with CMT. Pooled \
                with CMT (192) and apart with ECA (64-each) is our reading; 64 for all paths is our addition",
        from_paper: false,
    },
    Parameter {
        name: "queues",
        value: "drop-tail, 50 packets",
        from_paper: false,
    },
    Parameter {
        name: "loss",
        value: "random, data packets only; one host sends; varying: paths 2 and 3 lose 3 % and the cell's loss in turn, 10 s each",
        from_paper: false,
    },
    Parameter {
        name: "messages",
        value: "1,448 bytes, one chunk each: packets of 1,500 bytes with ECA, as in the paper, and of 1,496 with CMT; full: 1,452 bytes, \
                packets of 1,500 bytes with CMT",
        from_paper: false,
    },
    Parameter {
        name: "new data",
        value: "round robin over the paths whose congestion window has space; Max.Burst of 4 packets for each path",
        from_paper: false,
    },
    Parameter {
        name: "reports",
        value: "packets of the same path, sent later, that must be acknowledged before a chunk counts as lost; amended: three, \
                or one after 1.25 smoothed RTTs, and a spurious retransmission raises the reordering tolerance",
        from_paper: false,
    },
    Parameter {
        name: "windows",
        value: "uncoupled; RTO.Initial 3 s, ssthresh at least 4 packets",
        from_paper: false,
    },
    Parameter {
        name: "retransmissions",
        value: "on another path whose congestion window has space; CMT: the path with the largest ssthresh; ECA: the path with \
                the smallest smoothed RTT",
        from_paper: false,
    },
    Parameter {
        name: "acknowledgements",
        value: "delayed by up to 200 ms or two packets, counted over all paths; a gap on a path is reported at once; no NR-SACK",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "queue",
        unit: "packets",
        about: "maximum length of each link's queue, in cells with losses",
        usual: "50",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time",
        usual: "100, or 30 with --quick or --short in cells where 30 s suffice",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "time",
        "s",
        "first transmission to the arrival of the retransmission, mean over chunks repaired by fast retransmission",
    ),
    metric("repaired", "", "chunks repaired by fast retransmission in 100 s"),
    metric("by_timeout", "", "chunks repaired after a timeout"),
    metric("timeouts", "", "T3-rtx expirations"),
    metric("goodput", "Mbit/s", "user data delivered"),
    metric("pause", "s", "longest time without a delivery"),
    metric("repeats", "", "retransmissions of chunks"),
    metric("spurious", "", "duplicate chunks received"),
    metric("gap_blocks", "", "gap ack blocks per acknowledgement, mean"),
    hidden("acks", "1/s", "acknowledgements"),
    metric("cwnd", "packets", "sum of the congestion windows: mean over time"),
    metric(
        "cwnd_variation",
        "",
        "standard deviation of that sum over time, as a share of its mean",
    ),
    hidden("cwnd_variation_1", "", "cwnd_variation of path 1"),
    hidden("cwnd_variation_2", "", "cwnd_variation of path 2"),
    hidden("cwnd_variation_3", "", "cwnd_variation of path 3"),
    hidden("time_1", "s", "time, for chunks first sent on path 1"),
    hidden("time_2", "s", "time, for chunks first sent on path 2"),
    hidden("time_3", "s", "time, for chunks first sent on path 3"),
    metric(
        "time_deviation",
        "s",
        "standard deviation of the time over the chunks of a run",
    ),
    hidden("cwnd_max", "KiB", "largest congestion window of one path"),
];

const fn hidden(name: &'static str, unit: &'static str, about: &'static str) -> Metric {
    Metric {
        is_shown: false,
        ..metric(name, unit, about)
    }
}

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "eca",
        question: "ECA-SCTP detects on which path a chunk was lost, and returns acknowledgements over the best path: does it repair \
                   losses in half the time?",
        source: "Kim, Seo, Song: ECA-SCTP: Enhanced Cooperative ACK for SCTP Path Recovery in Concurrent Multiple Transfer",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 5,
            Extent::Short => 7,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures::figures,
        timelines: &figures::timelines,
    }
}

/// The losses of path 3 in the paper, in percent.
const LOSSES: [u32; 4] = [3, 5, 10, 15];
/// The lowest and the highest of [`LOSSES`].
const ENDS: [u32; 2] = [3, 15];

fn cells(extent: Extent) -> Vec<Cell> {
    let cell = |setting: Setting| {
        let coordinates = vec![
            ("protocol", setting.protocol.name().to_owned()),
            ("buffer", setting.buffer.name().to_owned()),
            ("reports", setting.reports.name().to_owned()),
            ("loss", setting.loss.to_string()),
            ("variant", setting.variant.name().to_owned()),
        ];
        if setting.variant == Variant::Varying {
            // The testbed cannot change the loss of a link, so this cell has no stage.
            return Cell::new(coordinates, move |trial| {
                let scenario = simulation::scenario(setting, extent, trial);
                let changes = setting::changes(setting, trial, scenario.counts.1);
                simulation::numbers(&simulated_with(scenario, changes, trial))
            });
        }
        let stage = Stage::new(
            move |trial| simulation::scenario(setting, extent, trial),
            simulation::numbers,
        );
        Cell::staged(
            coordinates,
            stage
                .usual(is_main(setting))
                .with_points(simulation::repair_points),
        )
    };
    let settings = match extent {
        Extent::Quick => quick_settings(),
        Extent::Short | Extent::Full => full_settings(),
    };
    settings.into_iter().map(cell).collect()
}

/// Cells with equal settings for both protocols, and cells with the paper's buffers and the inferred numbers of missing reports.
fn is_main(setting: Setting) -> bool {
    let rule = (setting.protocol, setting.buffer, setting.reports);
    let is_equal = setting.buffer == Buffer::Small && setting.reports == Reports::Three;
    (is_equal || INFERRED.contains(&rule))
        && ENDS.contains(&setting.loss)
        && setting.variant == Variant::Plain
}

type Rule = (Protocol, Buffer, Reports);

/// The paper's buffers, with the numbers of missing reports that match its columns best.
const INFERRED: [Rule; 2] = [
    (Protocol::Cmt, Buffer::Pooled, Reports::Four),
    (Protocol::Eca, Buffer::Split, Reports::One),
];

fn over(rule: Rule, losses: &[u32], variant: Variant) -> impl Iterator<Item = Setting> {
    let (protocol, buffer, reports) = rule;
    losses.iter().map(move |loss| Setting {
        protocol,
        buffer,
        reports,
        loss: *loss,
        variant,
    })
}

/// The cells that the claims need.
fn quick_settings() -> Vec<Setting> {
    use Buffer::{Pooled, Small, Split};
    use Protocol::{Cmt, Eca};
    use Reports::{Amended, One, Three};
    let mut settings = Vec::new();
    let equal = [
        (Cmt, Small, Three),
        (Eca, Small, Three),
        (Cmt, Pooled, Three),
        (Eca, Pooled, Three),
    ];
    for rule in equal.into_iter().chain(INFERRED).chain([(Cmt, Split, One)]) {
        settings.extend(over(rule, &LOSSES, Variant::Plain));
    }
    for buffer in [Small, Pooled] {
        for protocol in [Cmt, Eca] {
            let amended = (protocol, buffer, Amended);
            settings.extend(over(amended, &ENDS, Variant::Plain));
            settings.extend(over((protocol, buffer, Three), &[0], Variant::NoLoss));
        }
    }
    for protocol in [Cmt, Eca] {
        for variant in [Variant::LostAcks, Variant::BothWays] {
            settings.extend(over((protocol, Small, Three), &[15], variant));
        }
    }
    for protocol in [Cmt, Eca] {
        for buffer in [Small, Pooled] {
            settings.extend(over((protocol, buffer, Three), &ENDS, Variant::Equal));
            settings.extend(over((protocol, buffer, Three), &[15], Variant::Varying));
        }
    }
    for reports in [One, Three, Amended] {
        settings.extend(over((Eca, Small, reports), &[3], Variant::Late(2)));
    }
    settings.extend(over((Cmt, Small, One), &[3], Variant::Late(2)));
    for routing in [
        AckRouting::Measured,
        AckRouting::LastArrival,
        AckRouting::EveryPath,
    ] {
        settings.extend(over((Eca, Small, Three), &[15], Variant::Bad(routing)));
    }
    let everywhere = Variant::Acks(AckRouting::EveryPath);
    settings.extend(over((Eca, Small, Three), &[15], everywhere));
    for protocol in [Cmt, Eca] {
        settings.extend(over((protocol, Split, Three), &LOSSES, Variant::Plain));
    }
    for buffer in [Pooled, Split] {
        settings.extend(over((Cmt, buffer, Three), &ENDS, Variant::Full));
    }
    for rule in INFERRED {
        settings.extend(over(rule, &ENDS, Variant::BothWays));
    }
    settings.extend(over((Cmt, Small, Three), &[3], Variant::EveryPacket));
    let by_last_arrival = Variant::Acks(AckRouting::LastArrival);
    settings.extend(over((Eca, Small, Three), &[3], by_last_arrival));
    settings.extend(over((Eca, Pooled, Three), &[15], Variant::NoForwardPsn));
    for protocol in [Cmt, Eca] {
        settings.extend(over((protocol, Pooled, Three), &[15], Variant::Short));
    }
    settings
}

fn full_settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for protocol in [Protocol::Cmt, Protocol::Eca] {
        for buffer in [Buffer::Small, Buffer::Pooled, Buffer::Split] {
            for reports in [Reports::One, Reports::Three, Reports::Four, Reports::Amended] {
                settings.extend(over((protocol, buffer, reports), &LOSSES, Variant::Plain));
            }
        }
        for buffer in [Buffer::Small, Buffer::Pooled] {
            settings.extend(over((protocol, buffer, Reports::Three), &[0], Variant::NoLoss));
            let own: &[Variant] = match protocol {
                Protocol::Cmt => &Variant::OF_CMT,
                Protocol::Eca => &Variant::OF_ECA,
            };
            for variant in Variant::OF_BOTH.iter().chain(own) {
                settings.extend(over((protocol, buffer, Reports::Three), &ENDS, *variant));
            }
        }
        for reports in [Reports::One, Reports::Amended] {
            for variant in [Variant::Late(2), Variant::Late(10)] {
                settings.extend(over((protocol, Buffer::Small, reports), &ENDS, variant));
            }
        }
    }
    for rule in INFERRED {
        settings.extend(over(rule, &ENDS, Variant::BothWays));
    }
    let [cmt, _] = INFERRED;
    for rule in [cmt, (Protocol::Cmt, Buffer::Split, Reports::Three)] {
        settings.extend(over(rule, &ENDS, Variant::Full));
    }
    settings
}
