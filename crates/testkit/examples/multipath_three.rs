//! The three paths of Kim, Seo and Song (*ECA-SCTP*), together and alone.
//! `cargo run --release -p anabranch-testkit --example multipath_three`.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy};
use anabranch_testkit::{Bulk, Setup, with_buffers};

fn paths(loss: f64) -> [(LinkConfig, LinkConfig); 3] {
    let link = |rate: &str, delay: &str, loss: f64| {
        let back: LinkConfig = format!("rate={rate},delay={delay},queue=50p")
            .parse()
            .expect("a link");
        let there = format!("rate={rate},delay={delay},queue=50p,loss={loss}%")
            .parse()
            .expect("a link");
        (there, back)
    };
    [
        link("2mbit", "50ms", 0.1),
        link("1600kbit", "80ms", 1.0),
        link("800kbit", "160ms", loss),
    ]
}

fn goodput(links: &[(LinkConfig, LinkConfig)], config: &Config, seconds: u64) -> f64 {
    let seeds = 4;
    let run = |seed| {
        let setup = links.iter().fold(Setup::new(seed), |setup, (there, back)| {
            setup.path_of(there.clone(), back.clone())
        });
        Bulk::new(setup.config(config.clone())).run_for(Duration::from_secs(seconds))
    };
    (0..seeds).map(run).sum::<f64>() / seeds as f64
}

fn main() {
    let seconds = 100;
    for kib in [64, 192, 1024] {
        for loss in [3.0, 5.0, 10.0, 15.0] {
            let links = paths(loss);
            let config = with_buffers(kib << 10);
            let alone: Vec<f64> = links
                .iter()
                .map(|link| goodput(core::slice::from_ref(link), &config, seconds))
                .collect();
            let sum: f64 = alone.iter().sum();
            print!("{kib:>5} KiB {loss:>3} %: alone {alone:.2?}, sum {sum:.2}; together");
            for (name, coupled, scheduler) in [
                (
                    "uncoupled",
                    CoupledControl::Uncoupled,
                    PathScheduler::EarliestDeliveryFirst,
                ),
                ("LIA", CoupledControl::Lia, PathScheduler::EarliestDeliveryFirst),
                (
                    "RP",
                    CoupledControl::ResourcePooling,
                    PathScheduler::EarliestDeliveryFirst,
                ),
                (
                    "rr uncoupled",
                    CoupledControl::Uncoupled,
                    PathScheduler::RoundRobin,
                ),
            ] {
                let mut config = config.clone();
                config.multipath.mode = MultipathMode::Cmt;
                config.multipath.congestion = coupled;
                config.multipath.scheduler = scheduler;
                print!(" {name} {:.2}", goodput(&links, &config, seconds));
            }
            println!();
            if kib == 192 {
                for policy in [
                    RetransmissionPolicy::SamePath,
                    RetransmissionPolicy::LargestSsthresh,
                    RetransmissionPolicy::LargestCwnd,
                    RetransmissionPolicy::LowestLoss,
                    RetransmissionPolicy::SmallestRtt,
                ] {
                    let mut config = config.clone();
                    config.multipath.mode = MultipathMode::Cmt;
                    config.multipath.congestion = CoupledControl::Uncoupled;
                    config.multipath.retransmission = policy;
                    println!("    {policy:?} {:.2}", goodput(&links, &config, seconds));
                }
            }
        }
    }
}
