//! A call that fails changes nothing: no part of the association or of the endpoint differs after it. Only `BufferFull` is remembered, to
//! tell the stream when it is writable.

use core::fmt::Debug;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{
    Association, Config, ConnectOptions, DynamicAddressConfig, PathId, PathSettings, Reliability,
    ResetDirection, SchedulerKind, SendOptions, SharedKey, StreamId, StreamSelection, Timestamp,
};
use anabranch_testkit::{PORT, Pair, Setup, Side};

const HERE: StreamId = StreamId(0);
const NOWHERE: StreamId = StreamId(u16::MAX);

/// Two hosts with all extensions that the application can ask for.
fn pair(change: impl Fn(&mut Config)) -> Pair {
    let mut config = Config::default();
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    let setup = Setup::new(1).config(config).adjust_both(|config| {
        config.buffers.growth = 1;
        config.buffers.send = 20_000;
        config.buffers.max_message = 100_000;
        config.streams.outbound = 2000;
        config.reconfiguration.offer = true;
        change(config);
    });
    let mut pair = setup.connect();
    pair.run_ms(500);
    pair
}

/// Fills A's send buffer with messages that others may displace, begins a message on stream 0, and expires some lifetimes.
fn busy(pair: &mut Pair) {
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    let part = association.send_part(now, HERE, vec![1; 10].into(), SendOptions::default(), false);
    part.expect("room");
    for reliability in [Reliability::Lifetime(Duration::ZERO), Reliability::Priority(9)] {
        let options = SendOptions::default().reliability(reliability);
        for _ in 0..20 {
            let sent = association.send(now, StreamId(1), vec![2; 1000].into(), options);
            assert!(sent.is_ok() || matches!(reliability, Reliability::Priority(_)));
        }
    }
}

type Call = fn(&mut Association, Timestamp) -> Result<(), Box<dyn Debug>>;

fn failed<T, E: Debug + 'static>(result: Result<T, E>) -> Result<(), Box<dyn Debug>> {
    result
        .map(drop)
        .map_err(|error| Box::new(error) as Box<dyn Debug>)
}

/// The calls fail, with these errors, and change nothing.
fn check(association: &mut Association, now: Timestamp, calls: &[(&str, Call)]) {
    // A call allows another search for packets, whether it fails or not.
    let _ = association.set_primary_path(PathId(99));
    let before = format!("{association:?}");
    for (error, call) in calls {
        let result = call(association, now);
        let got = format!("{:?}", result.expect_err(error));
        assert!(got.starts_with(error), "{got}, not {error}");
        assert!(format!("{association:?}") == before, "{error} had an effect");
    }
}

fn send(
    of: &mut Association,
    now: Timestamp,
    stream: StreamId,
    len: usize,
    options: SendOptions,
) -> Result<(), Box<dyn Debug>> {
    failed(of.send(now, stream, vec![3; len].into(), options))
}

fn reset(of: &mut Association, now: Timestamp, streams: Vec<StreamId>) -> Result<(), Box<dyn Debug>> {
    let ask = of.reconfigure(now);
    failed(ask.reset_streams(StreamSelection::Listed(streams), ResetDirection::Both))
}

const MESSAGES: [(&str, Call); 7] = [
    ("MessageOpen", |of, now| {
        send(of, now, HERE, 9000, SendOptions::default())
    }),
    ("InvalidStream", |of, now| {
        send(of, now, NOWHERE, 9000, SendOptions::default())
    }),
    ("TooLarge", |of, now| {
        send(of, now, StreamId(2), 100_001, SendOptions::default())
    }),
    ("UnknownPath", |of, now| {
        let options = SendOptions::default().path(PathId(9));
        send(of, now, StreamId(2), 9000, options)
    }),
    ("Empty", |of, now| {
        send(of, now, StreamId(2), 0, SendOptions::default())
    }),
    ("Empty", |of, now| {
        failed(of.send_part(now, HERE, "".into(), SendOptions::default(), false))
    }),
    ("InvalidStream", |of, now| {
        failed(of.stream(now, NOWHERE).set_buffered_amount_low_threshold(Some(1)))
    }),
];

