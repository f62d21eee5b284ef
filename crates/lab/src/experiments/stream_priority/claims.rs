//! Claims of the thesis, claims that follow from its model, and claims about the bound on the remaining delay.

use super::simulation::CHAT;
use crate::claim::{Bound, Claim};
use crate::results::Results;

/// A cell, by its differences from the main cell: 56 kbit/s, steady bulk data, priority, the thesis' window, no bound.
#[derive(Clone, Copy)]
struct At {
    link: &'static str,
    traffic: &'static str,
    scheduler: &'static str,
    window: &'static str,
    bound: &'static str,
}

const PRIORITY: At = At {
    link: "56",
    traffic: "steady",
    scheduler: "priority",
    window: "64kib",
    bound: "off",
};

const BASIC: At = PRIORITY.basic();

impl At {
    const fn basic(self) -> Self {
        Self {
            scheduler: "basic",
            ..self
        }
    }

    const fn link(self, link: &'static str) -> Self {
        Self { link, ..self }
    }

    const fn traffic(self, traffic: &'static str) -> Self {
        Self { traffic, ..self }
    }

    const fn narrow(self) -> Self {
        Self { window: "4p", ..self }
    }

    const fn bound(self, bound: &'static str) -> Self {
        Self { bound, ..self }
    }

    fn places(&self) -> [(&'static str, &'static str); 5] {
        [
            ("link", self.link),
            ("traffic", self.traffic),
            ("scheduler", self.scheduler),
            ("window", self.window),
            ("bound", self.bound),
        ]
    }
}

/// A metric of one cell.
fn of(metric: &'static str, cell: At) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| results.sample(&cell.places(), metric)
}

/// The ratio of a metric between two cells.
fn ratio(metric: &'static str, above: At, below: At) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| results.ratio(&above.places(), &below.places(), metric)
}

/// The ratio of stream 0's goodput to stream 1's.
fn shares(cell: At) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let (first, second) = (of("goodput", cell)(results)?, of("bulk_goodput", cell)(results)?);
        Some(first.iter().zip(&second).map(|(a, b)| a / b).collect())
    }
}

/// The smallest growth of the delay from one chat message to the next.
fn least_growth(cell: At) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let delays = CHAT.map(|message| results.sample(&cell.places(), &format!("delay_{}", message + 1)));
        let delays: Vec<Vec<f64>> = delays.collect::<Option<_>>()?;
        let growths = |seed: usize| delays.windows(2).map(move |pair| pair[1][seed] - pair[0][seed]);
        let seeds = 0..results.seeds.len();
        Some(
            seeds
                .map(|seed| growths(seed).fold(f64::INFINITY, f64::min))
                .collect(),
        )
    }
}

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = thin_claims();
    claims.extend(other_claims());
    claims.extend(cause_claims());
    claims.extend(bound_claims());
    claims.extend(fluctuating_claims());
    claims.extend(share_claims());
    claims.extend(one_buffer_claims());
    claims.extend(drop_claims());
    claims
}

/// R0 + R1 > R: the thesis' second figure.
fn thin_claims() -> Vec<Claim> {
    vec![
        Claim::new(
            "56 kbit/s, basic: the delay grows by at least 0.1 s per second",
            "increases over time",
            Bound::AtLeast(0.1),
            of("slope", BASIC),
        )
        .drawn_in("fig-6-1")
        .must(),
        Claim::new(
            "56 kbit/s, priority: the delay grows or falls by at most 0.01 s per second",
            "fairly constant",
            Bound::Within(-0.01, 0.01),
            of("slope", PRIORITY),
        )
        .drawn_in("fig-6-1")
        .must(),
        Claim::new(
            "56 kbit/s, priority: mean delay 7 to 10 s",
            "8 s",
            Bound::Within(7.0, 10.0),
            of("delay", PRIORITY),
        )
        .drawn_in("fig-6-1")
        .must(),
        Claim::new(
            "56 kbit/s, basic: each of the 15 messages takes longer than the message before",
            "the delay increases over time",
            Bound::AtLeast(0.0),
            least_growth(BASIC),
        )
        .drawn_in("fig-6-1"),
        Claim::new(
            "56 kbit/s, priority: each of the 15 messages takes at most 10 s",
            "fairly constant, 8 s on average",
            Bound::AtMost(10.0),
            of("delay_max", PRIORITY),
        )
        .drawn_in("fig-6-1"),
        Claim::of_ratio(
            "56 kbit/s: the last message takes at least 5 times as long with the basic scheduler",
            "increases over time with basic, fairly constant with priority",
            Bound::AtLeast(5.0),
            ratio("delay_last", BASIC, PRIORITY),
        )
        .drawn_in("fig-6-1")
        .must(),
        Claim::of_ratio(
            "56 kbit/s: priority changes the bulk's goodput by less than 1 %",
            "without data of stream 0, stream 1 transmits as much as the windows allow",
            Bound::Within(0.99, 1.01),
            ratio("bulk_goodput", PRIORITY, BASIC),
        )
        .must(),
    ]
}

