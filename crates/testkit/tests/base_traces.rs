//! The packets of the base protocol (RFC 9260), byte for byte. They were recorded before the first extension was built, and
//! they do not change while no extension is offered. After an intended change of the base protocol they are recorded again (the
//! failing test prints them), and the commit says so.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, Probability, QueueLimit};
use anabranch_proto::Config;
use anabranch_testkit::{Ledger, Pair, Setup, Side};

fn link(delay_ms: u64) -> LinkConfig {
    LinkConfig::default().with_delay(Duration::from_millis(delay_ms))
}

fn lossy(delay_ms: u64, percent: f64) -> LinkConfig {
    let loss = LossModel::Bernoulli(Probability::percent(percent));
    link(delay_ms)
        .with_loss(loss)
        .with_rate(10_000_000)
        .with_queue(QueueLimit::Bytes(64_000))
}

/// Offers no extension.
fn base() -> Config {
    Config::rfc9260().without_extensions()
}

/// A hash (FNV-1a) of all packets that entered a link, with their times and links.
fn digest(pair: &Pair) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for record in pair.network.records() {
        add(&record.at.0.to_be_bytes());
        add(record.packet.destination.to_string().as_bytes());
        add(record.packet.payload.sctp());
    }
    hash
}

fn recorded(setup: Setup) -> Pair {
    let mut pair = setup.config(base()).build();
    pair.network.keep_records(1 << 20);
    pair.establish();
    pair
}

fn traffic(pair: &mut Pair, seed: u64, messages: usize) {
    for side in Side::BOTH {
        let mut ledger = Ledger::new(seed + side as u64);
        let parcels: Vec<_> = (0..messages).map(|_| ledger.random_parcel(8, 20_000)).collect();
        pair.post(side, parcels);
    }
}

fn finish(pair: &mut Pair) -> u64 {
    pair.run_for(Duration::from_secs(60));
    pair.shutdown(Side::A);
    pair.run_for(Duration::from_secs(60));
    digest(pair)
}

fn quiet_path() -> u64 {
    let mut pair = recorded(Setup::new(1).path(link(20)));
    for stream in 0..4 {
        pair.send(Side::A, stream, vec![stream as u8; 3000]);
        pair.run_ms(50);
    }
    finish(&mut pair)
}

fn loss() -> u64 {
    let mut pair = recorded(Setup::new(2).path(lossy(30, 3.0)));
    traffic(&mut pair, 20, 300);
    finish(&mut pair)
}

fn outage() -> u64 {
    let mut pair = recorded(Setup::new(3).path(lossy(10, 0.5)));
    traffic(&mut pair, 30, 200);
    pair.run_ms(80);
    pair.cut(0, true);
    pair.run_ms(5_000);
    pair.cut(0, false);
    finish(&mut pair)
}

fn two_paths() -> u64 {
    let mut pair = recorded(Setup::new(4).path(lossy(10, 1.0)).path(lossy(25, 1.0)));
    traffic(&mut pair, 40, 300);
    pair.run_ms(100);
    pair.cut(0, true);
    finish(&mut pair)
}

fn restart() -> u64 {
    let mut pair = recorded(Setup::new(5).path(link(5)));
    traffic(&mut pair, 50, 50);
    pair.run_ms(30);
    pair.reboot(Side::A);
    pair.establish();
    traffic(&mut pair, 51, 50);
    finish(&mut pair)
}

#[test]
fn without_extensions_the_same_packets_leave() {
    let found = [quiet_path(), loss(), outage(), two_paths(), restart()];
    assert_eq!(
        found.map(|hash| format!("{hash:016x}")),
        [
            "1077d1a0b03485c5",
            "633514a43cf692ac",
            "8f63d33e36348da7",
            "865c0347e1b45155",
            "4efca9652cb64e23"
        ],
        "quiet path, loss, outage, two paths, restart"
    );
}
