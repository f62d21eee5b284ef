//! Claims of the paper, and claims about the conditions on which the effect depends.

use crate::claim::{Bound, Claim};
use crate::results::Results;

/// A cell, by its differences from the main cell: rules A, 72 bytes of fixed size, 30 % load.
#[derive(Clone, Copy)]
struct At {
    rules: &'static str,
    variant: &'static str,
    bytes: &'static str,
    sizes: &'static str,
    load: &'static str,
    important: &'static str,
}

const fn existing(important: &'static str) -> At {
    At {
        rules: "A",
        variant: "existing",
        bytes: "72",
        sizes: "fixed",
        load: "30",
        important,
    }
}

const fn nr_sack(important: &'static str) -> At {
    At {
        variant: "nr-sack",
        ..existing(important)
    }
}

impl At {
    const fn rules(self, rules: &'static str) -> Self {
        Self { rules, ..self }
    }

    const fn bytes(self, bytes: &'static str) -> Self {
        Self { bytes, ..self }
    }

    const fn normal_sizes(self) -> Self {
        Self {
            sizes: "normal",
            ..self
        }
    }

    const fn load(self, load: &'static str) -> Self {
        Self { load, ..self }
    }

    fn places(&self) -> [(&'static str, &'static str); 6] {
        [
            ("rules", self.rules),
            ("variant", self.variant),
            ("bytes", self.bytes),
            ("sizes", self.sizes),
            ("load", self.load),
            ("important", self.important),
        ]
    }
}

/// The ratio of the important messages' delay between two cells.
fn delay_ratio(above: At, below: At) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| results.ratio(&above.places(), &below.places(), "important_delay")
}

/// The delay with NR-SACK as a share of the delay with the existing variant. `cell` is given with the existing variant.
fn rest(cell: At) -> impl Fn(&Results) -> Option<Vec<f64>> {
    let with = At {
        variant: "nr-sack",
        ..cell
    };
    delay_ratio(with, cell)
}

/// The difference of two metrics, seed by seed.
fn difference(
    first: impl Fn(&Results) -> Option<Vec<f64>>,
    second: impl Fn(&Results) -> Option<Vec<f64>>,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let (first, second) = (first(results)?, second(results)?);
        Some(first.iter().zip(&second).map(|(a, b)| a - b).collect())
    }
}

const fn sctp(important: &'static str) -> At {
    At {
        variant: "sctp",
        ..existing(important)
    }
}

const fn extended(important: &'static str) -> At {
    At {
        variant: "extended",
        ..existing(important)
    }
}

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = shape_claims();
    claims.extend(baseline_claims());
    claims.extend(gain_claims());
    claims.extend(figure_7_claims());
    claims.extend(large_message_claims());
    claims.extend(load_claims());
    claims.extend(extension_claims());
    claims.extend(condition_claims());
    claims.extend(ablation_claims());
    claims
}

fn shape_claims() -> Vec<Claim> {
    let bump = |says, times, other| {
        let ratio = delay_ratio(existing("50"), existing(other));
        Claim::of_ratio(says, "a bump, highest at 50 %", Bound::AtLeast(times), ratio).must()
    };
    vec![
        bump(
            "existing, 72 B: the delay at 50 % important is at least 1.5 times that at 1 %",
            1.5,
            "1",
        ),
        bump(
            "existing, 72 B: the delay at 50 % important is at least twice that at 100 %",
            2.0,
            "100",
        ),
        Claim::of_ratio(
            "NR-SACK, 72 B: the delay at 50 % important is above that at 1 %",
            "rising with the important fraction",
            Bound::AtLeast(1.0),
            delay_ratio(nr_sack("50"), nr_sack("1")),
        ),
        Claim::of_ratio(
            "NR-SACK, 72 B: the delay at 100 % important is above that at 1 %",
            "rising with the important fraction",
            Bound::AtLeast(1.0),
            delay_ratio(nr_sack("100"), nr_sack("1")),
        ),
        Claim::new(
            "100 % important: both variants send the same bytes at the same times",
            "the curves coincide",
            Bound::Within(0.0, 0.0),
            |results| {
                let digest = |at: At| results.sample(&at.places(), "digest");
                let (existing, nr_sack) = (digest(existing("100"))?, digest(nr_sack("100"))?);
                Some(
                    existing
                        .iter()
                        .zip(&nr_sack)
                        .map(|(a, b)| (a - b).abs())
                        .collect(),
                )
            },
        )
        .by_construction(
            "all messages may wait for 5 s, so that none is abandoned, and the step in which the variants differ is never taken",
        )
        .must(),
        Claim::of_ratio(
            "100 % important: the delay with plain SACK, whose chunk is 4 B shorter, is within 15 % of that with NR-SACK",
            "the curves coincide",
            Bound::Within(0.85, 1.15),
            delay_ratio(
                At {
                    variant: "plain-sack",
                    ..existing("100")
                },
                nr_sack("100"),
            ),
        ),
    ]
}

