//! A small simulation for tests of controllers: flows through one bottleneck, each with a pacer, rate samples (draft-ietf-ccwg-bbr
//! §4.1), loss detection by three later packets, and a timeout. Retransmissions are simulated as new data.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use crate::controller::{
    Controller, Coupling, LostPacket, NewPath, RateSample, Reduction, Report, SentPacket,
};
use crate::random::Random;
use crate::time::Timestamp;

/// Bytes of a packet on the wire, of its DATA chunk, and of its user data.
const WIRE: u64 = 1500;
pub(crate) const DATA: usize = 1460;
const PAYLOAD: u64 = 1444;

/// The initial window in bytes: ten packets.
const INITIAL_WINDOW: usize = 10 * DATA;

pub(crate) fn new_path(seed: u64) -> NewPath {
    NewPath {
        max_data: DATA,
        initial_window: INITIAL_WINDOW,
        seed,
    }
}

/// The bottleneck and the delay of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Bits per second.
    pub(crate) rate: u64,
    pub(crate) rtt: Duration,
    /// The most packets in the queue.
    pub(crate) queue: u64,
    /// The share of packets that are lost at random.
    pub(crate) loss: f64,
    /// Acknowledgements arrive in bursts at multiples of this time; zero if at once.
    pub(crate) ack_interval: Duration,
}

impl Link {
    pub(crate) fn new(mbits: u64, millis: u64, queue: u64) -> Self {
        Self {
            rate: mbits * 1_000_000,
            rtt: Duration::from_millis(millis),
            queue,
            loss: 0.0,
            ack_interval: Duration::ZERO,
        }
    }

    pub(crate) fn with_loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }
}

/// When the application has data to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// From this time on, without limit.
    Bulk(Timestamp),
    /// A packet at each multiple of this time.
    Every(Duration),
    /// Without limit, except between these two times.
    Pause(Timestamp, Timestamp),
}

#[derive(Debug)]
struct Packet {
    no: u64,
    sent_at: u64,
    delivered: u64,
    delivered_at: u64,
    first_sent_at: u64,
    lost: u64,
    flight: usize,
    app_limited: bool,
}

/// A sender and its receiver.
#[derive(Debug)]
pub(crate) struct Flow<C> {
    pub(crate) control: C,
    source: Source,
    sent: VecDeque<Packet>,
    next_no: u64,
    recovery_until: Option<u64>,
    flight: usize,
    /// The earliest time of the next burst, and the bytes that may still leave in this burst.
    release: u64,
    credit: usize,
    woken: u64,
    written: u64,
    delivered: u64,
    delivered_at: u64,
    first_sent_at: u64,
    lost: u64,
    app_limited_until: u64,
    smoothed: Option<Duration>,
    min_rtt: Option<Duration>,
    last_progress: u64,
    pub(crate) lost_packets: u64,
    pub(crate) timeouts: u64,
    pub(crate) sent_packets: u64,
}