/// The cases in which priorities help less: enough rate for all streams, too little rate for the urgent stream alone, and equal priorities.
fn other_claims() -> Vec<Claim> {
    let (wide, urgent) = (PRIORITY.link("128"), PRIORITY.traffic("urgent"));
    let equals = PRIORITY.traffic("equals");
    let growing = |says, cell| {
        let slope = of("slope", cell);
        Claim::new(says, "R0 > R: grows either way", Bound::AtLeast(0.1), slope).must()
    };
    vec![
        Claim::of_ratio(
            "128 kbit/s: mean delays with both schedulers within 5 % of each other",
            "both equal, about the propagation delay",
            Bound::Within(0.95, 1.05),
            ratio("delay", wide, wide.basic()),
        )
        .drawn_in("fig-6-2")
        .must(),
        Claim::new(
            "128 kbit/s, priority: mean delay 0.25 to 0.35 s",
            "about the propagation delay, 0.25 s",
            Bound::Within(0.25, 0.35),
            of("delay", wide),
        )
        .drawn_in("fig-6-2"),
        Claim::of_ratio(
            "128 kbit/s: priority changes the bulk's goodput by less than 1 %",
            "without data of stream 0, stream 1 transmits as much as the windows allow",
            Bound::Within(0.99, 1.01),
            ratio("bulk_goodput", wide, wide.basic()),
        )
        .must(),
        growing(
            "R0 > R, basic: the delay grows by at least 0.1 s per second",
            urgent.basic(),
        ),
        growing("R0 > R, priority: the delay grows by at least 0.1 s per second", urgent),
        Claim::of_ratio(
            "R0 > R: the mean delay with priority is below that with the basic scheduler",
            "priority is below basic",
            Bound::AtMost(1.0),
            ratio("delay", urgent, urgent.basic()),
        )
        .must(),
        Claim::of_ratio(
            "two streams with equal priority, one with twice as much data: their goodputs within 2 % of each other",
            "equal priorities share equally",
            Bound::Within(0.98, 1.02),
            shares(equals),
        )
        .must(),
        Claim::of_ratio(
            "two streams, one with twice as much data, basic scheduler: one gets twice the goodput of the other, ± 5 %",
            "not stated: first come, first served",
            Bound::Within(1.9, 2.1),
            shares(equals.basic()),
        ),
    ]
}

/// Where the delay arises.
fn cause_claims() -> Vec<Claim> {
    vec![
        Claim::new(
            "56 kbit/s, priority: at least 95 % of the delay arises in the network, after the first transmission",
            "not stated",
            Bound::AtLeast(0.95),
            |results| {
                let (network, delay) = (of("network", PRIORITY)(results)?, of("delay", PRIORITY)(results)?);
                Some(network.iter().zip(&delay).map(|(a, b)| a / b).collect())
            },
        ),
        Claim::of_ratio(
            "56 kbit/s: the delay in the network is the same with both schedulers, ± 10 %",
            "not stated",
            Bound::Within(0.9, 1.1),
            ratio("network", BASIC, PRIORITY),
        ),
        Claim::new(
            "56 kbit/s, greedy bulk, priority: mean delay 7 to 10 s",
            "8 s",
            Bound::Within(7.0, 10.0),
            of("delay", PRIORITY.traffic("greedy")),
        ),
        Claim::new(
            "128 kbit/s, greedy bulk, priority: mean delay at least 3 s, so the thesis' bulk data was not greedy",
            "about the propagation delay",
            Bound::AtLeast(3.0),
            of("delay", PRIORITY.link("128").traffic("greedy")),
        ),
        Claim::new(
            "56 kbit/s, priority, a window of 4 packets: mean delay at most 1 s",
            "not stated",
            Bound::AtMost(1.0),
            of("delay", PRIORITY.narrow()),
        ),
    ]
}