/// SCTP without partial reliability beside the variants, which abandon half of the messages.
fn baseline_claims() -> Vec<Claim> {
    vec![
        Claim::of_ratio(
            "72 B, 50 % important: the existing variant has at least twice the delay of SCTP without partial reliability",
            "“This makes PR-SCTP slow as compared to SCTP”",
            Bound::AtLeast(2.0),
            delay_ratio(existing("50"), sctp("50")),
        ),
        Claim::of_ratio(
            "72 B, 50 % important: with NR-SACK the delay is at most that of SCTP without partial reliability",
            "rising with the important fraction up to 100 %, which is standard SCTP",
            Bound::AtMost(1.0),
            delay_ratio(nr_sack("50"), sctp("50")),
        ),
    ]
}

fn gain_claims() -> Vec<Claim> {
    let half = |says, rules| {
        Claim::of_ratio(
            says,
            "cut by over 65 %",
            Bound::AtMost(0.35),
            rest(existing("50").rules(rules)),
        )
    };
    vec![
        half("72 B, 50 % important: NR-SACK leaves at most 35 % of the delay (rules A)", "A").must(),
        half("72 B, 50 % important: NR-SACK leaves at most 35 % of the delay (rules B)", "B"),
        Claim::of_ratio(
            "72 B, 1 % important: NR-SACK leaves at most 65 % of the delay (rules A)",
            "cut by over 75 %",
            Bound::AtMost(0.65),
            rest(existing("1")),
        ),
        Claim::of_ratio(
            "72 B, 1 % important: NR-SACK leaves at most 25 % of the delay (rules A)",
            "cut by over 75 %",
            Bound::AtMost(0.25),
            rest(existing("1")),
        )
        .fails_because(
            "under rules A, the existing variant is faster and the NR-SACK variant slower than in the paper. The existing variant is \
             as slow if T3-rtx restarts only when newly sent data is acknowledged (rules B), and NR-SACK is as fast if expired chunks \
             are dropped as in FreeBSD (rules D). Rules C have both",
        ),
        Claim::of_ratio(
            "72 B, 1 % important: NR-SACK leaves at most 25 % of the delay (rules C)",
            "cut by over 75 %",
            Bound::AtMost(0.25),
            rest(existing("1").rules("C")),
        ),
        Claim::of_ratio(
            "716 B, 50 % important: NR-SACK changes the delay by 10 % or less",
            "the effect of the inefficient forward_tsn mechanism is very limited",
            Bound::Within(0.9, 1.1),
            rest(existing("50").bytes("716")),
        ),
    ]
}

/// The paper names an extended FORWARD-TSN as the rival of its own solution, and has no number for it.
fn extension_claims() -> Vec<Claim> {
    let paper = "“a possible mitigation that requires an extension of the existing forward_tsn chunk”";
    let claim = |says, most, below| {
        let ratio = delay_ratio(extended("50"), below);
        Claim::of_ratio(says, paper, Bound::AtMost(most), ratio)
    };
    vec![
        claim(
            "72 B, 50 % important: with an extended FORWARD-TSN the delay is at most that with NR-SACK (rules A)",
            1.0,
            nr_sack("50"),
        ),
        claim(
            "72 B, 50 % important: an extended FORWARD-TSN leaves at most 35 % of the delay (rules A)",
            0.35,
            existing("50"),
        ),
    ]
}

/// The paper's numbers belong to its figure 7, which has normally distributed sizes. Only the full setting has most of these cells.
fn figure_7_claims() -> Vec<Claim> {
    let cut = |says, paper, most, cell: At| {
        Claim::of_ratio(says, paper, Bound::AtMost(most), rest(cell.normal_sizes()))
    };
    vec![
        cut(
            "72 B, normal sizes, 50 % important: NR-SACK leaves at most 35 % of the delay (rules A)",
            "cut by over 65 %",
            0.35,
            existing("50"),
        ),
        cut(
            "72 B, normal sizes, 50 % important: NR-SACK leaves at most 35 % of the delay (rules C)",
            "cut by over 65 %",
            0.35,
            existing("50").rules("C"),
        ),
        cut(
            "72 B, normal sizes, 1 % important: NR-SACK leaves at most 25 % of the delay (rules A)",
            "cut by over 75 %",
            0.25,
            existing("1"),
        )
        .fails_because(
            "as with fixed sizes, rules A lack two of FreeBSD's rules: T3-rtx that restarts late (rules B), and expired chunks that \
             are dropped at once (rules D). Rules C have both",
        ),
        cut(
            "72 B, normal sizes, 1 % important: NR-SACK leaves at most 25 % of the delay (rules C)",
            "cut by over 75 %",
            0.25,
            existing("1").rules("C"),
        ),
        cut(
            "72 B, normal sizes, 50 % important: NR-SACK leaves at most 35 % of the delay (rules O: A, queue of 74,752 B)",
            "cut by over 65 %",
            0.35,
            existing("50").rules("O"),
        )
        .fails_because(
            "a phase effect at this one length of the queue: the existing variant's delay is 0.5 s here, and 0.8 to 1.3 s at each of six \
             lengths from 71,000 to 78,000 B, where NR-SACK leaves 18 to 30 %",
        ),
        cut(
            "72 B, normal sizes, 50 % important: NR-SACK leaves at most 35 % of the delay (rules P: C, queue of 74,752 B)",
            "cut by over 65 %",
            0.35,
            existing("50").rules("P"),
        ),
        cut(
            "72 B, normal sizes, 1 % important: NR-SACK leaves at most 25 % of the delay (rules P: C, queue of 74,752 B)",
            "cut by over 75 %",
            0.25,
            existing("1").rules("P"),
        ),
    ]
}

