//! Messages with a deadline and nothing else (`SendOptions::deadline`), with the default settings, over simulated links.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::controller::CongestionControl;
use anabranch_proto::{
    AssociationStats, Config, Counters, MultipathMode, PathId, RecoveryRules, SendOptions, StreamId,
    Timestamp,
};
use anabranch_testkit::fixture::{ALL, Fixture, config};
use anabranch_testkit::{Setup, Side, with};

const MS: Duration = Duration::from_millis(1);
const GAME: StreamId = StreamId(0);
const FILE: StreamId = StreamId(1);

/// A run of messages of one length on a link.
struct Run {
    config: Config,
    links: Vec<&'static str>,
    /// The path that the messages name.
    path: Option<PathId>,
    size: usize,
    every: Duration,
    deadline: Duration,
    count: u32,
}

impl Run {
    /// 60 messages of 100 bytes a second, of use for 100 ms, as those of a game.
    fn game(link: &'static str) -> Self {
        Self {
            config: Config::default(),
            links: vec![link],
            path: None,
            size: 100,
            every: 17 * MS,
            deadline: 100 * MS,
            count: 1_500,
        }
    }

    /// 30 frames of 10 KiB a second, of use for 200 ms, as those of a video.
    fn video(link: &'static str) -> Self {
        Self {
            size: 10 << 10,
            every: 33 * MS,
            deadline: 200 * MS,
            count: 600,
            ..Self::game(link)
        }
    }

    /// With a second path, and ECA-SCTP, as endpoints that add paths use it.
    fn beside(mut self, link: &'static str) -> Self {
        self.config.multipath.mode = MultipathMode::Eca;
        self.links.push(link);
        self
    }

    /// The share of the messages that arrive in time, and the sender's counters.
    fn in_time(self) -> (f64, Counters) {
        let (share, stats) = self.outcome();
        (share, stats.counters)
    }

    /// The share of the messages that arrive in time, and the sender's statistics.
    fn outcome(self) -> (f64, AssociationStats) {
        let mut setup = Setup::new(1).captured(false).config(self.config);
        for link in self.links {
            setup = setup.path(link.parse().expect("a link"));
        }
        let mut pair = setup.connect();
        let options = SendOptions::default().deadline(self.deadline).path(self.path);
        let mut in_time = 0;
        for tick in 0..self.count + 30 {
            let now = pair.now();
            if tick < self.count {
                let stamp = now.0.to_be_bytes().repeat(self.size / 8);
                let association = pair.association_mut(Side::A);
                association
                    .send(now, GAME, stamp.into(), options)
                    .expect("there is room");
            }
            pair.run_ms(self.every.as_millis() as u64);
            for message in pair.messages(Side::Z) {
                let stamp = message.bytes[..8].try_into().expect("eight bytes");
                let sent = Timestamp(u64::from_be_bytes(stamp));
                in_time += u32::from(message.at.saturating_duration_since(sent) <= self.deadline);
            }
        }
        let share = f64::from(in_time) / f64::from(self.count);
        (share, pair.association_mut(Side::A).stats())
    }
}

/// As many copies as the loss needs: the least share in time, and the most copies of a message.
#[test]
fn a_lossy_path_gets_as_many_copies_as_it_needs() {
    for (link, least, most) in [
        ("rate=10mbit,delay=40ms,queue=100kb,loss=1%", 0.997, 1.1),
        ("rate=10mbit,delay=40ms,queue=100kb,loss=5%", 0.995, 2.5),
        ("rate=10mbit,delay=40ms,queue=100kb,loss=10%", 0.995, 3.5),
        (
            "rate=10mbit,delay=40ms,queue=100kb,loss=burst:0.013158/0.25",
            0.99,
            4.5,
        ),
    ] {
        let (share, counters) = Run::game(link).in_time();
        let copies = counters.early_copies as f64 / 1_500.0;
        println!("{link}: {share:.4} in time, {copies:.2} copies of a message");
        assert!(share >= least && copies <= most, "{link}: {share}, {copies}");
        assert!(copies > 0.5 && counters.redundancy_bytes > 100 * counters.early_copies);
    }
}

