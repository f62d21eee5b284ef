//! The rules that loss recovery must keep, checked against a record of everything sent and acknowledged.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::Tsn;
use anabranch_wire::chunk::Chunk as WireChunk;
use anabranch_wire::packet::Packet;
use bytes::Bytes;

use super::Association;
use crate::congestion::checked::{Log, Told};
use crate::controller::{Controller, Reduction};
use crate::path::{Path, PathId, SendNo};
use crate::recovery::ChunkState;
use crate::stats::Counters;
use crate::time::Timestamp;

/// A transmission.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Timestamp,
    packet: u64,
    original: bool,
    /// Whether the network will deliver it.
    arrives: bool,
    /// When it was acknowledged.
    acked: Option<Timestamp>,
}

/// One path.
#[derive(Debug, Default)]
struct Lane {
    sent: Vec<Sent>,
    /// The reductions and undos that the sender reported to its controller in this step.
    told: Vec<Told>,
    /// The recovery episode lasts until everything up to here is acknowledged or lost.
    exit: Option<SendNo>,
    /// The highest original transmission that is acknowledged, and whether a lower one was acknowledged after it.
    highest: Option<SendNo>,
    reordered: bool,
}

/// A chunk in flight before a step.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: u64,
    path: usize,
    no: SendNo,
}

/// The sender before a step that may declare losses.
pub(super) struct Before {
    open: Vec<Open>,
    acked: u64,
    recovering: Vec<bool>,
    smoothed: Vec<Option<Duration>>,
    counters: Counters,
}

/// A path before a packet leaves.
struct Room {
    flight: usize,
    window: usize,
    /// Rule B of §6.1 does not apply to the packet, because it is a probe or leaves during recovery.
    exempt: bool,
}

pub(super) struct BeforeSending(Vec<Room>);

pub(super) struct Judge {
    log: Log,
    lanes: Vec<Lane>,
    /// When each chunk was last sent.
    last: BTreeMap<u64, Timestamp>,
    /// Chunks that a second T3-rtx in a row declared lost, even if they left just before (RFC 9260 §6.3.3).
    timed_out: BTreeSet<u64>,
    packets: u64,
    round_trip: Duration,
    /// Packets arrive in the order of sending, and only once.
    ordered: bool,
    /// Probes since data was acknowledged.
    probes: u64,
}

impl Judge {
    pub(super) fn new(log: Log, round_trip: Duration) -> Self {
        Self {
            log,
            lanes: Vec::new(),
            last: BTreeMap::new(),
            timed_out: BTreeSet::new(),
            packets: 0,
            round_trip,
            ordered: true,
            probes: 0,
        }
    }

    pub(super) fn expects_reordering(&mut self) {
        self.ordered = false;
    }

    fn lane(&mut self, path: usize) -> &mut Lane {
        if self.lanes.len() <= path {
            self.lanes.resize_with(path + 1, Lane::default);
        }
        &mut self.lanes[path]
    }
}

fn in_flight(association: &Association) -> Vec<Open> {
    let outstanding = &association.sender.outstanding;
    let all = outstanding.base()..outstanding.next_index();
    let open = all.filter_map(|index| {
        let chunk = outstanding.chunk(index);
        (chunk.state == ChunkState::InFlight).then_some(Open {
            index,
            path: chunk.path.index(),
            no: chunk.sequence,
        })
    });
    open.collect()
}

/// The number of chunks acknowledged since the association began, gap ack blocks included.
fn acked(association: &Association) -> u64 {
    let outstanding = &association.sender.outstanding;
    let ring = outstanding.base()..outstanding.next_index();
    let above = ring.filter(|index| outstanding.chunk(*index).state.is_acked());
    outstanding.base() + above.count() as u64
}

