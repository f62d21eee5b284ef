//! Property test of controllers: a path with a real controller, flight, pacer and rate samples, over a bottleneck that the input controls.
//! The controller is checked at each call (`congestion/checked.rs`). Losses are detected by three later packets, or by a timeout.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Path, PathId};
use crate::config::{Config, RecoveryRules};
use crate::congestion::checked::{Told, checked};
use crate::controller::{BbrConfig, CongestionControl, Controller, Coupling, Reduction, Report};
use crate::fuzzing::Commands;
use crate::path::{Fate, SendNo};
use crate::time::Timestamp;

/// The most packets in flight, and the most that an input may send: each takes time.
const MOST_IN_FLIGHT: usize = 2000;
const MOST_PACKETS: u64 = 20_000;

/// The most packets that a controller may need until it has found the rate of a network that works again. BBR lowers its bounds by a
/// factor of 0.7 each round trip, and a link may have become a thousand times slower.
const MOST_TO_SETTLE: u64 = 200_000;

/// Headers of a packet without its DATA chunk, in bytes.
const HEADERS: usize = 40;

/// The fate of a packet in the network.
#[derive(Clone, Copy, Debug)]
enum Treatment {
    Arrives,
    Lost,
    Late(Duration),
}

struct Bottleneck {
    /// Bytes per second.
    rate: u64,
    delay: Duration,
    /// The most packets in the queue.
    queue: u64,
    busy: Timestamp,
    /// One of this many packets is lost; 0: none is lost.
    loses_every: u64,
    treatments: VecDeque<Treatment>,
}

impl Bottleneck {
    /// When the acknowledgement of a packet of these bytes arrives.
    fn carry(&mut self, now: Timestamp, no: SendNo, bytes: usize) -> Option<Timestamp> {
        let treatment = self.treatments.pop_front().unwrap_or(Treatment::Arrives);
        let service = Duration::from_nanos((bytes + HEADERS) as u64 * 1_000_000_000 / self.rate);
        if self.busy.saturating_duration_since(now) > service * self.queue as u32 {
            return None;
        }
        self.busy = self.busy.max(now) + service;
        let at = self.busy + self.delay;
        let lost = self.loses_every > 0 && (no * 7 + no / 5).is_multiple_of(self.loses_every);
        match treatment {
            Treatment::Arrives if lost => None,
            Treatment::Arrives => Some(at),
            Treatment::Lost => None,
            Treatment::Late(late) => Some(at + late),
        }
    }
}

struct World {
    path: Path,
    now: Timestamp,
    bottleneck: Bottleneck,
    acknowledgements: BinaryHeap<Reverse<(Timestamp, SendNo)>>,
    /// Bytes of the DATA chunk of each packet in flight.
    in_flight: BTreeMap<SendNo, usize>,
    /// Packets that the application has not yet given to the sender.
    waiting: u64,
    sent: u64,
    most: u64,
    data: usize,
    starved: bool,
    /// The recovery episode lasts until everything up to here is acknowledged or lost.
    exit: Option<SendNo>,
    /// Number of losses of the last episode that are not disproved, and the first transmission of the episode.
    disproving: Option<(usize, SendNo)>,
    lost: BTreeMap<SendNo, usize>,
    timeout: Timestamp,
    /// T3-rtx expired, and nothing was acknowledged since.
    timed_out: bool,
    told: crate::congestion::checked::Log,
}

fn control(algorithm: u8) -> CongestionControl {
    match algorithm {
        1 => CongestionControl::Rfc9260,
        2 => CongestionControl::Cubic,
        other => CongestionControl::Bbr(BbrConfig {
            tolerate_random_loss: other == 4,
        }),
    }
}

/// Runs one input, with one of the algorithms 1 to 4.
pub(crate) fn run(algorithm: u8, mut commands: Commands<'_>) {
    let bits = commands.u8();
    let mut config = Config {
        recovery: RecoveryRules::RACK,
        congestion_control: control(algorithm),
        initial_window: (bits & 1 != 0).then_some(10),
        path_mtu: [1500, 1280, 576, 9000][usize::from(bits >> 1 & 3)],
        ..Config::default()
    };
    let (control, told) = checked(&config);
    config.congestion_control = control;
    let now = Timestamp::from_millis(1000);
    let remote = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9899);
    let path = Path::new(PathId(0), None, remote, &config, now, bits.into());
    let mut world = World {
        data: path.pmtu.max_data(),
        path,
        now,
        bottleneck: Bottleneck {
            rate: 1_000_000,
            delay: Duration::from_millis(40),
            queue: 50,
            busy: now,
            loses_every: 0,
            treatments: VecDeque::new(),
        },
        acknowledgements: BinaryHeap::new(),
        in_flight: BTreeMap::new(),
        waiting: 0,
        sent: 0,
        most: MOST_PACKETS,
        starved: true,
        exit: None,
        disproving: None,
        lost: BTreeMap::new(),
        timeout: now,
        timed_out: false,
        told,
    };
    while let Some(command) = commands.next(16) {
        world.command(command, &mut commands);
        if world.sent >= world.most {
            break;
        }
    }
    world.settle();
}