#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    let (share, counters) = Run::game("rate=10mbit,delay=40ms,queue=100kb").in_time();
    assert!(share > 0.9999, "{share}");
    // Before fifty transmissions, losses are assumed.
    assert!(counters.early_copies <= 50, "{}", counters.early_copies);
}

#[test]
fn nothing_is_sent_twice_where_a_retransmission_is_in_time() {
    let (share, counters) = Run::game("rate=10mbit,delay=10ms,queue=100kb,loss=1%").in_time();
    assert!(share > 0.9999, "{share}");
    assert_eq!(counters.early_copies, 0);
}

#[test]
fn a_large_message_is_sent_twice_at_most() {
    let mut run = Run::video("rate=10mbit,delay=40ms,queue=100kb,loss=5%");
    // Without interleaving there are no repair chunks.
    run.config.interleaving.offer = false;
    let (share, counters) = run.in_time();
    let copies = counters.early_copies as f64 / counters.data_chunks_sent as f64;
    println!("{share:.4} in time, {copies:.2} copies of a chunk");
    assert!(share > 0.97 && (0.3..=1.0).contains(&copies), "{share}, {copies}");
}

/// The link carries 0.8 of the frames: those that would come too late make room for others.
#[test]
fn worthless_messages_do_not_delay_others() {
    let (share, counters) = Run::video("rate=2mbit,delay=40ms,queue=20kb").in_time();
    assert!(share > 0.6, "{share}");
    assert!(counters.abandoned_unsent + counters.abandoned_sent > 60);
}

/// Two links carry 0.8 of the frames together.
#[test]
fn worthless_messages_do_not_delay_others_on_two_paths() {
    let link = "rate=1mbit,delay=40ms,queue=20kb";
    let (share, counters) = Run::video(link).beside(link).in_time();
    // Without that, nearly all frames were late.
    assert!(share > 0.3, "{share}");
    assert!(counters.abandoned_unsent > 60);
}

/// A late copy takes another path. On the same path, two late copies would make each other due for as long as there is room.
#[test]
fn late_copies_do_not_follow_each_other() {
    let run = Run {
        size: 160,
        every: 20 * MS,
        deadline: 150 * MS,
        ..Run::game("rate=10mbit,delay=20ms,queue=50kb,loss=20%")
    };
    let (share, counters) = run.beside("rate=2mbit,delay=100ms,queue=50kb").in_time();
    assert!(share > 0.99, "{share}");
    let copies = counters.early_copies as f64 / 1_500.0;
    assert!(copies < 3.0, "{copies}");
}

/// A path fails while several frames are in flight there: all of their chunks need a copy, also those that are longer than the first packet of
/// their batch.
#[test]
fn frames_in_flight_on_a_path_that_fails_are_copied_at_once() {
    let run = Run {
        count: 300,
        ..Run::video(
            "rate=10mbit,delay=30ms,queue=100kb,loss=outage:3000ms-3500ms/5100ms-5600ms/7300ms-7800ms",
        )
    };
    let (share, _) = run.beside("rate=10mbit,delay=40ms,queue=100kb").in_time();
    println!("{share:.4} in time");
    assert!(share > 0.99, "{share}");
}

/// Both paths lose packets in bursts, so that copies on one path are lost together.
#[test]
fn copies_take_another_path() {
    let bursts = "rate=10mbit,delay=40ms,queue=100kb,loss=burst:0.013158/0.25";
    let ((one, _), (two, counters)) = (
        Run::game(bursts).in_time(),
        Run::game(bursts).beside(bursts).in_time(),
    );
    let copies = counters.early_copies as f64 / 1_500.0;
    println!("{one:.4} and {two:.4} in time, {copies:.2} copies of a message");
    assert!(
        two >= 0.995 && two > one && copies < 3.6,
        "{one}, {two}, {copies}"
    );
}

