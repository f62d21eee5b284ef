//! The figures: over the loss rate, for each variant.

use super::LOSS_BEGINS;
use super::model::{BUFFERED, CORRECTED, PRINTED, RATE, REDUCED, WINDOW};
use super::simulation::GAPS;
use crate::figure::{Figure, FigureCurve};
use crate::plot::Drawing;
use crate::timeline::{Timeline, TimelineCurve};
use crate::trace::Trace;

const LOSS: (&str, &str) = ("loss", "loss rate");

fn curve(variant: &'static str, paper: &'static [(f64, f64)]) -> FigureCurve {
    FigureCurve {
        name: variant,
        at: vec![("variant", variant)],
        paper,
    }
}

/// All variants, with the paper's points for the two variants that it simulated. Its standard sender is compared with full packets.
fn curves(standard: &'static [(f64, f64)], both: &'static [(f64, f64)]) -> Vec<FigureCurve> {
    vec![
        curve("standard", &[]),
        curve("early discard", &[]),
        curve("selective forward", &[]),
        curve("both", both),
        curve("both and nr-sack", &[]),
        curve("standard, full packets", standard),
        curve("both, full packets", &[]),
    ]
}

/// A curve of a formula.
fn reckoned(name: &'static str, points: &'static [(f64, f64)]) -> FigureCurve {
    FigureCurve {
        name,
        at: vec![],
        paper: points,
    }
}

/// Figure 1 of the paper. Its curves are lost to us, and the text states no shape. Equation (5) has the quantity that the figure shows.
fn reduction() -> Figure {
    Figure {
        name: "fig-1",
        title: "Fig. 1: reduction of the blocking time",
        paper: "no shape in the text; probably drawn from equation (5), whose reduction approaches 100 % as losses become rare and is less \
                at high loss rates; the curves here are the equation as printed and with corrections",
        x: LOSS,
        y: ("reduction of blocking_mean", "reduction of mean blocking [%]"),
        logarithmic: false,
        curves: vec![
            curve("standard", &[]),
            curve("both", &[]),
            curve("both and nr-sack", &[]),
            reckoned("(5) as printed", &REDUCED[0]),
            reckoned("(5) corrected", &REDUCED[1]),
        ],
    }
}

/// The paper's model and the simulation. The simulation has NR-SACK, because FORWARD-TSN does not stop in the model either.
fn model() -> Figure {
    let simulated = |name, variant| FigureCurve {
        name,
        ..curve(variant, &[])
    };
    Figure {
        name: "model",
        title: "The paper's equation (5) and the simulation",
        paper: "fig. 1 is probably drawn from equation (5). As printed, the equation gives less than a third of the blocking that the paper simulated. \
                Corrections: the window is a whole number; p is squared once; W (1 - p) packets arrive in either case; a mean over \
                packets multiplies by the blocked share instead of dividing by packets; a gap lasts for the reports and a \
                round-trip time, and blocks all of that time; T3-rtx expires if too few packets follow to report the loss; the \
                extensions wait for one report; acknowledgements are lost too",
        x: LOSS,
        y: ("blocking_mean", "blocking, mean [s]"),
        logarithmic: true,
        curves: vec![
            simulated("standard, simulated", "standard"),
            reckoned("standard, (5) as printed", &PRINTED[0]),
            reckoned("standard, (5) corrected", &CORRECTED[0]),
            simulated("both and nr-sack, simulated", "both and nr-sack"),
            reckoned("extensions, (5) as printed", &PRINTED[1]),
            reckoned("extensions, (5) corrected", &CORRECTED[1]),
        ],
    }
}

/// The paper's equations (1), (2) and (6), each with the simulation.
fn equations() -> [Figure; 3] {
    [
        Figure {
            name: "window",
            title: "The paper's equation (1) and the simulated congestion window",
            paper: "equation (1): the mean window is four packets at 11 % of loss (a SACK for every second packet) or at 25 % (a SACK for \
                    each packet)",
            x: LOSS,
            y: ("window_mean", "congestion window, mean [packets]"),
            logarithmic: true,
            curves: vec![
                curve("standard", &[]),
                curve("both", &[]),
                reckoned("(1), mean window", &WINDOW),
            ],
        },
        Figure {
            name: "rate",
            title: "The paper's equation (2) and the simulated rate of the sender",
            paper: "equation (2), after Padhye and others: packets sent in a second, with a timeout of 1 s",
            x: LOSS,
            y: ("send_rate", "packets sent [1/s]"),
            logarithmic: true,
            curves: vec![
                curve("standard", &[]),
                curve("both", &[]),
                reckoned("(2), rate of the sender", &RATE),
            ],
        },
        Figure {
            name: "fig-2",
            title: "Fig. 2: messages held for each buffering event",
            paper: "drawn from equation (6): slightly more with the extensions at high loss rates",
            x: LOSS,
            y: ("buffer_mean", "held for each event [messages]"),
            logarithmic: true,
            curves: vec![
                curve("standard", &[(0.1, 4.4)]),
                curve("both", &[(0.1, 1.4)]),
                curve("both and nr-sack", &[]),
                reckoned("standard, (6)", &BUFFERED[0]),
                reckoned("extensions, (6)", &BUFFERED[1]),
            ],
        },
    ]
}

pub(super) fn figures() -> Vec<Figure> {
    let mut figures = vec![reduction(), model()];
    figures.extend(equations());
    figures.extend(measured());
    figures
}