impl<C> Flow<C> {
    pub(crate) fn delivered_packets(&self) -> u64 {
        self.delivered / DATA as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(usize, u64),
    Wake(usize),
    Timeout(usize),
}

/// The flows and the bottleneck.
#[derive(Debug)]
pub(crate) struct Bottleneck<C> {
    pub(crate) link: Link,
    pub(crate) flows: Vec<Flow<C>>,
    random: Random,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    busy_until: u64,
    /// The queueing delay of each packet, in nanoseconds.
    pub(crate) delays: Vec<u64>,
}

const TICK: Duration = Duration::from_millis(100);
const LEAST_TIMEOUT: u64 = 1_000_000_000;

impl<C: Controller> Bottleneck<C> {
    pub(crate) fn new(link: Link, seed: u64, flows: impl IntoIterator<Item = (C, Source)>) -> Self {
        let mut seeds = [0; 32];
        seeds[..8].copy_from_slice(&seed.to_le_bytes());
        let flows: Vec<_> = flows
            .into_iter()
            .map(|(control, source)| flow(control, source))
            .collect();
        let mut this = Self {
            link,
            random: Random::from_seed(seeds),
            now: 0,
            events: BinaryHeap::new(),
            count: 0,
            busy_until: 0,
            delays: Vec::new(),
            flows,
        };
        for index in 0..this.flows.len() {
            this.at(0, Event::Wake(index));
            this.at(0, Event::Timeout(index));
        }
        this
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time, self.count, event)));
    }

    pub(crate) fn run_until(&mut self, end: Timestamp) {
        while let Some(&Reverse((time, _, event))) = self.events.peek() {
            if time > end.0 {
                break;
            }
            self.events.pop();
            self.now = time;
            match event {
                Event::Arrival(index, no) => self.acknowledge(index, no),
                Event::Wake(index) => {
                    self.flows[index].woken = u64::MAX;
                }
                Event::Timeout(index) => self.check_timeout(index),
            }
            let (Event::Arrival(index, _) | Event::Wake(index) | Event::Timeout(index)) = event;
            self.send(index);
        }
        self.now = end.0;
    }

    /// The goodput of a flow in Mbit/s of user data since the time `since`, when `packets` had been delivered.
    pub(crate) fn goodput(&self, index: usize, since: Timestamp, packets: u64) -> f64 {
        let bits = (self.flows[index].delivered_packets() - packets) * PAYLOAD * 8;
        bits as f64 / (self.now - since.0) as f64 * 1e3
    }

    /// The 95th percentile of the queueing delay in milliseconds, from this packet of the link on.
    pub(crate) fn delay_p95(&self, from: usize) -> f64 {
        let mut delays = self.delays[from..].to_vec();
        delays.sort_unstable();
        delays[delays.len() * 95 / 100] as f64 / 1e6
    }

    fn send(&mut self, index: usize) {
        loop {
            let now = self.now;
            let flow = &mut self.flows[index];
            let next_data = match flow.source {
                Source::Bulk(from) => from.0,
                Source::Every(interval) => flow.written * interval.as_nanos() as u64,
                Source::Pause(from, until) if now >= from.0 => until.0,
                Source::Pause(..) => 0,
            };
            let window = flow.control.window();
            let limited = flow.flight > 0 && flow.flight >= window;
            if next_data > now {
                if !limited {
                    flow.app_limited_until = (flow.delivered + flow.flight as u64).max(1);
                }
                return self.wake(index, next_data);
            }
            if limited {
                return;
            }
            if flow.credit < DATA {
                if now < flow.release {
                    let release = flow.release;
                    return self.wake(index, release);
                }
                let pace = flow.control.pace();
                flow.credit = pace.map_or(usize::MAX, |pace| pace.quantum.max(DATA));
            }
            self.transmit(index);
        }
    }

    fn wake(&mut self, index: usize, time: u64) {
        if time < self.flows[index].woken && time < u64::MAX {
            self.flows[index].woken = time;
            self.at(time, Event::Wake(index));
        }
    }

    fn transmit(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        if flow.flight == 0 {
            (flow.first_sent_at, flow.delivered_at) = (now, now);
            flow.last_progress = now;
        }
        flow.flight += DATA;
        flow.written += 1;
        flow.sent_packets += 1;
        let no = flow.next_no;
        flow.next_no += 1;
        flow.sent.push_back(Packet {
            no,
            sent_at: now,
            delivered: flow.delivered,
            delivered_at: flow.delivered_at,
            first_sent_at: flow.first_sent_at,
            lost: flow.lost,
            flight: flow.flight,
            app_limited: flow.app_limited_until != 0,
        });
        flow.control.on_sent(&SentPacket {
            now: Timestamp(now),
            bytes: DATA,
            flight: flow.flight,
            application_limited: flow.app_limited_until != 0,
        });
        flow.credit -= DATA;
        if let Some(pace) = flow.control.pace() {
            assert!(pace.rate.is_finite() && pace.rate > 0.0, "{pace:?}");
            flow.release = flow.release.max(now) + (DATA as f64 / pace.rate * 1e9) as u64;
        }
        self.forward(index, no);
    }

    fn forward(&mut self, index: usize, no: u64) {
        let service = WIRE * 8 * 1_000_000_000 / self.link.rate;
        let delay = self.busy_until.saturating_sub(self.now);
        if delay / service >= self.link.queue {
            return;
        }
        self.busy_until = self.now.max(self.busy_until) + service;
        self.delays.push(delay);
        if f64::from(self.random.next_u32()) < self.link.loss * f64::from(u32::MAX) {
            return;
        }
        let mut arrival = self.busy_until + self.link.rtt.as_nanos() as u64;
        let interval = self.link.ack_interval.as_nanos() as u64;
        if interval > 0 {
            arrival = arrival.div_ceil(interval) * interval;
        }
        self.at(arrival, Event::Arrival(index, no));
    }

    fn acknowledge(&mut self, index: usize, no: u64) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let Ok(place) = flow.sent.binary_search_by_key(&no, |packet| packet.no) else {
            // It was declared lost before.
            return;
        };
        let prior_flight = flow.flight;
        let packet = flow.sent.remove(place).expect("found");
        flow.flight -= DATA;
        flow.delivered += DATA as u64;
        flow.delivered_at = now;
        flow.first_sent_at = packet.sent_at;
        flow.last_progress = now;
        if flow.delivered > flow.app_limited_until {
            flow.app_limited_until = 0;
        }
        let rtt = Duration::from_nanos(now - packet.sent_at);
        flow.smoothed = Some(flow.smoothed.map_or(rtt, |smoothed| (smoothed * 7 + rtt) / 8));
        flow.min_rtt = Some(flow.min_rtt.map_or(rtt, |min| min.min(rtt)));
        let send = packet.sent_at - packet.first_sent_at;
        let interval = Duration::from_nanos(send.max(now - packet.delivered_at));
        let mut report = flow.report(now, prior_flight);
        report.acked = DATA;
        report.latest_rtt = Some(rtt);
        report.lost = flow.find_lost(now, |packet| packet.no + 3 <= no);
        if flow.recovery_until.is_some_and(|until| no >= until) {
            flow.recovery_until = None;
        }
        if report.lost > 0 && flow.recovery_until.is_none() {
            flow.recovery_until = Some(flow.next_no);
            report.reduction = Some(Reduction::Loss);
        }
        report.recovering = flow.recovery_until.is_some();
        report.sample = Some(RateSample {
            delivered: flow.delivered - packet.delivered,
            interval,
            application_limited: packet.app_limited,
            rtt: Some(rtt),
            flight_when_sent: packet.flight,
            lost: flow.lost - packet.lost,
            delivered_before: packet.delivered,
            total_delivered: flow.delivered,
        });
        flow.control.on_report(&report);
    }

    fn check_timeout(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let smoothed = flow.smoothed.map_or(0, |rtt| 2 * rtt.as_nanos() as u64);
        if !flow.sent.is_empty() && now - flow.last_progress >= smoothed.max(LEAST_TIMEOUT) {
            let mut report = flow.report(now, flow.flight);
            report.lost = flow.find_lost(now, |_| true);
            report.reduction = Some(Reduction::Timeout);
            flow.recovery_until = None;
            flow.timeouts += 1;
            flow.last_progress = now;
            flow.control.on_report(&report);
        }
        self.at(now + TICK.as_nanos() as u64, Event::Timeout(index));
    }
}

