//! The swarm: random runs of A and Z with paths, settings, traffic and faults from one seed. Then the faults end, and all
//! reliable messages must arrive, once and in order, and the association must end with a graceful shutdown.
//!
//! `SWARM_SEEDS=100..200` (or one number) chooses the seeds; a failure prints the command that runs it again.

mod family;
mod protection;
mod tracing;

use std::ops::Range;
use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, LossModel, Probability, QueueLimit};
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{
    AckRouting, AssociationState, CloseReason, Config, ConnectOptions, Counters, CoupledControl, Event,
    Failover, MultipathConfig, MultipathMode, PathScheduler, ReconfigurationError, ReconfigurationEvent,
    RecoveryRules, ResetDirection, RetransmissionPolicy, SchedulerKind, StreamId, StreamSelection, Tsn,
};
use anabranch_testkit::{Ledger, PORT, Pair, Seeds, Setup, Side, Violation};
use bytes::Bytes;

/// Seeds that run in CI.
const SEEDS: Range<u64> = 0..1000;

const REPEATED: Seeds = Seeds {
    variable: "SWARM_SEEDS",
    binary: "swarm",
};

/// Virtual time that a run may take after the faults have ended: several backed-off timeouts.
const HEALED_LIMIT: Duration = Duration::from_secs(1800);

/// Events that the runs must reach together.
const MUST_REACH: [&str; 31] = [
    "RACK",
    "CUBIC",
    "BBR",
    "restart",
    "INIT collision",
    "failover",
    "zero window",
    "T3",
    "fast retransmit",
    "spurious retransmission",
    "wrap-around",
    "ABORT",
    "MTU black hole",
    "abandoned unsent",
    "abandoned sent",
    "FORWARD-TSN",
    "early discard",
    "early copy",
    "selective notice",
    "interleaving",
    "I-FORWARD-TSN",
    "ECA-SCTP",
    "FORWARD-PSN",
    "authentication",
    "protected packets",
    "changed addresses",
    "inbound reset",
    "outbound reset",
    "association reset",
    "streams added",
    "reset, interleaving",
];

const SCHEDULERS: [SchedulerKind; 6] = [
    SchedulerKind::FirstComeFirstServed,
    SchedulerKind::RoundRobin,
    SchedulerKind::RoundRobinPerPacket,
    SchedulerKind::Priority,
    SchedulerKind::FairBandwidth,
    SchedulerKind::WeightedFairQueueing,
];

/// 37,511: a path MTU decreased while a small window made every packet look like a probe of the path MTU, and SHUTDOWNs looked
/// like answers that the window is closed: the black hole was never found. 105,607: the same, where no packet fits the window.
/// 28,564: the same with two paths, where the acknowledgements of one path looked like answers to the data of the other. 16,242: an early
/// copy was due while no path was confirmed, and its timer expired for ever. 47,681: a window probe that the peer had dropped waited for a T3-rtx
/// of 60 s after the window had opened, again and again. 99,133: chunks of an abandoned message were in flight to an address that the peer
/// deleted, and nothing moved the point past them. 23,771: the timer of an acknowledged FORWARD-TSN served for the next one.
/// 294: an address of the peer that a failing network could not reach was asked. 2,781, 3,735, 8,769 and 92,335: the peer knew a pair by another
/// name, or an address that seemed unknown. 11,043: a SHUTDOWN ACK waited for a request that could not be made any more. 11,065: an early
/// call moved a probe. 40,467: an early call ended the rest of an address while a request was outstanding. 54,414: the peer knew
/// the source of an INIT ACK that was not listed. 24,262: the receiver reneged on chunks of a path that was removed. 148: a message of key
/// management waited for an acknowledgement in clear, which did not count any more. 8,967: no FORWARD-PSN was accepted in clear. 44,402: data
/// that waited for a reset was promised to be kept, and dropped after the reset. 46,036: an ABORT with the T bit on an unconfirmed path took an
/// address from the association that another path had confirmed, and the restart of the peer became a second association.
#[test]
fn seeds_that_failed_once() {
    [
        148, 294, 2_781, 3_735, 8_769, 8_967, 11_043, 11_065, 16_242, 23_771, 24_262, 28_564, 37_511, 44_402,
        46_036, 47_681, 54_414, 92_335, 99_133, 105_607,
    ]
    .into_iter()
    .for_each(|seed| {
        run(seed);
    });
}