/// Sending.
impl Judge {
    pub(super) fn before_sending(&self, association: &Association) -> BeforeSending {
        let outstanding = &association.sender.outstanding;
        let room = |path: &Path| Room {
            flight: path.flight.bytes(),
            window: path.control.window(),
            exempt: path.timers.probe_now || outstanding.is_recovering(path.id),
        };
        BeforeSending(association.paths.iter().map(room).collect())
    }

    /// A packet was sent.
    pub(super) fn on_sent(
        &mut self,
        now: Timestamp,
        association: &Association,
        before: &BeforeSending,
        path: PathId,
        datagram: Bytes,
        arrives: bool,
    ) {
        self.packets += 1;
        let (packet, round_trip) = (self.packets, self.round_trip);
        let decoded = Packet::parse(datagram).expect("its checksum is right");
        let mut new_data = false;
        for raw in decoded.chunks() {
            let chunk = WireChunk::decode(raw.expect("its lengths are right")).expect("it can be read");
            let WireChunk::Data(data) = chunk else { continue };
            let index = self.index(association, data.tsn);
            let last = self.last.insert(index, now);
            let by_timer = self.timed_out.remove(&index);
            if let Some(last) = last.filter(|_| !by_timer) {
                let since = now.saturating_duration_since(last);
                // RACK's minimum RTT is an eighth shorter.
                let least = round_trip - round_trip / 8;
                assert!(since >= least, "{:?} again after {since:?}", data.tsn);
            }
            new_data |= last.is_none();
            self.lane(path.index()).sent.push(Sent {
                at: now,
                packet,
                original: last.is_none(),
                arrives,
                acked: None,
            });
        }
        let on = association.paths.path(path);
        assert_eq!(on.flight.next(), self.lane(path.index()).sent.len() as u64);
        let room = &before.0[path.index()];
        if new_data && !room.exempt {
            let most = room.window + on.pmtu.max_packet();
            let flight = on.flight.bytes();
            assert!(
                flight <= most || room.flight == 0,
                "{flight} in flight, {} lets out",
                room.window
            );
        }
        check_flights(association);
    }

    /// The extended TSN of an outstanding chunk.
    fn index(&self, association: &Association, tsn: Tsn) -> u64 {
        let base = association.sender.outstanding.base();
        base + u64::from(tsn.0.wrapping_sub(base as u32))
    }
}

/// The flights must agree with the states of the chunks.
fn check_flights(association: &Association) {
    let outstanding = &association.sender.outstanding;
    let open = in_flight(association);
    for path in association.paths.iter() {
        let (mut bytes, mut payload, mut count) = (0, 0, 0);
        for one in open.iter().filter(|one| one.path == path.id.index()) {
            let fragment = &outstanding.chunk(one.index).fragment;
            bytes += fragment.wire_len();
            payload += fragment.payload.len();
            count += 1;
            let sending = path.flight.get(one.no).expect("it is kept");
            assert!(sending.is_open() && sending.tsn == one.index, "{sending:?}");
        }
        let flight = &path.flight;
        assert_eq!((flight.bytes(), flight.payload()), (bytes, payload));
        let sendings = flight.range(flight.base());
        assert_eq!(sendings.filter(|(_, sending)| sending.is_open()).count(), count);
    }
}

/// Steps that may declare losses.
impl Judge {
    pub(super) fn before(&mut self, association: &Association) -> Before {
        let recovering = |path: &Path| association.sender.outstanding.is_recovering(path.id);
        Before {
            open: in_flight(association),
            acked: acked(association),
            recovering: association.paths.iter().map(recovering).collect(),
            smoothed: association.paths.iter().map(|path| path.rtt.smoothed()).collect(),
            counters: association.counters,
        }
    }

