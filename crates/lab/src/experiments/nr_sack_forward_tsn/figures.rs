//! The figures: delay over the share of important messages, for both variants.

use crate::figure::{Figure, FigureCurve};

/// Curves of both variants, for these rules, message sizes and loads.
fn both(
    names: [&'static str; 2],
    rules: &'static str,
    bytes: &'static str,
    load: &'static str,
) -> Vec<FigureCurve> {
    let curve = |(name, variant): (&'static str, &'static str)| FigureCurve {
        name,
        at: vec![
            ("rules", rules),
            ("variant", variant),
            ("bytes", bytes),
            ("sizes", "fixed"),
            ("load", load),
        ],
        paper: &[],
    };
    let [existing, nr_sack] = names;
    [(existing, "existing"), (nr_sack, "nr-sack")].map(curve).into()
}

fn figure(name: &'static str, title: &'static str, paper: &'static str, curves: Vec<FigureCurve>) -> Figure {
    Figure {
        name,
        title,
        paper,
        x: ("important", "important messages [%]"),
        y: ("important_delay", "delay of important messages [s]"),
        logarithmic: false,
        curves,
    }
}

pub(super) fn figures() -> Vec<Figure> {
    let rules = [
        both(["existing, rules A", "nr-sack, rules A"], "A", "72", "30"),
        both(["existing, rules B", "nr-sack, rules B"], "B", "72", "30"),
    ];
    let sizes = [
        both(["existing, 72 B", "nr-sack, 72 B"], "A", "72", "30"),
        both(["existing, 716 B", "nr-sack, 716 B"], "A", "716", "30"),
    ];
    let loads = [
        both(["existing, 15 %", "nr-sack, 15 %"], "A", "72", "15"),
        both(["existing, 30 %", "nr-sack, 30 %"], "A", "72", "30"),
    ];
    vec![
        figure(
            "share",
            "Delay with messages of 72 bytes at 30 % load, for two interpretations of RFC 9260",
            "the existing FORWARD-TSN has a bump, highest at half important messages; with NR-SACKs the delay rises evenly, over \
             75 % lower at 1 % important and over 65 % lower at 50 %; at 100 % the two coincide",
            rules.concat(),
        ),
        figure(
            "size",
            "Delay with small and large messages",
            "the gain shrinks as messages grow: from 348 to 716 bytes the curves nearly touch",
            sizes.concat(),
        ),
        figure(
            "load",
            "Delay at low and higher load",
            "at 72 bytes every load except 15 % has the bump",
            loads.concat(),
        ),
    ]
}