/// The first path loses everything soon after the first message: that losses come in bursts is assumed until losses are known.
#[test]
fn the_first_copies_take_another_path() {
    let run = Run {
        count: 45,
        ..Run::game("rate=10mbit,delay=40ms,queue=100kb,loss=outage:500ms-900ms")
    };
    let (share, _) = run.beside("rate=10mbit,delay=42ms,queue=100kb").in_time();
    assert!(share > 0.99, "{share}");
}

/// Both paths lose everything for 10 ms every 170 ms. Copies that leave at once, on either path, are lost with their chunk.
#[test]
fn the_second_copy_on_a_path_waits_for_the_end_of_a_burst() {
    let outages: Vec<_> = (4..160)
        .map(|turn| format!("{}ms-{}ms", 170 * turn, 170 * turn + 10))
        .collect();
    let link = format!(
        "rate=10mbit,delay=40ms,queue=100kb,loss=outage:{}",
        outages.join("/")
    );
    let link: &str = link.leak();
    let (share, _) = Run::game(link).beside(link).in_time();
    println!("{share:.4} in time");
    assert!(share > 0.98, "{share}");
}

/// All messages name the slow path, and their copies on the fast one arrive before them: the slow path answers all the same.
#[test]
fn a_path_whose_chunks_arrive_by_copies_first_does_not_time_out() {
    let mut run = Run::game("rate=10mbit,delay=20ms,queue=100kb");
    run.path = Some(PathId(1));
    let slow = "rate=10mbit,delay=40ms,queue=100kb,loss=3%";
    let (share, stats) = run.beside(slow).outcome();
    println!("{share:.4} in time, {:?}", stats.counters);
    assert!(share > 0.999 && stats.counters.early_copies > 1_000, "{share}");
    assert_eq!(stats.counters.timeouts, 0);
}

/// Every packet that the first path loses arrives by its copy on the second one: they reduce the window of the first path all the same.
#[test]
fn a_copy_on_another_path_hides_no_loss() {
    let mut run = Run::game("rate=10mbit,delay=40ms,queue=100kb,loss=3%");
    run.path = Some(PathId(0));
    let (share, stats) = run.beside("rate=10mbit,delay=42ms,queue=100kb").outcome();
    let [first, second] = [0, 1].map(|path| stats.paths[path].fast_recoveries);
    let chunks = stats.paths[0].data_chunks_sent + stats.paths[0].chunks_retransmitted;
    println!("{share:.4} in time, {chunks} chunks, {first} and {second} reductions");
    // Losses within one round trip reduce the window once.
    let losses = 0.03 * chunks as f64;
    assert!(
        share > 0.995 && first as f64 >= 0.7 * losses && second <= 3,
        "{share}, {chunks}, {first}, {second}"
    );
}

/// While a path is interrupted, for half a second, the messages leave on the other one, long before T3-rtx expires.
#[test]
fn an_interrupted_path_is_left_at_once() {
    let (share, stats) =
        Run::game("rate=10mbit,delay=20ms,queue=100kb,loss=outage:3000ms-3500ms/6000ms-6500ms")
            .beside("rate=10mbit,delay=30ms,queue=100kb")
            .outcome();
    println!("{share:.4} in time, {:?}", stats.counters);
    assert!(share > 0.9995, "{share}");
}

/// The first path is that of set-up, and nothing but its delay is wrong. With one path at a time no failover leaves it.
#[test]
fn a_path_that_is_only_slow_is_left() {
    for mode in [MultipathMode::Off, MultipathMode::Eca] {
        let mut run =
            Run::game("rate=10mbit,delay=300ms,queue=100kb").beside("rate=10mbit,delay=30ms,queue=100kb");
        run.config.multipath.mode = mode;
        let (share, stats) = run.outcome();
        let sent = stats.paths.iter().map(|path| path.data_chunks_sent);
        println!(
            "{mode:?}: {share:.4} in time, {:?} chunks",
            sent.collect::<Vec<_>>()
        );
        assert!(share > 0.99, "{mode:?}: {share}");
    }
}

