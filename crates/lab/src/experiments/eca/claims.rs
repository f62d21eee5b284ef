//! What is claimed of repairs, by the paper and by those who measured after it.

use crate::claim::{Bound, Claim};
use crate::results::Results;

/// A cell by protocol, buffer and reports.
type Rule = [&'static str; 3];
type Places = [(&'static str, &'static str); 5];
type Words = &'static str;

const CMT_64: Rule = ["cmt", "64", "3"];
const ECA_64: Rule = ["eca", "64", "3"];
const CMT_192: Rule = ["cmt", "192", "3"];
const ECA_192: Rule = ["eca", "192", "3"];
const CMT_64_AMENDED: Rule = ["cmt", "64", "amended"];
const ECA_64_AMENDED: Rule = ["eca", "64", "amended"];
const CMT_192_AMENDED: Rule = ["cmt", "192", "amended"];
const ECA_192_AMENDED: Rule = ["eca", "192", "amended"];
/// As the paper's columns seem to have been made.
const CMT_PAPER: Rule = ["cmt", "192", "4"];
const ECA_PAPER: Rule = ["eca", "64-each", "1"];
const CMT_LIKE_ECA: Rule = ["cmt", "64-each", "1"];

fn at(rule: Rule, loss: Words, variant: Words) -> Places {
    let [protocol, buffer, reports] = rule;
    [
        ("protocol", protocol),
        ("buffer", buffer),
        ("reports", reports),
        ("loss", loss),
        ("variant", variant),
    ]
}

fn plain(rule: Rule, loss: Words) -> Places {
    at(rule, loss, "plain")
}

fn of(metric: Words, places: Places) -> impl Fn(&Results) -> Option<Vec<f64>> + Send + Sync {
    move |results| results.sample(&places, metric)
}

fn ratio(metric: Words, above: Places, below: Places) -> impl Fn(&Results) -> Option<Vec<f64>> + Send + Sync {
    move |results| results.ratio(&above, &below, metric)
}

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = equal_claims();
    claims.extend(half_claims());
    claims.extend(part_claims());
    claims.extend(paper_claims());
    claims.extend(steady_claims());
    claims.extend(goodput_claims());
    claims.extend(window_claims());
    claims.extend(hardship_claims());
    claims.extend(harmless_claims());
    claims
}

/// Equal buffers, three reports.
fn equal_claims() -> Vec<Claim> {
    let cells = [
        (
            "3",
            "0.53",
            [
                "64 KiB, 3 reports, 3 %: ECA's time at most 0.95 of CMT's",
                "192 KiB: at most 1.02",
            ],
        ),
        ("5", "0.55", ["5 %, 64 KiB: the same", "5 %, 192 KiB: the same"]),
        (
            "10",
            "0.51",
            ["10 %, 64 KiB: the same", "10 %, 192 KiB: the same"],
        ),
        (
            "15",
            "0.50",
            ["15 %, 64 KiB: the same", "15 %, 192 KiB: the same"],
        ),
    ];
    let claims = |(loss, paper, [small, large]): (Words, Words, [Words; 2])| {
        let at_small = ratio("time", plain(ECA_64, loss), plain(CMT_64, loss));
        let at_large = ratio("time", plain(ECA_192, loss), plain(CMT_192, loss));
        [
            Claim::of_ratio(small, paper, Bound::AtMost(0.95), at_small).must(),
            Claim::of_ratio(large, paper, Bound::AtMost(1.02), at_large),
        ]
    };
    cells.into_iter().flat_map(claims).collect()
}

/// The factor of two.
fn half_claims() -> Vec<Claim> {
    let cells = [
        (
            ECA_64,
            CMT_64,
            "3",
            "64 KiB, 3 reports, 3 %: ECA repairs in at most 0.6 of CMT's time",
        ),
        (ECA_64, CMT_64, "15", "64 KiB, 3 reports, 15 %: the same"),
        (ECA_192, CMT_192, "3", "192 KiB, 3 reports, 3 %: the same"),
        (ECA_192, CMT_192, "15", "192 KiB, 3 reports, 15 %: the same"),
    ];
    let claim = |(eca, cmt, loss, says)| {
        let measure = ratio("time", plain(eca, loss), plain(cmt, loss));
        Claim::of_ratio(says, "half", Bound::AtMost(0.6), measure).fails_because(
            "the factor is how many reports make a loss, and how large the window is, not how it is acknowledged: see CMT with one \
             report and 64 KiB for each path beside CMT with four and 192 KiB",
        )
    };
    cells.map(claim).into()
}

