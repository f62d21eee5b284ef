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
    for (name, cell) in [
        (
            "50p",
            BesideTcp::at("rate=10mbit,delay=40ms,queue=50p,jitter=200us"),
        ),
        (
            "15p",
            BesideTcp::at("rate=10mbit,delay=40ms,queue=15p,jitter=200us"),
        ),
        (
            "4p",
            BesideTcp::at("rate=10mbit,delay=40ms,queue=4p,jitter=200us"),
        ),
        (
            "150p",
            BesideTcp::at("rate=10mbit,delay=40ms,queue=150p,jitter=200us"),
        ),
        (
            "50mbit",
            BesideTcp::at("rate=50mbit,delay=20ms,queue=200p,jitter=200us"),
        ),
        (
            "5ms",
            BesideTcp::at("rate=20mbit,delay=5ms,queue=60p,jitter=200us"),
        ),
    ] {
        for (tcp, cell) in [("reno", cell.clone()), ("cubic", cell.cubic())] {
            let share = |cell: &BesideTcp, config: &Config| {
                mean(|seed| {
                    let (own, tcp) = cell.run(config, seed);
                    own / tcp
                })
            };
            let one = share(&cell, &settings(control, None));
            let two = share(&cell.clone().paths(2), &settings(control, Some(coupled)));
            let three = share(&cell.clone().paths(3), &settings(control, Some(coupled)));
            let far = share(
                &cell.clone().longer_by(&[0, 30]),
                &settings(control, Some(coupled)),
            );
            println!(
                "  {name:>6}, 4 {tcp:>5}: one path {one:.2}, two {two:.2}, three {three:.2}, the second longer by 60 ms {far:.2}"
            );
        }
    }
}

fn sums(control: &CongestionControl, coupled: CoupledControl) {
    let links = |texts: [&str; 2]| texts.map(|text| text.parse::<LinkConfig>().expect("a link"));
    for (name, links) in [
        (
            "1 % and 3 %",
            links([
                "rate=10mbit,delay=20ms,queue=50p,loss=1%",
                "rate=10mbit,delay=20ms,queue=50p,loss=3%",
            ]),
        ),
        (
            "1 % and 3 %, jitter",
            links([
                "rate=10mbit,delay=20ms,queue=50p,loss=1%,jitter=2ms",
                "rate=10mbit,delay=40ms,queue=50p,loss=3%,jitter=2ms",
            ]),
        ),
        (
            "full and 3 %",
            links([
                "rate=10mbit,delay=20ms,queue=50p",
                "rate=10mbit,delay=20ms,queue=50p,loss=3%",
            ]),
        ),
        (
            "both full",
            links([
                "rate=10mbit,delay=20ms,queue=50p",
                "rate=6mbit,delay=30ms,queue=50p",
            ]),
        ),
        (
            "full, small queues",
            links([
                "rate=10mbit,delay=20ms,queue=15p",
                "rate=6mbit,delay=30ms,queue=15p",
            ]),
        ),
    ] {
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