/// Frames fill most of both paths: copies would take the room of later frames.
#[test]
fn copies_take_no_room_that_data_needs() {
    let narrow = "rate=1500kbit,delay=30ms,queue=15kb,loss=1%";
    let (share, counters) = Run::video(narrow).beside(narrow).in_time();
    let copies = counters.early_copies as f64 / counters.data_chunks_sent as f64;
    println!("{share:.4} in time, {copies:.2} copies of a chunk");
    assert!(share > 0.8 && copies < 0.1, "{share}, {copies}");
}

/// The default congestion control tolerates random loss from the first deadline on, another one stays.
#[test]
fn a_congestion_control_that_was_chosen_stays() {
    let link = "rate=10mbit,delay=40ms,queue=100kb,loss=5%";
    let chosen = with(Config::default(), |config| {
        config.congestion_control = CongestionControl::Cubic
    });
    let run = Run {
        config: chosen,
        ..Run::video(link)
    };
    let ((chosen, _), (default, _)) = (run.in_time(), Run::video(link).in_time());
    assert!(chosen < 0.5 && default > 0.99, "{chosen} and {default}");
}

#[test]
fn streams_without_deadlines_come_after_those_with_deadlines() {
    let link: LinkConfig = "rate=10mbit,delay=40ms,queue=100kb".parse().expect("a link");
    let mut pair = Setup::new(1).captured(false).path(link).connect();
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    let set = association.set_stream_priority(StreamId(2), 7);
    set.expect("there are priorities");
    let priorities = |association: &anabranch_proto::Association| {
        [GAME, FILE, StreamId(2), StreamId(3)].map(|stream| association.stream_priority(stream))
    };
    assert_eq!(priorities(association), [0, 0, 7, 0]);
    let options = SendOptions::default().deadline(100 * MS);
    for (stream, options, expected) in [
        (GAME, SendOptions::default(), [0, 0, 7, 0]),
        (GAME, options, [0, 1, 7, 1]),
        (StreamId(2), options, [0, 1, 7, 1]),
        (StreamId(3), options, [0, 1, 7, 0]),
    ] {
        let sent = association.send(now, stream, vec![1; 10].into(), options);
        sent.expect("there is room");
        assert_eq!(priorities(association), expected, "{stream:?}");
    }
    association.disable_priorities().expect("there are priorities");
    assert_eq!(priorities(association), [0, 0, 0, 0]);
}

/// A stream that was given the first priority keeps it, although this was the default: reliable messages that are urgent.
#[test]
fn a_stream_with_the_first_priority_stays_beside_those_with_deadlines() {
    let mut pair = Setup::new(1).connect();
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    let (alarms, deadlines) = (StreamId(2), StreamId(3));
    for stream in [alarms, deadlines] {
        association.set_stream_priority(stream, 0).expect("it exists");
    }
    for stream in [deadlines, GAME] {
        let options = SendOptions::default().deadline(100 * MS);
        let sent = association.send(now, stream, vec![1; 10].into(), options);
        sent.expect("there is room");
        let priority = |stream| association.stream_priority(stream);
        assert_eq!([alarms, deadlines, FILE].map(priority), [0, 0, 1], "{stream:?}");
    }
}