/// The bound on the delay, which the thesis leaves to future work.
fn bound_claims() -> Vec<Claim> {
    let greedy = PRIORITY.traffic("greedy");
    let quick = |says, cell: At| {
        let delay = of("delay", cell);
        Claim::new(says, "8 s without a bound", Bound::AtMost(1.0), delay).must()
    };
    let cheap = |says, cell: At| {
        let goodput = ratio("bulk_goodput", cell, cell.bound("off"));
        Claim::of_ratio(says, "not stated", Bound::AtLeast(0.98), goodput).must()
    };
    vec![
        quick(
            "56 kbit/s, steady bulk, a bound of 250 ms: mean delay at most 1 s",
            PRIORITY.bound("250ms"),
        ),
        quick(
            "56 kbit/s, greedy bulk, a bound of 250 ms: mean delay at most 1 s",
            greedy.bound("250ms"),
        ),
        cheap(
            "56 kbit/s, steady bulk, a bound of 250 ms: the bulk loses at most 2 % of its goodput",
            PRIORITY.bound("250ms"),
        ),
        cheap(
            "56 kbit/s, greedy bulk, a bound of 250 ms: the bulk loses at most 2 % of its goodput",
            greedy.bound("250ms"),
        ),
        cheap(
            "128 kbit/s, greedy bulk, a bound of 250 ms: the bulk loses at most 2 % of its goodput",
            greedy.link("128").bound("250ms"),
        ),
    ]
}

/// The link's rate changes between 128 and 56 kbit/s.
fn fluctuating_claims() -> Vec<Claim> {
    let changing = PRIORITY.link("128/56").traffic("fluctuating");
    let paper = "fluctuating bandwidth delays all streams; no number";
    vec![
        Claim::of_ratio(
            "128 and 56 kbit/s in turn: the mean delay with priority is at most that with the basic scheduler",
            paper,
            Bound::AtMost(1.0),
            ratio("delay", changing, changing.basic()),
        ),
        Claim::of_ratio(
            "128 and 56 kbit/s in turn: the longest delay with the basic scheduler is at least 1.5 times that with priority",
            paper,
            Bound::AtLeast(1.5),
            ratio("delay_max", changing.basic(), changing),
        ),
        Claim::new(
            "128 and 56 kbit/s in turn, priority: the longest delay is at most 10 s",
            paper,
            Bound::AtMost(10.0),
            of("delay_max", changing),
        ),
        Claim::new(
            "128 and 56 kbit/s in turn, priority, a bound of 250 ms: the longest delay is at most 1.5 s",
            "not stated",
            Bound::AtMost(1.5),
            of("delay_max", changing.bound("250ms")),
        ),
    ]
}

/// The urgent stream has 16 kbit/s; 15.7 kbit/s allow for the messages in flight at the ends of the measured time.
fn keeps_its_rate(says: &'static str, paper: &'static str, cell: At) -> Claim {
    Claim::new(says, paper, Bound::AtLeast(15.7), of("goodput", cell))
}

/// Half of what the urgent stream offers, or less.
fn loses_half(says: &'static str, cell: At) -> Claim {
    Claim::new(says, "not stated", Bound::AtMost(8.0), of("goodput", cell))
}