    pub(super) fn after(&mut self, now: Timestamp, association: &Association, before: &Before) {
        check_flights(association);
        self.note_reneged(association);
        let outstanding = &association.sender.outstanding;
        let state = |one: &Open| {
            let there = one.index >= outstanding.base();
            there.then(|| outstanding.chunk(one.index).state)
        };
        let is_lost = |one: &&Open, by_timer| state(one) == Some(ChunkState::Lost { timed_out: by_timer });
        let acked = before
            .open
            .iter()
            .filter(|one| state(one).is_none_or(ChunkState::is_acked));
        let acked: Vec<Open> = acked.copied().collect();
        let lost: Vec<Open> = before
            .open
            .iter()
            .filter(|one| is_lost(one, false))
            .copied()
            .collect();
        let timed_out: Vec<Open> = before
            .open
            .iter()
            .filter(|one| is_lost(one, true))
            .copied()
            .collect();
        let told: Vec<_> = self.log.try_iter().collect();
        for (path, told) in told {
            self.lane(path).told.push(told);
        }
        let [timeouts, probes, undone] = since(&before.counters, &association.counters);
        self.on_acked(now, &acked);
        // A lost chunk that is acknowledged ends the silence too.
        if self::acked(association) > before.acked || timeouts > 0 {
            self.probes = 0;
        }
        self.probes += probes;
        assert!(
            self.probes <= association.paths.len() as u64,
            "one probe, then T3-rtx"
        );
        for path in association.paths.iter() {
            let id = path.id.index();
            let here =
                |all: &[Open]| -> Vec<Open> { all.iter().filter(|one| one.path == id).copied().collect() };
            let (lost, timed_out) = (here(&lost), here(&timed_out));
            let open = here(&before.open);
            let left = open
                .iter()
                .filter(|one| !acked.iter().any(|acked| acked.index == one.index));
            let left: Vec<Open> = left.copied().collect();
            if path.timers.silent_timeouts > 1 {
                self.timed_out.extend(timed_out.iter().map(|one| one.index));
            }
            Self::check_timeout(path, &left, &timed_out, timeouts, association.paths.len() > 1);
            // A probe, or the packet that F-RTO requests, retransmits a chunk without evidence of loss.
            let probing = u64::from(timeouts + probes > 0 || association.counters.timeouts > 0);
            let unproved = lost.iter().filter(|one| !self.is_proved(now, path, one, before));
            let unproved: Vec<_> = unproved.copied().collect();
            assert!(
                unproved.len() as u64 <= probing,
                "{unproved:?} are lost without evidence"
            );
            let found = lost.len() as u64 > probing;
            self.check_spurious(association, &lost);
            // An episode ends with an acknowledgement after which none of its transmissions is in flight.
            let settled = (left.len() < open.len()).then(|| left.iter().map(|one| one.no).min());
            self.check_reductions(path, settled, &lost, found, undone > 0);
        }
    }

    /// An overtaken acknowledgement looks as if the receiver had reneged: chunks are in flight again, as if just sent.
    fn note_reneged(&mut self, association: &Association) {
        for path in association.paths.iter() {
            let lane = self.lane(path.id.index());
            for (_, sending) in path.flight.range(lane.sent.len() as u64) {
                lane.sent.push(Sent {
                    at: sending.sent_at,
                    packet: u64::MAX,
                    original: false,
                    arrives: true,
                    acked: None,
                });
            }
        }
    }

    fn on_acked(&mut self, now: Timestamp, acked: &[Open]) {
        for one in acked {
            let lane = self.lane(one.path);
            let highest = lane.highest;
            let sent = &mut lane.sent[one.no as usize];
            sent.acked = Some(now);
            lane.reordered |= sent.original && highest.is_some_and(|highest| one.no < highest);
        }
        for one in acked {
            let lane = self.lane(one.path);
            if lane.sent[one.no as usize].original {
                lane.highest = lane.highest.max(Some(one.no));
            }
        }
    }

