//! A client changes its only address in the middle of a transfer (RFC 5061), and its endpoint follows the interfaces. Two routers lead to
//! the server; with address translators (RFC 6951 §5.7) they masquerade the client's networks. Each packet takes 20 ms in each direction.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anabranch::{Config, DynamicAddressConfig, Endpoint};

use crate::bed::{Bed, LIMIT, wait_until};
use crate::failover::{receiving, sending};
use crate::transfer::{PORT, Progress, receive_all, send_all};

pub(crate) const UDP_PORT: u16 = 9899;
const MIB: u64 = 1 << 20;
pub(crate) const SERVER: [u8; 4] = [10, 83, 9, 2];
pub(crate) const MOBILE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 83, 2, 2));

/// The client `a` with devices `wifi` and `mobile`, a router behind each, and the server `z`.
pub(crate) fn bed(test: &'static str, translated: bool) -> Option<Bed> {
    let bed = Bed::build(test, &["a", "r1", "r2", "z"], &["nft"])?;
    for (router, device, client, wan, server) in
        [("r1", "wifi", 1, "wan1", 9), ("r2", "mobile", 2, "wan2", 8)]
    {
        let [own, gateway] = [2, 1].map(|last| format!("10.83.{client}.{last}/24"));
        bed.join(device, [("a", &[&own]), (router, &[&gateway])]);
        let [near, far] = [1, 2].map(|last| format!("10.83.{server}.{last}/24"));
        bed.join(wan, [(router, &[&near]), ("z", &[&far])]);
        bed.shell(router, "echo 1 > /proc/sys/net/ipv4/ip_forward");
        bed.ip(
            "z",
            &format!("route add 10.83.{client}.0/24 via 10.83.{server}.1"),
        );
        if translated {
            bed.shell(
                router,
                &format!(
                    "nft 'add table ip nat; add chain ip nat out {{ type nat hook postrouting priority 100; }}; \
                     add rule ip nat out oifname \"{wan}\" meta l4proto udp masquerade'"
                ),
            );
        }
    }
    // The server has one address, which both routers reach.
    bed.ip("r2", "route add 10.83.9.0/24 via 10.83.8.2");
    bed.ip("a", "link set mobile down");
    bed.ip("a", "route add default via 10.83.1.1 metric 100");
    Some(bed)
}

fn endpoint(watches: bool, link: Option<&str>) -> Endpoint {
    let mut config = Config::default();
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    let mut builder = Endpoint::builder().config(config).watch_interfaces(watches);
    if let Some(link) = link {
        builder = builder.link(link.parse().expect("a link"), 1);
    }
    builder
        .bind_all(&[SocketAddr::from(([0; 4], UDP_PORT))])
        .expect("bind")
}

/// The second network appears, and its route is better.
fn appear(bed: &Bed) {
    bed.ip("a", "link set mobile up");
    bed.ip("a", "route add default via 10.83.2.1 metric 50");
}

/// Both ways of a move: with both networks for a while, and without any for 300 ms.
fn change(bed: &Bed, make_before_break: bool, local: impl Fn() -> Vec<IpAddr>) {
    if make_before_break {
        appear(bed);
        wait_until("the client moves", || local() == [MOBILE]);
        bed.ip("a", "link set wifi down");
    } else {
        bed.ip("a", "link set wifi down");
        std::thread::sleep(Duration::from_millis(300));
        appear(bed);
        wait_until("the client moves", || local() == [MOBILE]);
    }
}

fn name(make_before_break: bool, translated: bool) -> String {
    let order = if make_before_break {
        "make before break"
    } else {
        "break before make, 300 ms without a network"
    };
    let translator = if translated {
        "with a translator"
    } else {
        "without a translator"
    };
    format!("{order}, {translator}")
}

