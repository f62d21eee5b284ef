//! Real beds: namespaces, devices, and the kernel's packets. If no bed can be made, each test says so and passes.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_bed::{Bed, BedError, PathPlan, Plan, Side, running};

/// The longest time of any step.
const LIMIT: Duration = Duration::from_secs(60);

/// A bed with these links in both directions; `None` if no bed can be made.
fn bed(links: &[&str]) -> Option<Bed> {
    let paths = links
        .iter()
        .map(|link| PathPlan::symmetric(link.parse().unwrap()))
        .collect();
    match Bed::build(&Plan { paths, seed: 1 }) {
        Ok(bed) => Some(bed),
        Err(error) if error.is_refusal() => {
            // Written to stderr directly: the test harness hides the output of tests that pass.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn bind(bed: &Bed, side: Side, address: impl Into<IpAddr>) -> UdpSocket {
    let address = SocketAddr::new(address.into(), 0);
    let socket = bed.inside(side, || UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

fn is_there(bed: &Bed) -> [bool; 2] {
    Side::BOTH.map(|side| Path::new("/run/netns").join(bed.id().namespace(side)).exists())
}

#[test]
fn datagrams_of_both_families_pass_every_path_and_take_its_time() {
    let Some(bed) = bed(&["delay=20ms", "delay=50ms"]) else {
        return;
    };
    assert_eq!(bed.paths(), 2);
    for (path, delay) in [(1, 20), (2, 50)] {
        let mut pairs: Vec<[IpAddr; 2]> = vec![Side::BOTH.map(|side| side.ipv4(path).into())];
        if bed.has_ipv6() {
            pairs.push(Side::BOTH.map(|side| side.ipv6(path).into()));
        }
        for [left, right] in pairs {
            let (left, right) = (bind(&bed, Side::Left, left), bind(&bed, Side::Right, right));
            let start = Instant::now();
            left.send_to(b"there", right.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 100];
            let (len, from) = right.recv_from(&mut buffer).unwrap();
            assert_eq!(
                (&buffer[..len], from),
                (&b"there"[..], left.local_addr().unwrap())
            );
            right.send_to(b"and back", from).unwrap();
            assert_eq!(left.recv(&mut buffer).unwrap(), 8);
            assert!(start.elapsed() >= Duration::from_millis(2 * delay), "path {path}");
        }
    }
    bed.check().unwrap();
    for way in bed.counters().iter().flatten() {
        // At least one datagram of each address family.
        let least = 1 + u64::from(bed.has_ipv6());
        assert!(way.link.delivered >= least && way.lost() == 0, "{way:?}");
        assert_eq!(way.lateness.count(), way.link.delivered);
    }
}

#[test]
fn a_packet_larger_than_the_links_mtu_is_lost_unless_it_may_be_fragmented() {
    let Some(bed) = bed(&["mtu=1400"]) else { return };
    let bind = |side: Side| bind(&bed, side, side.ipv4(1));
    let (left, right) = (bind(Side::Left), bind(Side::Right));
    let to = right.local_addr().unwrap();
    // If a packet fits the device's MTU, the kernel sets the DF flag. If not, the kernel fragments the packet itself and leaves the DF flag
    // unset.
    for size in [1300, 1472, 3000] {
        left.send_to(&vec![7; size], to).unwrap();
    }
    let mut buffer = [0; 4000];
    assert_eq!([(); 2].map(|()| right.recv(&mut buffer).unwrap()), [1300, 3000]);
    let way = &bed.counters()[0][0];
    assert_eq!((way.link.lost_too_large, way.lost()), (1, 1));
}

#[test]
fn kernel_tcp_delivers_everything_despite_loss_and_reordering() {
    let Some(bed) = bed(&["rate=50mbit,delay=2ms,queue=100p,loss=1%,reorder=1%:3ms"]) else {
        return;
    };
    let content: Vec<u8> = (0..1_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let listener = bed
        .inside(Side::Left, || TcpListener::bind((Side::Left.ipv4(1), 0)))
        .unwrap()
        .unwrap();
    let to = listener.local_addr().unwrap();
    let received = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        let mut stream = bed
            .inside(Side::Right, || TcpStream::connect(to))
            .unwrap()
            .unwrap();
        stream.write_all(&content).unwrap();
        drop(stream);
        receiver.join().unwrap()
    });
    assert!(received == content);
    let leftward = &bed.counters()[0][1].link;
    assert!(leftward.lost_model > 0 && leftward.reordered > 0, "{leftward:?}");
}

#[test]
fn commands_get_variables_and_end_with_the_bed() {
    let Some(bed) = bed(&["", "delay=1ms"]) else {
        return;
    };
    assert_eq!(is_there(&bed), [true; 2]);
    assert!(running().contains(&bed.id()));
    let mut shell = Command::new("sh");
    shell
        .args([
            "-c",
            "echo $ANABRANCH_BED_LEFT/$ANABRANCH_BED_RIGHT; ip -o -4 addr show scope global",
        ])
        .stdout(Stdio::piped());
    let said = bed
        .spawn(Side::Right, &mut shell)
        .unwrap()
        .wait_with_output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.starts_with("10.77.1.1 10.77.2.1/10.77.1.2 10.77.2.2\n"),
        "{said}"
    );
    assert!(
        said.contains("10.77.1.2/24") && said.contains("10.77.2.2/24") && !said.contains("10.77.1.1/"),
        "{said}"
    );
    // The first process ends on SIGTERM, the second ignores it.
    let mut sleeper = bed.spawn(Side::Left, Command::new("sleep").arg("1000")).unwrap();
    let mut stubborn = bed
        .spawn(
            Side::Left,
            Command::new("sh").args(["-c", "trap '' TERM; while :; do sleep 0.1; done"]),
        )
        .unwrap();
    let outside = Command::new("sleep").arg("1000").spawn();
    let id = bed.id();
    let gone = Side::BOTH.map(|side| Path::new("/run/netns").join(id.namespace(side)));
    drop(bed);
    assert!(sleeper.wait().is_ok_and(|status| !status.success()));
    assert!(stubborn.wait().is_ok_and(|status| !status.success()));
    assert!(gone.iter().all(|path| !path.exists()));
    assert!(!running().contains(&id));
    // A process outside the bed is left alone.
    let mut outside = outside.unwrap();
    assert!(outside.try_wait().unwrap().is_none());
    outside.kill().unwrap();
    outside.wait().unwrap();
}

#[test]
fn beds_of_one_process_are_separate() {
    let (Some(one), Some(other)) = (bed(&[""]), bed(&[""])) else {
        return;
    };
    assert_ne!(one.id(), other.id());
    let here = bind(&one, Side::Left, Side::Left.ipv4(1));
    let there = bind(&other, Side::Right, Side::Right.ipv4(1));
    here.send_to(b"nobody", there.local_addr().unwrap()).unwrap();
    there.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(there.recv(&mut [0; 10]).is_err());
    drop(one);
    other.check().unwrap();
    assert_eq!(is_there(&other), [true; 2]);
}

#[test]
fn a_refusal_says_what_is_missing() {
    let told = |error: &BedError| (error.is_refusal(), error.to_string());
    let (refused, text) = told(&BedError::NoIp);
    assert!(refused && text.contains("iproute2"));
    let (refused, text) = told(&BedError::Namespace {
        told: "Operation not permitted".to_owned(),
    });
    assert!(refused && text.contains("root") && text.contains("CAP_SYS_ADMIN"));
    let (refused, text) = told(&BedError::Device(std::io::ErrorKind::NotFound.into()));
    assert!(refused && text.contains("/dev/net/tun"));
    assert!(!told(&BedError::Paths(0)).0);
}