/// What the acknowledgements are good for, in two parts: how soon they leave, and by which path.
fn part_claims() -> Vec<Claim> {
    let prompt = at(CMT_64, "3", "every-packet");
    let unrouted = at(ECA_64, "3", "acks-last-arrival");
    vec![
        Claim::of_ratio(
            "64 KiB, 3 %: ECA with acknowledgements by the path of the last arrival takes the time of CMT that delays none, ± 5 %",
            "the best path is why",
            Bound::Within(0.95, 1.05),
            ratio("time", unrouted, prompt),
        ),
        Claim::of_ratio(
            "by the best path: at most 0.95 of that",
            "the best path is why",
            Bound::AtMost(0.95),
            ratio("time", plain(ECA_64, "3"), prompt),
        ),
    ]
}

/// The paper's conditions as they seem to have been.
fn paper_claims() -> Vec<Claim> {
    let cells = [
        ("3", ["0.512 s, 189 chunks", "0.272 s, 213 chunks", "0.53"]),
        ("5", ["0.506 s, 203 chunks", "0.281 s, 261 chunks", "0.55"]),
        ("10", ["0.603 s, 215 chunks", "0.306 s, 357 chunks", "0.51"]),
        ("15", ["0.645 s, 202 chunks", "0.322 s, 459 chunks", "0.50"]),
    ];
    let says: [[Words; 4]; 4] = [
        [
            "CMT, 192 KiB, four reports, 3 %: 0.45 to 0.68 s",
            "ECA, 64 KiB each, one report, 3 %: 0.27 to 0.42 s",
            "ECA's of these times at most 0.78 of CMT's, 3 %",
            "CMT like ECA, 64 KiB each, one report, 3 %: the same time, ± 5 %",
        ],
        [
            "CMT so at 5 %",
            "ECA so at 5 %",
            "their ratio at 5 %",
            "CMT like ECA at 5 %",
        ],
        [
            "CMT so at 10 %",
            "ECA so at 10 %",
            "their ratio at 10 %",
            "CMT like ECA at 10 %",
        ],
        [
            "CMT so at 15 %",
            "ECA so at 15 %",
            "their ratio at 15 %",
            "CMT like ECA at 15 %",
        ],
    ];
    let claims = |((loss, [cmt, eca, both]), says): ((Words, [Words; 3]), [Words; 4])| {
        let times = ratio("time", plain(ECA_PAPER, loss), plain(CMT_PAPER, loss));
        let alike = ratio("time", plain(CMT_LIKE_ECA, loss), plain(ECA_PAPER, loss));
        [
            Claim::new(
                says[0],
                cmt,
                Bound::Within(0.45, 0.68),
                of("time", plain(CMT_PAPER, loss)),
            )
            .must(),
            Claim::new(
                says[1],
                eca,
                Bound::Within(0.27, 0.42),
                of("time", plain(ECA_PAPER, loss)),
            ),
            Claim::of_ratio(says[2], both, Bound::AtMost(0.78), times),
            Claim::of_ratio(says[3], "not tried", Bound::Within(0.95, 1.05), alike),
        ]
    };
    let mut made: Vec<Claim> = cells.into_iter().zip(says).flat_map(claims).collect();
    let rising = [
        (
            "5",
            "3",
            "213, then 261",
            "ECA, 64 KiB each, one report: more is repaired at 5 % than at 3 %",
        ),
        ("10", "5", "261, then 357", "more at 10 % than at 5 %"),
        ("15", "10", "357, then 459", "more at 15 % than at 10 %"),
    ];
    made.extend(rising.map(|(more, less, paper, says)| {
        let measure = ratio("repaired", plain(ECA_PAPER, more), plain(ECA_PAPER, less));
        Claim::of_ratio(says, paper, Bound::AtLeast(1.0), measure)
    }));
    made
}

