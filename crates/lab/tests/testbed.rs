//! A short scenario on real packets, end to end. If no bed can be made or `iperf3` is not installed, each test says so and passes.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anabranch_lab::stage::{
    Awaited, Demand, Measures, Messages, Origin, RealNetwork, Scenario, Seen, TcpFlows, What,
};
use anabranch_lab::testbed::Testbed;
use anabranch_lab::traffic::{Class, Regular, merged};
use anabranch_netsim::{LinkConfig, TcpConfig};
use anabranch_proto::{Config, LowerLayer, MultipathMode, Reliability, SendOptions, StreamId, Timestamp};

/// The scenarios are no cells of an experiment, so the hosts are threads.
const ORIGIN: Origin<'static> = Origin { seed: 7, cell: None };

/// The number of messages of each class.
const MESSAGES: usize = 60;

fn testbed(interrupted: bool) -> Option<Testbed> {
    match Testbed::new(Arc::new(AtomicBool::new(interrupted))) {
        Ok(testbed) => Some(testbed),
        Err(error) if error.is_refusal() => {
            // Written to stderr directly: the test harness hides the output of tests that pass.
            let _ = writeln!(std::io::stderr(), "SKIPPED the testbed: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Two classes of messages for half a second. All messages arrive, however busy the machine is.
fn scenario(paths: usize, tcp: usize) -> Scenario {
    let begin = Timestamp::from_millis(500);
    let end = begin + Duration::from_millis(500);
    let link: LinkConfig = "rate=20mbit,delay=5ms,queue=500p".parse().unwrap();
    let messages = |class| Regular::at_rate(1, begin, 8.0 * 100.0 * 2.0 * MESSAGES as f64, 100, class);
    let mut config = Config::default();
    config.lower_layer = LowerLayer::Ip;
    config.multipath.mode = if paths > 1 {
        MultipathMode::Cmt
    } else {
        MultipathMode::Off
    };
    // Confirm all paths at once. One path in each retransmission timeout takes longer than the messages on a fast machine.
    config.heartbeat.max_burst = paths as u32;
    let mut classes = vec![Class::default(); 2];
    classes[1].stream = StreamId(1);
    classes[1].options = SendOptions::default()
        .unordered(true)
        .reliability(Reliability::Lifetime(Duration::from_secs(600)));
    Scenario {
        config,
        paths: vec![(link.clone(), link); paths],
        messages: Some(Messages {
            connect: Timestamp::from_millis(100),
            classes,
            demand: Demand::Scheduled(Box::new(merged(messages(0), messages(1)))),
            awaited: Awaited::All,
        }),
        tcp: (tcp > 0).then(|| TcpFlows {
            config: TcpConfig::default(),
            real: TcpConfig::linux(),
            starts: vec![Timestamp::ZERO; tcp],
            access: LinkConfig::default(),
        }),
        counts: (begin, end),
        most_drain: Duration::from_secs(300),
        measures: Measures::default(),
    }
}

#[test]
fn messages_and_tcp_cross_traffic_are_counted() {
    let Some(testbed) = testbed(false) else {
        return;
    };
    let run = testbed.run(&|| scenario(1, 2), &ORIGIN);
    let run = run.unwrap_or_else(|| panic!("{:?}", testbed.failure()));
    let record = &run.record;
    let submitted = record.submitted.len();
    assert_eq!(submitted, 2 * MESSAGES, "the schedule decides, not the machine");
    assert_eq!(
        (record.counted(0).count(), record.counted(1).count()),
        (MESSAGES, MESSAGES)
    );
    assert_eq!((record.refused, record.deliveries.len()), (0, submitted));
    let first_sent = (0..submitted).filter(|number| record.sent.of(*number).is_some());
    assert_eq!(first_sent.count(), submitted, "the capture has every message");
    let late = |number: usize| record.delivered.of(number).unwrap() >= record.submitted[number].at;
    assert!(
        (0..submitted).all(late),
        "no message is delivered before it is submitted"
    );
    // By the kernel's time stamps of both hosts, no message is faster than the link, on any machine.
    let in_network = |number: usize| {
        let (sent, delivered) = (
            record.sent.of(number).unwrap(),
            record.delivered.of(number).unwrap(),
        );
        delivered.saturating_duration_since(sent)
    };
    let fastest = (0..submitted).map(in_network).min().unwrap();
    assert!(fastest >= Duration::from_millis(5), "{fastest:?}");
    for times in [run.hosts.read, run.hosts.submit] {
        assert!(0.0 < times.median && times.median <= times.p99, "{times:?}");
    }
    let received = record.packets_received;
    assert!(received > 0 && record.last.sender.packets_sent >= received);
    let tcp = [&record.at_begin, &record.at_end, &record.last].map(|reading| reading.tcp_bytes.clone());
    assert!(tcp.iter().all(|flows| flows.len() == 2), "{tcp:?}");
    assert!(
        tcp[1]
            .iter()
            .zip(&tcp[2])
            .all(|(earlier, later)| earlier <= later),
        "{tcp:?}"
    );
    let link = &record.last.links[0];
    assert!(link.delivered >= received, "{link:?}");
    let facts = testbed.facts();
    assert!(
        facts.iter().any(|(_, value)| value.contains("Linux")),
        "{facts:?}"
    );
}

#[test]
fn several_paths_carry_one_association() {
    let Some(testbed) = testbed(false) else {
        return;
    };
    let run = testbed.run(&|| scenario(3, 0), &ORIGIN);
    let run = run.unwrap_or_else(|| panic!("{:?}", testbed.failure()));
    assert_eq!(run.record.deliveries.len(), 2 * MESSAGES);
    assert_eq!(run.record.last.links.len(), 3);
    assert!(
        run.record.last.links.iter().all(|link| link.delivered > 0),
        "{:?}",
        run.record.last
    );
}

/// As in the experiments with greedy senders: packets, congestion windows, and data both ways.
#[test]
fn packets_are_seen_at_both_hosts() {
    let Some(testbed) = testbed(false) else {
        return;
    };
    let greedy = || {
        let mut scenario = scenario(2, 0);
        let messages = scenario.messages.as_mut().unwrap();
        messages.demand = Demand::GreedyBothWays(1000);
        messages.awaited = Awaited::All;
        scenario.counts.1 = scenario.counts.0 + Duration::from_secs(3);
        scenario.measures.packets = true;
        scenario
    };
    let run = testbed.run(&greedy, &ORIGIN);
    let record = run.unwrap_or_else(|| panic!("{:?}", testbed.failure())).record;
    let logs = record.logs.unwrap();
    let messages = |log: &[Seen]| -> BTreeSet<u32> {
        let numbers = log.iter().filter_map(|seen| match seen.what {
            What::Message { number, path } => {
                assert!(path < 2);
                Some(number)
            }
            _ => None,
        });
        numbers.collect()
    };
    let delivered: BTreeSet<u32> = record.deliveries.iter().map(|(_, number)| *number).collect();
    assert!(!delivered.is_empty());
    let (left, came) = (messages(&logs.sender), messages(&logs.receiver));
    assert!(left.is_superset(&came) && came.is_superset(&delivered));
    let submitted = record.submitted.len();
    assert!(
        left.iter().all(|number| (*number as usize) < submitted),
        "the log has only the sender's own messages"
    );
    let is_ack = |seen: &Seen| matches!(seen.what, What::Acknowledged { .. });
    assert!(logs.receiver.iter().any(is_ack));
    let received_back = record.last.sender.data_chunks_received;
    assert!(received_back > 0, "the receiver sends data as well");
    assert!(!record.windows.is_empty());
    let sum = |windows: &Vec<usize>| windows.iter().sum::<usize>();
    assert!(
        record
            .windows
            .iter()
            .all(|windows| windows.len() == 2 && sum(windows) > 0)
    );
}

#[test]
fn an_interrupted_run_has_no_numbers_and_no_failure() {
    let Some(testbed) = testbed(true) else {
        return;
    };
    assert!(testbed.run(&|| scenario(1, 1), &ORIGIN).is_none());
    assert!(testbed.failure().is_none());
}
