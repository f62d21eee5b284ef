//! What is claimed of repairs, by the paper and by those who measured after it.

use crate::claim::{Bound, Claim};
use crate::results::Results;

type Places = [(&'static str, &'static str); 5];

/// A cell by protocol, buffer and reports, loss and variant.
fn at(rule: [&'static str; 3], loss: &'static str, variant: &'static str) -> Places {
    let [protocol, buffer, reports] = rule;
    [
        ("protocol", protocol),
        ("buffer", buffer),
        ("reports", reports),
        ("loss", loss),
        ("variant", variant),
    ]
}

fn of(metric: &'static str, places: Places) -> impl Fn(&Results) -> Option<Vec<f64>> + Send + Sync {
    move |results| results.sample(&places, metric)
}

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = paper_claims();
    claims.extend(harmless_claims());
    claims
}

/// The paper's conditions as the card infers them.
fn paper_claims() -> Vec<Claim> {
    let cmt = [
        (
            "3",
            "0.512 s, 189 chunks",
            "CMT, 192 KiB, four reports, 3 %: 0.45 to 0.68 s",
        ),
        ("5", "0.506 s, 203 chunks", "the same at 5 %"),
        ("10", "0.603 s, 215 chunks", "the same at 10 %"),
        ("15", "0.645 s, 202 chunks", "the same at 15 %"),
    ];
    cmt.map(|(loss, paper, says)| {
        let measure = of("time", at(["cmt", "192", "4"], loss, "plain"));
        Claim::new(says, paper, Bound::Within(0.45, 0.68), measure).must()
    })
    .into()
}

/// Where nothing is lost.
fn harmless_claims() -> Vec<Claim> {
    let cells = [
        (["cmt", "64", "3"], "CMT, 64 KiB, no loss: nothing is sent again"),
        (
            ["cmt", "192", "3"],
            "CMT, 192 KiB, no loss: nothing is sent again",
        ),
    ];
    let claim = |(rule, says)| {
        let measure = of("repeats", at(rule, "0", "no-loss"));
        Claim::new(
            says,
            "no unnecessary fast retransmission",
            Bound::AtMost(0.0),
            measure,
        )
        .must()
    };
    cells.map(claim).into()
}