impl<C: Controller> Flow<C> {
    /// Removes the lost packets from the flight; returns their bytes.
    fn find_lost(&mut self, now: u64, is_lost: impl Fn(&Packet) -> bool) -> usize {
        let mut lost = 0;
        while self.sent.front().is_some_and(&is_lost) {
            let packet = self.sent.pop_front().expect("seen");
            lost += DATA;
            self.flight -= DATA;
            self.lost += DATA as u64;
            self.lost_packets += 1;
            self.control.on_lost(&LostPacket {
                now: Timestamp(now),
                bytes: DATA,
                flight_when_sent: packet.flight,
                lost_since: self.lost - packet.lost,
                application_limited: packet.app_limited,
            });
        }
        lost
    }

    fn report(&self, now: u64, prior_flight: usize) -> Report {
        Report {
            now: Timestamp(now),
            prior_flight,
            acked: 0,
            lost: 0,
            marked: 0,
            reduction: None,
            recovering: false,
            advanced: true,
            all_acked: false,
            application_limited: self.app_limited_until != 0,
            smoothed_rtt: self.smoothed,
            latest_rtt: None,
            min_rtt: self.min_rtt,
            sample: None,
            coupling: Coupling::Uncoupled,
        }
    }
}

fn flow<C>(control: C, source: Source) -> Flow<C> {
    Flow {
        control,
        source,
        sent: VecDeque::new(),
        next_no: 1,
        recovery_until: None,
        flight: 0,
        release: 0,
        credit: 0,
        woken: u64::MAX,
        written: 0,
        delivered: 0,
        delivered_at: 0,
        first_sent_at: 0,
        lost: 0,
        app_limited_until: 0,
        smoothed: None,
        min_rtt: None,
        last_progress: 0,
        lost_packets: 0,
        timeouts: 0,
        sent_packets: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RecoveryRules;
    use crate::congestion::rfc9260::Rfc9260;

    #[derive(Debug)]
    struct Fixed(usize);

    impl Controller for Fixed {
        fn on_report(&mut self, _: &Report) {}

        fn on_packet_size(&mut self, _: usize) {}

        fn window(&self) -> usize {
            self.0 * DATA
        }
    }

    fn run<C: Controller>(link: Link, control: C) -> Bottleneck<C> {
        let mut bed = Bottleneck::new(link, 1, [(control, Source::Bulk(Timestamp::ZERO))]);
        bed.run_until(Timestamp::from_millis(60_000));
        bed
    }

    #[test]
    fn a_window_is_delivered_each_round_trip() {
        // 20 packets each 40 ms and the 1.2 ms of a packet.
        let bed = run(Link::new(10, 40, 100), Fixed(20));
        let (goodput, delay) = (bed.goodput(0, Timestamp::ZERO, 0), bed.delay_p95(0));
        assert!((5.5..5.7).contains(&goodput) && delay < 1.0, "{goodput}, {delay}");
        // 60 packets: some 34 are in flight elsewhere, the other packets are queued.
        let bed = run(Link::new(10, 40, 100), Fixed(60));
        let (goodput, delay) = (bed.goodput(0, Timestamp::ZERO, 0), bed.delay_p95(0));
        assert!(
            (9.5..9.63).contains(&goodput) && (29.0..33.0).contains(&delay),
            "{goodput}, {delay}"
        );
        // More packets than the link holds.
        let bed = run(Link::new(10, 40, 10), Fixed(60));
        assert!(bed.flows[0].lost_packets > 1000 && bed.delay_p95(0) < 13.0);
    }

    #[test]
    fn slow_start_and_congestion_avoidance_are_as_usual() {
        let control = || Rfc9260::new(&new_path(1), &RecoveryRules::RFC9260);
        let without = run(Link::new(10, 40, 40), control()).goodput(0, Timestamp::ZERO, 0);
        let link = Link::new(10, 40, 40).with_loss(0.01);
        let with = run(link, control()).goodput(0, Timestamp::ZERO, 0);
        assert!(
            without > 8.5 && (2.5..4.5).contains(&with),
            "{without}, {with} Mbit/s"
        );
    }
}
