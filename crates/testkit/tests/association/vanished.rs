//! How soon an endpoint notices that its peer has vanished. A is the client, which vanishes, and Z the server. The page *Choose settings*
//! has the times.

use core::ops::Range;
use core::time::Duration;

use anabranch_proto::{CloseReason, Config, Event, PathState, SendOptions};
use anabranch_testkit::{Setup, Side};

/// The settings of the page for a server that must notice soon.
fn soon() -> Config {
    let mut config = Config::default();
    config.rto.initial = Duration::from_millis(500);
    config.rto.min = Duration::from_millis(200);
    config.rto.max = Duration::from_secs(1);
    config.heartbeat.interval = Some(Duration::from_secs(1));
    config.retransmissions.association_max_retrans = 4;
    config.retransmissions.path_max_retrans = 1;
    config
}

/// The times, in seconds, from the end of the client to the first change of the path and to the end of the association, while the server
/// sends a message with these options in each interval.
fn noticed(config: Config, seed: u64, sends: Option<(Duration, SendOptions)>) -> (f64, f64) {
    let mut pair = Setup::new(seed).adjust(Side::Z, |it| *it = config).connect();
    pair.send(Side::A, 0, "position");
    pair.run_ms(1_000 + 700 * seed);
    pair.events(Side::Z);
    pair.cut(0, true);
    let start = pair.now();
    let mut next = start;
    let mut changed = None;
    loop {
        if let Some((interval, options)) = sends.filter(|_| pair.now() >= next) {
            pair.send_with(Side::Z, 0, "state", options);
            next += interval;
        }
        pair.run_ms(50);
        let since = pair.now().saturating_duration_since(start).as_secs_f64();
        for event in pair.events(Side::Z) {
            match event {
                Event::PathChanged { state, .. } => {
                    assert_eq!(state, PathState::Inactive);
                    changed.get_or_insert(since);
                }
                Event::Closed(reason) => {
                    assert_eq!(reason, CloseReason::Unreachable);
                    return (changed.expect("the path changes first"), since);
                }
                _ => {}
            }
        }
        assert!(since < 1_000.0);
    }
}

/// The times of 20 runs lie between these seconds.
fn check(config: &Config, sends: Option<(Duration, SendOptions)>, path: Range<f64>, end: Range<f64>) {
    let times: Vec<_> = (0..20).map(|seed| noticed(config.clone(), seed, sends)).collect();
    println!("{times:?}");
    let lie = |times: &(f64, f64)| path.contains(&times.0) && end.contains(&times.1);
    assert!(times.iter().all(lie), "{times:?}");
}

/// A server that sends counts the timeouts of its data, and the heartbeats beside them.
#[test]
fn a_server_that_sends_notices_first() {
    let reliable = SendOptions::default();
    let deadline = reliable.deadline(Duration::from_millis(100));
    let often = |options| Some((Duration::from_millis(50), options));
    check(&Config::default(), often(reliable), 55.0..64.0, 210.0..245.0);
    check(&Config::default(), often(deadline), 62.0..64.0, 240.0..305.0);
    check(&soon(), often(reliable), 0.5..1.6, 2.3..3.9);
    check(&soon(), often(deadline), 0.5..1.6, 2.3..3.9);
    let each_second = Some((Duration::from_secs(1), deadline));
    check(&soon(), each_second, 0.5..2.1, 2.9..5.1);
}

/// A server that only receives counts nothing but heartbeats.
#[test]
fn a_server_that_only_receives_notices_by_heartbeats() {
    check(&Config::default(), None, 240.0..290.0, 660.0..800.0);
    check(&soon(), None, 2.6..4.5, 7.8..11.0);
}