/// Time at the most loss over time at the least.
fn steady_claims() -> Vec<Claim> {
    let cells = [
        (
            ECA_64_AMENDED,
            1.25,
            "ECA, 64 KiB, amended: at 15 % at most 1.25 of the time at 3 %",
        ),
        (ECA_192_AMENDED, 1.15, "ECA, 192 KiB, amended: at most 1.15"),
        (ECA_PAPER, 1.15, "ECA, 64 KiB each, one report: at most 1.15"),
    ];
    let claim = |(rule, most, says)| {
        let measure = ratio("time", plain(rule, "15"), plain(rule, "3"));
        Claim::of_ratio(says, "steady: 1.18 (CMT: 1.26)", Bound::AtMost(most), measure)
    };
    cells.map(claim).into()
}

fn goodput_claims() -> Vec<Claim> {
    let paper = "a little better, the more so the more path 3 loses";
    let against_three = [
        (
            ECA_64_AMENDED,
            CMT_64,
            "3",
            0.95,
            "64 KiB, 3 %: goodput of ECA, amended, at least 0.95 of CMT's with 3 reports",
        ),
        (ECA_64_AMENDED, CMT_64, "15", 1.0, "64 KiB, 15 %: more"),
        (ECA_192_AMENDED, CMT_192, "3", 0.95, "192 KiB, 3 %: at least 0.95"),
        (ECA_192_AMENDED, CMT_192, "15", 1.0, "192 KiB, 15 %: more"),
        (
            ECA_64_AMENDED,
            CMT_64_AMENDED,
            "3",
            0.88,
            "64 KiB, 3 %: at least 0.88 of CMT's with the same rule",
        ),
        (
            ECA_64_AMENDED,
            CMT_64_AMENDED,
            "15",
            0.88,
            "64 KiB, 15 %: the same",
        ),
        (
            ECA_192_AMENDED,
            CMT_192_AMENDED,
            "3",
            0.88,
            "192 KiB, 3 %: the same",
        ),
        (
            ECA_192_AMENDED,
            CMT_192_AMENDED,
            "15",
            0.88,
            "192 KiB, 15 %: the same",
        ),
    ];
    let goodput = |eca, cmt, loss| ratio("goodput", plain(eca, loss), plain(cmt, loss));
    let mut claims: Vec<Claim> = against_three
        .map(|(eca, cmt, loss, least, says)| {
            Claim::of_ratio(says, paper, Bound::AtLeast(least), goodput(eca, cmt, loss))
        })
        .into();
    let better = [
        (
            ECA_64_AMENDED,
            CMT_64_AMENDED,
            "64 KiB, 15 %: more than CMT with the same rule",
        ),
        (ECA_192_AMENDED, CMT_192_AMENDED, "192 KiB, 15 %: the same"),
    ];
    claims.extend(
        better.map(|(eca, cmt, says)| {
            Claim::of_ratio(says, paper, Bound::AtLeast(1.0), goodput(eca, cmt, "15"))
        }),
    );
    claims
}

fn window_claims() -> Vec<Claim> {
    let cells = [
        (ECA_64, CMT_64, "64 KiB, 3 reports, 15 %: ECA's windows vary less"),
        (ECA_PAPER, CMT_PAPER, "the paper's conditions, 15 %: the same"),
    ];
    let claim = |(eca, cmt, says)| {
        let measure = ratio("cwnd_variation", plain(eca, "15"), plain(cmt, "15"));
        Claim::of_ratio(says, "smaller deviation (fig. 4)", Bound::AtMost(1.0), measure).fails_because(
            "windows vary less where timeouts are rare, which is what one report does: see CMT with one report and 64 KiB for each \
             path",
        )
    };
    cells.map(claim).into()
}

