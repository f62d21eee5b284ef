//! Claims on cells with the paper's buffers and the numbers of missing reports that match its columns best.

use super::{CMT_PAPER, ECA_PAPER, Places, Rule, Words, at, of, plain, ratio};
use crate::claim::{Bound, Claim};
use crate::user::word;

const CMT_LIKE_ECA: Rule = ["cmt", "64-each", "1"];

/// A time within 15 % of the paper's, which is its words and its number in seconds.
fn within_15(says: Words, (paper, time): (Words, f64), places: Places) -> Claim {
    let share = |share: f64| (share * time * 1e3).round() / 1e3;
    let bound = Bound::Within(share(0.85), share(1.15));
    Claim::new(says, paper, bound, of("time", places))
}

/// The largest window of one path, next to the buffer of one path.
pub(super) fn pool_claims() -> [Claim; 2] {
    ["3", "15"].map(|loss| {
        Claim::new(
            word(format!(
                "{loss} %: CMT with 192 KiB pooled and four missing reports: the largest window of a path is more than 64 KiB"
            )),
            "CMT's cwnd may be larger than the receive buffer of one path, 64 KB",
            Bound::AtLeast(64.0),
            of("cwnd_max", plain(CMT_PAPER, loss)),
        )
    })
}

/// The paper's buffers, and inferred numbers of missing reports. A time is the paper's if it is within 15 % of it.
pub(super) fn paper_claims() -> Vec<Claim> {
    let cells = [
        (
            "3",
            [
                ("0.512 s, 189 chunks", 0.51192),
                ("0.272 s, 213 chunks", 0.272309),
            ],
            "0.53",
        ),
        (
            "5",
            [
                ("0.506 s, 203 chunks", 0.506046),
                ("0.281 s, 261 chunks", 0.280514),
            ],
            "0.55",
        ),
        (
            "10",
            [
                ("0.603 s, 215 chunks", 0.60335),
                ("0.306 s, 357 chunks", 0.306223),
            ],
            "0.51",
        ),
        (
            "15",
            [
                ("0.645 s, 202 chunks", 0.644724),
                ("0.322 s, 459 chunks", 0.322321),
            ],
            "0.50",
        ),
    ];
    let claims = |(loss, [(cmt, cmt_time), (eca, eca_time)], both): (Words, [(Words, f64); 2], Words)| {
        let times = ratio("time", plain(ECA_PAPER, loss), plain(CMT_PAPER, loss));
        let alike = ratio("time", plain(CMT_LIKE_ECA, loss), plain(ECA_PAPER, loss));
        let at_loss = |says: &str| word(format!("{loss} %: {says}"));
        [
            within_15(
                at_loss("CMT with 192 KiB pooled and four missing reports takes the paper's time, ± 15 %"),
                (cmt, cmt_time),
                plain(CMT_PAPER, loss),
            )
            .must(),
            within_15(
                at_loss("ECA with 64 KiB for each path and one missing report takes the paper's time, ± 15 %"),
                (eca, eca_time),
                plain(ECA_PAPER, loss),
            )
            .fails_because(
                "the time is 20 to 31 % longer. A retransmission waits in the queue of path 1, which 64 KiB for each path keep full: \
                 with 64 KiB for all paths and one report ECA takes 7 to 10 % more than the paper, but repairs fewer chunks",
            ),
            Claim::of_ratio(
                at_loss("this time of ECA is at most 0.78 of this time of CMT"),
                both,
                Bound::AtMost(0.78),
                times,
            ),
            Claim::of_ratio(
                at_loss(
                    "CMT with 64 KiB for each path and one missing report takes the same time as ECA with them, ± 5 %",
                ),
                "not measured",
                Bound::Within(0.95, 1.05),
                alike,
            ),
        ]
    };
    let mut made: Vec<Claim> = cells.into_iter().flat_map(claims).collect();
    let both_ways = [("3", "0.53"), ("15", "0.50")];
    made.extend(both_ways.map(|(loss, paper)| {
        let says = word(format!(
            "{loss} %, both hosts send and both directions lose: this time of ECA is at most 0.78 of this time of CMT"
        ));
        let of = |rule| at(rule, loss, "both-ways");
        let times = ratio("time", of(ECA_PAPER), of(CMT_PAPER));
        Claim::of_ratio(says, paper, Bound::AtMost(0.78), times)
    }));
    let rising = [
        ("5", "3", "213, then 261"),
        ("10", "5", "261, then 357"),
        ("15", "10", "357, then 459"),
    ];
    made.extend(rising.map(|(more, less, paper)| {
        let says = word(format!(
            "ECA, 64 KiB for each path, one missing report: more chunks are repaired at {more} % than at {less} %"
        ));
        let measure = ratio("repaired", plain(ECA_PAPER, more), plain(ECA_PAPER, less));
        Claim::of_ratio(says, paper, Bound::AtLeast(1.0), measure)
    }));
    made
}
