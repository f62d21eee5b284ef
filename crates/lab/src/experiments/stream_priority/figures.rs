//! The pictures: the chat's delay on both links, and what a bound does to it and to the bulk.

use crate::figure::{Figure, FigureCurve};

fn curve(
    name: &'static str,
    traffic: &'static str,
    scheduler: &'static str,
    bound: &'static str,
) -> FigureCurve {
    FigureCurve {
        name,
        at: vec![
            ("traffic", traffic),
            ("scheduler", scheduler),
            ("window", "64kib"),
            ("bound", bound),
        ],
        paper: &[],
    }
}

/// By priority beside steady bulk on the thin link, over the bound.
fn by_bound(
    name: &'static str,
    title: &'static str,
    y: (&'static str, &'static str),
    logarithmic: bool,
) -> Figure {
    Figure {
        name,
        title,
        paper: "the thesis has no bound: 8 s",
        x: ("bound", "bound on less urgent data that has left"),
        y,
        logarithmic,
        curves: vec![FigureCurve {
            name: "priority, 56 kbit/s",
            at: vec![
                ("link", "56"),
                ("traffic", "steady"),
                ("scheduler", "priority"),
                ("window", "64kib"),
            ],
            paper: &[],
        }],
    }
}

pub(super) fn figures() -> Vec<Figure> {
    let priority = FigureCurve {
        paper: &[(56.0, 8.0)],
        ..curve("priority", "steady", "priority", "off")
    };
    vec![
        Figure {
            name: "link",
            title: "How late the chat is",
            paper: "56 kbit/s: first come, first served grows without bound, priority is fairly constant at 8 s; 128 kbit/s: both \
                    about the propagation delay",
            x: ("link", "link [kbit/s]"),
            y: ("delay", "delay of chat messages [s]"),
            logarithmic: true,
            curves: vec![
                curve("first come, first served", "steady", "basic", "off"),
                priority,
                curve("priority, greedy bulk", "greedy", "priority", "off"),
                curve(
                    "priority, greedy bulk, bound of 250 ms",
                    "greedy",
                    "priority",
                    "250ms",
                ),
            ],
        },
        by_bound(
            "bound",
            "What a bound does to the chat",
            ("delay", "delay of chat messages [s]"),
            true,
        ),
        by_bound(
            "price",
            "What a bound costs the bulk",
            ("bulk_goodput", "goodput of the bulk [kbit/s]"),
            false,
        ),
    ]
}