impl World {
    fn command(&mut self, command: u8, commands: &mut Commands<'_>) {
        let ms = Duration::from_millis;
        let argument = commands.u8();
        let link = &mut self.bottleneck;
        let mask = |treatment| {
            (0..8).map(move |bit| {
                if argument >> bit & 1 != 0 {
                    treatment
                } else {
                    Treatment::Arrives
                }
            })
        };
        match command {
            0..3 => {
                self.waiting += u64::from(argument) * [1, 4, 16][usize::from(command)];
                self.run_for(link_time(argument));
            }
            3 => link.treatments.extend(mask(Treatment::Lost)),
            4 => {
                let late = ms(u64::from(commands.u8()));
                link.treatments.extend(mask(Treatment::Late(late)));
            }
            5 => link.loses_every = [0, 200, 50, 10, 3][usize::from(argument % 5)],
            6 => link.rate = 1000 << (argument % 18),
            7 => link.delay = ms([0, 1, 10, 40, 100, 500][usize::from(argument % 6)]),
            8 => link.queue = 1 << (argument % 10),
            9 => {
                // As an ICMP message or a path MTU probe does.
                let mtu = [1500, 1280, 576, 9000][usize::from(argument & 3)];
                self.data = mtu - HEADERS;
                self.path.control.on_packet_size(self.data);
            }
            10 => self.stop(ms(u64::from(argument) * 250)),
            11 => self.blackout(ms(u64::from(argument) * 20)),
            _ => self.run_for(link_time(argument)),
        }
    }

    /// The application gives nothing for this time; the next packet then leaves after a pause.
    fn stop(&mut self, time: Duration) {
        self.waiting = 0;
        self.run_for(time);
    }