/// The paper's figures and table, by loss rate.
fn measured() -> Vec<Figure> {
    vec![
        Figure {
            name: "blocking",
            title: "Head-of-line blocking by lost messages",
            paper: "§4: at 10 % loss 0.18 s without the extensions, 0.009 s with both; by equation (5) the reduction approaches 100 % as \
                    losses become rare",
            x: LOSS,
            y: ("blocking_mean", "blocking, mean [s]"),
            logarithmic: true,
            curves: curves(&[(0.1, 0.18)], &[(0.1, 0.009)]),
        },
        Figure {
            name: "evenness",
            title: "Variation of the time between deliveries",
            paper: "at 10 % loss the time between deliveries has a standard deviation of 0.276 s without the extensions, 0.116 s with both",
            x: LOSS,
            y: ("interarrival_std", "between deliveries, deviation [s]"),
            logarithmic: true,
            curves: curves(&[(0.1, 0.276)], &[(0.1, 0.116)]),
        },
        Figure {
            name: "held",
            title: "Messages held by the receiver",
            paper: "figs. 5 and 6: at 10 % loss 5026 messages without the extensions, \
                    summed over the arrivals after which any were held; 344 with both",
            x: LOSS,
            y: ("buffer_data", "held, sum over arrivals [messages]"),
            logarithmic: true,
            curves: curves(&[(0.1, 5026.0)], &[(0.1, 344.0)]),
        },
        Figure {
            name: "goodput",
            title: "Goodput",
            paper: "no gain up to 11 % of loss, where the mean window is four packets; gain above 11 %; no cost as losses become rare",
            x: LOSS,
            y: ("goodput", "goodput [Mbit/s]"),
            logarithmic: true,
            curves: curves(&[], &[]),
        },
    ]
}

/// The messages that the receiver holds after each arrival: those that arrived and are delivered later.
fn held(trace: &Trace) -> Vec<(f64, f64)> {
    let arrivals = trace
        .messages()
        .iter()
        .filter_map(|message| Some((message.arrived?, message.delivered?)));
    let mut arrivals: Vec<_> = arrivals.collect();
    arrivals.sort_by_key(|(arrived, _)| *arrived);
    let mut waiting = Vec::new();
    let mut points = Vec::new();
    for (arrived, delivered) in arrivals {
        waiting.push(delivered);
        waiting.retain(|delivered| *delivered > arrived);
        if arrived >= LOSS_BEGINS {
            points.push((arrived.as_secs_f64(), waiting.len() as f64));
        }
    }
    points
}

/// A number of the paper, as a line over the measured time.
macro_rules! paper {
    ($name:literal, $value:literal, $unit:literal) => {
        TimelineCurve {
            name: concat!("paper, ", $name, ": ", $value, $unit),
            at: vec![],
            points: |_| vec![(30.0, $value), (300.0, $value)],
        }
    };
}

/// The paper's traces at 10 % loss, with both sizes of chunks on both sides.
pub(super) fn timelines() -> Vec<Timeline> {
    let curves = |points: fn(&Trace) -> Vec<(f64, f64)>, variants: &[&'static str]| {
        let curve = |name: &&'static str| TimelineCurve {
            name,
            at: vec![("variant", *name), ("loss", "0.1")],
            points,
        };
        variants.iter().map(curve).collect::<Vec<_>>()
    };
    let standard = ["standard", "standard, full packets"];
    let extended = ["both", "both, full packets", "both and nr-sack"];
    let gaps = |variants: &[&'static str], paper: [TimelineCurve; 2]| {
        let gaps = curves(|trace| trace.own_points(GAPS), variants);
        gaps.into_iter().chain(paper).collect()
    };
    let held = |variants: &[&'static str], paper: TimelineCurve| {
        let held = curves(held, variants);
        held.into_iter().chain([paper]).collect()
    };
    let deliveries = |name, title, paper, curves| Timeline {
        name,
        title,
        paper,
        x: "time [s]",
        y: "since the last delivery [s]",
        logarithmic: true,
        drawing: Drawing::Dots,
        curves,
    };
    let occupancy = |name, title, paper, curves| Timeline {
        name,
        title,
        paper,
        x: "time [s]",
        y: "held after an arrival [messages]",
        logarithmic: false,
        drawing: Drawing::Line,
        curves,
    };
    vec![
        deliveries(
            "fig-3",
            "Fig. 3: time between deliveries, standard, 10 % loss, one run",
            "mean 0.133 s, maximum 2.647 s, standard deviation 0.276 s",
            gaps(
                &standard,
                [paper!("mean", 0.133, " s"), paper!("maximum", 2.647, " s")],
            ),
        ),
        deliveries(
            "fig-4",
            "Fig. 4: time between deliveries, both extensions, 10 % loss, one run",
            "mean 0.101 s, maximum 1.343 s, standard deviation 0.116 s",
            gaps(
                &extended,
                [paper!("mean", 0.101, " s"), paper!("maximum", 1.343, " s")],
            ),
        ),
        occupancy(
            "fig-5",
            "Fig. 5: messages held by the receiver, standard, 10 % loss, one run",
            "5026 messages in 1131 events, 4.4 for each event",
            held(&standard, paper!("mean of an event", 4.4, " messages")),
        ),
        occupancy(
            "fig-6",
            "Fig. 6: messages held by the receiver, both extensions, 10 % loss, one run",
            "344 messages in 252 events, 1.4 for each event. With full packets, no space is left for a notice, so the sender splits each \
             message into two chunks",
            held(&extended, paper!("mean of an event", 1.4, " messages")),
        ),
    ]
}
