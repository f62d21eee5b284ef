//! Claims about file transfers: the slides' statements, judged over the whole transfer and with TCP cross traffic.

use super::super::claims::{ONLY_OUT_OF_ORDER, Places, gain, of};
use crate::claim::{Bound, Claim};

fn at(losses: &'static str, rtt: &'static str, buffer: &'static str) -> Places {
    [("losses", losses), ("rtt", rtt), ("buffer", buffer)]
}

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = vec![
        Claim::new(
            "no loss, 98 ms, 64 KiB: with SACKs the whole queue is needed over the transfer",
            ONLY_OUT_OF_ORDER,
            Bound::Within(1.0, 1.0),
            of("utilisation", at("0", "98", "64"), "sack"),
        )
        .must(),
        Claim::of_ratio(
            "no loss, 98 ms, 64 KiB: the same goodput with NR-SACKs and SACKs, ± 0.1 %",
            ONLY_OUT_OF_ORDER,
            Bound::Within(0.999, 1.001),
            gain("goodput", at("0", "98", "64")),
        )
        .must(),
        Claim::new(
            "TCP flows, 98 ms, unlimited buffer: with NR-SACKs the whole queue is needed over the transfer",
            "100 %",
            Bound::Within(1.0, 1.0),
            of("utilisation", at("tcp", "98", "4096"), "nr-sack"),
        )
        .by_construction(
            "the receiver never reneges, so that an NR-SACK removes every chunk that arrived from the queue",
        )
        .must(),
    ];
    let half = [
        (
            "1",
            "1 % loss, 98 ms, unlimited buffer: with SACKs 35 to 65 % of the queue is needed in loss recovery",
        ),
        (
            "tcp",
            "TCP flows, 98 ms, unlimited buffer: with SACKs 35 to 65 % of the queue is needed in loss recovery",
        ),
    ];
    claims.extend(half.map(|(losses, says)| {
        Claim::new(
            says,
            "wastes about 50 %",
            Bound::Within(0.35, 0.65),
            of("utilisation_recovery", at(losses, "98", "4096"), "sack"),
        )
    }));
    let wasted = [
        (
            "28",
            "TCP flows, 28 ms, 64 KiB: with SACKs at most 0.99 of the queue is needed over the transfer",
        ),
        (
            "98",
            "TCP flows, 98 ms, 64 KiB: with SACKs at most 0.99 of the queue is needed over the transfer",
        ),
        (
            "200",
            "TCP flows, 200 ms, 64 KiB: with SACKs at most 0.99 of the queue is needed over the transfer",
        ),
    ];
    claims.extend(wasted.map(|(rtt, says)| {
        Claim::new(
            says,
            "SACKs waste a part of the queue; no number for the whole transfer",
            Bound::AtMost(0.99),
            of("utilisation", at("tcp", rtt, "64"), "sack"),
        )
    }));
    let not_slower = [
        (
            at("1", "98", "4096"),
            "1 % loss, 98 ms, unlimited buffer: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
        (
            at("tcp", "28", "64"),
            "TCP flows, 28 ms, 64 KiB: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
        (
            at("tcp", "98", "64"),
            "TCP flows, 98 ms, 64 KiB: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
        (
            at("tcp", "200", "64"),
            "TCP flows, 200 ms, 64 KiB: goodput with NR-SACKs at least 0.98 of that with SACKs",
        ),
    ];
    claims.extend(not_slower.map(|(places, says)| {
        Claim::of_ratio(
            says,
            "throughput with NR-SACKs not lower than with SACKs in all cases (Yilmaz and others, 2010)",
            Bound::AtLeast(0.98),
            gain("goodput", places),
        )
    }));
    claims
}