/// A small send buffer, of which each stream has a share. All data is reliable.
fn share_claims() -> Vec<Claim> {
    let paper = "each stream has its own send buffer";
    let (small, large) = (
        PRIORITY.traffic("pressure-32kib"),
        PRIORITY.traffic("pressure-96kib"),
    );
    let none_refused = |says, cell: At| Claim::new(says, paper, Bound::Within(0.0, 0.0), of("refused", cell));
    vec![
        Claim::of_ratio(
            "send buffer of 96 KiB: the mean delay of accepted messages with priority is at most that with the basic scheduler",
            "not stated",
            Bound::AtMost(1.0),
            ratio("delay", large, large.basic()),
        ),
        keeps_its_rate(
            "send buffer of 32 KiB, priority: stream 0 delivers at least 15.7 of 16 kbit/s",
            paper,
            small,
        ),
        keeps_its_rate(
            "send buffer of 96 KiB, priority: stream 0 delivers at least 15.7 of 16 kbit/s",
            paper,
            large,
        ),
        keeps_its_rate(
            "send buffer of 32 KiB, basic scheduler: stream 0 delivers at least 15.7 of 16 kbit/s",
            paper,
            small.basic(),
        ),
        keeps_its_rate(
            "send buffer of 96 KiB, basic scheduler: stream 0 delivers at least 15.7 of 16 kbit/s",
            paper,
            large.basic(),
        ),
        none_refused(
            "send buffer of 32 KiB, priority: no message of stream 0 is refused",
            small,
        ),
        none_refused(
            "send buffer of 96 KiB, priority: no message of stream 0 is refused",
            large,
        ),
    ]
}

/// One small send buffer for both streams, as other stacks have it. The bulk data fills it, and all data is reliable.
fn one_buffer_claims() -> Vec<Claim> {
    let (small, large) = (
        PRIORITY.traffic("pressure-32kib-one"),
        PRIORITY.traffic("pressure-96kib-one"),
    );
    vec![
        loses_half(
            "one send buffer of 32 KiB, priority: stream 0 delivers at most 8 kbit/s",
            small,
        ),
        loses_half(
            "one send buffer of 96 KiB, priority: stream 0 delivers at most 8 kbit/s",
            large,
        ),
        loses_half(
            "one send buffer of 96 KiB, priority, a bound of 250 ms: stream 0 delivers at most 8 kbit/s",
            large.bound("250ms"),
        ),
    ]
}

/// One send buffer for both streams, and the sender may drop bulk data that it has not sent yet.
fn drop_claims() -> Vec<Claim> {
    let paper = "less important data expires when the bandwidth is short; no number";
    let (small, large) = (
        PRIORITY.traffic("pressure-32kib-one-drop"),
        PRIORITY.traffic("pressure-96kib-one-drop"),
    );
    vec![
        keeps_its_rate(
            "one send buffer of 96 KiB, the bulk may be dropped, priority: stream 0 delivers at least 15.7 of 16 kbit/s",
            paper,
            large,
        ),
        keeps_its_rate(
            "one send buffer of 96 KiB, the bulk may be dropped, basic scheduler: stream 0 delivers at least 15.7 of 16 kbit/s",
            "not stated",
            large.basic(),
        ),
        Claim::new(
            "one send buffer of 96 KiB, the bulk may be dropped, priority: no message of stream 0 is refused",
            paper,
            Bound::Within(0.0, 0.0),
            of("refused", large),
        ),
        Claim::new(
            "one send buffer of 96 KiB, the bulk may be dropped, priority: 5 to 9 % of the bulk's messages are accepted and then dropped",
            "not stated",
            Bound::Within(5.0, 9.0),
            of("bulk_abandoned", large),
        ),
        Claim::of_ratio(
            "one send buffer of 96 KiB, the bulk may be dropped: the mean delay with priority is at most that with the basic scheduler",
            "not stated",
            Bound::AtMost(1.0),
            ratio("delay", large, large.basic()),
        ),
        loses_half(
            "one send buffer of 32 KiB, the bulk may be dropped, priority: stream 0 delivers at most 8 kbit/s",
            small,
        ),
        keeps_its_rate(
            "one send buffer of 32 KiB, the bulk may be dropped, priority, a bound of 250 ms: stream 0 delivers at least 15.7 of 16 kbit/s",
            paper,
            small.bound("250ms"),
        ),
        Claim::new(
            "one send buffer of 32 KiB, the bulk may be dropped, priority, a bound of 250 ms: the longest delay is at most 1.5 s",
            "not stated",
            Bound::AtMost(1.5),
            of("delay_max", small.bound("250ms")),
        ),
    ]
}
