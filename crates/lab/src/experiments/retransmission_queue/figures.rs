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
        paper: "NR-SACKs reduce send buffer blocking and improve CMT throughput; no numbers",
        x: ("buffer", "send buffer [KiB]"),
        y: ("goodput", "goodput [Mbit/s]"),
        logarithmic: false,
        curves: both(["SACK", "NR-SACK"], &[("paths", paths), ("loss", loss)]),
    }
}

fn curve(name: &'static str, at: &[(&'static str, &'static str)]) -> FigureCurve {
    FigureCurve {
        name,
        at: at.to_vec(),
        paper: &[],
    }
}

/// A metric over the loss rates of one path, with these curves of SACKs by buffer. The curve of NR-SACKs is the same for all buffers, so
/// that it is drawn once.
fn over_losses(
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    y: (&'static str, &'static str),
    sacks: &[(&'static str, &'static str)],
) -> Figure {
    let one = |name, buffer, ack| curve(name, &[("paths", "one"), ("buffer", buffer), ("ack", ack)]);
    let mut curves: Vec<FigureCurve> = sacks
        .iter()
        .map(|(name, buffer)| one(name, buffer, "sack"))
        .collect();
    curves.push(one("NR-SACK, 64 KiB or unlimited", "4096", "nr-sack"));
    Figure {
        name,
        title,
        paper,
        x: ("loss", "loss [%]"),
        y,
        logarithmic: false,
        curves,
    }
}

/// The slide's title as a figure: a curve with NR-SACKs reaches the height of the curve with SACKs at a smaller buffer.
fn smaller_queue() -> Figure {
    let line = |name, paths, loss, ack| curve(name, &[("paths", paths), ("loss", loss), ("ack", ack)]);
    Figure {
        name: "smaller-queue",
        title: "Goodput by the size of the send buffer, which limits the retransmission queue",
        paper: "“NR-SACKs require smaller RtxQ” for the same throughput; no numbers",
        x: ("buffer", "send buffer [KiB], 4096: unlimited"),
        y: ("goodput", "goodput [Mbit/s]"),
        logarithmic: false,
        curves: vec![
            line("SACK, 10 + 2 Mbit/s", "10+2", "0.1/1", "sack"),
            line("NR-SACK, 10 + 2 Mbit/s", "10+2", "0.1/1", "nr-sack"),
            line("SACK, three paths", "three", "0.1/1/3", "sack"),
            line("NR-SACK, three paths", "three", "0.1/1/3", "nr-sack"),
        ],
    }
}

pub(super) fn figures() -> Vec<Figure> {
    vec![
        over_losses(
            "utilisation",
            "Utilisation of the retransmission queue in loss recovery",
            "with SACKs about half of the queue is kept unnecessarily in loss recovery; with NR-SACKs nothing is",
            ("utilisation_recovery", "share of the queue that is needed"),
            &[("SACK, unlimited", "4096"), ("SACK, 64 KiB", "64")],
        ),
        over_losses(
            "utilisation-whole",
            "RtxQ_Util for SCTP, one path, over the whole time",
            "the slide's graph is lost; without loss SACK and NR-SACK are equal, and with NR-SACKs the whole queue is needed",
            ("utilisation", "share of the queue that is needed"),
            // The curve with 64 KiB would lie on top of this one.
            &[("SACK, unlimited", "4096")],
        ),
        smaller_queue(),
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
