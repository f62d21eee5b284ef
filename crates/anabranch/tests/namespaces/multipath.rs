//! Several paths at once (`docs/MULTIPATH.md`). During a transfer, each path is cut and restored in turn: the device at the
//! receiver's end goes down.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anabranch::{Config, Endpoint, EndpointBuilder, MultipathMode};

use crate::bed::Bed;
use crate::failover::{receiving, sending};
use crate::transfer::{Progress, reduce_each_path};

const UDP_PORT: u16 = 9899;
/// The in-process links of the three paths, at the sender.
const LINKS: [&str; 3] = [
    "rate=20mbit,delay=10ms,queue=64kib",
    "rate=10mbit,delay=30ms,queue=64kib",
    "rate=10mbit,delay=60ms,queue=64kib",
];

/// The address of path `index` on the sender's (1) or the receiver's (2) side.
fn address(index: usize, side: u8) -> IpAddr {
    IpAddr::from([10, 85, index as u8, side])
}

fn endpoint(mode: MultipathMode, side: u8, shape: impl Fn(EndpointBuilder) -> EndpointBuilder) -> Endpoint {
    let mut config = Config::default();
    config.multipath.mode = mode;
    let locals: Vec<_> = (0..LINKS.len())
        .map(|index| SocketAddr::new(address(index, side), UDP_PORT))
        .collect();
    let builder = shape(Endpoint::builder().config(config));
    builder.bind_all(&locals).expect("bind")
}

fn paths_come_and_go(test: &'static str, mode: MultipathMode) {
    let Some(bed) = Bed::build(test, &["a", "z"], &[]) else {
        return;
    };
    let bed = bed.in_turn();
    for index in 0..LINKS.len() {
        let [ours, theirs] = [1, 2].map(|side| format!("{}/24", address(index, side)));
        bed.join(&format!("path{index}"), [("a", &[&ours]), ("z", &[&theirs])]);
    }
    let progress = Arc::new(Progress::default());
    let stop = Arc::new(AtomicBool::new(false));
    let receiver = receiving(&bed, &progress, move || endpoint(mode, 2, |builder| builder));
    let remote = SocketAddr::new(address(0, 2), UDP_PORT);
    let (sender, association) = sending(&bed, remote, &stop, move || {
        endpoint(mode, 1, |builder| {
            LINKS.iter().enumerate().fold(builder, |builder, (index, link)| {
                builder.path_link(address(index, 1), link.parse().expect("a link"), 1)
            })
        })
    });
    reduce_each_path(test, &association, &progress, LINKS.len(), |index, cut| {
        let state = if cut { "down" } else { "up" };
        bed.ip("z", &format!("link set path{index} {state}"));
    });
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().expect("the sender");
    assert_eq!(receiver.join().expect("the receiver"), sent, "nothing is lost");
}

#[test]
fn three_paths_come_and_go() {
    paths_come_and_go("cmt", MultipathMode::Cmt);
}

#[test]
fn three_paths_come_and_go_with_eca() {
    paths_come_and_go("eca", MultipathMode::Eca);
}
