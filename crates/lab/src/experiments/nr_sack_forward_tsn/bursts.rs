//! The traffic of a game server, to which no condition and no claim of the paper's experiment was fitted: ticks with many messages while
//! there is action, silence otherwise; longer messages, other lifetimes and other shares of important messages.

use std::time::Duration;

use anabranch_netsim::Generator;
use anabranch_proto::{SendOptions, Timestamp};

use super::simulation::{MESSAGES_BEGIN, Rules, Setting, Variant, numbers, scenario};
use super::{DELAY, MAIN, METRICS, QUEUE, RATE, both};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Parameter, ours};
use crate::figure::{Figure, FigureCurve};
use crate::results::Results;
use crate::stage::{Demand, Messages, Scenario, Stage};
use crate::traffic::{Class, IMPORTANT, NORMAL, Sizes, Submission};
use crate::trial::{Knob, Trial};

/// The time between two ticks of the server.
const TICK: Duration = Duration::from_millis(50);
/// The messages of a tick: one for each object that the player sees.
const OBJECTS: usize = 40;
/// Bytes of a message, with their standard deviation.
const SIZES: Sizes = Sizes::Normal(140.0, 40.0);
/// The mean length of action and of silence in seconds; both are exponentially distributed.
const MEAN_PERIOD: f64 = 3.0;
/// The lifetime of events such as hits, in milliseconds.
const EVENT_LIFETIME: f64 = 1_500.0;
/// The lifetime of positions in milliseconds: the next tick replaces them.
const POSITION_LIFETIME: f64 = 50.0;

const PARAMETERS: &[Parameter] = &[
    ours(
        "bottleneck",
        "10 Mbit/s, 40 ms, 73 kB by dummynet's rule, each way",
    ),
    ours("cross traffic", "4 greedy TCP flows as in nr-sack-forward-tsn"),
    ours(
        "messages",
        "in periods of action, 40 messages every 50 ms (0.9 Mbit/s); periods of action and of silence last 3 s on average",
    ),
    ours("sizes", "normally distributed, 140 B with a deviation of 40 B"),
    ours("lifetimes", "1.5 s important, 50 ms normal; unordered"),
    ours("length", "120 s of messages in each run (quick and short: 60 s)"),
];

const KNOBS: &[Knob] = &[
    RATE,
    DELAY,
    QUEUE,
    Knob {
        name: "important_lifetime",
        unit: "ms",
        about: "lifetime of important messages",
        usual: "1500",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "normal_lifetime",
        unit: "ms",
        about: "lifetime of normal messages",
        usual: "50",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "time in which messages are submitted",
        usual: "120; 60 with --quick and --short",
        range: (1.0, 100_000.0),
    },
];

/// The experiment.
pub(in crate::experiments) fn experiment() -> Experiment {
    Experiment {
        name: "nr-sack-bursts",
        question: "A game server's bursts beside TCP: what does NR-SACK gain with traffic to which no claim was fitted?",
        source: "Rajiullah, Brunstrom: Optimizing PR-SCTP Performance using NR-SACKs, with other traffic",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 8,
            Extent::Short => 15,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures,
        timelines: &Vec::new,
    }
}

/// Ticks of the server in alternating periods of action and silence, as an endless iterator. Lengths, importance and periods have a random
/// generator each.
struct Ticks {
    /// The share of important messages, from 0 to 1.
    important: f64,
    next: Timestamp,
    /// The end of the current period of action.
    until: Timestamp,
    /// Messages of the current tick that are still to come.
    rest: usize,
    periods: Generator,
    lengths: Generator,
    coins: Generator,
}

impl Ticks {
    fn new(seed: u64, start: Timestamp, important: f64) -> Self {
        let mut ticks = Self {
            important,
            next: start,
            until: start,
            rest: OBJECTS,
            periods: Generator::of_process(seed, "periods of action"),
            lengths: Generator::of_process(seed, "message sizes"),
            coins: Generator::of_process(seed, "important messages"),
        };
        ticks.until = start + ticks.period();
        ticks
    }