#[test]
fn everything_arrives_after_the_faults_end() {
    let seeds = REPEATED.chosen(SEEDS);
    let coverage = REPEATED.run(seeds.clone(), run);
    if seeds == SEEDS {
        for what in MUST_REACH {
            assert!(coverage.contains_key(what), "no seed reached {what}");
        }
    }
}

/// One run. It panics if a rule is violated, and returns the events that it reached.
fn run(seed: u64) -> Vec<&'static str> {
    run_with(seed, |_| {})
}

fn run_with(seed: u64, prepare: impl FnOnce(&mut Pair)) -> Vec<&'static str> {
    let mut random = Generator::of_process(seed, "swarm");
    let mut story = Story::begin(seed, &mut random);
    prepare(&mut story.pair);
    story.set_up(&mut random);
    story.trouble(&mut random);
    // A protected association is not restarted.
    if random.below(8) == 0 && !story.is_protected {
        if !story.restart(&mut random) {
            return story.reached;
        }
        story.trouble(&mut random);
    }
    if random.below(16) == 0 {
        story.abort(&mut random);
    } else {
        story.heal();
        story.end(&mut random);
    }
    story.reached
}

struct Story {
    seed: u64,
    /// Draws for stream reconfiguration, apart from the others: seeds of before it keep their stories.
    reconfigurations: Generator,
    pair: Pair,
    paths: usize,
    /// The messages that A and Z sent.
    sent: [Ledger; 2],
    /// One in this many messages may be abandoned.
    every: u64,
    near_wrap: bool,
    /// Whether packets are protected.
    is_protected: bool,
    /// Random numbers of `family`.
    family: Generator,
    reached: Vec<&'static str>,
}

