//! Paths from interfaces, on a client with two networks behind address translators and a server with one address: an interface that appears
//! joins, and one that goes down leaves. A path that leaves is removed, which no timer does: a timer only ends its use.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anabranch::{
    Association, BindError, Config, DynamicAddressConfig, Endpoint, MultipathMode, PathSource,
    PathSourceError, PathState,
};

use crate::bed::Bed;
use crate::failover::{receiving, sending};
use crate::moves::{self, MOBILE, SERVER, UDP_PORT};
use crate::transfer::{Progress, wait_until};

const WIFI: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 83, 1, 2));
const SOME: u64 = 1 << 18;

/// The client's `mobile` has no address and no route yet.
fn bed(test: &'static str) -> Option<Bed> {
    let bed = moves::bed(test, true)?;
    bed.ip("a", "address flush dev mobile");
    // The server reaches the networks behind the translators through these alone.
    for network in [1, 2] {
        bed.ip("z", &format!("route delete 10.83.{network}.0/24"));
    }
    Some(bed.in_turn())
}

fn config() -> Config {
    let mut config = Config::default();
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    config.multipath.mode = MultipathMode::Cmt;
    config
}

/// A transfer from the client to the server.
struct Transfer {
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
    receiver: JoinHandle<u64>,
    sender: JoinHandle<u64>,
    association: Association,
}

impl Transfer {
    fn start(bed: &Bed, open: impl FnOnce() -> Endpoint + Send + 'static) -> Self {
        let (progress, stop) = (Arc::new(Progress::default()), Arc::new(AtomicBool::new(false)));
        let receiver = receiving(bed, &progress, || {
            let builder = Endpoint::builder().config(config());
            let link = "delay=5ms,rate=20mbit,queue=256kib".parse().expect("a link");
            let local = SocketAddr::from(([0; 4], UDP_PORT));
            builder.link(link, 1).bind_all(&[local]).expect("bind")
        });
        let to = SocketAddr::from((SERVER, UDP_PORT));
        let (sender, association) = sending(bed, to, &stop, open);
        Self {
            progress,
            stop,
            receiver,
            sender,
            association,
        }
    }

    fn carries_on(&self, what: &str) {
        let before = self.progress.bytes();
        wait_until(what, || self.progress.bytes() > before + SOME);
    }

    /// Waits until exactly these addresses have paths, and each carries data.
    fn uses(&self, locals: &[IpAddr]) {
        let is_used = |path: &anabranch::PathStats| {
            path.state == PathState::Active
                && path.data_bytes_sent > SOME
                && path.local.is_some_and(|local| locals.contains(&local))
        };
        wait_until(&format!("paths from {locals:?}"), || {
            let paths = self.association.paths();
            paths.len() == locals.len() && paths.iter().all(is_used)
        });
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().expect("the sender");
        assert_eq!(
            self.receiver.join().expect("the receiver"),
            sent,
            "nothing is lost"
        );
    }
}

/// A device gets its route and then its address, so that its first packet has a route.
fn appear(bed: &Bed, device: &str, network: u8) {
    bed.ip("a", &format!("link set {device} up"));
    let gateway = format!("10.83.{network}.1");
    bed.ip(
        "a",
        &format!("route replace default via {gateway} dev {device} onlink metric {network}"),
    );
    bed.ip("a", &format!("address replace 10.83.{network}.2/24 dev {device}"));
}

#[test]
fn an_interface_that_appears_joins_and_one_that_goes_down_leaves() {
    let Some(bed) = bed("iface") else { return };
    // One path names its interface. The other names its address, which the host gets later.
    let transfer = Transfer::start(&bed, || {
        let builder = Endpoint::builder().config(config()).watch_interfaces(true);
        builder
            .bind_paths(&["wifi".into(), MOBILE.into()], 0)
            .expect("bind")
    });
    transfer.uses(&[WIFI]);
    appear(&bed, "mobile", 2);
    transfer.uses(&[WIFI, MOBILE]);
    let interface = |local| transfer.association.interface(local);
    assert_eq!(interface(WIFI).as_deref(), Some("wifi"));
    assert_eq!(interface(MOBILE).as_deref(), Some("mobile"));
    bed.ip("a", "link set wifi down");
    transfer.uses(&[MOBILE]);
    transfer.carries_on("the other network carries on");
    bed.ip("a", "address flush dev wifi");
    appear(&bed, "wifi", 1);
    transfer.uses(&[WIFI, MOBILE]);
    // The device at the other end goes down: the interface has no link, and keeps its address.
    bed.ip("r2", "link set mobile down");
    transfer.uses(&[WIFI]);
    transfer.carries_on("the first network carries on");
    transfer.end();
}