    fn period(&mut self) -> Duration {
        Duration::from_secs_f64(-MEAN_PERIOD * (1.0 - self.periods.fraction()).ln())
    }

    fn next_tick(&mut self) {
        self.rest = OBJECTS;
        self.next += TICK;
        if self.next > self.until {
            self.next = self.until + self.period();
            self.until = self.next + self.period();
        }
    }
}

impl Iterator for Ticks {
    type Item = Submission;

    fn next(&mut self) -> Option<Submission> {
        if self.rest == 0 {
            self.next_tick();
        }
        self.rest -= 1;
        let is_important = self.coins.fraction() < self.important;
        Some(Submission {
            at: self.next,
            len: SIZES.draw(&mut self.lengths),
            class: if is_important { IMPORTANT } else { NORMAL },
        })
    }
}

/// The paper's scenario with the server's messages in place of the Poisson process.
fn staged(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Scenario {
    let seconds = match extent {
        Extent::Quick | Extent::Short => 60.0,
        Extent::Full => 120.0,
    };
    let seconds = trial.knob_or("seconds", seconds);
    let of_paper = scenario(setting, extent, trial);
    let class = |knob, usual| {
        let lifetime = Duration::from_secs_f64(trial.knob_or(knob, usual) / 1e3);
        Class::from(
            SendOptions::default()
                .unordered(true)
                .reliability(setting.variant.reliability(lifetime)),
        )
    };
    let mut classes = vec![Class::default(); 2];
    classes[IMPORTANT] = class("important_lifetime", EVENT_LIFETIME);
    classes[NORMAL] = class("normal_lifetime", POSITION_LIFETIME);
    let ticks = Ticks::new(trial.seed, MESSAGES_BEGIN, f64::from(setting.important) / 100.0);
    Scenario {
        messages: of_paper.messages.map(|messages| Messages {
            classes,
            demand: Demand::Scheduled(Box::new(ticks)),
            ..messages
        }),
        counts: (MESSAGES_BEGIN, MESSAGES_BEGIN + Duration::from_secs_f64(seconds)),
        ..of_paper
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let at = |rules, important| {
        both(Setting {
            rules,
            important,
            ..MAIN
        })
    };
    let settings: Vec<Setting> = match extent {
        Extent::Quick => [20, 50]
            .into_iter()
            .flat_map(|important| at(Rules::A, important))
            .collect(),
        Extent::Short | Extent::Full => {
            let of_rules = [Rules::A, Rules::C, Rules::Default].into_iter();
            of_rules
                .flat_map(|rules| [5, 20, 50, 80].map(|important| at(rules, important)))
                .flatten()
                .collect()
        }
    };
    let cell = |setting: Setting| {
        let coordinates = vec![
            ("rules", setting.rules.name().to_owned()),
            ("variant", setting.variant.name().to_owned()),
            ("important", setting.important.to_string()),
        ];
        let stage = Stage::new(move |trial| staged(setting, extent, trial), numbers);
        Cell::staged(coordinates, stage)
    };
    settings.into_iter().map(cell).collect()
}

fn at(variant: Variant, important: &'static str) -> [(&'static str, &'static str); 3] {
    [
        ("rules", Rules::A.name()),
        ("variant", variant.name()),
        ("important", important),
    ]
}

/// A metric with NR-SACK as a multiple of the same metric with the existing variant, rules A.
fn rest(metric: &'static str, important: &'static str) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let (with, without) = (at(Variant::NrSack, important), at(Variant::Existing, important));
        results.ratio(&with, &without, metric)
    }
}

