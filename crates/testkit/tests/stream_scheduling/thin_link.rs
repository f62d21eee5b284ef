//! Chat and a file transfer on a slow link with a long queue (Heinz, *Priorities in SCTP Multistreaming*): the causes of a
//! message's delay.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, QueueLimit};
use anabranch_proto::{Config, LowerLayer, MultipathMode, SchedulerKind, SendOptions, StreamId};
use anabranch_testkit::{Pair, Setup, Side, with};

const CHAT: u16 = 0;
const FILE: u16 = 1;

/// The results of a run.
#[derive(Debug)]
struct Seen {
    /// Mean and longest delay of chat messages, in seconds, without the first five.
    mean: f64,
    longest: f64,
    /// The file's goodput in bit/s.
    goodput: f64,
}

/// A file of 1,452-byte messages without end, and 21 chat messages of 30 bytes, spread over the run.
fn run(mut config: Config, rate: u64, delay: u64, queue: u64, seconds: u64) -> Seen {
    if rate < 100_000 {
        // As in the thesis: the window is full before the queue is.
        config.buffers.receive = 65_536;
        config.buffers.growth = 1;
    }
    let link = LinkConfig::default()
        .with_delay(Duration::from_millis(delay))
        .with_rate(rate)
        .with_queue(QueueLimit::Packets(queue));
    let back = LinkConfig::default()
        .with_delay(Duration::from_millis(delay))
        .with_rate(rate);
    let paths = if config.multipath.is_on() { 2 } else { 1 };
    let setup = (0..paths).fold(Setup::new(7).captured(false), |setup, _| {
        setup.path_of(link.clone(), back.clone())
    });
    let mut pair = setup.config(config).connect();
    let association = pair.association_mut(Side::A);
    if association.scheduler() == SchedulerKind::Priority {
        association
            .set_stream_priority(StreamId(FILE), 1)
            .expect("a priority");
    }
    let begin = pair.now();
    let mut sent = Vec::new();
    for step in 0..seconds * 10 {
        let now = pair.now();
        fill(&mut pair, 40_000);
        if step % (seconds * 10 / 21) == 17 {
            pair.send(Side::A, CHAT, vec![0; 30]);
            sent.push(now);
        }
        pair.run_ms(100);
    }
    let messages = pair.messages(Side::Z);
    let (chat, file): (Vec<_>, Vec<_>) = messages.iter().partition(|message| message.stream.0 == CHAT);
    let delays = chat
        .iter()
        .zip(&sent)
        .map(|(message, sent)| message.at.saturating_duration_since(*sent).as_secs_f64());
    let delays: Vec<_> = delays.skip(5).collect();
    let last = file.last().map_or(begin, |message| message.at);
    let bytes: usize = file.iter().map(|message| message.bytes.len()).sum();
    Seen {
        mean: delays.iter().sum::<f64>() / delays.len() as f64,
        longest: delays.iter().copied().fold(0.0, f64::max),
        goodput: bytes as f64 * 8.0 / last.saturating_duration_since(begin).as_secs_f64(),
    }
}

fn fill(pair: &mut Pair, bytes: usize) {
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    while association.stats().queued_bytes < bytes {
        let message = vec![1; 1448].into();
        association
            .send(now, StreamId(FILE), message, SendOptions::default())
            .expect("there is room");
    }
}

fn config() -> Config {
    let mut config = Config::default();
    config.path_mtu = 1500;
    config.path_mtu_limit = 1500;
    config.lower_layer = LowerLayer::Ip;
    config.scheduler = SchedulerKind::Priority;
    config.heartbeat.interval = None;
    config
}

fn first_come() -> Config {
    with(config(), |config| {
        config.scheduler = SchedulerKind::FirstComeFirstServed
    })
}

fn bounded(millis: u64) -> Config {
    with(config(), |config| {
        config.low_priority_delay = Some(Duration::from_millis(millis))
    })
}

/// With two paths at once the delay bound holds for each path.
#[test]
fn the_bound_holds_on_each_path() {
    let over_two = |mut config: Config| {
        config.multipath.mode = MultipathMode::Cmt;
        run(config, 1_000_000, 30, 50, 60)
    };
    let (free, bound) = (over_two(config()), over_two(bounded(20)));
    println!("{free:?} {bound:?}");
    assert!(free.mean > 0.2, "{free:?}");
    assert!(bound.longest < 0.12, "{bound:?}");
    assert!(bound.goodput > 0.95 * free.goodput, "{free:?} {bound:?}");
}

/// The thesis' table, with a file that always has data to send. First come, first served: chat waits for the file's data in the
/// send queue. Priority removes that delay. The link's queue, eight seconds of it, remains. The delay bound removes that delay
/// too, and costs less than 2 % of the file's goodput.
#[test]
fn a_chat_message_waits_within_the_bound() {
    let basic = run(first_come(), 56_000, 250, 50, 650);
    let priority = run(config(), 56_000, 250, 50, 650);
    println!("{basic:?} {priority:?}");
    assert!(basic.mean > priority.mean + 5.0, "{basic:?} {priority:?}");
    assert!((7.0..10.0).contains(&priority.mean), "{priority:?}");
    assert!((0.99..1.01).contains(&(basic.goodput / priority.goodput)));
    for target in [20, 250] {
        let bound = run(bounded(target), 56_000, 250, 50, 650);
        println!("{target} ms: {bound:?}");
        assert!(bound.mean < 1.0, "{target} ms: {bound:?}");
        assert!(bound.longest < 1.5, "{target} ms: {bound:?}");
        assert!(bound.goodput > 0.98 * priority.goodput, "{target} ms: {bound:?}");
    }
}

/// The bound holds on other links, without configuration of their rates: the delay is the one-way delay, the configured bound,
/// and not much more, and the link stays full.
#[test]
fn the_bound_on_other_links() {
    for (rate, delay, queue) in [(200_000, 20, 100), (1_000_000, 20, 100), (1_000_000, 150, 100)] {
        let priority = run(config(), rate, delay, queue, 150);
        for target in [50, 200] {
            let bound = run(bounded(target), rate, delay, queue, 150);
            println!("{rate} bit/s, {target} ms: {priority:?} {bound:?}");
            let packets = 4.0 * 1500.0 * 8.0 / rate as f64;
            let most = (delay + target) as f64 / 1000.0 + packets;
            assert!(bound.mean < most, "{rate} bit/s, {target} ms: {bound:?}");
            assert!(
                bound.goodput > 0.98 * priority.goodput,
                "{rate} bit/s, {target} ms: {bound:?}"
            );
        }
    }
}

/// A bound without classes is refused.
#[test]
fn the_bound_needs_classes() {
    let mut config = bounded(100);
    assert_eq!(config.validate(), Ok(()));
    config.scheduler = SchedulerKind::RoundRobin;
    assert_eq!(
        config.validate().expect_err("no classes").setting,
        "low_priority_delay"
    );
    config = bounded(0);
    assert_eq!(
        config.validate().expect_err("no time").setting,
        "low_priority_delay"
    );
}
