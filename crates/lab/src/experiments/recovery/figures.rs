//! Figures of the goodput and the echo delay over the loss, and of the queueing delay.

use super::{echo, goodput, queue};
use crate::figure::{Figure, FigureCurve};

/// (1 − p) times the user data of a full link, in Mbit/s: the goodput if the network is always full.
const THIN_LIMIT: &[(f64, f64)] = &[(0.0, 9.63), (0.1, 9.62), (1.0, 9.53), (5.0, 9.15)];
const FAST_LIMIT: &[(f64, f64)] = &[(0.0, 48.1), (0.1, 48.1), (1.0, 47.6), (5.0, 45.7)];

pub(super) fn figures() -> Vec<Figure> {
    let curve = |scenario, case, sender| FigureCurve {
        name: sender,
        at: vec![("scenario", scenario), ("case", case), ("sender", sender)],
        paper: &[],
    };
    let goodput = |name, title, case, limit| {
        let senders = ["rfc9260", "cubic", "bbr", "bbr-random-loss"];
        let mut curves: Vec<FigureCurve> = senders
            .into_iter()
            .map(|sender| curve(goodput::NAME, case, sender))
            .collect();
        curves.push(FigureCurve {
            name: "1 − p",
            at: vec![],
            paper: limit,
        });
        Figure {
            name,
            title,
            paper: "",
            x: ("loss", "loss in both directions [%]"),
            y: ("goodput", "goodput [Mbit/s]"),
            logarithmic: true,
            curves,
        }
    };
    vec![
        goodput(
            "goodput-10",
            "Goodput at 10 Mbit/s and 40 ms",
            goodput::THIN,
            THIN_LIMIT,
        ),
        goodput(
            "goodput-50",
            "Goodput at 50 Mbit/s and 100 ms",
            goodput::FAST,
            FAST_LIMIT,
        ),
        Figure {
            name: "echo",
            title: "Echo of 100 messages a second, 40 ms",
            paper: "",
            x: ("loss", "loss in both directions [%]"),
            y: ("delay_99", "99th percentile of the delay [s]"),
            logarithmic: true,
            curves: ["rfc9260", "rack", "cubic"]
                .map(|sender| curve(echo::NAME, echo::CASE, sender))
                .into(),
        },
        Figure {
            name: "queue",
            title: "Queueing delay at 10 Mbit/s with a queue of 1,000 packets",
            paper: "",
            x: ("sender", "sender"),
            y: ("delay_95", "95th percentile of the delay [s]"),
            logarithmic: true,
            curves: vec![FigureCurve {
                name: "95th percentile",
                at: vec![("scenario", queue::NAME), ("case", queue::CASE)],
                paper: &[],
            }],
        },
    ]
}
