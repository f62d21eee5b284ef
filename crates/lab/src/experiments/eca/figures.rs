//! The pictures: time, goodput and windows over the loss of the worst path.

use crate::figure::{Figure, FigureCurve};

/// Table III.
const PAPER_CMT: &[(f64, f64)] = &[(3.0, 0.51192), (5.0, 0.506046), (10.0, 0.60335), (15.0, 0.644724)];

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
    let x = ("loss", "loss of path 3 [%]");
    vec![Figure {
        name: "time",
        title: "How long fast retransmission takes",
        paper: "table III, fig. 6: CMT 0.51 to 0.64 s",
        x,
        y: ("time", "first transmission to arrival of the repeat [s]"),
        logarithmic: false,
        curves: vec![
            curve("CMT, 192 KiB, 4 reports", ["cmt", "192", "4"], PAPER_CMT),
            curve("CMT, 192 KiB, 3 reports", ["cmt", "192", "3"], &[]),
            curve("CMT, 64 KiB, 3 reports", ["cmt", "64", "3"], &[]),
        ],
    }]
}
