//! Claims about the retransmission queue, from the slides and from later measurements.

use crate::claim::{Bound, Claim};
use crate::results::Results;

/// The places of a cell on all axes but that of the acknowledgement.
pub(super) type Places = [(&'static str, &'static str); 3];

fn at(paths: &'static str, loss: &'static str, buffer: &'static str) -> Places {
    [("paths", paths), ("loss", loss), ("buffer", buffer)]
}

fn with(places: Places, ack: &'static str) -> [(&'static str, &'static str); 4] {
    let [first, second, third] = places;
    [first, second, third, ("ack", ack)]
}

/// A metric with one kind of acknowledgement.
pub(super) fn of(
    metric: &'static str,
    places: Places,
    ack: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> + Send + Sync {
    move |results| results.sample(&with(places, ack), metric)
}

/// The ratio of a metric with NR-SACKs to the metric with SACKs.
pub(super) fn gain(
    metric: &'static str,
    places: Places,
) -> impl Fn(&Results) -> Option<Vec<f64>> + Send + Sync {
    move |results| results.ratio(&with(places, "nr-sack"), &with(places, "sack"), metric)
}

/// The slides on transfers in order.
pub(super) const ONLY_OUT_OF_ORDER: &str =
    "SACKs and NR-SACKs differ only when data is received out of order";

const SLIDES: &str = "NR-SACKs reduce send buffer blocking and improve CMT throughput; no numbers";

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = queue_claims();
    claims.extend(whole_transfer_claims());
    claims.extend(one_path_claims());
    claims.extend(gain_claims());
    claims.extend(blocking_claims());
    claims
}

fn queue_claims() -> Vec<Claim> {
    vec![
        Claim::new(
            "one path, 1 % loss: with NR-SACKs the whole queue is needed, in loss recovery too",
            "100 %",
            Bound::Within(1.0, 1.0),
            of("utilisation_recovery", at("one", "1", "4096"), "nr-sack"),
        )
        .by_construction(
            "the receiver never reneges, so that an NR-SACK removes every chunk that arrived from the queue",
        )
        .must(),
        Claim::new(
            "one path, 1 % loss: with SACKs 35 to 65 % of the queue is needed in loss recovery",
            "wastes about 50 %",
            Bound::Within(0.35, 0.65),
            of("utilisation_recovery", at("one", "1", "4096"), "sack"),
        )
        .must(),
        Claim::new(
            "one path, 5 % loss: with SACKs 35 to 65 % of the queue is needed in loss recovery",
            "wastes about 50 %",
            Bound::Within(0.35, 0.65),
            of("utilisation_recovery", at("one", "5", "4096"), "sack"),
        ),
        Claim::new(
            "one path, 0.1 % loss: with SACKs a smaller share of the queue is needed with a buffer of 64 KiB than with an unlimited one",
            "not stated",
            Bound::AtMost(0.0),
            |results| {
                let limited = of("utilisation_recovery", at("one", "0.1", "64"), "sack")(results)?;
                let unlimited = of("utilisation_recovery", at("one", "0.1", "4096"), "sack")(results)?;
                let pairs = limited.iter().zip(&unlimited);
                Some(pairs.map(|(limited, unlimited)| limited - unlimited).collect())
            },
        ),
    ]
}

/// Claims about the whole transfer: the slides say that SACKs and NR-SACKs differ only if data arrives out of order.
fn whole_transfer_claims() -> Vec<Claim> {
    vec![
        Claim::new(
            "one path without loss, 64 KiB: with SACKs the whole queue is needed, over the whole time",
            ONLY_OUT_OF_ORDER,
            Bound::Within(1.0, 1.0),
            of("utilisation", at("one", "0", "64"), "sack"),
        )
        .must(),
        Claim::of_ratio(
            "one path without loss, 64 KiB: the same goodput with NR-SACKs and SACKs, ± 0.1 %",
            ONLY_OUT_OF_ORDER,
            Bound::Within(0.999, 1.001),
            gain("goodput", at("one", "0", "64")),
        )
        .must(),
        Claim::new(
            "one path, unlimited buffer: with SACKs a smaller share of the queue is needed at 5 % loss than at 0.1 %, over the \
             whole time",
            ONLY_OUT_OF_ORDER,
            Bound::AtMost(0.0),
            |results| {
                let rare = of("utilisation", at("one", "0.1", "4096"), "sack")(results)?;
                let often = of("utilisation", at("one", "5", "4096"), "sack")(results)?;
                Some(
                    often
                        .iter()
                        .zip(&rare)
                        .map(|(often, rare)| often - rare)
                        .collect(),
                )
            },
        ),
    ]
}

