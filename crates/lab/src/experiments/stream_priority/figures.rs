//! The figures: the chat's delay on both links, and the effect of a bound on the chat and on the bulk data.

use crate::figure::{Figure, FigureCurve, SERIES};

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

/// The chat with priority and steady bulk data on the link of 56 kbit/s, over the bound.
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
        x: ("bound", "bound on less urgent data in the network"),
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

/// The delay of each chat message.
fn by_message(
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    curves: Vec<FigureCurve>,
) -> Figure {
    Figure {
        name,
        title,
        paper,
        x: (SERIES, "chat message, by number"),
        y: ("delay", "delay of the message [s]"),
        logarithmic: false,
        curves,
    }
}

/// A curve of the thesis' figure 6, for one of its links.
fn on_link(link: &'static str, scheduler: &'static str, paper: &'static [(f64, f64)]) -> FigureCurve {
    let mut curve = curve(scheduler, "steady", scheduler, "off");
    curve.at.push(("link", link));
    FigureCurve { paper, ..curve }
}

pub(super) fn figures() -> Vec<Figure> {
    let priority = FigureCurve {
        paper: &[(56.0, 8.0)],
        ..curve("priority", "steady", "priority", "off")
    };
    let fluctuating = |name, scheduler, bound| curve(name, "fluctuating", scheduler, bound);
    vec![
        by_message(
            "fig-6-1",
            "56 kbit/s: delay message by message",
            "figure 6 (1), first 5 of 20 messages left out: the basic scheduler's delay increases over time, without numbers; priority is \
             fairly constant at 8 s",
            vec![
                on_link("56", "basic", &[]),
                on_link("56", "priority", &[(6.0, 8.0), (20.0, 8.0)]),
            ],
        ),
        by_message(
            "fig-6-2",
            "128 kbit/s: delay message by message",
            "figure 6 (2): both schedulers are equal, near the propagation delay of 0.25 s",
            vec![
                on_link("128", "basic", &[]),
                on_link("128", "priority", &[]),
                FigureCurve {
                    name: "propagation delay",
                    at: vec![],
                    paper: &[(6.0, 0.25), (20.0, 0.25)],
                },
            ],
        ),
        by_message(
            "messages-fluctuating",
            "128 and 56 kbit/s in turn: delay message by message",
            "",
            vec![
                fluctuating("basic", "basic", "off"),
                fluctuating("priority", "priority", "off"),
                fluctuating("priority, bound of 250 ms", "priority", "250ms"),
            ],
        ),
        Figure {
            name: "link",
            title: "Delay of the chat",
            paper: "56 kbit/s: first come, first served increases over time, priority is fairly constant at 8 s; 128 kbit/s: both \
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
            "Delay of the chat with a bound",
            ("delay", "delay of chat messages [s]"),
            true,
        ),
        by_bound(
            "price",
            "Goodput of the bulk data with a bound",
            ("bulk_goodput", "goodput of the bulk [kbit/s]"),
            false,
        ),
    ]
}
