//! Two paths at once: the share of a bottleneck that they have in common, and the sum of two links that lose packets at random, for each
//! congestion control algorithm. `cargo run --release -p anabranch-testkit --example multipath_shares`; names such as `cubic-grouped` choose
//! a part. It takes some minutes.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{Config, CoupledControl, LowerLayer, MultipathMode};
use anabranch_testkit::{BesideTcp, Bulk};

const SEEDS: u64 = 3;

fn settings(control: &CongestionControl, coupled: Option<CoupledControl>) -> Config {
    let mut config = Config::default();
    config.path_mtu = 1500;
    config.path_mtu_limit = 1500;
    config.lower_layer = LowerLayer::Ip;
    config.congestion_control = control.clone();
    if let Some(coupled) = coupled {
        config.multipath.mode = MultipathMode::Cmt;
        config.multipath.congestion = coupled;
    }
    config
}

fn mean(run: impl Fn(u64) -> f64) -> f64 {
    (0..SEEDS).map(run).sum::<f64>() / SEEDS as f64
}

fn shares(control: &CongestionControl, coupled: CoupledControl) {
    for (name, link) in [
        ("50p", "rate=10mbit,delay=40ms,queue=50p"),
        ("15p", "rate=10mbit,delay=40ms,queue=15p"),
        ("4p", "rate=10mbit,delay=40ms,queue=4p"),
        ("150p", "rate=10mbit,delay=40ms,queue=150p"),
        ("50mbit", "rate=50mbit,delay=20ms,queue=200p"),
        ("5ms", "rate=20mbit,delay=5ms,queue=60p"),
    ] {
        let cell = BesideTcp::at(&format!("{link},jitter=200us"));
        for (tcp, cell) in [("reno", cell.clone()), ("cubic", cell.cubic())] {
            let share = |cell: &BesideTcp, config: &Config| {
                mean(|seed| {
                    let (own, tcp) = cell.run(config, seed);
                    own / tcp
                })
            };
            let one = share(&cell, &settings(control, None));
            let several = settings(control, Some(coupled));
            let two = share(&cell.clone().paths(2), &several);
            let three = share(&cell.clone().paths(3), &several);
            let far = share(&cell.clone().longer_by(&[0, 30]), &several);
            println!(
                "  {name:>6}, 4 {tcp:>5}: one path {one:.2}, two {two:.2}, three {three:.2}, the second longer by 60 ms {far:.2}"
            );
        }
    }
}

fn sums(control: &CongestionControl, coupled: CoupledControl) {
    for (name, links) in [
        (
            "1 % and 3 %",
            [
                "10mbit,delay=20ms,queue=50p,loss=1%",
                "10mbit,delay=20ms,queue=50p,loss=3%",
            ],
        ),
        (
            "1 % and 3 %, jitter",
            [
                "10mbit,delay=20ms,queue=50p,loss=1%,jitter=2ms",
                "10mbit,delay=40ms,queue=50p,loss=3%,jitter=2ms",
            ],
        ),
        (
            "full and 3 %",
            [
                "10mbit,delay=20ms,queue=50p",
                "10mbit,delay=20ms,queue=50p,loss=3%",
            ],
        ),
        (
            "both full",
            ["10mbit,delay=20ms,queue=50p", "6mbit,delay=30ms,queue=50p"],
        ),
        (
            "full, small queues",
            ["10mbit,delay=20ms,queue=15p", "6mbit,delay=30ms,queue=15p"],
        ),
    ] {
        let links = links.map(|link| format!("rate={link}").parse::<LinkConfig>().expect("a link"));
        let run = |links: &[LinkConfig], config: &Config| {
            mean(|seed| Bulk::over(seed, links, config).run_for(Duration::from_secs(60)))
        };
        let alone = links
            .each_ref()
            .map(|one| run(core::slice::from_ref(one), &settings(control, None)));
        let together = run(&links, &settings(control, Some(coupled)));
        let sum = alone[0] + alone[1];
        println!(
            "  {name:>20}: alone {alone:.2?}, together {together:.2}: {:.2}",
            together / sum
        );
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for (name, control) in [
        ("rfc9260", CongestionControl::Rfc9260),
        ("cubic", CongestionControl::Cubic),
        ("bbr", CongestionControl::Bbr(BbrConfig::default())),
    ] {
        for (kind, coupled) in [
            ("uncoupled", CoupledControl::Uncoupled),
            ("lia", CoupledControl::Lia),
            ("grouped", CoupledControl::Grouped),
        ] {
            let title = format!("{name}-{kind}");
            if wanted.is_empty() || wanted.contains(&title) {
                println!("{name}, {coupled:?}");
                sums(&control, coupled);
                shares(&control, coupled);
            }
        }
    }
}
