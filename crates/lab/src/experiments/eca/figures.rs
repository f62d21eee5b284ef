//! The figures: repair time, goodput and congestion windows over the loss of the worst path.

use crate::figure::{Figure, FigureCurve};

/// The paper's table III.
const PAPER_CMT: &[(f64, f64)] = &[(3.0, 0.51192), (5.0, 0.506046), (10.0, 0.60335), (15.0, 0.644724)];

const PAPER_ECA: &[(f64, f64)] = &[
    (3.0, 0.272309),
    (5.0, 0.280514),
    (10.0, 0.306223),
    (15.0, 0.322321),
];

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
            curve("CMT, 192 KiB, 4 missing reports", ["cmt", "192", "4"], cmt),
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
            "time",
            "Time of fast retransmission, with the settings that the paper most likely used",
            "table III, fig. 6: ECA takes half of CMT's time. Its receive buffers were 64 KB for all paths with CMT, for each with \
             ECA; the number of missing reports is not stated",
            time,
            inferred(PAPER_CMT, PAPER_ECA),
        ),
        over_loss(
            "time-equal",
            "Time of fast retransmission, equal buffers and missing reports",
            "table III: ECA takes half of CMT's time",
            time,
            equal(),
        ),
        over_loss(
            "goodput",
            "Goodput, equal buffers and missing reports",
            "fig. 5: ECA a little better, with a gain that grows with the loss of path 3; no numbers",
            ("goodput", "goodput [Mbit/s]"),
            equal(),
        ),
        over_loss(
            "windows",
            "Variation of the congestion windows",
            "fig. 4: a smaller deviation with ECA; no numbers",
            ("cwnd_variation", "standard deviation of their sum / mean"),
            vec![
                curve("CMT, 64 KiB, 3 missing reports", ["cmt", "64", "3"], &[]),
                curve("ECA, 64 KiB, 3 missing reports", ["eca", "64", "3"], &[]),
                curve("CMT, 192 KiB, 4 missing reports", ["cmt", "192", "4"], &[]),
                curve("ECA, 64 KiB each, 1 missing report", ["eca", "64-each", "1"], &[]),
            ],
        ),
    ]
}