fn pick<T: Copy>(random: &mut Generator, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn millis(random: &mut Generator, from: u64, to: u64) -> Duration {
    Duration::from_millis(from + random.below(to - from + 1))
}

fn random_link(random: &mut Generator) -> LinkConfig {
    let mut link = LinkConfig::default()
        .with_delay(millis(random, 0, 100))
        .with_mtu(pick(random, &[1500, 9000, 65_535]))
        .with_queue(QueueLimit::Bytes(pick(random, &[20_000, 64_000, 1_000_000])));
    if random.below(4) > 0 {
        link = link.with_rate(pick(random, &[200_000, 2_000_000, 20_000_000]));
    }
    if random.below(2) == 0 {
        link = link.with_jitter(millis(random, 1, 30));
    }
    link = match random.below(4) {
        0 => link,
        1 => link.with_loss(LossModel::bursts(0.01, 0.3)),
        _ => link.with_loss(LossModel::bernoulli(random.fraction() * 0.15)),
    };
    if random.below(3) == 0 {
        link = link.with_reorder(Probability::new(0.05), millis(random, 1, 300));
    }
    if random.below(3) == 0 {
        link = link.with_duplicate(Probability::new(0.03));
    }
    if random.below(3) == 0 {
        link = link.with_corrupt(Probability::new(0.02));
    }
    link
}

fn random_config(random: &mut Generator, near_wrap: bool) -> Config {
    let mut config = Config::default();
    config.rto.min = Duration::from_millis(pick(random, &[100, 1_000]));
    config.rto.max = Duration::from_secs(pick(random, &[2, 10, 60]));
    config.sack.frequency = pick(random, &[1, 2, 4]);
    config.buffers.receive = pick(random, &[4_000, 65_536, 1 << 20]);
    config.buffers.send = pick(random, &[10_000, 65_536, 1 << 20]);
    config.buffers.growth = pick(random, &[1, 32]);
    config.buffers.partial_delivery_point = pick(random, &[1_000, 50_000, 256 << 10]);
    config.path_mtu = pick(random, &[576, 1280, 1500]);
    config.path_mtu_limit = pick(random, &[1500, 9000, 65_535]);
    config.no_delay = random.below(2) == 0;
    config.max_burst = pick(random, &[1, 4, 16]);
    config.heartbeat.interval = Some(millis(random, 500, 10_000));
    config.retransmissions.path_max_retrans = pick(random, &[0, 1, 5]);
    config.retransmissions.failover = pick(
        random,
        &[
            Failover::Rfc9260,
            Failover::Fast,
            Failover::PotentiallyFailed { max_retrans: 0 },
            Failover::PotentiallyFailed { max_retrans: 1 },
        ],
    );
    // The association must survive the faults.
    config.retransmissions.association_max_retrans = 10_000;
    config.retransmissions.max_init_retransmits = 10_000;
    config.shutdown_guard = Some(HEALED_LIMIT);
    config.scheduler = pick(random, &SCHEDULERS);
    if config.scheduler == SchedulerKind::Priority && random.below(2) == 0 {
        config.low_priority_delay = Some(millis(random, 5, 300));
    }
    let partial = &mut config.partial_reliability;
    partial.offer = random.below(8) > 0;
    partial.discard_unsent = random.below(4) > 0;
    partial.early_discard = random.below(2) == 0;
    partial.selective_forward_tsn = pick(random, &[None, Some(1), Some(3)]);
    config.nr_sack.offer = random.below(4) > 0;
    config.nr_sack.may_renege = random.below(4) == 0;
    config.nr_sack.forward_past_nonrenegable = random.below(4) > 0;
    config.multipath = random_multipath(random);
    config.interleaving.offer = random.below(4) > 0;
    config.recovery = pick(random, &[RecoveryRules::RFC9260, RecoveryRules::RACK]);
    config.congestion_control = random_controller(random);
    config.initial_window = pick(random, &[None, Some(2), Some(10)]);
    let couples = matches!(config.congestion_control, CongestionControl::Rfc9260);
    if !couples {
        config.multipath.congestion = CoupledControl::Uncoupled;
    }
    if near_wrap {
        config.initial_tsn = Some(Tsn(u32::MAX - random.below(20) as u32));
    }
    config.partial_reliability.discard_hopeless = random.below(2) == 0;
    config
}

fn random_controller(random: &mut Generator) -> CongestionControl {
    match random.below(4) {
        0 => CongestionControl::Cubic,
        1 => CongestionControl::Bbr(BbrConfig {
            tolerate_random_loss: random.below(2) == 0,
        }),
        _ => CongestionControl::Rfc9260,
    }
}

/// The loss recovery and congestion control of the hosts, if not RFC 9260's.
fn rules(configs: &[Config; 2]) -> Vec<&'static str> {
    let any = |has: fn(&Config) -> bool| configs.iter().any(has);
    let rules = [
        ("RACK", any(|config| config.recovery == RecoveryRules::RACK)),
        (
            "CUBIC",
            any(|config| config.congestion_control == CongestionControl::Cubic),
        ),
        (
            "BBR",
            any(|config| matches!(config.congestion_control, CongestionControl::Bbr(_))),
        ),
    ];
    rules
        .into_iter()
        .filter(|(_, has)| *has)
        .map(|(name, _)| name)
        .collect()
}

