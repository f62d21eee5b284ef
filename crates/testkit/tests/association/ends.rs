//! Packets after a graceful shutdown (RFC 9260 §8.4, §9.2): the peer may not know yet that the association is over, and packets
//! may be late. A peer that lost nothing gets no ABORT.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{
    AssociationState as State, CloseReason, Config, EcnCodepoint, Event, Handling, MultipathMode,
};
use anabranch_testkit::{Ledger, Pair, Script, Setup, Side, quiet, sack, shutdown_chunk, state_cookie};
use anabranch_wire::VerificationTag;
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Abort, Chunk, CookieEcho, Heartbeat, ShutdownComplete};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
const COMPLETE: Chunk = Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false });
const COMPLETE_REFLECTED: Chunk = Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: true });
const ABORT_REFLECTED: Chunk = Chunk::Abort(Abort {
    reflected_tag: true,
    causes: Causes::empty(),
});
const ZERO: VerificationTag = VerificationTag(0);

fn heartbeat() -> Chunk {
    Chunk::Heartbeat(Heartbeat {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    })
}

/// The endpoint has ended the association, and its SHUTDOWN COMPLETE is in transit.
fn ended_by_endpoint() -> Script {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    end(&mut script);
    script
}

fn end(script: &mut Script) {
    script.act(|association, now| association.shutdown(now));
    script.send(&[Chunk::ShutdownAck]);
    assert_eq!(script.expect_chunk(), shutdown_chunk(script.tsn.minus(1)));
    assert_eq!(script.expect_chunk(), COMPLETE);
    assert_eq!(
        script.events().last(),
        Some(&Event::Closed(CloseReason::Shutdown))
    );
}

/// Sends each of these chunks alone and checks that none is answered.
#[track_caller]
fn expect_silence_to_late_packets(script: &mut Script) {
    let late = [
        script.data(0, 0, "late"),
        sack(script.endpoint_tsn),
        heartbeat(),
        Chunk::CookieAck,
        COMPLETE,
        COMPLETE_REFLECTED,
    ];
    for chunk in late {
        script.send(&[chunk]);
        script.expect_silence();
    }
}