/// Two streams with messages of many chunks, given at the same time. If the streams took turns, both messages would be complete at about the
/// same time, and the urgent one would be late.
#[test]
fn the_earliest_deadline_is_sent_first() {
    let link: LinkConfig = "rate=4mbit,delay=20ms,queue=100kb".parse().expect("a link");
    let mut pair = Setup::new(1).captured(false).path(link).connect();
    let kinds = [
        (StreamId(0), 40 << 10, 300 * MS),
        (StreamId(1), 20 << 10, 90 * MS),
    ];
    let (mut sent, mut in_time) = (0, [0; 2]);
    for tick in 0..80 {
        let now = pair.now();
        for (stream, size, deadline) in kinds {
            let options = SendOptions::default().deadline(deadline);
            let stamp = now.0.to_be_bytes().repeat(size / 8);
            let association = pair.association_mut(Side::A);
            let queued = association.send(now, stream, stamp.into(), options);
            queued.expect("there is room");
        }
        pair.run_ms(250);
        // The first messages find the rate of the link.
        let counts = tick >= 20;
        sent += u32::from(counts);
        for message in pair.messages(Side::Z).into_iter().filter(|_| counts) {
            let stamp = message.bytes[..8].try_into().expect("eight bytes");
            let at = Timestamp(u64::from_be_bytes(stamp));
            let place = usize::from(message.stream.0);
            in_time[place] += u32::from(message.at.saturating_duration_since(at) <= kinds[place].2);
        }
    }
    println!("{in_time:?} of {sent} in time");
    assert!(
        in_time.iter().all(|count| *count + 2 >= sent),
        "{in_time:?} of {sent}"
    );
}

/// A file in the same association: the time that messages of a game wait for it.
#[test]
fn a_file_delays_no_deadline() {
    let link: LinkConfig = "rate=10mbit,delay=20ms,queue=1000p".parse().expect("a link");
    let mut pair = Setup::new(1).captured(false).path(link).connect();
    let (mut sent, mut in_time, mut file) = (0, 0, 0);
    for tick in 0..2_000 {
        let now = pair.now();
        let association = pair.association_mut(Side::A);
        while association.stats().queued_bytes < 256 << 10 {
            let part = association.send(now, FILE, vec![7; 16 << 10].into(), SendOptions::default());
            part.expect("there is room");
        }
        let stamp = now.0.to_be_bytes().repeat(100 / 8);
        let options = SendOptions::default().deadline(100 * MS);
        association
            .send(now, GAME, stamp.into(), options)
            .expect("the file leaves room");
        sent += u32::from(tick >= 200);
        pair.run_ms(10);
        for message in pair.messages(Side::Z).into_iter().filter(|_| tick >= 200) {
            if message.stream == FILE {
                file += message.bytes.len();
                continue;
            }
            let stamp = message.bytes[..8].try_into().expect("eight bytes");
            let at = Timestamp(u64::from_be_bytes(stamp));
            in_time += u32::from(message.at.saturating_duration_since(at) <= 100 * MS);
        }
    }
    let (share, rate) = (f64::from(in_time) / f64::from(sent), file as f64 * 8e-6 / 18.0);
    println!("{share:.4} in time, the file has {rate:.2} Mbit/s");
    assert!(share > 0.98 && rate > 7.0, "{share}, {rate}");
}

// A → DATA 0 → Z → SACK 0 (30 ms later, the first measurement: the RTT may vary by half of it)
// A → DATA 1 → Z; A → DATA 1 (8 ms later, and not a third of the RTT later)
#[test]
fn copies_leave_earlier_where_the_round_trip_time_varies() {
    let rack = with(config(), |config| config.recovery = RecoveryRules::RACK);
    let mut fixture = Fixture::new(rack, &ALL);
    let send = |fixture: &mut Fixture| {
        let options = SendOptions::default().deadline(60 * MS);
        let sent = fixture
            .script
            .act(|association, now| association.send(now, GAME, vec![1; 100].into(), options));
        sent.expect("the send buffer has room");
        fixture.sent()
    };
    assert_eq!(send(&mut fixture), ["DATA 0"]);
    fixture.script.advance(30 * MS);
    fixture.sack(1, &[]);
    assert_eq!(send(&mut fixture), ["DATA 1"]);
    fixture.script.advance(7 * MS);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.script.advance(MS);
    assert_eq!(fixture.sent(), ["DATA 1"]);
}
