//! Shapes of traffic: ordinary traffic, and the costliest traffic known. Each shape prepares an endpoint, uncounted, and then
//! sends a few thousand bytes, so that the bytes of the preparation do not count as paid.

use anabranch_proto::{AssociationState, Config, CoupledControl, MultipathMode, PathScheduler};
use anabranch_testkit::quiet;
use anabranch_wire::Tsn;
use anabranch_wire::chunk::{
    CoopSackWriter, EncodeChunk, PathReportWriter, PathSequence, experimental_kind, kind,
};
use anabranch_wire::{Psn, chunk::GapAckBlock};
use bytes::Bytes;

use crate::budget::BOUND;
use anabranch_testkit::victim::{Victim, chunk, data, forward_tsn, gap_blocks, i_data, i_forward_tsn};

/// Chunks that the peer makes either endpoint hold.
pub(crate) const HELD: u16 = 6000;

pub(crate) type Prepared = (Victim, Vec<Bytes>);

pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Instructions for each byte.
    pub(crate) bound: u64,
    pub(crate) prepare: fn() -> Prepared,
    /// Checks that the shape reached its goal.
    pub(crate) check: fn(&Victim),
}

pub(crate) const fn ordinary(name: &'static str, prepare: fn() -> Prepared) -> Shape {
    Shape {
        name,
        bound: BOUND / 5,
        prepare,
        check: lives,
    }
}

pub(crate) const fn hostile(name: &'static str, prepare: fn() -> Prepared, check: fn(&Victim)) -> Shape {
    Shape {
        name,
        bound: BOUND,
        prepare,
        check,
    }
}

pub(crate) static SHAPES: [Shape; 24] = [
    ordinary("messages of one byte, each in a packet", small_messages),
    ordinary("messages of 72 bytes", bundled_messages),
    ordinary("messages of 1 KiB", large_messages),
    ordinary("fragments", fragments),
    ordinary("acknowledgements", acknowledgements),
    ordinary("messages of one byte, out of order", disorder),
    hostile("FORWARD-TSN past many fragments", forward, lives),
    hostile("FORWARD-TSN that lists streams", forward_with_streams, lives),
    hostile("I-FORWARD-TSN beside many messages", i_forward, lives),
    hostile("parts of messages beside many others", parts, lives),
    hostile("SHUTDOWN while much is outstanding", shutdowns, is_shutting_down),
    hostile("SACKs that renege and return", flipping, lives),
    hostile("SACKs of every other chunk in turn", alternating, lives),
    hostile("NR-SACKs that list nothing more", nr_sacks, lives),
    hostile("NR-SACKs that each find a loss", nr_sacks_that_report, lives),
    hostile("SACKs that say less, by several paths", overtaken, lives),
    hostile("COOP-SACKs that name nothing more", coop_sacks, lives),
    hostile("INIT that lists an address often", init_of_many, |_| ()),
    hostile("fragments that make room by reneging", reneging, has_reneged),
    hostile("DATA among many gaps", filling, lives),
    hostile("DATA that draws a SACK of many gaps", large_sacks, lives),
    hostile("duplicate TSNs in SACKs", duplicates, lives),
    Shape {
        name: "COOKIE ECHO of 60,000 bytes that is forged",
        bound: 5,
        prepare: forged_cookies,
        check: lives,
    },
    hostile("SHUTDOWN in SHUTDOWN-ACK-SENT", late_shutdowns, |_| ()),
];

pub(crate) fn lives(victim: &Victim) {
    assert_eq!(victim.association().state(), AssociationState::Established);
}

fn is_shutting_down(victim: &Victim) {
    assert_eq!(victim.association().state(), AssociationState::ShutdownReceived);
}

fn has_reneged(victim: &Victim) {
    assert!(victim.association().counters().chunks_reneged > 100);
    lives(victim);
}

/// Buffers that hold all data of the shapes, and a window that lets it leave at once.
pub(crate) fn config() -> Config {
    let mut config = quiet();
    config.recovery = Config::default().recovery;
    config.congestion_control = Config::default().congestion_control;
    config.buffers.receive = 100_000_000;
    config.buffers.send = 100_000_000;
    config.initial_window = Some(100_000);
    config.max_burst = 100_000;
    config.no_delay = true;
    config.partial_reliability.offer = true;
    config
}