#[test]
fn each_interface_with_a_default_route_joins() {
    let Some(bed) = bed("auto") else { return };
    let transfer = Transfer::start(&bed, || {
        let builder = Endpoint::builder().config(config());
        builder.bind_paths(&[PathSource::DefaultRoutes], 0).expect("bind")
    });
    transfer.uses(&[WIFI]);
    bed.ip("a", "link set mobile up");
    bed.ip("a", "address add 10.83.2.2/24 dev mobile");
    let sources = || bed.open("a", || PathSource::DefaultRoutes.addresses().expect("routes"));
    assert_eq!(
        sources(),
        [WIFI],
        "an address without a default route is no source"
    );
    bed.ip("a", "address flush dev mobile");
    // A route in another table counts too: it is usual with two networks.
    bed.ip("a", "rule add from 10.83.2.2 table 102");
    bed.ip("a", "route add default via 10.83.2.1 dev mobile onlink table 102");
    bed.ip("a", "address add 10.83.2.2/24 dev mobile");
    transfer.uses(&[WIFI, MOBILE]);
    assert_eq!(sources(), [MOBILE, WIFI], "the lowest metric comes first");
    bed.ip("a", "link set wifi down");
    transfer.uses(&[MOBILE]);
    transfer.end();
}

/// An endpoint on all addresses: the association gets a socket for each address, which has the same port.
#[test]
fn an_association_adds_and_removes_paths() {
    let Some(bed) = bed("addpath") else { return };
    let transfer = Transfer::start(&bed, || {
        let builder = Endpoint::builder().config(config());
        builder
            .bind_all(&[SocketAddr::from(([0; 4], UDP_PORT))])
            .expect("bind")
    });
    transfer.uses(&[WIFI]);
    appear(&bed, "mobile", 2);
    let call = |work: fn(&Association) -> Result<(), PathSourceError>| {
        let association = transfer.association.clone();
        bed.open("a", move || work(&association))
    };
    let unknown = call(|association| association.add_path("wlan9")).expect_err("there is none");
    assert!(
        unknown.to_string().contains("mobile"),
        "it lists the interfaces: {unknown}"
    );
    call(|association| association.add_path("mobile")).expect("added");
    transfer.uses(&[WIFI, MOBILE]);
    call(|association| association.remove_path(WIFI)).expect("removed");
    transfer.uses(&[MOBILE]);
    let last = call(|association| association.remove_path("mobile")).expect_err("the last");
    assert!(matches!(last, PathSourceError::Addresses(_)), "{last}");
    let unused = call(|association| association.remove_path("lo")).expect_err("not added");
    assert!(matches!(unused, PathSourceError::NotUsed(_)), "{unused}");
    // The endpoint still has a socket on all addresses: an address may come back without its interface being named.
    call(|association| association.add_path(WIFI)).expect("added again");
    transfer.uses(&[WIFI, MOBILE]);
    transfer.end();
}

#[test]
fn an_interface_must_exist_unless_it_is_awaited() {
    let Some(bed) = Bed::build("noiface", &["a"], &[]) else {
        return;
    };
    let bind = |watches: bool, sources: Vec<PathSource>| {
        let bound = bed.inside("a", move || async move {
            let builder = Endpoint::builder().watch_interfaces(watches);
            builder
                .bind_paths(&sources, 0)
                .map(|endpoint| endpoint.local_addrs().len())
        });
        bound.join().expect("no panic")
    };
    let later = || vec!["lo".into(), "usb0".into()];
    let unknown = bind(false, later()).expect_err("there is no usb0");
    assert!(
        matches!(&unknown, BindError::Path(PathSourceError::UnknownInterface { existing, .. }) if existing == &["lo"]),
        "{unknown}"
    );
    assert!(bind(true, later()).is_ok_and(|sockets| sockets >= 1));
    let nothing = bind(true, vec!["usb0".into()]).expect_err("no address");
    assert!(
        matches!(nothing, BindError::Path(PathSourceError::NoAddress)),
        "{nothing}"
    );
    let lacking = bind(false, vec![[203, 0, 113, 9].into()]).expect_err("not an address of this host");
    assert!(matches!(lacking, BindError::Bind { .. }), "{lacking}");
}
