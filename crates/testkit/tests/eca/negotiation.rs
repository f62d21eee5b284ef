//! Negotiation of ECA-SCTP: it is used only if both endpoints list its chunk types.

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, ConnectOptions, MultipathMode};
use anabranch_testkit::{PORT, Pair, Setup, Side};
use anabranch_wire::chunk::{AckPolicy, Chunk, Sack, experimental_kind, kind};

use super::fixture::{ECA, FULL, Fixture, MS, config};

/// A peer that lists all but one of the chunk types gets concurrent multipath transfer with DATA. Any peer may use these chunk
/// type numbers for other chunks.
#[test]
fn a_peer_without_one_of_the_chunks() {
    for missing in 0..3 {
        let kinds: Vec<u8> = (0..3).filter(|at| *at != missing).map(|at| ECA[at]).collect();
        let mut fixture = Fixture::new(config(), &kinds);
        assert!(!fixture.script.association().stats().extensions.eca);
        fixture.send(2, FULL);
        assert_eq!(fixture.sent(), ["1 DATA 0", "0 DATA 1"]);
        // E-DATA is unknown: the rest of the packet is discarded, and the chunk is reported. FORWARD-PSN is skipped.
        fixture.e_data(0, AckPolicy::LastArrival, &[(0, (0, 0))]);
        assert!(fixture.sent().concat().contains("ERROR"));
        let short = [experimental_kind::COOP_SACK, 0, 0, 4];
        let packet = fixture
            .script
            .packet_of_bytes(fixture.script.endpoint_tag, &short);
        fixture.script.send_raw(packet);
        assert!(
            fixture.sent().concat().contains("ERROR"),
            "not malformed: not known"
        );
        assert!(!fixture.is_closed());
    }
}

/// Interleaving also needs E-I-DATA: a peer without it gets I-DATA, and no ECA-SCTP.
#[test]
fn interleaving_needs_a_fourth_chunk() {
    for fourth in [true, false] {
        let mut config = config();
        config.interleaving.offer = true;
        let mut kinds = [&ECA[..], &[kind::I_DATA, kind::I_FORWARD_TSN]].concat();
        if fourth {
            kinds.push(experimental_kind::E_I_DATA);
        }
        let mut fixture = Fixture::new(config, &kinds);
        let extensions = fixture.script.association().stats().extensions;
        assert!(extensions.interleaving && extensions.eca == fourth);
        fixture.send(1, 100);
        let sent = fixture.sent().concat();
        let name = if fourth { "1 E-I-DATA" } else { "1 I-DATA" };
        assert!(sent.starts_with(name), "{sent}");
    }
}

/// If only one endpoint offers ECA-SCTP, both continue without. If both offer it, they use it, whichever endpoint connects,
/// also with other chunk type numbers.
#[test]
fn both_endpoints_must_offer_it() {
    let transfer = |a: MultipathMode, z: MultipathMode, moved: bool| {
        let setup = Setup::new(4).path(LinkConfig::default());
        let mut pair = setup
            .path(LinkConfig::default())
            .config(Config::default())
            .adjust(Side::A, |config| config.multipath.mode = a)
            .adjust(Side::Z, |config| config.multipath.mode = z)
            .adjust_both(|config| {
                if moved {
                    config.chunk_types.e_data = 100;
                    config.chunk_types.coop_sack = 101;
                    config.chunk_types.forward_psn = 200;
                }
            })
            .connect();
        let negotiated = Side::BOTH.map(|side| pair.association(side).stats().extensions.eca);
        assert_eq!(negotiated[0], negotiated[1]);
        for side in Side::BOTH {
            pair.send(side, 0, vec![1; 5000]);
        }
        pair.run_for(1000 * MS);
        let read = |pair: &mut Pair, side| pair.messages(side).len();
        assert_eq!(Side::BOTH.map(|side| read(&mut pair, side)), [1, 1]);
        negotiated[0]
    };
    use MultipathMode::{Cmt, Eca, Off};
    assert!(transfer(Eca, Eca, false));
    assert!(transfer(Eca, Eca, true));
    for other in [Off, Cmt] {
        assert!(!transfer(Eca, other, false));
        assert!(!transfer(other, Eca, false));
    }
}

/// With ECA-SCTP negotiated, a data chunk or acknowledgement without transmission numbers ends the association. So does
/// E-I-DATA without interleaving.
#[test]
fn chunks_without_transmission_numbers_end_the_association() {
    let mut fixture = Fixture::new(config(), &ECA);
    let data = fixture.script.data(0, 0, "plain");
    fixture.script.send(&[data]);
    assert!(fixture.sent().concat().contains("ABORT") && fixture.is_closed());

    let mut fixture = Fixture::new(config(), &ECA);
    let sack = Chunk::Sack(Sack {
        cumulative_tsn_ack: fixture.script.endpoint_tsn.minus(1),
        a_rwnd: 10_000,
        gap_ack_blocks: Default::default(),
        duplicate_tsns: Default::default(),
    });
    fixture.script.send(&[sack]);
    assert!(fixture.sent().concat().contains("ABORT") && fixture.is_closed());

    let mut fixture = Fixture::new(config(), &ECA);
    let interleaved = Chunk::EIData(anabranch_wire::chunk::EIData {
        transmission: Fixture::at(0, 0),
        policy: AckPolicy::LastArrival,
        data: anabranch_wire::chunk::IData {
            tsn: fixture.script.tsn,
            stream: anabranch_proto::StreamId(0),
            mid: anabranch_wire::Mid(0),
            ppid: anabranch_wire::Ppid(0),
            fsn: anabranch_wire::Fsn(0),
            unordered: false,
            beginning: true,
            ending: true,
            immediate: false,
            repair: false,
            payload: bytes::Bytes::from_static(b"no"),
        },
    });
    fixture.script.send(&[interleaved]);
    assert!(fixture.sent().concat().contains("ABORT") && fixture.is_closed());
}

/// Rule 13: after a restart of the peer both endpoints count transmissions from the start again.
#[test]
fn numbers_start_again_after_a_restart() {
    let setup = Setup::new(4)
        .path(LinkConfig::default())
        .path(LinkConfig::default())
        .config(Config::default())
        .adjust_both(|config| config.multipath.mode = MultipathMode::Eca);
    let mut pair = setup.build();
    let begin = |pair: &mut Pair| {
        let options = ConnectOptions::default().local_port(Some(PORT));
        pair.begin_from(Side::A, options);
        pair.run_for(1000 * MS);
    };
    let talk = |pair: &mut Pair| {
        for side in Side::BOTH {
            assert!(pair.association(side).stats().extensions.eca);
            pair.send(side, 0, vec![1; 10_000]);
        }
        pair.run_for(1000 * MS);
        assert_eq!(Side::BOTH.map(|side| pair.messages(side).len()), [1, 1]);
    };
    begin(&mut pair);
    talk(&mut pair);
    pair.reboot(Side::A);
    begin(&mut pair);
    assert_eq!(pair.association(Side::Z).counters().restarts, 1);
    talk(&mut pair);
    let beginnings = pair.draw().matches(" psn=0:0 ").count();
    assert_eq!(beginnings, 4, "{}", pair.draw());
}