/// At 716 bytes, the paper sees little effect of FORWARD-TSN at all loads of its figure 4b.
fn large_message_claims() -> Vec<Claim> {
    let limited = |says, cell: At| {
        let claim = Claim::of_ratio(
            says,
            "the effect of the inefficient forward_tsn mechanism is very limited",
            Bound::Within(0.9, 1.1),
            rest(cell.bytes("716").normal_sizes()),
        );
        claim.fails_because(
            "at a high load messages expire in the sender's queue and are still sent once. Where few are important, most lost \
             chunks are abandoned, and FORWARD-TSN stops in front of each chunk that was received between two of them. NR-SACK is \
             the ablation: it changes nothing else",
        )
    };
    vec![
        limited(
            "716 B, normal sizes, 60 % load, 1 % important: NR-SACK changes the delay by 10 % or less",
            existing("1").load("60"),
        ),
        limited(
            "716 B, normal sizes, 80 % load, 1 % important: NR-SACK changes the delay by 10 % or less",
            existing("1").load("80"),
        ),
    ]
}

/// The paper's figure 4: the bump at each load, and the share of lost packets.
fn load_claims() -> Vec<Claim> {
    let bump = |says, load, bound, other| {
        let at = |important| existing(important).normal_sizes().load(load);
        let ratio = delay_ratio(at("50"), at(other));
        Claim::of_ratio(says, "“in every case except the 15% load case”", bound, ratio)
    };
    let loss = |says, paper, above: At, below: At| {
        Claim::of_ratio(says, paper, Bound::AtLeast(1.0), move |results| {
            results.ratio(&above.places(), &below.places(), "loss")
        })
    };
    let large = existing("100").bytes("716").normal_sizes();
    let cause = "not searched for beyond 30 % load. There Nagle's algorithm (rules F), with which packets wait for an acknowledgement, lowers \
                 the share from 1.6 to 0.3 %, and a queue that accepts every packet that fits (rules G) to 0.1 %: dummynet's rule refuses \
                 small packets that leave when their message arrives. Probably fewer packets do so at a higher load";
    vec![
        bump(
            "existing, 72 B, normal sizes, 15 % load: the delay at 50 % important is at most 1.1 times that at 100 %",
            "15",
            Bound::AtMost(1.1),
            "100",
        )
        .fails_because(
            "1.9 % of the packets are lost at 15 % load, more than at 30 %, so FORWARD-TSN has gaps to pass. With NR-SACK the ratio is 0.96",
        ),
        bump(
            "existing, 72 B, normal sizes, 45 % load: the delay at 50 % important is at least 1.5 times that at 1 %",
            "45",
            Bound::AtLeast(1.5),
            "1",
        ),
        bump(
            "existing, 72 B, normal sizes, 60 % load: the delay at 50 % important is at least 1.5 times that at 1 %",
            "60",
            Bound::AtLeast(1.5),
            "1",
        ),
        bump(
            "existing, 72 B, normal sizes, 80 % load: the delay at 50 % important is at least 1.5 times that at 1 %",
            "80",
            Bound::AtLeast(1.5),
            "1",
        ),
        loss(
            "existing, 72 B, 50 % important: a larger share of the packets is lost at 30 % load than at 15 %",
            "“until the load becomes too small to generate significant packet loss, as seen for 15% load”",
            existing("50"),
            existing("50").load("15"),
        )
        .fails_because(cause),
        loss(
            "existing, 716 B, normal sizes, 100 % important: a larger share of the packets is lost at 80 % load than at 30 %",
            "“higher load generates more loss”",
            large.load("80"),
            large,
        )
        .fails_because(cause),
    ]
}