    /// The first T3-rtx in a row declares one chunk lost: the one with the lowest TSN, or the one that was sent first.
    fn check_timeout(path: &Path, left: &[Open], timed_out: &[Open], timeouts: u64, split: bool) {
        assert!(timed_out.is_empty() || timeouts > 0);
        if !timed_out.is_empty() && path.timers.silent_timeouts == 1 {
            let lowest = if split {
                left.iter().min_by_key(|one| one.no)
            } else {
                left.iter().min_by_key(|one| one.index)
            };
            let index = lowest.map(|one| one.index);
            assert!(
                timed_out.len() == 1 && Some(timed_out[0].index) == index,
                "{timed_out:?}"
            );
        }
    }

    /// RFC 8985 §6.2: a later transmission was acknowledged, and a round-trip time and the reordering window have passed.
    fn is_proved(&self, now: Timestamp, path: &Path, one: &Open, before: &Before) -> bool {
        let lane = &self.lanes[one.path];
        let sent = &lane.sent[one.no as usize];
        let later = lane.sent[one.no as usize + 1..]
            .iter()
            .filter(|later| later.acked.is_some());
        let mut packets: Vec<u64> = later.clone().map(|later| later.packet).collect();
        packets.dedup();
        let needs_window = lane.reordered || (!before.recovering[one.path] && packets.len() < 3);
        let window = if needs_window {
            let quarter = path.rtt.min().unwrap_or_default() / 4;
            let smoothed = [path.rtt.smoothed(), before.smoothed[one.path]];
            smoothed.into_iter().flatten().fold(quarter, Duration::min)
        } else {
            Duration::ZERO
        };
        let elapsed = now.saturating_duration_since(sent.at);
        let round_trip = |later: &Sent| later.acked.map(|acked| acked.saturating_duration_since(later.at));
        later.filter_map(round_trip).any(|rtt| elapsed >= rtt + window)
    }

    /// If packets keep their order, RACK declares no chunk lost that is not.
    fn check_spurious(&self, association: &Association, lost: &[Open]) {
        let counters = &association.counters;
        if !self.ordered || counters.timeouts + counters.tail_loss_probes > 0 {
            return;
        }
        for one in lost {
            let sent = &self.lanes[one.path].sent[one.no as usize];
            assert!(!sent.arrives, "{one:?} {sent:?} is not lost");
        }
    }

    /// At most one reduction for each episode, and no loss without a reduction.
    fn check_reductions(
        &mut self,
        path: &Path,
        settled: Option<Option<SendNo>>,
        lost: &[Open],
        found: bool,
        undone: bool,
    ) {
        let told = core::mem::take(&mut self.lane(path.id.index()).told);
        let silent_timeouts = path.timers.silent_timeouts;
        let lane = self.lane(path.id.index());
        if let Some(earliest) = settled {
            lane.exit = lane
                .exit
                .filter(|exit| earliest.is_some_and(|earliest| earliest <= *exit));
        }
        let mut lasts = lane.exit;
        let mut reduced = false;
        for told in told {
            match told {
                Told::Reduced(Reduction::Loss) => {
                    assert!(
                        lasts.is_none() && !reduced,
                        "reduced again for {lost:?}, until {lasts:?}"
                    );
                    reduced = true;
                    lane.exit = Some(lane.sent.len() as u64 - 1);
                }
                Told::Reduced(_) => {
                    reduced = true;
                    // Chunks that the first timeout leaves in flight belong to its episode; after another timeout nothing is in flight.
                    lane.exit = (silent_timeouts == 1).then(|| lane.sent.len() as u64 - 1);
                }
                Told::Undone => {
                    assert!(undone);
                    (lane.exit, lasts) = (None, None);
                }
            }
        }
        assert!(
            !found || reduced || lane.exit.is_some(),
            "{lost:?} reduce nothing"
        );
    }
}

/// Timeouts, probes and undone reductions since then.
fn since(then: &Counters, now: &Counters) -> [u64; 3] {
    [
        now.timeouts - then.timeouts,
        now.tail_loss_probes - then.tail_loss_probes,
        now.reductions_undone - then.reductions_undone,
    ]
}