/// The bounds on the gain come from a count of round trips. A lost packet has about nine messages. After the loss is detected, the existing
/// variant needs one round trip, and one more for each important message that a normal one follows: on average 2.28 at 20 % important and
/// 3.0 at 50 %. NR-SACK needs at most 2: on average 1.82 and 1.98. With one round trip for the detection, recovery takes 0.86 and 0.75 times
/// as long. The sender's queue grows with the square of this time, to 0.74 and 0.56. If half of the delay is queue, the rest is 0.87 and
/// 0.78; the bounds are these, rounded up.
fn claims() -> Vec<Claim> {
    let gain = |says, most, important| {
        let paper = "not stated";
        Claim::of_ratio(
            says,
            paper,
            Bound::AtMost(most),
            rest("important_delay", important),
        )
    };
    let reach = |says, important| {
        let ratio = rest("important_delivered", important);
        Claim::of_ratio(says, "not stated", Bound::AtLeast(0.995), ratio)
    };
    vec![
        gain(
            "rules A, 20 % important: with NR-SACK the delay is at most 1.05 times as long",
            1.05,
            "20",
        )
        .must(),
        gain(
            "rules A, 50 % important: with NR-SACK the delay is at most 1.05 times as long",
            1.05,
            "50",
        )
        .must(),
        gain(
            "rules A, 20 % important: NR-SACK leaves at most 90 % of the delay",
            0.9,
            "20",
        ),
        gain(
            "rules A, 50 % important: NR-SACK leaves at most 80 % of the delay",
            0.8,
            "50",
        ),
        reach(
            "rules A, 20 % important: NR-SACK delivers at least 0.995 times as many important messages",
            "20",
        ),
        reach(
            "rules A, 50 % important: NR-SACK delivers at least 0.995 times as many important messages",
            "50",
        ),
    ]
}

fn figures() -> Vec<Figure> {
    let curve = |name, rules: Rules, variant: Variant| FigureCurve {
        name,
        at: vec![("rules", rules.name()), ("variant", variant.name())],
        paper: &[],
    };
    vec![Figure {
        name: "delay",
        title: "Bursts of a game server: delay of important messages",
        paper: "",
        x: ("important", "important messages [%]"),
        y: ("important_delay", "delay of important messages [s]"),
        logarithmic: true,
        curves: vec![
            curve("existing, rules A", Rules::A, Variant::Existing),
            curve("nr-sack, rules A", Rules::A, Variant::NrSack),
            curve("existing, rules C", Rules::C, Variant::Existing),
            curve("nr-sack, rules C", Rules::C, Variant::NrSack),
            curve("existing, default", Rules::Default, Variant::Existing),
            curve("nr-sack, default", Rules::Default, Variant::NrSack),
        ],
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ticks have as many messages as the description says, and half of the time is silent.
    #[test]
    fn action_alternates_with_silence() {
        let ticks = Ticks::new(1, MESSAGES_BEGIN, 0.2);
        let end = MESSAGES_BEGIN + Duration::from_secs(3_000);
        let messages: Vec<Submission> = ticks.take_while(|message| message.at < end).collect();
        assert!(messages.windows(2).all(|pair| pair[0].at <= pair[1].at));
        let of_tick = messages.chunk_by(|one, next| one.at == next.at);
        let times: Vec<Timestamp> = of_tick
            .map(|tick| {
                assert_eq!(tick.len(), OBJECTS);
                tick[0].at
            })
            .collect();
        let gaps = times
            .windows(2)
            .map(|pair| pair[1].saturating_duration_since(pair[0]));
        let silences = gaps.filter(|gap| *gap > Duration::from_secs(1)).count();
        assert!(
            (250..500).contains(&silences),
            "{silences} of about 500 silences last for a second"
        );
        // 30,000 ticks, as half of 3,000 s is action, and half a tick more for each of 500 periods.
        let all = times.len() as f64;
        assert!((27_000.0..33_500.0).contains(&all), "{all} ticks");
        let important = messages
            .iter()
            .filter(|message| message.class == IMPORTANT)
            .count();
        let share = important as f64 / messages.len() as f64;
        assert!((share - 0.2).abs() < 0.01, "{share}");
    }
}
