//! `Config::low_latency`: the delay of interactive messages that share an association with a file transfer.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{Config, Reliability, SendOptions, StreamId, Timestamp};
use anabranch_testkit::{Setup, Side};

const CHAT: StreamId = StreamId(0);
const FILE: StreamId = StreamId(1);
const ONE_WAY: Duration = Duration::from_millis(20);

/// The 95th percentile of the delay of messages of 100 bytes, 100 per second for 30 s, minus their delay on the idle link; and
/// the goodput of a file transfer in the same association, in Mbit/s. The file always has data to send, in class `class` if
/// there are priorities. The link has 10 Mbit/s and a queue of 1,000 packets.
fn beside_a_file(config: &Config, class: Option<u16>) -> (Duration, f64) {
    let link: LinkConfig = "rate=10mbit,delay=20ms,queue=1000p".parse().expect("a link");
    let mut pair = Setup::new(1)
        .captured(false)
        .config(config.clone())
        .path(link)
        .connect();
    if let Some(class) = class {
        let set = pair.association_mut(Side::A).set_stream_priority(FILE, class);
        set.expect("there are priorities");
    }
    let (mut late, mut file) = (Vec::new(), 0);
    for tick in 0..3500 {
        let now = pair.now();
        let association = pair.association_mut(Side::A);
        let stamp = now.0.to_be_bytes().repeat(100 / 8);
        let sent = association.send(now, CHAT, stamp.into(), SendOptions::default());
        assert!(sent.is_ok(), "the file leaves room");
        while association.stats().queued_bytes < 256 << 10 {
            let part = vec![7; 16 << 10];
            let sent = association.send(now, FILE, part.into(), SendOptions::default());
            assert!(sent.is_ok(), "there is room");
        }
        pair.run_ms(10);
        for message in pair.messages(Side::Z).into_iter().filter(|_| tick >= 500) {
            if message.stream == FILE {
                file += message.bytes.len();
            } else {
                let stamp = message.bytes[..8].try_into().expect("eight bytes");
                let sent = Timestamp(u64::from_be_bytes(stamp));
                late.push(message.at.saturating_duration_since(sent + ONE_WAY));
            }
        }
    }
    late.sort_unstable();
    (late[late.len() * 95 / 100], file as f64 * 8e-6 / 30.0)
}

/// The goal is 30 ms of delay in the network's queue at the 95th percentile. The delay here includes the time that a message
/// waits at the sender.
#[test]
fn a_file_delays_urgent_messages_by_30_ms_at_most() {
    let (late, file) = beside_a_file(&Config::low_latency(), Some(1));
    println!("{late:?}, {file:.2} Mbit/s");
    assert!(late <= Duration::from_millis(30), "{late:?}");
    assert!(file > 8.5, "{file} Mbit/s");
}

/// The share of frames that arrive within their lifetime of 200 ms: 30 a second of 10 KiB, which is more than the link of 2 Mbit/s carries.
fn frames_in_time(config: &Config) -> f64 {
    let link: LinkConfig = "rate=2mbit,delay=40ms,queue=20kb".parse().expect("a link");
    let setup = Setup::new(1).captured(false).config(config.clone());
    let mut pair = setup.path(link).connect();
    let lifetime = Duration::from_millis(200);
    let options = SendOptions::default()
        .unordered(true)
        .reliability(Reliability::Lifetime(lifetime));
    let mut in_time = 0;
    for _ in 0..600 {
        let now = pair.now();
        let stamp = now.0.to_be_bytes().repeat((10 << 10) / 8);
        let association = pair.association_mut(Side::A);
        association
            .send(now, CHAT, stamp.into(), options)
            .expect("there is room");
        pair.run_ms(33);
        for message in pair.messages(Side::Z) {
            let stamp = message.bytes[..8].try_into().expect("eight bytes");
            let sent = Timestamp(u64::from_be_bytes(stamp));
            in_time += usize::from(message.at.saturating_duration_since(sent) <= lifetime);
        }
    }
    in_time as f64 / 600.0
}

/// If a link carries less than the messages need, those that would come too late do not delay the others. The link carries 0.8 of the frames.
#[test]
fn hopeless_messages_do_not_delay_others() {
    let mut config = Config::low_latency();
    let with = frames_in_time(&config);
    config.partial_reliability.discard_hopeless = false;
    let without = frames_in_time(&config);
    println!("{with} in time, {without} without discard_hopeless");
    assert!(with > 0.6 && without < 0.5 * with, "{with} and {without}");
}

/// An association has 1.4 times as many messages as the link carries, each of which is of no use after 150 ms. The ones that leave arrive in
/// time.
#[test]
fn messages_leave_only_if_they_will_be_in_time() {
    let link: LinkConfig = "rate=4mbit,delay=20ms,queue=60kb,loss=1%"
        .parse()
        .expect("a link");
    let mut pair = Setup::new(1).captured(false).path(link).connect();
    let deadline = Duration::from_millis(150);
    let options = SendOptions::default().deadline(deadline);
    let (mut in_time, mut late) = (0, 0);
    for tick in 0..10_000 {
        let now = pair.now();
        let stamp = now.0.to_be_bytes().repeat(704 / 8);
        let association = pair.association_mut(Side::A);
        let sent = association.send(now, CHAT, stamp.into(), options);
        assert!(sent.is_ok(), "hopeless messages make room");
        pair.run_ms(1);
        for message in pair.messages(Side::Z).into_iter().filter(|_| tick >= 1000) {
            let stamp = message.bytes[..8].try_into().expect("eight bytes");
            let sent = Timestamp(u64::from_be_bytes(stamp));
            let is_in_time = message.at.saturating_duration_since(sent) <= deadline;
            *(if is_in_time { &mut in_time } else { &mut late }) += 1;
        }
    }
    println!("{in_time} of 9000 in time, {late} late");
    assert!(
        in_time > 5400 && late < in_time / 20,
        "{in_time} in time, {late} late"
    );
}

/// The effect of each setting: the same measurement with one setting turned off at a time.
#[test]
#[ignore = "a table for docs/RECOVERY.md"]
fn low_latency_without_each_of_its_settings() {
    let preset = Config::low_latency();
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = preset.clone();
        change(&mut config);
        config
    };
    for (name, config, class) in [
        ("defaults", Config::default(), None),
        ("low_latency", preset.clone(), Some(1)),
        ("file in class 0", preset.clone(), None),
        (
            "CUBIC",
            with(&|config| config.congestion_control = CongestionControl::Cubic),
            Some(1),
        ),
        (
            "BBR",
            with(&|config| config.congestion_control = CongestionControl::Bbr(BbrConfig::default())),
            Some(1),
        ),
        (
            "no bound",
            with(&|config| config.low_priority_delay = None),
            Some(1),
        ),
        (
            "CUBIC, no bound",
            with(&|config| {
                config.low_priority_delay = None;
                config.congestion_control = CongestionControl::Cubic;
            }),
            Some(1),
        ),
        (
            "not interleaved",
            with(&|config| config.interleaving.offer = false),
            Some(1),
        ),
    ] {
        let (late, file) = beside_a_file(&config, class);
        println!("{name}: {:.1} ms, {file:.2} Mbit/s", late.as_secs_f64() * 1e3);
    }
}
