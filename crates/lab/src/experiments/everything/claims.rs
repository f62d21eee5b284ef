//! Claims about all extensions together for each of the three streams, and about the contribution of each extension.

use crate::claim::{Bound, Claim};
use crate::results::Results;
use crate::user::word;

fn at(variant: &'static str, loss: &'static str) -> [(&'static str, &'static str); 2] {
    [("variant", variant), ("loss", loss)]
}

fn of(
    metric: &'static str,
    variant: &'static str,
    loss: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| results.sample(&at(variant, loss), metric)
}

/// The metric of one variant minus the metric of another, seed by seed.
fn between(
    metric: &'static str,
    one: &'static str,
    other: &'static str,
    loss: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| results.difference(&at(one, loss), &at(other, loss), metric)
}

/// The metric with all extensions minus the metric without one extension, seed by seed.
fn gained(
    metric: &'static str,
    left_out: &'static str,
    loss: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    between(metric, "everything", left_out, loss)
}

/// No paper has a number.
const OURS: &str = "";

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = together();
    claims.extend(one_by_one());
    claims.extend(all_five());
    claims
}

/// All five papers: ECA-SCTP in place of the SACKs of CMT is no worse.
fn all_five() -> Vec<Claim> {
    let recoveries = [
        ("RFC 9260", "everything with ECA", "everything"),
        (
            "default recovery",
            "everything with ECA and defaults",
            "everything with defaults",
        ),
    ];
    let mut claims = Vec::new();
    for (recovery, eca, cmt) in recoveries {
        for loss in ["0", "2", "5"] {
            let says = |text: &str| word(format!("{loss} % loss, {recovery}: with ECA {text}"));
            let in_time = |what, metric| {
                let text = format!("at most 1 percentage point of the {what} less in time than with CMT");
                Claim::new(
                    says(&text),
                    OURS,
                    Bound::AtLeast(-0.01),
                    between(metric, eca, cmt, loss),
                )
                .must()
            };
            claims.push(in_time("frames", "frames_in_time"));
            claims.push(in_time("commands", "commands_in_time"));
            let file = Claim::of_ratio(
                says("the file has at least 0.98 times the goodput with CMT"),
                OURS,
                Bound::AtLeast(0.98),
                move |results| results.ratio(&at(eca, loss), &at(cmt, loss), "file_goodput"),
            );
            claims.push(file.must());
        }
    }
    claims
}

fn together() -> Vec<Claim> {
    let file = |loss| {
        move |results: &Results| results.ratio(&at("everything", loss), &at("plain", loss), "file_goodput")
    };
    vec![
        Claim::new(
            "no loss, everything: at least 99 % of the commands in time",
            OURS,
            Bound::AtLeast(0.99),
            of("commands_in_time", "everything", "0"),
        )
        .must(),
        Claim::new(
            "2 % loss, everything: at least 95 % of the commands in time",
            OURS,
            Bound::AtLeast(0.95),
            of("commands_in_time", "everything", "2"),
        )
        .must(),
        Claim::new(
            "2 % loss, everything: at least 90 % of the frames in time",
            OURS,
            Bound::AtLeast(0.9),
            of("frames_in_time", "everything", "2"),
        )
        .must(),
        Claim::new(
            "2 % loss, plain: at most 5 % of the commands in time, as they wait behind the file",
            OURS,
            Bound::AtMost(0.05),
            of("commands_in_time", "plain", "2"),
        ),
        Claim::of_ratio(
            "no loss, everything: at least 1.4 times the file goodput of plain",
            OURS,
            Bound::AtLeast(1.4),
            file("0"),
        )
        .must(),
        Claim::of_ratio(
            "5 % loss, everything: at least the file goodput of plain, although commands and frames have priority",
            OURS,
            Bound::AtLeast(1.0),
            file("5"),
        ),
    ]
}

fn one_by_one() -> Vec<Claim> {
    let frames = |says, least, left_out| {
        Claim::new(
            says,
            OURS,
            Bound::AtLeast(least),
            gained("frames_in_time", left_out, "5"),
        )
    };
    vec![
        frames(
            "5 % loss: multipath increases the share of frames in time",
            0.0,
            "no multipath",
        )
        .fails_because(
            "acknowledgements that do not name transmissions: with ECA-SCTP, 96 % of the frames are in time, on one path 91 %, and with CMT \
             81 %",
        ),
        Claim::new(
            "5 % loss: multipath with ECA-SCTP increases the share of frames in time",
            OURS,
            Bound::AtLeast(0.0),
            between("frames_in_time", "everything with ECA", "no multipath", "5"),
        ),
        frames(
            "5 % loss: expiry with early discard increases the share of frames in time by at least 3 percentage points",
            0.03,
            "no expiry",
        ),
        frames(
            "5 % loss: early discard and selective forward TSN increase the share of frames in time, in addition to expiry",
            0.0,
            "no early discard",
        ),
        frames(
            "5 % loss: interleaving increases the share of frames in time by at least 3 percentage points",
            0.03,
            "no interleaving",
        ),
        Claim::new(
            "5 % loss: early discard without selective forward TSN increases the share of frames in time, in addition to expiry",
            OURS,
            Bound::AtLeast(0.0),
            between("frames_in_time", "early discard alone", "no early discard", "5"),
        ),
        Claim::new(
            "5 % loss: selective forward TSN without early discard increases the share of frames in time, in addition to expiry",
            OURS,
            Bound::AtLeast(0.0),
            between("frames_in_time", "selective forward alone", "no early discard", "5"),
        ),
        Claim::new(
            "2 % loss, everything with ECA: at least 95 % of the commands in time",
            OURS,
            Bound::AtLeast(0.95),
            of("commands_in_time", "everything with ECA", "2"),
        ),
        Claim::new(
            "5 % loss: NR-SACK changes the share of frames in time by at most 5 percentage points, as the buffers never fill",
            "NR-SACKs reduce send buffer blocking",
            Bound::Within(-0.05, 0.05),
            gained("frames_in_time", "no nr-sack", "5"),
        ),
        Claim::new(
            "2 % loss: priorities increase the share of commands in time by at least 90 percentage points",
            OURS,
            Bound::AtLeast(0.9),
            gained("commands_in_time", "no priorities", "2"),
        )
        .must(),
        Claim::new(
            "no loss: the delay bound increases the share of commands in time by at least 50 percentage points",
            OURS,
            Bound::AtLeast(0.5),
            gained("commands_in_time", "no delay bound", "0"),
        )
        .must(),
    ]
}