// A → SHUTDOWN → Z
// A ← SHUTDOWN ACK ← Z
// A → SHUTDOWN COMPLETE → (lost)
// A ← HEARTBEAT, SACK, DATA, … ← Z
// A ← SHUTDOWN ACK ← Z
// A → SHUTDOWN COMPLETE (T bit) → Z
/// §9.2: a peer that waits for SHUTDOWN COMPLETE gets no ABORT for its late packets, and gets SHUTDOWN COMPLETE again when it
/// retransmits SHUTDOWN ACK.
#[test]
fn late_packets_after_shutdown_complete_was_sent() {
    let mut script = ended_by_endpoint();
    expect_silence_to_late_packets(&mut script);
    script.send(&[Chunk::ShutdownAck]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.endpoint_tag);
    assert_eq!(answer.only(), COMPLETE_REFLECTED);
    expect_silence_to_late_packets(&mut script);
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → Z
// A ← SHUTDOWN COMPLETE ← Z
// A ← HEARTBEAT, SACK, DATA, … (late) ← Z
/// The same on the endpoint that received SHUTDOWN.
#[test]
fn late_packets_after_shutdown_complete_came() {
    let mut script = Script::new(quiet(), 1);
    script.set_up_from_endpoint();
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    script.send(&[COMPLETE]);
    expect_silence_to_late_packets(&mut script);
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → (lost, and all retransmissions): A closes the association
// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → Z
/// §9.2: after this endpoint has stopped to retransmit SHUTDOWN ACK, a peer that is still in SHUTDOWN-SENT can complete its
/// shutdown.
#[test]
fn a_shutdown_after_the_end_is_acknowledged() {
    let mut config = quiet();
    config.retransmissions.association_max_retrans = 2;
    let mut script = Script::new(config, 1);
    script.set_up();
    let shutdown = shutdown_chunk(script.endpoint_tsn.minus(1));
    script.send(core::slice::from_ref(&shutdown));
    for _ in 0..3 {
        assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
        script.advance_to_timeout();
    }
    assert_eq!(
        script.events().last(),
        Some(&Event::Closed(CloseReason::Shutdown))
    );
    script.send(&[shutdown]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    assert_eq!(answer.only(), Chunk::ShutdownAck);
    script.send(&[COMPLETE]);
    script.expect_silence();
}

// A: the association has ended gracefully
// A ← HEARTBEAT (just before RTO.Max) ← Z
// A ← HEARTBEAT ← Z
// A → ABORT (T bit) → Z
/// The end is remembered for the longer of `RTO.Max` and `Valid.Cookie.Life`.
#[test]
fn an_end_is_forgotten_after_a_while() {
    for (rto_max, cookie_lifetime, remembered) in [(60, 10, 60), (5, 10, 20)] {
        let mut config = quiet();
        config.rto.max = rto_max * SECOND;
        config.cookie_lifetime = cookie_lifetime * SECOND;
        let mut script = Script::new(config, 1);
        script.set_up();
        end(&mut script);
        script.advance(remembered * SECOND - Duration::from_nanos(1));
        script.send(&[heartbeat()]);
        script.expect_silence();
        script.advance(Duration::from_nanos(1));
        script.send(&[heartbeat()]);
        assert_eq!(script.expect_chunk(), ABORT_REFLECTED);
    }
}

// A: the association has ended gracefully
// A ← HEARTBEAT (another tag, or another address, or other ports) ← Z
// A → ABORT (T bit) → Z
/// Packets that do not belong to the ended association are out of the blue (§8.4 rule 8).
#[test]
fn packets_of_other_associations_are_out_of_the_blue() {
    let changes: [fn(&mut Script); 4] = [
        |script| script.endpoint_tag.0 ^= 1,
        |script| script.remote.set_ip(IpAddr::from([10, 0, 0, 3])),
        |script| script.port += 1,
        |script| script.endpoint_port += 1,
    ];
    for change in changes {
        let mut script = ended_by_endpoint();
        change(&mut script);
        for chunk in [heartbeat(), shutdown_chunk(script.endpoint_tsn)] {
            script.send(&[chunk]);
            let answer = script.expect();
            assert_eq!(answer.header.verification_tag, script.endpoint_tag);
            assert_eq!(answer.only(), ABORT_REFLECTED);
        }
    }
}

// A ← HEARTBEAT (from the second address that the INIT listed, another UDP port) ← Z
/// The endpoint remembers all addresses of the peer. The peer's UDP port may change (RFC 6951 §5.4).
#[test]
fn every_address_of_the_peer() {
    let mut script = Script::new(quiet(), 1);
    let second = Parameter::Ipv4([10, 9, 0, 2].into());
    script.set_up_with(ParametersBuilder::new().push(&second).finish());
    end(&mut script);
    script.remote.set_ip(IpAddr::from([10, 9, 0, 2]));
    script.remote.set_port(script.remote.port() + 1);
    expect_silence_to_late_packets(&mut script);
    script.send(&[Chunk::ShutdownAck]);
    let answer = script.expect();
    assert_eq!(answer.destination, script.remote);
    assert_eq!(answer.only(), COMPLETE_REFLECTED);
}

// A → ABORT → (lost)
// A ← HEARTBEAT ← Z
// A → ABORT (T bit) → Z
/// §9.1: after an end that was not graceful, a late packet is answered with an ABORT again.
#[test]
fn an_abort_is_sent_again() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    script.act(|association, now| association.abort(now, Bytes::new()));
    script.skip_answers();
    script.send(&[heartbeat()]);
    assert_eq!(script.expect_chunk(), ABORT_REFLECTED);
}

// A: the association has ended gracefully
// A ← COOKIE ECHO (that of its set-up, late) ← Z
/// §5.1.5: a COOKIE ECHO that the network delayed or another host kept does not start the ended association again.
#[test]
fn a_late_cookie_starts_no_association() {
    let mut script = Script::new(quiet(), 1);
    script.send_tagged(ZERO, &[Chunk::Init(script.init(Parameters::empty()))]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    script.endpoint_tag = ack.initiate_tag;
    let cookie = state_cookie(&ack);
    let echo = [Chunk::CookieEcho(CookieEcho { cookie })];
    script.send(&echo);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    end(&mut script);
    script.advance(30 * SECOND);
    script.send(&echo);
    script.expect_silence();
    assert_eq!(script.host_mut().endpoint_mut().association_count(), 0);
}

// A: the association has ended gracefully
// A and Z set up another one between the same ports
// A ← HEARTBEAT (of the first one) ← Z
// A ← HEARTBEAT (of the second one) ← Z
// A → HEARTBEAT ACK → Z
/// §8.5: the remembered end does not disturb the next association between the same ports, and is not disturbed by it.
#[test]
fn the_next_association_between_the_same_ports() {
    let mut script = ended_by_endpoint();
    let before = script.endpoint_tag;
    script.advance(SECOND);
    script.tag = VerificationTag(77);
    script.set_up();
    assert_ne!(script.endpoint_tag, before);
    script.send_tagged(before, &[heartbeat()]);
    script.expect_silence();
    script.send(&[heartbeat()]);
    assert!(matches!(script.expect_chunk(), Chunk::HeartbeatAck(_)));
    assert_eq!(script.association().state(), State::Established);
    end(&mut script);
    for tag in [before, script.endpoint_tag] {
        script.send_tagged(tag, &[heartbeat()]);
        script.expect_silence();
    }
}

// M sets up and ends 16,385 associations, one after the other
/// The endpoint remembers 16,384 ends. The oldest is forgotten for the next one.
#[test]
fn ends_that_are_remembered() {
    const LIMIT: u16 = 16_384;
    let mut script = Script::new(quiet(), 1);
    let mut tags = Vec::new();
    for port in 1..=LIMIT + 1 {
        script.port = port;
        script.set_up();
        end(&mut script);
        let id = script.id().expect("it was set up");
        script.host_mut().forget(id);
        tags.push(script.endpoint_tag);
    }
    let (now, remote) = (script.now(), script.remote);
    let mut is_answered = |port: u16| {
        script.port = port;
        let packet = script.packet(tags[usize::from(port) - 1], &[heartbeat()]);
        let endpoint = script.host_mut().endpoint_mut();
        !matches!(
            endpoint.handle_datagram(now, None, remote, packet.into(), EcnCodepoint::NotEct),
            Handling::Done
        )
    };
    let answered: Vec<_> = (1..=LIMIT + 1).filter(|port| is_answered(*port)).collect();
    assert_eq!(answered, [1]);
}

/// A transfer in both directions that ends, with single packets lost.
struct Ending {
    paths: usize,
    /// The hosts that ask for the shutdown.
    asked: &'static [Side],
}

impl Ending {
    fn link(&self, path: usize) -> LinkConfig {
        // The second path is slow: packets on it arrive after the end.
        LinkConfig::default().with_delay([10, 400][path] * Duration::from_millis(1))
    }

    fn begin(&self) -> (Pair, [Ledger; 2]) {
        let mut config = Config::default();
        config.multipath.mode = MultipathMode::Cmt;
        config.heartbeat.interval = Some(SECOND / 2);
        let paths = (0..self.paths).fold(Setup::new(3).config(config), |setup, path| {
            setup.path(self.link(path))
        });
        let mut pair = paths.connect();
        pair.run_for(5 * SECOND);
        pair.network.keep_records(10_000);
        let mut ledgers = Side::BOTH.map(|side| Ledger::new(side as u64));
        for side in Side::BOTH {
            let parcels: Vec<_> = (0..4)
                .map(|_| ledgers[side as usize].parcel(1, 3000, false))
                .collect();
            pair.post(side, parcels);
        }
        // Asked during the transfer, while acknowledgements are in transit too.
        pair.run_ms(15);
        for side in self.asked {
            pair.shutdown(*side);
        }
        (pair, ledgers)
    }

    /// Runs to the end with this packet lost, and returns the number of packets on each link in each direction.
    fn run(&self, lost: Option<(usize, Side, u64)>) -> Vec<[u64; 2]> {
        let (mut pair, mut ledgers) = self.begin();
        let offered = |pair: &Pair| -> Vec<[u64; 2]> {
            let both = (0..self.paths).map(|path| pair.links(path));
            both.map(|(there, back)| [there, back].map(|link| pair.network.link_stats(link).offered))
                .collect()
        };
        let before = offered(&pair);
        if let Some((path, from, index)) = lost {
            let (there, back) = pair.links(path);
            let link = [there, back][from as usize];
            let script = LossModel::Script(vec![before[path][from as usize] + index]);
            pair.network
                .set_link_config(link, self.link(path).with_loss(script));
        }
        let limit = pair.now() + 600 * SECOND;
        let is_over = |pair: &mut Pair| {
            Side::BOTH
                .iter()
                .all(|side| pair.state(*side) == Some(State::Closed))
        };
        assert!(pair.run_to(limit, is_over), "both come to an end, {lost:?}");
        pair.run_for(10 * SECOND);
        pair.expect_orderly_end(&mut ledgers);
        assert!(!pair.draw().contains("ABORT"), "{lost:?}");
        let after = offered(&pair).into_iter().zip(before);
        after
            .map(|(after, before)| [0, 1].map(|way| after[way] - before[way]))
            .collect()
    }

    /// Loses one packet in each run, for each packet sent after the shutdown was asked for. Returns the number of packets.
    fn lose_each(&self) -> u64 {
        let counts = self.run(None);
        for (path, ways) in counts.iter().enumerate() {
            for from in Side::BOTH {
                for index in 0..ways[from as usize] {
                    self.run(Some((path, from, index)));
                }
            }
        }
        counts.iter().flatten().sum()
    }
}

// A ⇄ DATA, SHUTDOWN, SHUTDOWN ACK, SHUTDOWN COMPLETE ⇄ Z, each packet lost once
/// §9.2: if any single packet is lost, and whichever host asks for the shutdown, both hosts see a graceful shutdown and no
/// ABORT is sent.
#[test]
fn each_packet_of_the_end_is_lost_once() {
    for paths in [1, 2] {
        for asked in [&[Side::A][..], &[Side::Z], &Side::BOTH] {
            let lost = Ending { paths, asked }.lose_each();
            assert!(lost >= 3, "{lost} packets");
        }
    }
}