fn nr_sack_config() -> Config {
    let mut config = config();
    config.nr_sack.offer = true;
    config
}

fn interleaving_config() -> Config {
    let mut config = config();
    config.interleaving.offer = true;
    config
}

/// Every second offset up to [`HELD`], from 2 on.
fn every_other() -> Vec<(u16, u16)> {
    (2..HELD).step_by(2).map(|offset| (offset, offset)).collect()
}

fn small_messages() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.reads = true;
    let chunks = (0..1000).map(|number| data(victim.tsn(number), 0, number as u16, 3, b"x"));
    let datagrams = victim.alone(chunks.collect());
    (victim, datagrams)
}

fn bundled_messages() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.reads = true;
    let chunks = (0..2000).map(|number| data(victim.tsn(number), 0, number as u16, 3, &[7; 72]));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

fn large_messages() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.reads = true;
    let chunks = (0..500).map(|number| data(victim.tsn(number), 0, number as u16, 3, &[7; 1024]));
    let datagrams = victim.alone(chunks.collect());
    (victim, datagrams)
}

/// Messages of eight fragments.
fn fragments() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.reads = true;
    let chunks = (0..800).map(|number| {
        let flags = u8::from(number % 8 == 0) << 1 | u8::from(number % 8 == 7);
        data(victim.tsn(number), 0, (number / 8) as u16, flags, &[7; 1024])
    });
    let datagrams = victim.alone(chunks.collect());
    (victim, datagrams)
}

/// A SACK for each two packets of messages of 72 bytes.
fn acknowledgements() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.send(6000, 72);
    let sacks = (1..200).map(|number| victim.sack(number * 24, &[]));
    let datagrams = victim.alone(sacks.collect());
    (victim, datagrams)
}

/// Of each sixteen packets the first arrives last.
fn disorder() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.reads = true;
    let order = (0..1600).map(|number| number / 16 * 16 + (number + 1) % 16);
    let chunks = order.map(|number| data(victim.tsn(number), 0, number as u16, 3, b"x"));
    let datagrams = victim.alone(chunks.collect());
    (victim, datagrams)
}

/// A fragment on every second TSN from 1001 on, with this number of TSNs missing before.
fn many_fragments() -> Victim {
    let mut victim = Victim::with(config(), &[]);
    let tsns = (0..u32::from(HELD)).map(|number| victim.tsn(1001 + 2 * number));
    victim.play(tsns.map(|tsn| data(tsn, 1, 0, 2, b"x")).collect());
    victim
}

