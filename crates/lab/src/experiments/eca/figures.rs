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
            "How long fast retransmission takes: the paper's columns as they seem to have been made",
            "table III, fig. 6: CMT 0.51 to 0.64 s, ECA 0.27 to 0.32 s, half",
            time,
            inferred(PAPER_CMT, PAPER_ECA),
        ),
        over_loss(
            "time-equal",
            "How long fast retransmission takes: equal buffers, equal reports",
            "half; receive buffers of 64 KB for each path with ECA, of 64 KB for all with CMT",
            time,
            equal(),
        ),
        over_loss(
            "goodput",
            "Goodput: equal buffers, equal reports",
            "fig. 5: with ECA a little better, the more so the more path 3 loses; no numbers",
            ("goodput", "goodput [Mbit/s]"),
            equal(),
        ),
        over_loss(
            "windows",
            "How much the congestion windows vary",
            "fig. 4: a smaller deviation with ECA; no numbers",
            ("cwnd_variation", "deviation of their sum over its mean"),
            equal(),
        ),
    ]
}