/// Lost acknowledgements, traffic both ways, bad paths, and packets that come late.
fn hardship_claims() -> Vec<Claim> {
    let time = |variant: Words| ratio("time", at(ECA_64, "15", variant), at(CMT_64, "15", variant));
    let bad = ratio(
        "time",
        at(ECA_64, "15", "bad"),
        at(ECA_64, "15", "bad-last-arrival"),
    );
    let late = |one: Rule, other: Rule| {
        move |results: &Results| {
            let one = results.sample(&at(one, "3", "late-2"), "spurious")?;
            let other = results.sample(&at(other, "3", "late-2"), "spurious")?;
            Some(one.iter().zip(&other).map(|(one, other)| one - other).collect())
        }
    };
    let unhurried: Rule = ["eca", "64", "3"];
    let hurried: Rule = ["eca", "64", "1"];
    let paper = "improves the overall performance even when acknowledgements are lost";
    vec![
        Claim::of_ratio(
            "64 KiB, 15 %, acknowledgements lost too: ECA repairs sooner",
            paper,
            Bound::AtMost(1.0),
            time("lost-acks"),
        ),
        Claim::of_ratio(
            "64 KiB, 15 %, data both ways: ECA repairs sooner",
            paper,
            Bound::AtMost(1.0),
            time("both-ways"),
        ),
        Claim::of_ratio(
            "64 KiB, two paths of 15 %, both ways: what the sender chooses repairs no later than acknowledgements by the path of the last \
             arrival",
            "on bad paths a copy on each",
            Bound::AtMost(1.0),
            bad,
        ),
        Claim::new(
            "64 KiB, 2 % come 30 ms late: one report makes more needless repeats than three",
            "not tried",
            Bound::AtLeast(0.0),
            late(hurried, unhurried),
        ),
        Claim::of_ratio(
            "one report, 2 % come 30 ms late: ECA makes at most a fifth of CMT's needless repeats",
            "avoids unnecessary fast retransmission",
            Bound::AtMost(0.2),
            ratio(
                "spurious",
                at(hurried, "3", "late-2"),
                at(["cmt", "64", "1"], "3", "late-2"),
            ),
        ),
        Claim::new(
            "the amended rule makes fewer than one report",
            "not tried",
            Bound::AtMost(0.0),
            late(ECA_64_AMENDED, hurried),
        ),
    ]
}

/// What must not happen.
fn harmless_claims() -> Vec<Claim> {
    let silent = [
        (CMT_64, "CMT, 64 KiB, no loss: nothing is sent again"),
        (CMT_192, "CMT, 192 KiB, no loss: nothing is sent again"),
        (ECA_64, "ECA, 64 KiB, no loss: nothing is sent again"),
        (ECA_192, "ECA, 192 KiB, no loss: nothing is sent again"),
    ];
    let mut claims: Vec<Claim> = silent
        .map(|(rule, says)| {
            let measure = of("repeats", at(rule, "0", "no-loss"));
            Claim::new(
                says,
                "no unnecessary fast retransmission",
                Bound::AtMost(0.0),
                measure,
            )
            .must()
        })
        .into();
    let blocks = "every lost transmission leaves a hole; not mentioned";
    claims.push(
        Claim::new(
            "ECA, 192 KiB, 15 %: fewer than two gap blocks an acknowledgement",
            blocks,
            Bound::AtMost(2.0),
            of("gap_blocks", plain(ECA_192, "15")),
        )
        .must(),
    );
    claims.push(Claim::new(
        "without FORWARD-PSN, 100 s: more than 50",
        blocks,
        Bound::AtLeast(50.0),
        of("gap_blocks", at(ECA_192, "15", "no-forward-psn")),
    ));
    let pauses = [
        (
            ECA_64_AMENDED,
            "3",
            "ECA, 64 KiB, amended, 3 %: never 6 s without a delivery",
        ),
        (ECA_64_AMENDED, "15", "64 KiB, 15 %: the same"),
        (ECA_192_AMENDED, "3", "192 KiB, 3 %: the same"),
        (ECA_192_AMENDED, "15", "192 KiB, 15 %: the same"),
    ];
    claims.extend(pauses.map(|(rule, loss, says)| {
        let long = move |results: &Results| {
            let pauses = results.sample(&plain(rule, loss), "pause")?;
            Some(
                pauses
                    .iter()
                    .map(|pause| f64::from(u8::from(*pause > 6.0)))
                    .collect(),
            )
        };
        Claim::new(says, "not mentioned", Bound::AtMost(0.0), long)
    }));
    claims
}