    /// The network loses all packets for this time.
    fn blackout(&mut self, time: Duration) {
        let rate = core::mem::replace(&mut self.bottleneck.loses_every, 1);
        self.waiting += 10;
        self.run_for(time);
        self.bottleneck.loses_every = rate;
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let paced = self.send();
            let acknowledged = self.acknowledgements.peek().map(|Reverse((at, _))| *at);
            let timeout = (!self.in_flight.is_empty()).then_some(self.timeout);
            let next = [paced, acknowledged, timeout].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end && self.sent < self.most) else {
                break;
            };
            self.now = self.now.max(next);
            if acknowledged.is_some_and(|at| at <= self.now)
                && let Some(Reverse((_, no))) = self.acknowledgements.pop()
            {
                self.on_acknowledgement(no);
            } else if timeout.is_some_and(|at| at <= self.now) {
                self.on_timeout();
            }
        }
        self.now = self.now.max(end);
    }

    /// Sends what may leave. Returns when the pacer releases the next packet, if the sender waits for the pacer.
    fn send(&mut self) -> Option<Timestamp> {
        loop {
            if self.waiting == 0 {
                self.starved = true;
                self.path.on_application_limited();
                return None;
            }
            self.path.decay_when_idle(self.now);
            if !self.path.has_cwnd_room() || self.in_flight.len() >= MOST_IN_FLIGHT || self.sent >= self.most
            {
                self.starved = false;
                return None;
            }
            if let Some(until) = self.path.paced_until(self.now) {
                assert!(until > self.now, "a pacer that waits for nothing");
                self.starved = false;
                return Some(until);
            }
            self.transmit();
        }
    }

    fn transmit(&mut self) {
        let flight = &mut self.path.flight;
        if flight.is_empty() {
            self.timeout = self.now + self.path.rtt.rto();
        }
        flight.begin_packet();
        let no = flight.push(self.sent, false, self.now, self.data, self.data - 16);
        self.path.on_data_sent(self.now, self.data, self.data - 16);
        self.path.on_packet_sent(self.now, self.starved);
        self.in_flight.insert(no, self.data);
        self.waiting -= 1;
        self.sent += 1;
        let arrival = self.bottleneck.carry(self.now, no, self.data);
        self.acknowledgements.extend(arrival.map(|at| Reverse((at, no))));
    }

    fn report(&self, prior_flight: usize) -> Report {
        Report {
            prior_flight,
            advanced: true,
            application_limited: self.starved,
            smoothed_rtt: self.path.rtt.smoothed(),
            min_rtt: self.path.rtt.min(),
            coupling: Coupling::Uncoupled,
            ..Report::of_nothing(self.now)
        }
    }

    fn on_acknowledgement(&mut self, no: SendNo) {
        let Some(bytes) = self.in_flight.remove(&no) else {
            return self.on_disproved(no);
        };
        let prior_flight = self.path.flight.bytes();
        let sent_at = self.path.flight.get(no).expect("in flight").sent_at;
        self.path.flight.begin();
        self.path.flight.acknowledge(no, bytes, bytes - 16);
        let lost: Vec<_> = self.in_flight.iter().map(|(no, bytes)| (*no, *bytes)).collect();
        let lost: Vec<_> = lost
            .into_iter()
            .take_while(|(other, _)| *other + 3 <= no)
            .collect();
        self.path.rtt.on_acknowledged(self.now, sent_at);
        self.path.on_progress(self.now, false);
        self.path.timers.single_packet = false;
        self.timed_out = false;
        self.timeout = self.now + self.path.rtt.rto();
        let lost_bytes = self.lose(&lost);
        let before = self.exit;
        let earliest = self.path.flight.earliest();
        self.exit = self.exit.filter(|exit| earliest <= *exit);
        let reduction = (!lost.is_empty() && self.exit.is_none()).then_some(Reduction::Loss);
        if reduction.is_some() {
            self.exit = Some(self.path.flight.next() - 1);
            self.disproving = lost.first().map(|(no, _)| (lost.len(), *no));
        } else if let Some((count, _)) = &mut self.disproving {
            *count += lost.len();
        }
        let report = Report {
            acked: bytes,
            lost: lost_bytes,
            reduction,
            recovering: before.is_some() && self.exit.is_some() && reduction.is_none(),
            all_acked: self.path.flight.is_empty(),
            latest_rtt: Some(self.now.saturating_duration_since(sent_at)),
            sample: self.path.sample_rate(self.now, None, bytes, Some(no)),
            ..self.report(prior_flight)
        };
        self.path.control.on_report(&report);
        self.path
            .follow_recovery(&report, report.reduction.is_some() || report.recovering);
        self.check(reduction);
    }

    /// Removes lost packets from the flight; returns their bytes.
    fn lose(&mut self, lost: &[(SendNo, usize)]) -> usize {
        for (no, bytes) in lost {
            self.in_flight.remove(no);
            self.lost.insert(*no, *bytes);
            self.path.flight.close(*no, Fate::Closed, *bytes, bytes - 16);
        }
        self.path.flight.settle();
        self.path.on_sendings_lost(self.now, lost.iter().copied());
        // The application gives the lost data again.
        self.waiting += lost.len() as u64;
        lost.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A packet that was declared lost is acknowledged. If this holds for all losses of an episode, the reduction was spurious.
    fn on_disproved(&mut self, no: SendNo) {
        if self.lost.remove(&no).is_none() {
            return;
        }
        if let Some((count, from)) = &mut self.disproving
            && no >= *from
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                (self.disproving, self.exit) = (None, None);
                self.path.on_spurious_reduction(self.now);
            }
        }
    }

    fn on_timeout(&mut self) {
        let prior_flight = self.path.flight.bytes();
        let lost: Vec<_> = self.in_flight.iter().map(|(no, bytes)| (*no, *bytes)).collect();
        self.path.rtt.back_off();
        let lost_bytes = self.lose(&lost);
        assert_eq!((self.path.flight.bytes(), lost_bytes), (0, prior_flight));
        self.exit = None;
        // A second timeout in a row is not undone.
        let first = !core::mem::replace(&mut self.timed_out, true);
        self.disproving = lost.first().filter(|_| first).map(|(no, _)| (lost.len(), *no));
        self.path.gates.recovery = None;
        self.path.timers.single_packet = true;
        let report = Report {
            lost: lost_bytes,
            advanced: false,
            reduction: Some(Reduction::Timeout),
            ..self.report(prior_flight)
        };
        self.path.control.on_report(&report);
        self.timeout = self.now + self.path.rtt.rto();
        self.check(Some(Reduction::Timeout));
    }

    /// Checks the bytes in flight, and that the controller was asked for at most one reduction.
    fn check(&self, reduction: Option<Reduction>) {
        let bytes: usize = self.in_flight.values().sum();
        assert_eq!(self.path.flight.bytes(), bytes);
        let told = self.told.try_iter().map(|(_, told)| told);
        let reduced: Vec<_> = told.filter(|told| *told != Told::Undone).collect();
        let expected: Vec<_> = reduction.map(Told::Reduced).into_iter().collect();
        assert_eq!(reduced, expected);
    }

    /// After the network works again, a window of data arrives.
    fn settle(&mut self) {
        self.bottleneck.treatments.clear();
        self.bottleneck.loses_every = 0;
        self.bottleneck.rate = self.bottleneck.rate.max(100_000);
        self.bottleneck.queue = self.bottleneck.queue.max(50);
        self.bottleneck.busy = self.now;
        (self.sent, self.most) = (0, MOST_TO_SETTLE);
        self.waiting = 30;
        self.run_for(Duration::from_secs(240));
        assert!(self.in_flight.is_empty() && self.waiting == 0, "{:?}", self.path);
    }
}

/// A little more than one round-trip time.
fn link_time(argument: u8) -> Duration {
    Duration::from_millis(u64::from(argument) * 4)
}
