//! Kim, Seo and Song, *ECA-SCTP: Enhanced Cooperative ACK*: how long it takes to repair a loss on one of three unequal paths,
//! and what decides it.

mod claims;
mod figures;
mod repairs;
mod setting;
mod simulation;

use anabranch_proto::AckRouting;
use setting::{Buffer, Protocol, Reports, Setting, Variant};

use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::stage::Stage;
use crate::trial::Knob;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "paths",
        value: "2.0 Mbit/s, 50 ms, 0.1 %; 1.6 Mbit/s, 80 ms, 1 %; 0.8 Mbit/s, 160 ms, 3 to 15 %",
        from_paper: true,
    },
    Parameter {
        name: "traffic",
        value: "one stream of bulk, nothing bundled, packets of 1,500 bytes",
        from_paper: true,
    },
    Parameter {
        name: "first windows",
        value: "cwnd of two packets, ssthresh of 65,536 bytes",
        from_paper: true,
    },
    Parameter {
        name: "receive buffer",
        value: "as the axis has it, in KiB; the paper has 64 for all paths with CMT, 64 for each with ECA",
        from_paper: true,
    },
    Parameter {
        name: "queues",
        value: "drop-tail of 50 packets",
        from_paper: false,
    },
    Parameter {
        name: "loss",
        value: "of data only; one host sends",
        from_paper: false,
    },
    Parameter {
        name: "messages",
        value: "1,448 bytes, a chunk each in either",
        from_paper: false,
    },
    Parameter {
        name: "new data",
        value: "round robin among paths with room, at most 4 packets a path and event beyond what was acknowledged",
        from_paper: false,
    },
    Parameter {
        name: "reports",
        value: "packets of the same path, acknowledged later, that make a loss; amended: three, or one after 1.25 smoothed round \
                trips, backed off where repeats prove needless",
        from_paper: false,
    },
    Parameter {
        name: "windows",
        value: "uncoupled; RTO.Initial 3 s, ssthresh at least 4 packets",
        from_paper: false,
    },
    Parameter {
        name: "repeats",
        value: "CMT: where ssthresh is largest; ECA: where the smoothed round trip is smallest; of the paths with room but \
                the one that lost",
        from_paper: false,
    },
    Parameter {
        name: "acknowledgements",
        value: "delayed by up to 200 ms or two packets, across paths too; a gap on a path is reported at once; no NR-SACK",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "queue",
        unit: "packets",
        about: "how many stand in each link's queue at most, where anything is lost",
        usual: "50",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "how long is measured",
        usual: "100, or 30 in the quick setting where that tells enough",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "time",
        "s",
        "from the first transmission to the arrival of the repeat, of chunks that fast retransmission repaired: mean",
    ),
    metric("repaired", "", "chunks that fast retransmission repaired"),
    metric("by_timeout", "", "chunks that took a timeout to repair"),
    metric("timeouts", "", "T3-rtx expirations"),
    metric("goodput", "Mbit/s", "user data delivered"),
    metric("pause", "s", "longest time without a delivery"),
    metric("repeats", "", "transmissions but the first of each chunk"),
    metric("spurious", "", "chunks that arrived again"),
    metric("gap_blocks", "", "gap blocks an acknowledgement: mean"),
    hidden("acks", "1/s", "acknowledgements"),
    metric("cwnd", "packets", "sum of the congestion windows: mean over time"),
    metric(
        "cwnd_variation",
        "",
        "its deviation over time, as a share of the mean",
    ),
    hidden("cwnd_variation_1", "", "the same of path 1"),
    hidden("cwnd_variation_2", "", "the same of path 2"),
    hidden("cwnd_variation_3", "", "the same of path 3"),
    hidden("time_1", "s", "the time of what path 1 lost"),
    hidden("time_2", "s", "the time of what path 2 lost"),
    hidden("time_3", "s", "the time of what path 3 lost"),
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
        question: "A sender that knows on which path a chunk was lost, and is told over the best path: does it repair losses in half \
                   the time?",
        source: "Kim, Seo, Song: ECA-SCTP: Enhanced Cooperative ACK for Concurrent Multiple Transfer",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 7,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures::figures,
    }
}

/// The paper's losses of path 3, in percent.
const LOSSES: [u32; 4] = [3, 5, 10, 15];
/// The least and the most of them.
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
        let stage = Stage::new(
            move |trial| simulation::scenario(setting, extent, trial),
            simulation::numbers,
        );
        Cell::staged(coordinates, stage.usual(is_main(setting)))
    };
    let settings = match extent {
        Extent::Quick => quick_settings(),
        Extent::Short | Extent::Full => full_settings(),
    };
    settings.into_iter().map(cell).collect()
}

/// Both protocols alike, and as the paper's columns seem to have been made.
fn is_main(setting: Setting) -> bool {
    use Buffer::{Large, Small, Split};
    use Protocol::{Cmt, Eca};
    use Reports::{Four, One, Three};
    let rules = [
        (Cmt, Small, Three),
        (Eca, Small, Three),
        (Cmt, Large, Four),
        (Eca, Split, One),
    ];
    rules.contains(&(setting.protocol, setting.buffer, setting.reports))
        && ENDS.contains(&setting.loss)
        && setting.variant == Variant::Plain
}

type Rule = (Protocol, Buffer, Reports);

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

/// What the claims need.
fn quick_settings() -> Vec<Setting> {
    use Buffer::{Large, Small, Split};
    use Protocol::{Cmt, Eca};
    use Reports::{Amended, Four, One, Three};
    let mut settings = Vec::new();
    let everywhere = [
        (Cmt, Small, Three),
        (Eca, Small, Three),
        (Cmt, Large, Three),
        (Eca, Large, Three),
        (Cmt, Large, Four),
        (Eca, Split, One),
        (Cmt, Split, One),
    ];
    for rule in everywhere {
        settings.extend(over(rule, &LOSSES, Variant::Plain));
    }
    for buffer in [Small, Large] {
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
    for reports in [One, Three, Amended] {
        settings.extend(over((Eca, Small, reports), &[3], Variant::Late(2)));
    }
    settings.extend(over((Cmt, Small, One), &[3], Variant::Late(2)));
    for routing in [AckRouting::Measured, AckRouting::LastArrival] {
        settings.extend(over((Eca, Small, Three), &[15], Variant::Bad(routing)));
    }
    settings.extend(over((Cmt, Small, Three), &[3], Variant::EveryPacket));
    let by_last_arrival = Variant::Acks(AckRouting::LastArrival);
    settings.extend(over((Eca, Small, Three), &[3], by_last_arrival));
    settings.extend(over((Eca, Large, Three), &[15], Variant::NoForwardPsn));
    settings
}

fn full_settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for protocol in [Protocol::Cmt, Protocol::Eca] {
        for buffer in [Buffer::Small, Buffer::Large, Buffer::Split] {
            for reports in [Reports::One, Reports::Three, Reports::Four, Reports::Amended] {
                settings.extend(over((protocol, buffer, reports), &LOSSES, Variant::Plain));
            }
        }
        for buffer in [Buffer::Small, Buffer::Large] {
            settings.extend(over((protocol, buffer, Reports::Three), &[0], Variant::NoLoss));
            let own: &[Variant] = match protocol {
                Protocol::Cmt => &[Variant::EveryPacket],
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
    settings
}