fn one_path_claims() -> Vec<Claim> {
    let cells = [
        (
            "0.1",
            "64",
            "one path, 0.1 % loss, 64 KiB: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
        (
            "1",
            "64",
            "one path, 1 % loss, 64 KiB: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
        (
            "1",
            "4096",
            "one path, 1 % loss, unlimited buffer: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
        (
            "5",
            "4096",
            "one path, 5 % loss, unlimited buffer: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
    ];
    let claim = |(loss, buffer, says)| {
        Claim::of_ratio(
            says,
            "throughput with NR-SACKs not lower than with SACKs in all cases (Yilmaz and others, 2010)",
            Bound::AtLeast(0.98),
            gain("goodput", at("one", loss, buffer)),
        )
    };
    cells.map(claim).into()
}

fn gain_claims() -> Vec<Claim> {
    let small = [
        (
            "pair",
            "1/1",
            "two equal paths, 1 / 1 % loss, 32 KiB: at least 1.2 times the goodput with NR-SACKs",
        ),
        (
            "pair",
            "1/10",
            "two equal paths, 1 / 10 % loss, 32 KiB: at least 1.2 times the goodput with NR-SACKs",
        ),
        (
            "three",
            "0.1/1/3",
            "three paths, 32 KiB: at least 1.2 times the goodput with NR-SACKs",
        ),
        (
            "10+2",
            "0.1/1",
            "10 + 2 Mbit/s, 32 KiB: at least 1.2 times the goodput with NR-SACKs",
        ),
    ];
    let mut claims: Vec<Claim> = small
        .map(|(paths, loss, says)| {
            Claim::of_ratio(
                says,
                SLIDES,
                Bound::AtLeast(1.2),
                gain("goodput", at(paths, loss, "32")),
            )
            .must()
        })
        .into();
    claims.push(Claim::of_ratio(
        "two equal paths, 1 / 1 % loss, 64 KiB: more goodput with NR-SACKs",
        SLIDES,
        Bound::AtLeast(1.0),
        gain("goodput", at("pair", "1/1", "64")),
    ));
    let unequal = [
        (
            "three",
            "0.1/1/3",
            "three paths, 64 KiB: at least 1.5 times the goodput with NR-SACKs",
        ),
        (
            "10+2",
            "0.1/1",
            "10 + 2 Mbit/s, 64 KiB: at least 1.5 times the goodput with NR-SACKs",
        ),
    ];
    claims.extend(unequal.map(|(paths, loss, says)| {
        Claim::of_ratio(
            says,
            SLIDES,
            Bound::AtLeast(1.5),
            gain("goodput", at(paths, loss, "64")),
        )
        .must()
    }));
    let half = [
        (
            "three",
            "0.1/1/3",
            "three paths: more goodput with NR-SACKs and 64 KiB than with SACKs and 128 KiB",
        ),
        (
            "10+2",
            "0.1/1",
            "10 + 2 Mbit/s: more goodput with NR-SACKs and 64 KiB than with SACKs and 128 KiB",
        ),
    ];
    claims.extend(half.map(|(paths, loss, says)| {
        Claim::of_ratio(
            says,
            "a smaller queue for the same throughput",
            Bound::AtLeast(1.0),
            move |results: &Results| {
                let small = with(at(paths, loss, "64"), "nr-sack");
                results.ratio(&small, &with(at(paths, loss, "128"), "sack"), "goodput")
            },
        )
    }));
    claims.push(
        Claim::of_ratio(
            "two equal paths, unlimited buffer: the same goodput with NR-SACKs and SACKs, ± 3 %",
            "not stated",
            Bound::Within(0.97, 1.03),
            gain("goodput", at("pair", "1/1", "4096")),
        )
        .must(),
    );
    claims.push(Claim::of_ratio(
        "two equal paths without loss, 64 KiB: the same goodput with NR-SACKs and SACKs, ± 1 %",
        "not stated",
        Bound::Within(0.99, 1.01),
        gain("goodput", at("pair", "0/0", "64")),
    ));
    claims.push(Claim::new(
        "two equal paths, 32 KiB: NR-SACKs gain more at 1 / 10 % loss than at 1 / 1 %",
        "not stated",
        Bound::AtLeast(0.0),
        |results| {
            let more = gain("goodput", at("pair", "1/10", "32"))(results)?;
            let less = gain("goodput", at("pair", "1/1", "32"))(results)?;
            Some(more.iter().zip(&less).map(|(more, less)| more - less).collect())
        },
    ));
    claims
}

fn blocking_claims() -> Vec<Claim> {
    let unequal = [
        (
            "three",
            "0.1/1/3",
            "three paths, 128 KiB: with NR-SACKs the send buffer blocks at most half as long",
        ),
        (
            "10+2",
            "0.1/1",
            "10 + 2 Mbit/s, 128 KiB: with NR-SACKs the send buffer blocks at most half as long",
        ),
    ];
    let mut claims: Vec<Claim> = unequal
        .map(|(paths, loss, says)| {
            Claim::of_ratio(
                says,
                "less send-buffer blocking",
                Bound::AtMost(0.5),
                gain("blocked", at(paths, loss, "128")),
            )
        })
        .into();
    let from_64 = [
        (
            "pair",
            "1/1",
            "two equal paths, 1 / 1 % loss, 64 KiB: with NR-SACKs the send buffer blocks for less time",
        ),
        (
            "three",
            "0.1/1/3",
            "three paths, 64 KiB: with NR-SACKs the send buffer blocks for less time",
        ),
        (
            "10+2",
            "0.1/1",
            "10 + 2 Mbit/s, 64 KiB: with NR-SACKs the send buffer blocks for less time",
        ),
    ];
    claims.extend(from_64.map(|(paths, loss, says)| {
        Claim::of_ratio(
            says,
            "less send-buffer blocking",
            Bound::AtMost(1.0),
            gain("blocked", at(paths, loss, "64")),
        )
    }));
    claims.push(
        Claim::of_ratio(
            "10 + 2 Mbit/s, 32 KiB: with NR-SACKs the send buffer blocks for less time",
            "less send-buffer blocking",
            Bound::AtMost(1.0),
            gain("blocked", at("10+2", "0.1/1", "32")),
        )
        .fails_because(
            "with NR-SACKs the windows grow, so the small buffer is the limit more often, at two to three times the goodput: see \
             the metric goodput",
        ),
    );
    claims
}