fn random_multipath(random: &mut Generator) -> MultipathConfig {
    let mut multipath = Config::default().multipath;
    if random.below(2) == 0 {
        return multipath;
    }
    multipath.mode = pick(
        random,
        &[MultipathMode::Cmt, MultipathMode::Eca, MultipathMode::Eca],
    );
    multipath.eca.ack_routing = pick(
        random,
        &[
            AckRouting::Measured,
            AckRouting::LastArrival,
            AckRouting::EveryPath,
            AckRouting::Unranked,
            AckRouting::Ranked,
        ],
    );
    multipath.eca.time_rule = random.below(4) > 0;
    multipath.eca.forward_psn = random.below(4) > 0;
    multipath.eca.sample_any_ack = random.below(4) > 0;
    multipath.scheduler = pick(
        random,
        &[
            PathScheduler::EarliestDeliveryFirst,
            PathScheduler::LowestRttFirst,
            PathScheduler::RoundRobin,
        ],
    );
    multipath.retransmission = pick(
        random,
        &[
            RetransmissionPolicy::SamePath,
            RetransmissionPolicy::LargestSsthresh,
            RetransmissionPolicy::LargestCwnd,
            RetransmissionPolicy::LowestLoss,
            RetransmissionPolicy::SmallestRtt,
            RetransmissionPolicy::EarliestDelivery,
        ],
    );
    multipath.congestion = pick(
        random,
        &[
            CoupledControl::Uncoupled,
            CoupledControl::Grouped,
            CoupledControl::Lia,
            CoupledControl::ResourcePooling,
        ],
    );
    multipath.split_send_buffer = random.below(4) == 0;
    multipath.split_receive_buffer = random.below(4) == 0;
    multipath.reschedule = random.below(2) == 0;
    multipath.delayed_acks = random.below(2) == 0;
    multipath
}

impl Story {
    fn begin(seed: u64, random: &mut Generator) -> Self {
        let paths = 1 + random.below(3) as usize;
        let near_wrap = random.below(4) == 0;
        let mut configs = [(); 2].map(|()| random_config(random, near_wrap));
        let mut family = Generator::of_process(seed, "swarm family");
        family::choose(&mut family, &mut configs);
        let is_protected = protection::choose(seed, &mut configs);
        let reached = rules(&configs);
        let [a, z] = configs;
        let mut setup = Setup::new(seed).configs(a, z);
        for _ in 0..paths {
            setup = setup.path_of(random_link(random), random_link(random));
        }
        let every = pick(random, &[0, 2, 5]);
        let sent = [Ledger::new(seed * 2), Ledger::new(seed * 2 + 1)];
        let sent = sent.map(|ledger| ledger.with_expendable(every));
        Self {
            seed,
            reconfigurations: Generator::of_process(seed, "swarm reconfiguration"),
            pair: setup.build(),
            paths,
            sent,
            every,
            near_wrap,
            is_protected,
            family,
            reached,
        }
    }

    fn reach(&mut self, what: &'static str) {
        if !self.reached.contains(&what) {
            self.reached.push(what);
        }
    }

    /// Starts an association from one host, or from both at once.
    fn set_up(&mut self, random: &mut Generator) {
        if random.below(4) == 0 {
            self.pair.listen(Side::A);
            for side in Side::BOTH {
                self.pair
                    .begin_from(side, ConnectOptions::default().local_port(Some(PORT)));
            }
        } else {
            self.pair.begin();
        }
        self.wait_established();
    }

    fn wait_established(&mut self) {
        let limit = self.pair.now() + HEALED_LIMIT;
        let both = |pair: &mut Pair| {
            Side::BOTH
                .into_iter()
                .all(|side| pair.state(side) == Some(AssociationState::Established))
        };
        assert!(
            self.pair.run_to(limit, both),
            "seed {}: set-up was not completed",
            self.seed
        );
        if self.is_protected {
            assert!(
                self.pair.run_to(limit, protection::is_complete),
                "seed {}: packets were not protected",
                self.seed
            );
            self.reach("protected packets");
        }
    }

    /// Changes the scheduler, or a stream's place in it.
    fn reorder(&mut self, random: &mut Generator, side: Side) {
        let (stream, number) = (StreamId(random.below(4) as u16), random.below(5) as u16);
        let scheduler = pick(random, &SCHEDULERS);
        if self.pair.state(side) != Some(AssociationState::Established) {
            return;
        }
        let association = self.pair.association_mut(side);
        let done = match association.scheduler() {
            SchedulerKind::Priority if number > 0 => association.set_stream_priority(stream, number),
            SchedulerKind::WeightedFairQueueing if number > 0 => {
                association.set_stream_weight(stream, number)
            }
            _ => {
                association.set_scheduler(scheduler);
                Ok(())
            }
        };
        assert!(done.is_ok(), "seed {}: {done:?}", self.seed);
    }