/// Changes the client's network in the middle of a transfer, and returns the longest time without data.
fn longest_pause(
    bed: &Bed,
    make_before_break: bool,
    progress: &Progress,
    association: &anabranch::Association,
) -> Duration {
    wait_until("data flows", || progress.bytes() > 2 * MIB);
    progress.restart();
    change(bed, make_before_break, || association.local_addresses());
    let before = progress.bytes();
    wait_until("data flows on the new network", || {
        progress.bytes() > before + 4 * MIB
    });
    progress.longest()
}

/// The client sends.
fn upload(test: &'static str, make_before_break: bool, translated: bool) {
    let Some(bed) = bed(test, translated) else { return };
    let bed = bed.in_turn();
    let progress = Arc::new(Progress::default());
    let stop = Arc::new(AtomicBool::new(false));
    let receiver = receiving(&bed, &progress, || {
        endpoint(false, Some("delay=20ms,rate=50mbit,queue=256kib"))
    });
    let to = SocketAddr::from((SERVER, UDP_PORT));
    let (sender, association) = sending(&bed, to, &stop, || endpoint(true, None));
    let order = name(make_before_break, translated);
    let pause = longest_pause(&bed, make_before_break, &progress, &association);
    println!("upload, {order}: longest pause {pause:?}");
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().expect("the sender");
    assert_eq!(receiver.join().expect("the receiver"), sent, "nothing is lost");
    let stats = association.stats();
    assert_eq!(stats.counters.restarts, 0);
}

/// The server sends.
fn download(test: &'static str, make_before_break: bool, translated: bool) {
    let Some(bed) = bed(test, translated) else { return };
    let bed = bed.in_turn();
    let progress = Arc::new(Progress::default());
    let stop = Arc::new(AtomicBool::new(false));
    // The client connects, and the association is handed to the tasks of the roles: the server accepts and sends.
    let (ready, is_ready) = mpsc::channel();
    let (told, server_side) = mpsc::channel();
    let server = bed.inside("z", {
        let stop = Arc::clone(&stop);
        move || async move {
            let endpoint = endpoint(false, Some("delay=20ms,rate=50mbit,queue=256kib"));
            endpoint.listen_on_port(PORT).expect("listen");
            ready.send(()).expect("it is awaited");
            let association = endpoint.accept().await.expect("an association");
            told.send(()).expect("it is awaited");
            send_all(endpoint, association, stop).await
        }
    });
    is_ready.recv_timeout(LIMIT).expect("it listens");
    let (tell, client_side) = mpsc::channel();
    let client = bed.inside("a", {
        let progress = Arc::clone(&progress);
        move || async move {
            let endpoint = endpoint(true, None);
            let to = SocketAddr::from((SERVER, UDP_PORT));
            let association = endpoint.connect_to_port(to, PORT).await.expect("connect");
            tell.send(association.clone()).expect("it is awaited");
            let count = receive_all(&association, &progress).await;
            endpoint.close().await;
            count
        }
    });
    server_side.recv_timeout(LIMIT).expect("accepted");
    let association: anabranch::Association = client_side.recv_timeout(LIMIT).expect("connected");
    let order = name(make_before_break, translated);
    let pause = longest_pause(&bed, make_before_break, &progress, &association);
    println!("download, {order}: longest pause {pause:?}");
    stop.store(true, Ordering::Relaxed);
    let sent = server.join().expect("the sender");
    drop(association);
    assert_eq!(client.join().expect("the receiver"), sent, "nothing is lost");
}

#[test]
fn the_sender_moves_with_both_networks() {
    upload("moveup", true, false);
    upload("moveupnat", true, true);
}

#[test]
fn the_sender_moves_after_a_time_without_a_network() {
    upload("moveupbreak", false, false);
    upload("moveupbreaknat", false, true);
}

#[test]
fn the_receiver_moves_with_both_networks() {
    download("movedown", true, false);
    download("movedownnat", true, true);
}

#[test]
fn the_receiver_moves_after_a_time_without_a_network() {
    download("movedownbreak", false, false);
    download("movedownbreaknat", false, true);
}
