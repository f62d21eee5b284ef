//! The figures: repair time, goodput and congestion windows over the loss of the worst path.

use anabranch_proto::{AssociationStats, Timestamp};

use super::simulation::{CHUNK, REPAIRS};
use crate::figure::{Figure, FigureCurve};
use crate::plot::Drawing;
use crate::timeline::{Timeline, TimelineCurve};
use crate::trace::Trace;
use crate::user::word;

/// The paper's table III: times.
const PAPER_CMT: &[(f64, f64)] = &[(3.0, 0.51192), (5.0, 0.506046), (10.0, 0.60335), (15.0, 0.644724)];

const PAPER_ECA: &[(f64, f64)] = &[
    (3.0, 0.272309),
    (5.0, 0.280514),
    (10.0, 0.306223),
    (15.0, 0.322321),
];

/// The paper's table III: numbers of chunks.
const COUNT_CMT: &[(f64, f64)] = &[(3.0, 189.0), (5.0, 203.0), (10.0, 215.0), (15.0, 202.0)];

const COUNT_ECA: &[(f64, f64)] = &[(3.0, 213.0), (5.0, 261.0), (10.0, 357.0), (15.0, 459.0)];

fn curve(name: &'static str, rule: [&'static str; 3], paper: &'static [(f64, f64)]) -> FigureCurve {
    let [protocol, buffer, reports] = rule;
    FigureCurve {
        name,
        at: vec![
            ("protocol", protocol),
            ("buffer", buffer),
            ("reports", reports),
            ("variant", "plain"),
        ],
        paper,
    }
}

pub(super) fn figures() -> Vec<Figure> {
    let equal = || {
        vec![
            curve("CMT, 64 KiB, 3 missing reports", ["cmt", "64", "3"], &[]),
            curve("ECA, 64 KiB, 3 missing reports", ["eca", "64", "3"], &[]),
            curve("CMT, 192 KiB, 3 missing reports", ["cmt", "192", "3"], &[]),
            curve("ECA, 192 KiB, 3 missing reports", ["eca", "192", "3"], &[]),
        ]
    };
    let inferred = |cmt, eca| {
        vec![
            curve("CMT, 192 KiB pooled, 4 missing reports", ["cmt", "192", "4"], cmt),
            curve("ECA, 64 KiB each, 1 missing report", ["eca", "64-each", "1"], eca),
            curve("CMT, 64 KiB each, 1 missing report", ["cmt", "64-each", "1"], &[]),
        ]
    };
    let over_loss = |name, title, paper, y, curves| Figure {
        name,
        title,
        paper,
        x: ("loss", "loss of path 3 [%]"),
        y,
        logarithmic: false,
        curves,
    };
    let time = ("time", "first transmission to arrival of the retransmission [s]");
    vec![
        over_loss(
            "table-iii",
            "Time of fast retransmission, with the paper's buffers and inferred numbers of missing reports",
            "table III, fig. 6: ECA takes half of CMT's time. The receive buffer is 64 KB for each path, pooled with CMT and apart with \
             ECA; the number of missing reports is not stated",
            time,
            inferred(PAPER_CMT, PAPER_ECA),
        ),
        over_loss(
            "table-iii-count",
            "Chunks repaired, with the paper's buffers and inferred missing reports",
            "table III: ECA repairs more chunks, the more are lost. The paper does not give the length of its runs; 100 s are our choice",
            ("repaired", "chunks repaired by fast retransmission in 100 s"),
            inferred(COUNT_CMT, COUNT_ECA),
        ),
        over_loss(
            "table-iii-equal",
            "Time of fast retransmission, equal buffers and missing reports",
            "table III: ECA takes half of CMT's time",
            time,
            equal(),
        ),
        over_loss(
            "fig-5-goodput",
            "Goodput, equal buffers and missing reports",
            "fig. 5: ECA a little better, with a gain that grows with the loss of path 3; no numbers",
            ("goodput", "goodput [Mbit/s]"),
            equal(),
        ),
        over_loss(
            "fig-4-variation",
            "Variation of the congestion windows",
            "fig. 4: a smaller deviation with ECA; no numbers",
            ("cwnd_variation", "standard deviation of their sum / mean"),
            vec![
                curve("CMT, 64 KiB, 3 missing reports", ["cmt", "64", "3"], &[]),
                curve("ECA, 64 KiB, 3 missing reports", ["eca", "64", "3"], &[]),
                curve("CMT, 192 KiB pooled, 4 missing reports", ["cmt", "192", "4"], &[]),
                curve("ECA, 64 KiB each, 1 missing report", ["eca", "64-each", "1"], &[]),
            ],
        ),
    ]
}