const REQUESTS: [(&str, Call); 17] = [
    ("InvalidStream", |of, _| {
        failed(of.set_stream_priority(NOWHERE, 1))
    }),
    ("InvalidStream", |of, _| {
        failed(of.set_equal_priorities(HERE..=NOWHERE))
    }),
    ("NoWeights", |of, _| failed(of.set_stream_weight(HERE, 2))),
    ("Unknown", |of, _| failed(of.set_primary_path(PathId(9)))),
    ("Unknown", |of, now| {
        failed(of.set_path(now, PathId(9), &PathSettings::default()))
    }),
    ("Settings", |of, now| {
        let settings = PathSettings::default()
            .max_retrans(9)
            .path_mtu(anabranch_proto::PathMtu::Fixed(1));
        failed(of.set_path(now, PathId(0), &settings))
    }),
    ("Unknown", |of, now| failed(of.request_heartbeat(now, PathId(9)))),
    ("Empty", |of, now| reset(of, now, vec![])),
    ("InvalidStream", |of, now| reset(of, now, vec![HERE, NOWHERE])),
    ("TooManyStreams", |of, now| {
        reset(of, now, (0..1500).map(StreamId).collect())
    }),
    ("Empty", |of, now| failed(of.reconfigure(now).add_streams(0, 0))),
    ("TooManyAdded", |of, now| {
        failed(of.reconfigure(now).add_streams(u16::MAX, 1))
    }),
    ("NotUnicast", |of, now| {
        let addresses = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([224, 0, 0, 1])];
        failed(of.local_addresses().set(now, &addresses))
    }),
    ("Last", |of, now| {
        failed(of.local_addresses().remove(now, IpAddr::from([10, 0, 0, 1])))
    }),
    ("Unknown", |of, now| {
        failed(of.local_addresses().ask_primary(now, IpAddr::from([10, 9, 9, 9])))
    }),
    ("TooMany", |of, now| {
        let many: Vec<_> = (1..30).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        failed(of.local_addresses().set(now, &many))
    }),
    ("Unknown", |of, _| failed(of.authentication_keys().activate(77))),
];

const KEYS: [(&str, Call); 3] = [
    ("Unknown", |of, _| failed(of.authentication_keys().remove(77))),
    ("Active", |of, _| failed(of.authentication_keys().remove(0))),
    ("TooLong", |of, _| {
        let secret = vec![1; 1025].into();
        failed(of.authentication_keys().put(SharedKey { id: 5, secret }))
    }),
];

#[test]
fn failed_calls_change_nothing() {
    let mut pair = pair(|config| config.scheduler = SchedulerKind::Priority);
    busy(&mut pair);
    let now = pair.now();
    for calls in [&MESSAGES[..], &REQUESTS, &KEYS] {
        check(pair.association_mut(Side::A), now, calls);
    }
}

#[test]
fn requests_while_another_one_waits_change_nothing() {
    let mut pair = pair(|config| config.scheduler = SchedulerKind::WeightedFairQueueing);
    busy(&mut pair);
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    let first = association.reconfigure(now).reset_streams(
        StreamSelection::Listed(vec![StreamId(1)]),
        ResetDirection::Outgoing,
    );
    first.expect("no other request waits");
    let calls: [(&str, Call); 7] = [
        ("InProgress", |of, now| reset(of, now, vec![StreamId(2)])),
        ("InProgress", |of, now| {
            failed(of.reconfigure(now).add_streams(1, 0))
        }),
        ("InProgress", |of, now| {
            failed(of.reconfigure(now).reset_association())
        }),
        ("NoPriorities", |of, _| failed(of.set_stream_priority(HERE, 1))),
        ("NoPriorities", |of, _| failed(of.enable_default_priorities())),
        ("NoPriorities", |of, _| failed(of.disable_priorities())),
        ("ZeroWeight", |of, _| failed(of.set_stream_weight(HERE, 0))),
    ];
    check(association, now, &calls);
}

#[test]
fn calls_after_the_shutdown_began_change_nothing() {
    let mut pair = pair(|_| ());
    busy(&mut pair);
    pair.shutdown(Side::A);
    let now = pair.now();
    let calls: [(&str, Call); 2] = [
        ("Closed", |of, now| {
            send(of, now, StreamId(2), 9000, SendOptions::default())
        }),
        ("Closed", |of, now| reset(of, now, vec![StreamId(2)])),
    ];
    check(pair.association_mut(Side::A), now, &calls);
}

#[test]
fn failed_calls_of_the_endpoint_change_nothing() {
    let mut pair = pair(|_| ());
    let (now, remote) = (pair.now(), pair.remote(Side::A, 0));
    let (port, _) = pair.association(Side::A).ports();
    let mut bad = Config::default();
    bad.buffers.send = 0;
    let endpoint = pair.host_mut(Side::A).endpoint_mut();
    let before = format!("{endpoint:?}");
    let nobody = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 1);
    for (to, at, options) in [
        (remote, PORT, ConnectOptions::default().local_port(port)),
        (remote, 0, ConnectOptions::default()),
        (remote, PORT, ConnectOptions::default().local_port(0)),
        (nobody, PORT, ConnectOptions::default()),
        (remote, PORT, ConnectOptions::default().config(bad)),
    ] {
        endpoint.connect(now, to, at, options).expect_err("it fails");
        assert!(format!("{endpoint:?}") == before);
    }
    endpoint.listen(0).expect_err("port 0");
    assert!(format!("{endpoint:?}") == before);
}