    /// Resets streams or TSNs, or adds streams. A request may be refused, above all because another one waits for its answer.
    fn reconfigure(&mut self, side: Side) {
        let random = &mut self.reconfigurations;
        if random.below(2) == 0 || self.pair.state(side) != Some(AssociationState::Established) {
            return;
        }
        let now = self.pair.now();
        let association = self.pair.association_mut(side);
        let streams = association.outbound_streams();
        let direction = pick(
            random,
            &[
                ResetDirection::Outgoing,
                ResetDirection::Incoming,
                ResetDirection::Both,
            ],
        );
        let ask = association.reconfigure(now);
        let done = match random.below(8) {
            0 => ask.reset_association(),
            1 => ask.add_streams(random.below(3) as u16, random.below(3) as u16),
            2 => ask.reset_streams(StreamSelection::All, direction),
            _ => {
                let count = 1 + random.below(8);
                let listed = (0..count).map(|_| StreamId(random.below(u64::from(streams)) as u16));
                ask.reset_streams(StreamSelection::Listed(listed.collect()), direction)
            }
        };
        let refused = matches!(
            done,
            Ok(())
                | Err(ReconfigurationError::InProgress
                    | ReconfigurationError::NotSupported
                    | ReconfigurationError::Empty
                    | ReconfigurationError::InvalidStream(_)
                    | ReconfigurationError::AssociationReset)
        );
        assert!(refused, "seed {}: {done:?}", self.seed);
    }

    /// Traffic in both directions while paths fail and readers pause.
    fn trouble(&mut self, random: &mut Generator) {
        for step in 0..3 + random.below(10) {
            if step == 0 || random.below(3) == 0 {
                let side = pick(random, &Side::BOTH);
                self.post(random, side);
            }
            let path = random.below(self.paths as u64) as usize;
            let side = pick(random, &Side::BOTH);
            let off = random.below(2) == 0;
            self.reorder(random, side);
            self.readdress();
            self.reconfigure(side);
            match random.below(6) {
                0 => self.pair.cut(path, off),
                1 => self.pair.set_reading(side, !off),
                2 => self.pair.set_path(path, &random_link(random)),
                _ => {}
            }
            self.pair.run_for(millis(random, 10, 8_000));
            self.check_arrivals();
            self.check_nothing_is_left();
        }
    }

    /// A driver that polled until `None` missed nothing: one more step finds nothing to send and moves no timer.
    fn check_nothing_is_left(&mut self) {
        let (seed, now) = (self.seed, self.pair.now());
        for side in Side::BOTH {
            // Lets the driver poll now.
            let _ = self.pair.association_mut(side);
            self.pair.run_for(Duration::ZERO);
            let association = self.pair.association_mut(side);
            let due = association.poll_timeout();
            association.handle_timeout(now);
            let left = association.poll_transmit(now, &mut Vec::new(), 1);
            assert_eq!(left, None, "seed {seed}, {side:?} at {now}: not sent at once");
            assert_eq!(
                association.poll_timeout(),
                due,
                "seed {seed}, {side:?} at {now}: moved a timer"
            );
        }
    }

    /// Sometimes a host gets or loses addresses.
    fn readdress(&mut self) {
        if self.family.below(2) > 0 {
            return;
        }
        let side = pick(&mut self.family, &Side::BOTH);
        if family::readdress(&mut self.family, &mut self.pair, side) {
            self.reach("changed addresses");
        }
    }

    fn post(&mut self, random: &mut Generator, side: Side) {
        let streams = self
            .pair
            .association(side)
            .outbound_streams()
            .min(1 + random.below(16) as u16);
        let most = pick(random, &[10, 1_000, 100_000]);
        let count = 1 + random.below(40);
        let ledger = &mut self.sent[side as usize];
        let parcels: Vec<_> = (0..count).map(|_| ledger.random_parcel(streams, most)).collect();
        self.pair.post(side, parcels);
    }

    /// Each received message must be as sent, once and in order.
    fn check_arrivals(&mut self) {
        for side in Side::BOTH {
            for message in self.pair.messages(side) {
                if let Err(violation) = self.sent[side.other() as usize].check(&message) {
                    panic!("seed {}: {violation}", self.seed);
                }
            }
        }
    }

