//! The pictures: time, goodput and windows over the loss of the worst path.

use crate::figure::{Figure, FigureCurve};

/// Table III.
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
            curve("CMT, 64 KiB, 3 reports", ["cmt", "64", "3"], &[]),
            curve("ECA, 64 KiB, 3 reports", ["eca", "64", "3"], &[]),
            curve("CMT, 192 KiB, 3 reports", ["cmt", "192", "3"], &[]),
            curve("ECA, 192 KiB, 3 reports", ["eca", "192", "3"], &[]),
        ]
    };
    let inferred = |cmt, eca| {
        vec![
            curve("CMT, 192 KiB, 4 reports", ["cmt", "192", "4"], cmt),
            curve("ECA, 64 KiB each, 1 report", ["eca", "64-each", "1"], eca),
            curve("CMT, 64 KiB each, 1 report", ["cmt", "64-each", "1"], &[]),
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
    let time = ("time", "first transmission to arrival of the repeat [s]");
    vec![
        over_loss(
            "time",
            "Fast retransmission, as the paper's columns seem to have been made",
            "table III, fig. 6: ECA takes half of CMT's time. Its receive buffers were 64 KB for all paths with CMT, for each with \
             ECA; the reports are not said",
            time,
            inferred(PAPER_CMT, PAPER_ECA),
        ),
        over_loss(
            "time-equal",
            "Fast retransmission, equal buffers and reports",
            "table III: ECA takes half of CMT's time",
            time,
            equal(),
        ),
        over_loss(
            "goodput",
            "Goodput, equal buffers and reports",
            "fig. 5: with ECA a little better, the more so the more path 3 loses; no numbers",
            ("goodput", "goodput [Mbit/s]"),
            equal(),
        ),
        over_loss(
            "windows",
            "How much the congestion windows vary",
            "fig. 4: a smaller deviation with ECA; no numbers",
            ("cwnd_variation", "deviation of their sum over its mean"),
            vec![
                curve("CMT, 64 KiB, 3 reports", ["cmt", "64", "3"], &[]),
                curve("ECA, 64 KiB, 3 reports", ["eca", "64", "3"], &[]),
                curve("CMT, 192 KiB, 4 reports", ["cmt", "192", "4"], &[]),
                curve("ECA, 64 KiB each, 1 report", ["eca", "64-each", "1"], &[]),
            ],
        ),
    ]
}