fn forward() -> Prepared {
    let victim = many_fragments();
    let chunks = (0..200).map(|number| forward_tsn(victim.tsn(number), &[]));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

fn forward_with_streams() -> Prepared {
    let victim = many_fragments();
    let chunks = (0..100).map(|number| forward_tsn(victim.tsn(number), &[(1, 0), (number as u16, 0)]));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

/// Unordered messages without a beginning.
fn many_messages(config: Config) -> Victim {
    let mut victim = Victim::with(config, &[]);
    let numbers = 0..u32::from(HELD);
    let chunks = numbers.map(|number| i_data(victim.tsn(1001 + number), 1, 1_000_000 + number, 1, 4));
    victim.play(chunks.collect());
    victim
}

fn i_forward() -> Prepared {
    let victim = many_messages(interleaving_config());
    let chunks = (0..200).map(|number| i_forward_tsn(victim.tsn(number), 1, 1000 + number));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

/// Half of the chunk limit is held: the beginnings of messages are delivered in parts, and then the messages end.
fn parts() -> Prepared {
    let mut victim = many_messages(interleaving_config());
    victim.reads = true;
    let chunks = (0..200).map(|number| {
        let (mid, ends) = (number / 2, number % 2);
        i_data(
            victim.tsn(number),
            1,
            mid,
            ends,
            if ends == 0 { 4 | 2 } else { 4 | 1 },
        )
    });
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

fn shutdowns() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.send(HELD.into(), 1);
    let sack = victim.sack(0, &every_other());
    victim.play(vec![sack]);
    let cumulative = victim.script.endpoint_tsn.minus(1).0.to_be_bytes();
    let datagrams = victim.packets(vec![chunk(kind::SHUTDOWN, 0, &[&cumulative]); 400]);
    (victim, datagrams)
}

fn flipping() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.send(HELD.into(), 1);
    let pair = [victim.sack(0, &[(2, HELD)]), victim.sack(0, &[])];
    let datagrams = victim.packets(pair.iter().cycle().take(600).cloned().collect());
    (victim, datagrams)
}

fn alternating() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.send(HELD.into(), 1);
    let odd: Vec<_> = every_other()
        .iter()
        .map(|(offset, _)| (offset + 1, offset + 1))
        .collect();
    let odd = &odd[..odd.len() - 1];
    let pair = [victim.sack(0, &every_other()), victim.sack(0, odd)];
    let datagrams = victim.packets(pair.iter().cycle().take(16).cloned().collect());
    (victim, datagrams)
}

fn nr_sacks() -> Prepared {
    let mut victim = Victim::with(nr_sack_config(), &[]);
    victim.send(HELD.into(), 1);
    let sack = victim.nr_sack(0, &every_other());
    victim.play(vec![sack]);
    let datagrams = victim.packets(vec![victim.nr_sack(0, &[]); 300]);
    (victim, datagrams)
}

/// Each acknowledges one more chunk, the highest: all gaps are reported again.
fn nr_sacks_that_report() -> Prepared {
    let mut victim = Victim::with(nr_sack_config(), &[]);
    victim.send(usize::from(HELD) + 1000, 1);
    let sack = victim.nr_sack(0, &every_other());
    let one_more = |number: u16| victim.nr_sack(0, &[(HELD + 2 * number, HELD + 2 * number)]);
    let mut sacks: Vec<_> = (1..150).map(one_more).collect();
    // Chunks that the first three find lost are retransmitted.
    let rest = sacks.split_off(4);
    sacks.insert(0, sack);
    victim.play(sacks);
    let datagrams = victim.packets(rest);
    (victim, datagrams)
}

fn on_several_paths(mode: MultipathMode, kinds: &[u8]) -> Victim {
    let mut config = config();
    config.multipath.mode = mode;
    config.multipath.scheduler = PathScheduler::RoundRobin;
    config.multipath.congestion = CoupledControl::Uncoupled;
    Victim::with_addresses(config, kinds, &[[10, 0, 1, 2]])
}

fn overtaken() -> Prepared {
    let mut victim = on_several_paths(MultipathMode::Cmt, &[]);
    victim.send(HELD.into(), 1);
    let sack = victim.sack(0, &every_other());
    victim.play(vec![sack]);
    let datagrams = victim.packets(vec![victim.sack(0, &[]); 300]);
    (victim, datagrams)
}

/// A COOP-SACK that lists the transmissions of path 0 at these offsets.
fn coop_sack(victim: &Victim, time: u32, blocks: &[GapAckBlock]) -> Vec<u8> {
    let number = Psn::new(0_u32.wrapping_sub(1));
    let mut sack = Vec::new();
    CoopSackWriter {
        timestamp_ms: time,
        cumulative_tsn_ack: victim.script.endpoint_tsn.minus(1),
        a_rwnd: 100_000_000,
        paths: &[PathReportWriter {
            cumulative: PathSequence { path: 0, number },
            rwnd: 0,
            gap_ack_blocks: blocks,
        }],
        duplicates: &[],
        renegable: None,
    }
    .encode(&mut sack);
    sack
}

fn coop_sacks() -> Prepared {
    let eca = [
        experimental_kind::E_DATA,
        experimental_kind::COOP_SACK,
        experimental_kind::FORWARD_PSN,
    ];
    let mut victim = on_several_paths(MultipathMode::Eca, &eca);
    victim.send(HELD.into(), 1);
    let first = coop_sack(&victim, 1, &gap_blocks(&every_other()));
    victim.play(vec![first]);
    let sacks = (2..300).map(|time| coop_sack(&victim, time, &[]));
    let datagrams = victim.packets(sacks.collect());
    (victim, datagrams)
}

/// 1,500 associations behind one address, which differ by their UDP ports.
fn init_of_many() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    let mut remote = victim.script.remote;
    for port in 0..1500 {
        remote.set_port(10_000 + port);
        victim.set_up_from(remote);
    }
    remote.set_port(9000);
    remote.set_ip([10, 0, 0, 3].into());
    victim.script.remote = remote;
    let datagrams = vec![victim.init_listing([10, 0, 0, 2], 64); 20];
    (victim, datagrams)
}