    /// All paths work without loss, and both hosts read: reliable messages must arrive.
    fn heal(&mut self) {
        self.mend();
        let limit = self.pair.now() + HEALED_LIMIT;
        let missing = |ledger: &Ledger| matches!(ledger.check_complete(), Err(Violation::Missing { .. }));
        while self.sent.iter().any(missing) {
            assert!(
                self.pair.now() < limit,
                "seed {}: {:?}, A {:?}, Z {:?}",
                self.seed,
                self.sent.iter().map(Ledger::check_complete).collect::<Vec<_>>(),
                self.pair.association(Side::A).stats(),
                self.pair.association(Side::Z).stats(),
            );
            self.pair.run_for(Duration::from_millis(500));
            self.check_arrivals();
        }
        family::settle(&mut self.pair);
        self.check_arrivals();
        self.note_counters();
        self.note_reconfigurations();
    }

    fn note_reconfigurations(&mut self) {
        let interleaves = self.pair.association(Side::A).stats().extensions.interleaving;
        for side in Side::BOTH {
            for (_, _, event) in &self.pair.talker(side).events {
                let Event::Reconfiguration(event) = event else {
                    continue;
                };
                let what = match event {
                    ReconfigurationEvent::InboundReset { .. } => "inbound reset",
                    ReconfigurationEvent::OutboundReset { .. } => "outbound reset",
                    ReconfigurationEvent::AssociationReset { .. } => "association reset",
                    ReconfigurationEvent::StreamsAdded { .. } => "streams added",
                    _ => continue,
                };
                for what in [Some(what), Some("reset, interleaving").filter(|_| interleaves)] {
                    if let Some(what) = what.filter(|what| !self.reached.contains(what)) {
                        self.reached.push(what);
                    }
                }
            }
        }
    }

    fn mend(&mut self) {
        let clean = LinkConfig::default()
            .with_delay(Duration::from_millis(10))
            .with_rate(10_000_000);
        for path in 0..self.paths {
            self.pair.set_path(path, &clean);
            self.pair.cut(path, false);
        }
        for side in Side::BOTH {
            self.pair.set_reading(side, true);
        }
    }

    fn note_counters(&mut self) {
        let sides = Side::BOTH.map(|side| *self.pair.association(side).counters());
        let any = |of: fn(&Counters) -> u64| sides.iter().any(|counters| of(counters) > 0);
        let extensions = self.pair.association(Side::A).stats().extensions;
        let (interleaves, cooperates) = (extensions.interleaving, extensions.eca);
        let met = [
            ("failover", any(|counters| counters.failovers)),
            ("zero window", any(|counters| counters.zero_windows)),
            ("T3", any(|counters| counters.timeouts)),
            ("fast retransmit", any(|counters| counters.retransmissions_fast)),
            (
                "spurious retransmission",
                any(|counters| counters.retransmissions_spurious),
            ),
            ("INIT collision", any(|counters| counters.init_collisions)),
            ("MTU black hole", any(|counters| counters.mtu_black_holes)),
            ("abandoned unsent", any(|counters| counters.abandoned_unsent)),
            ("abandoned sent", any(|counters| counters.abandoned_sent)),
            ("FORWARD-TSN", any(|counters| counters.forward_tsns_received)),
            ("early discard", any(|counters| counters.early_discards)),
            ("early copy", any(|counters| counters.early_copies)),
            (
                "selective notice",
                any(|counters| counters.selective_notices_received),
            ),
            ("late message", any(|counters| counters.late_messages)),
            ("reneged", any(|counters| counters.chunks_reneged)),
            ("authentication", any(|counters| counters.packets_verified)),
            ("interleaving", interleaves),
            ("ECA-SCTP", cooperates),
            ("FORWARD-PSN", any(|counters| counters.forward_psns_received)),
            (
                "I-FORWARD-TSN",
                interleaves && any(|counters| counters.forward_tsns_received),
            ),
            (
                "reneged, interleaving",
                interleaves && any(|counters| counters.chunks_reneged),
            ),
        ];
        met.into_iter()
            .filter(|(_, met)| *met)
            .for_each(|(what, _)| self.reach(what));
        // The first TSN was less than 20 before the wrap.
        let wrapped = |counters: &Counters| {
            let repeats = counters.retransmissions_fast + counters.retransmissions_timeout;
            counters.data_chunks_sent - repeats > 20
        };
        if self.near_wrap && sides.iter().any(wrapped) {
            self.reach("wrap-around");
        }
    }