/// The sum of the congestion windows over time, in packets.
fn windows(trace: &Trace) -> Vec<(f64, f64)> {
    let sum = |(at, stats): &(Timestamp, AssociationStats)| {
        let bytes: usize = stats.paths.iter().map(|path| path.cwnd).sum();
        (at.as_secs_f64(), bytes as f64 / CHUNK)
    };
    trace.samples().iter().map(sum).collect()
}

/// The number of delivered messages over time.
fn delivered(trace: &Trace) -> Vec<(f64, f64)> {
    let times = trace.messages().iter().filter_map(|message| message.delivered);
    let mut times: Vec<Timestamp> = times.collect();
    times.sort_unstable();
    let counted = times.iter().zip(1_u32..);
    counted
        .map(|(at, count)| (at.as_secs_f64(), f64::from(count)))
        .collect()
}

/// The paper's figures of single runs, with its buffers and the inferred numbers of missing reports.
pub(super) fn timelines() -> Vec<Timeline> {
    let curves = |loss: &'static str, points: fn(&Trace) -> Vec<(f64, f64)>| {
        let rules = [
            ("CMT, 192 KiB pooled, 4 missing reports", ["cmt", "192", "4"]),
            ("ECA, 64 KiB each, 1 missing report", ["eca", "64-each", "1"]),
        ];
        let curve = |(name, rule)| TimelineCurve {
            name,
            at: [curve(name, rule, &[]).at, vec![("loss", loss)]].concat(),
            points,
        };
        rules.map(curve).into()
    };
    let windows = Timeline {
        name: "fig-4",
        title: "Sum of the congestion windows at 15 % loss, one run",
        paper: "fig. 4: a smaller deviation with ECA; no numbers",
        x: "time [s]",
        y: "congestion windows [packets]",
        logarithmic: false,
        drawing: Drawing::Line,
        curves: curves("15", windows),
    };
    let goodput = [
        (
            "fig-5a",
            "3",
            "Messages delivered at 3 % loss, one run",
            "fig. 5a: ECA a little better; no numbers",
        ),
        (
            "fig-5b",
            "5",
            "Messages delivered at 5 % loss, one run",
            "fig. 5b: ECA better; no numbers",
        ),
        (
            "fig-5c",
            "10",
            "Messages delivered at 10 % loss, one run",
            "fig. 5c: ECA better; no numbers",
        ),
        (
            "fig-5d",
            "15",
            "Messages delivered at 15 % loss, one run",
            "fig. 5d: ECA better, with a larger gain than at 3 %; no numbers",
        ),
    ];
    let goodput = goodput.map(|(name, loss, title, paper)| Timeline {
        name,
        title,
        paper,
        x: "time [s]",
        y: "messages delivered",
        logarithmic: false,
        drawing: Drawing::Line,
        curves: curves(loss, delivered),
    });
    let repairs = [
        (
            "fig-6a",
            "3",
            "Time of each fast retransmission at 3 % loss, one run",
            "fig. 6a",
        ),
        (
            "fig-6b",
            "5",
            "Time of each fast retransmission at 5 % loss, one run",
            "fig. 6b",
        ),
        (
            "fig-6c",
            "10",
            "Time of each fast retransmission at 10 % loss, one run",
            "fig. 6c",
        ),
        (
            "fig-6d",
            "15",
            "Time of each fast retransmission at 15 % loss, one run",
            "fig. 6d",
        ),
    ];
    let repairs = repairs.map(|(name, loss, title, figure)| Timeline {
        name,
        title,
        paper: word(format!(
            "{figure}: with ECA about half of the time, and close together; with CMT scattered"
        )),
        x: "time [s]",
        y: "first transmission to arrival [s]",
        logarithmic: false,
        drawing: Drawing::Dots,
        curves: curves(loss, |trace| trace.own_points(REPAIRS)),
    });
    std::iter::once(windows).chain(goodput).chain(repairs).collect()
}
