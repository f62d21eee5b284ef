//! Runs TCP on the dumbbell of `scripts/tcp-validation` and prints one line for each run: number of flows, recovery, start times, and then
//! the same columns as `tests/ns2/dumbbell.tcl`.
//!
//! usage: tcp_validation SEEDS

use anabranch_netsim::Recovery;

#[path = "../tests/validation/mod.rs"]
mod validation;

fn main() {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok());
    let Some(seeds) = seeds else {
        eprintln!("usage: tcp_validation SEEDS");
        std::process::exit(2);
    };
    for (recovery, name) in [(Recovery::NewReno, "newreno"), (Recovery::Sack, "sack")] {
        for flows in [1, 4] {
            for seed in 1..=seeds {
                let figures = validation::run(flows, recovery, seed);
                println!(
                    "{flows} {name} {} {} {} {} {:.1} {} {}",
                    join(&figures.starts),
                    join(&figures.acked),
                    figures.offered,
                    figures.lost,
                    figures.queue,
                    figures.retransmitted,
                    figures.timeouts,
                );
            }
        }
    }
}

fn join<T: ToString>(values: &[T]) -> String {
    let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
    texts.join(",")
}