    /// One host loses all state and sets up again. Both start new ledgers once they know. Returns false if the survivor's
    /// association ended instead: if a packet of it arrives from an address that the restarted host does not know yet, that
    /// packet is out of the blue there and answered by ABORT (§8.4).
    fn restart(&mut self, random: &mut Generator) -> bool {
        self.mend();
        family::restore(&mut self.pair);
        let side = pick(random, &Side::BOTH);
        let survivor = side.other();
        self.check_arrivals();
        self.note_counters();
        // The survivor identifies the restarted host by its port, so that host must use the same port.
        let (survivor_port, own_port) = self.pair.association(survivor).ports();
        self.pair.talker(survivor).backlog.clear();
        let before = self.pair.association(survivor).counters().restarts;
        self.pair.reboot(side);
        let options = ConnectOptions::default().local_port(Some(own_port));
        self.pair.begin_to(side, survivor_port, options);
        let limit = self.pair.now() + HEALED_LIMIT;
        let aborted = |pair: &mut Pair| {
            let closed = |event: &Event| matches!(event, Event::Closed(CloseReason::AbortedByPeer(_)));
            pair.talker(survivor)
                .events
                .iter()
                .any(|(_, _, event)| closed(event))
        };
        let noticed = self.pair.run_to(limit, |pair| {
            aborted(pair) || pair.association(survivor).counters().restarts > before
        });
        assert!(noticed, "seed {}: the restart was not noticed", self.seed);
        if aborted(&mut self.pair) {
            self.reach("ABORT");
            return false;
        }
        // Messages of the old association that still arrived. Missing ones are lost.
        self.check_arrivals();
        self.wait_established();
        let fresh = self.seed * 2 + 1_000_000;
        let sent = [Ledger::new(fresh), Ledger::new(fresh + 1)];
        self.sent = sent.map(|ledger| ledger.with_expendable(self.every));
        assert!(
            self.pair.events(survivor).contains(&Event::Restarted),
            "the application is told"
        );
        self.reach("restart");
        true
    }

    /// One host aborts, and the other is told.
    fn abort(&mut self, random: &mut Generator) {
        self.mend();
        family::settle(&mut self.pair);
        let side = pick(random, &Side::BOTH);
        self.note_counters();
        let now = self.pair.now();
        self.pair
            .association_mut(side)
            .abort(now, Bytes::from_static(b"enough"));
        self.pair.run_for(Duration::from_secs(5));
        self.check_arrivals();
        let told = |event: &Event| matches!(event, Event::Closed(CloseReason::AbortedByPeer(_)));
        assert!(
            self.pair.events(side.other()).iter().any(told),
            "seed {}: the ABORT did not arrive over a clean path",
            self.seed
        );
        self.reach("ABORT");
    }

    /// A graceful shutdown, started by one host or both.
    fn end(&mut self, random: &mut Generator) {
        match random.below(3) {
            0 => self.pair.shutdown(Side::A),
            1 => self.pair.shutdown(Side::Z),
            _ => Side::BOTH.into_iter().for_each(|side| self.pair.shutdown(side)),
        }
        let limit = self.pair.now() + HEALED_LIMIT;
        let closed = |event: &Event| matches!(event, Event::Closed(CloseReason::Shutdown));
        let over = |pair: &mut Pair| {
            Side::BOTH
                .into_iter()
                .all(|side| pair.talker(side).events.iter().any(|(_, _, event)| closed(event)))
        };
        assert!(
            self.pair.run_to(limit, over),
            "seed {}: the shutdown did not end",
            self.seed
        );
        self.check_arrivals();
    }
}
