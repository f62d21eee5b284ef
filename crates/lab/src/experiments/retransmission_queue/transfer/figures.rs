//! The figures of file transfers: utilisation over the losses and over the RTT, and goodput over the RTT.

use crate::figure::{Figure, FigureCurve};

fn curve(name: &'static str, at: &[(&'static str, &'static str)]) -> FigureCurve {
    FigureCurve {
        name,
        at: at.to_vec(),
        paper: &[],
    }
}

fn utilisation(
    name: &'static str,
    title: &'static str,
    x: (&'static str, &'static str),
    curves: Vec<FigureCurve>,
) -> Figure {
    Figure {
        name,
        title,
        paper: "RtxQ_Util = Σ tᵢ kᵢ / rᵢ ÷ T, where T is the time of a file transfer; the slide's graph is lost",
        x,
        y: ("utilisation", "RtxQ_Util over the transfer"),
        logarithmic: false,
        curves,
    }
}

/// Curves that would lie on top of each other are drawn once: NR-SACKs with any buffer, SACKs beside TCP with any buffer, and the goodput
/// with an unlimited buffer.
pub(super) fn figures() -> Vec<Figure> {
    let medium = |name, buffer, ack| curve(name, &[("rtt", "98"), ("buffer", buffer), ("ack", ack)]);
    let beside = |name, buffer, ack| curve(name, &[("losses", "tcp"), ("buffer", buffer), ("ack", ack)]);
    vec![
        utilisation(
            "transfer-losses",
            "Utilisation of the retransmission queue over a file transfer, RTT 98 ms",
            ("losses", "random loss [%], or four TCP flows"),
            vec![
                medium("SACK, unlimited", "4096", "sack"),
                medium("SACK, 32 KiB", "32", "sack"),
                medium("NR-SACK, each buffer", "4096", "nr-sack"),
            ],
        ),
        utilisation(
            "transfer-rtt",
            "Utilisation of the retransmission queue over a file transfer with four TCP flows",
            ("rtt", "RTT without queueing [ms]"),
            vec![
                beside("SACK, unlimited", "4096", "sack"),
                beside("NR-SACK, each buffer", "4096", "nr-sack"),
            ],
        ),
        Figure {
            name: "transfer-goodput",
            title: "Goodput of a file transfer with four TCP flows",
            paper: "",
            x: ("rtt", "RTT without queueing [ms]"),
            y: ("goodput", "goodput [Mbit/s]"),
            logarithmic: false,
            curves: vec![
                beside("SACK or NR-SACK, unlimited", "4096", "sack"),
                beside("SACK, 32 KiB", "32", "sack"),
                beside("NR-SACK, 32 KiB", "32", "nr-sack"),
            ],
        },
    ]
}
