//! The figures: over the loss rate on one path, and over the send buffer on several paths.

use crate::figure::{Figure, FigureCurve};

/// Curves of SACK and NR-SACK at these places.
fn both(names: [&'static str; 2], at: &[(&'static str, &'static str)]) -> Vec<FigureCurve> {
    let curve = |(name, ack): (&'static str, &'static str)| {
        let mut at = at.to_vec();
        at.push(("ack", ack));
        FigureCurve { name, at, paper: &[] }
    };
    let [sack, nr_sack] = names;
    [(sack, "sack"), (nr_sack, "nr-sack")].map(curve).into()
}

fn over_buffers(name: &'static str, title: &'static str, paths: &'static str, loss: &'static str) -> Figure {
    Figure {
        name,
        title,
        paper: "less send-buffer blocking with NR-SACKs, higher throughput with small send buffers, and the gap closes as the \
                buffer grows; no numbers",
        x: ("buffer", "send buffer [KiB]"),
        y: ("goodput", "goodput [Mbit/s]"),
        logarithmic: false,
        curves: both(["SACK", "NR-SACK"], &[("paths", paths), ("loss", loss)]),
    }
}

pub(super) fn figures() -> Vec<Figure> {
    let mut curves = both(
        ["SACK, unlimited", "NR-SACK, unlimited"],
        &[("paths", "one"), ("buffer", "4096")],
    );
    curves.extend(both(
        ["SACK, 64 KiB", "NR-SACK, 64 KiB"],
        &[("paths", "one"), ("buffer", "64")],
    ));
    vec![
        Figure {
            name: "utilisation",
            title: "Utilisation of the retransmission queue in loss recovery",
            paper: "with SACKs about half of the queue is kept unnecessarily in loss recovery; with NR-SACKs nothing is",
            x: ("loss", "loss [%]"),
            y: ("utilisation_recovery", "share of the queue that is needed"),
            logarithmic: false,
            curves,
        },
        over_buffers("pair", "Two equal paths, 1 % loss each", "pair", "1/1"),
        over_buffers(
            "unequal",
            "Two paths: 10 Mbit/s with 20 ms, and 2 Mbit/s with 100 ms",
            "10+2",
            "0.1/1",
        ),
        over_buffers("three", "Three unequal paths", "three", "0.1/1/3"),
    ]
}