fn condition_claims() -> Vec<Claim> {
    let sizes = |says, cell: At| {
        let ratio = delay_ratio(cell.normal_sizes(), cell);
        Claim::of_ratio(
            says,
            "no significant difference",
            Bound::Within(0.75, 1.25),
            ratio,
        )
    };
    vec![
        sizes(
            "existing, 72 B, 1 % important: message sizes that vary by 20 % change the delay by 25 % or less",
            existing("1"),
        ),
        sizes(
            "NR-SACK, 72 B, 50 % important: message sizes that vary by 20 % change the delay by 25 % or less",
            nr_sack("50"),
        ),
        Claim::new(
            "72 B, 50 % important: at 15 % load NR-SACK leaves a larger share of the delay than at 30 %",
            "no bump at 15 % load",
            Bound::AtLeast(0.0),
            difference(rest(existing("50").load("15")), rest(existing("50"))),
        ),
        Claim::of_ratio(
            "existing, 716 B: the delay at 100 % important is above that at 1 %",
            "rising with the fraction",
            Bound::AtLeast(1.0),
            delay_ratio(existing("100").bytes("716"), existing("1").bytes("716")),
        ),
        Claim::of_ratio(
            "existing, 716 B, 80 % load: the delay at 100 % important is over 1.5 times that at 1 %",
            "rising very steeply",
            Bound::AtLeast(1.5),
            delay_ratio(
                existing("100").bytes("716").load("80"),
                existing("1").bytes("716").load("80"),
            ),
        )
        .fails_because(
            "the flow is not overloaded with fixed sizes: it needs 1.7 Mbit/s on the wire, TCP leaves that much (see tcp_goodput), and all \
             messages are delivered. With eight TCP flows (rules J) it is overloaded, but the existing variant is slow at 1 % \
             too, because FORWARD-TSN stops in front of received chunks",
        ),
        Claim::of_ratio(
            "existing, 716 B, normal sizes, 80 % load: the delay at 100 % important is over 1.5 times that at 1 %",
            "rising very steeply",
            Bound::AtLeast(1.5),
            delay_ratio(
                existing("100").bytes("716").load("80").normal_sizes(),
                existing("1").bytes("716").load("80").normal_sizes(),
            ),
        )
        .fails_because(
            "the flow is nearly overloaded and has delays of seconds, as in the paper. But the existing variant is slowest at 1 %, \
             because FORWARD-TSN stops in front of received chunks. Where it passes them (NR-SACK), the delay at 50 % is over 1.5 \
             times that at 1 %",
        ),
        Claim::of_ratio(
            "NR-SACK, 716 B, normal sizes, 80 % load: the delay at 50 % important is over 1.5 times that at 1 %",
            "rising very steeply",
            Bound::AtLeast(1.5),
            delay_ratio(
                nr_sack("50").bytes("716").load("80").normal_sizes(),
                nr_sack("1").bytes("716").load("80").normal_sizes(),
            ),
        ),
        Claim::of_ratio(
            "existing, 72 B, 50 % important: the delay of normal messages is within 25 % of that of important ones",
            "very similar",
            Bound::Within(0.75, 1.25),
            |results| {
                let delay = |metric| results.sample(&existing("50").places(), metric);
                let (normal, important) = (delay("normal_delay")?, delay("important_delay")?);
                Some(normal.iter().zip(&important).map(|(a, b)| a / b).collect())
            },
        ),
    ]
}

/// Conditions that the paper does not name. Without each of them the effect is small.
fn ablation_claims() -> Vec<Claim> {
    let rules_l = |metric| {
        move |results: &Results| {
            let main = existing("50");
            results.ratio(&main.rules("L").places(), &main.places(), metric)
        }
    };
    let less = |says, paper, rules| {
        Claim::of_ratio(
            says,
            paper,
            Bound::AtMost(0.5),
            delay_ratio(existing("50").rules(rules), existing("50")),
        )
    };
    vec![
        less(
            "existing, 72 B, 50 % important: Nagle's algorithm (rules F) removes at least half of the delay",
            "not stated",
            "F",
        ),
        less(
            "existing, 72 B, 50 % important: a queue that accepts every packet that fits (rules G) removes at least half of the delay",
            "not stated",
            "G",
        ),
        less(
            "existing, 72 B, 50 % important: discarding expired messages before they are sent (rules H) removes at least half of the delay",
            "“will not be affected”",
            "H",
        ),
        Claim::of_ratio(
            "existing, 72 B, 50 % important: with TCP windows that grow by acknowledgements (rules L), the loss is at most 0.67 times \
             as large",
            "not stated",
            Bound::AtMost(0.67),
            rules_l("loss"),
        ),
        Claim::of_ratio(
            "existing, 72 B, 50 % important: with TCP windows that grow by acknowledgements (rules L), the delay is smaller",
            "not stated",
            Bound::AtMost(1.0),
            rules_l("important_delay"),
        ),
    ]
}