/// The window is full of fragments on which the endpoint may renege. Each next fragment in order takes the place of another.
fn reneging() -> Prepared {
    let mut config = nr_sack_config();
    config.nr_sack.may_renege = true;
    // Each message counts 257 bytes, and 96 because it is renegable: the memory limit is reached.
    config.buffers.receive = 1_042_700;
    config.buffers.growth = 1;
    let mut victim = Victim::with(config, &[]);
    let held =
        (0..u32::from(HELD)).map(|number| data(victim.tsn(1000 + number), 0, 1000 + number as u16, 3, b"x"));
    victim.play(held.collect());
    let chunks = (0..300).map(|number| data(victim.tsn(number), 1, number as u16, 3, b"x"));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

/// Every second TSN has arrived. The missing ones arrive from the middle on.
fn filling() -> Prepared {
    let mut config = config();
    config.sack.delay = core::time::Duration::from_millis(400);
    let mut victim = Victim::with(config, &[]);
    let message = |tsn: Tsn| data(tsn, 0, 0, 4 | 3, b"x");
    let held = (0..3 * u32::from(HELD)).map(|number| message(victim.tsn(1 + 2 * number)));
    victim.play(held.collect());
    let middle = 3 * u32::from(HELD);
    let chunks = (0..600).map(|number| message(victim.tsn(middle + 2 * number)));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

/// On a path with a large MTU, one byte per packet.
fn large_sacks() -> Prepared {
    let mut config = config();
    config.path_mtu = 60_000;
    config.path_mtu_limit = 60_000;
    let mut victim = Victim::with(config, &[]);
    let message = |tsn: Tsn| data(tsn, 0, 0, 4 | 3, b"x");
    let held = (0..u32::from(HELD)).map(|number| message(victim.tsn(1 + 2 * number)));
    victim.play(held.collect());
    let chunks = (0..50).map(|number| message(victim.tsn(20_000 + number)));
    let datagrams = victim.alone(chunks.collect());
    (victim, datagrams)
}

/// SACKs that list the same chunks as duplicates many times, after some of them were retransmitted.
fn duplicates() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    victim.send(1000, 1);
    let found = [601, 602, 603, 604].map(|end| victim.sack(0, &[(600, end)]));
    victim.play(found.to_vec());
    let mut value = victim.sack(0, &[(600, 604)])[4..].to_vec();
    value[10..12].copy_from_slice(&280_u16.to_be_bytes());
    let unknown = victim.script.endpoint_tsn.plus(900).0.to_be_bytes();
    (0..280).for_each(|_| value.extend_from_slice(&unknown));
    let datagrams = victim.packets(vec![chunk(kind::SACK, 0, &[&value]); 20]);
    (victim, datagrams)
}

fn forged_cookies() -> Prepared {
    let victim = Victim::with(config(), &[]);
    let datagrams = victim.alone(vec![chunk(kind::COOKIE_ECHO, 0, &[&[7; 60_000]]); 4]);
    (victim, datagrams)
}

fn late_shutdowns() -> Prepared {
    let mut victim = Victim::with(config(), &[]);
    let cumulative = victim.script.endpoint_tsn.minus(1).0.to_be_bytes();
    let shutdown = chunk(kind::SHUTDOWN, 0, &[&cumulative]);
    victim.play(vec![shutdown.clone()]);
    let datagrams = victim.packets(vec![shutdown; 400]);
    (victim, datagrams)
}
