//! ECNE: the reports of an endpoint that receives marked packets (draft-stewart-tsvwg-sctpecn).

use anabranch_netsim::Ecn;
use anabranch_proto::{Config, Tsn};
use anabranch_testkit::{Script, with};
use anabranch_wire::chunk::{Chunk, Cwr, Data, Ecne};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};

use super::with_ecn;

fn capable() -> Parameters {
    ParametersBuilder::new().push(&Parameter::EcnCapable).finish()
}

/// An endpoint with ECN, and a peer whose packets are marked.
fn marked() -> Script {
    let mut script = Script::new(with_ecn(), 1);
    script.set_up_with(capable());
    script.ecn = Ecn::Ce;
    script
}

fn cwr(tsn: Tsn) -> Chunk {
    Chunk::Cwr(Cwr {
        tsn,
        overrides: false,
        same_window: false,
    })
}

/// Sends a DATA chunk, and returns its TSN.
fn send_data(script: &mut Script) -> Tsn {
    let tsn = script.tsn;
    let Chunk::Data(data) = script.data(0, 0, vec![1; 10]) else {
        panic!("DATA")
    };
    script.send(&[Chunk::Data(Data {
        unordered: true,
        ..data
    })]);
    tsn
}

/// The ECNE in the next packet with a SACK, if the endpoint has sent one.
fn reported(script: &mut Script) -> Option<Option<(Tsn, u32)>> {
    let is_sack = |chunk: &Chunk| matches!(chunk, Chunk::Sack(_));
    let answer =
        std::iter::from_fn(|| script.next_answer()).find(|answer| answer.chunks.iter().any(is_sack))?;
    assert_eq!(answer.ecn, Ecn::NotEct);
    let mut echoes = answer.chunks.into_iter().filter_map(|chunk| match chunk {
        Chunk::Ecne(Ecne { tsn, marked }) => Some((tsn, marked.expect("a count"))),
        _ => None,
    });
    let echo = echoes.next();
    assert_eq!(echoes.next(), None);
    Some(echo)
}

/// Sends data, and returns the ECNE that comes with its acknowledgement.
fn next_report(script: &mut Script) -> Option<(Tsn, u32)> {
    script.skip_answers();
    send_data(script);
    loop {
        if let Some(echo) = reported(script) {
            return echo;
        }
        script.advance_to_timeout();
    }
}

#[test]
fn marks_are_reported_until_they_are_answered() {
    let mut script = marked();
    let first = send_data(&mut script);
    assert_eq!(reported(&mut script), Some(Some((first, 1))), "at once");
    let second = send_data(&mut script);
    script.expect_silence();
    script.ecn = Ecn::Ect0;
    send_data(&mut script);
    assert_eq!(reported(&mut script), Some(Some((second, 2))));
    assert_eq!(next_report(&mut script), Some((second, 2)), "again");
    script.send(&[cwr(first)]);
    assert_eq!(
        next_report(&mut script),
        Some((second, 2)),
        "the first alone is answered"
    );
    script.send(&[cwr(second)]);
    assert_eq!(next_report(&mut script), None);
    assert_eq!(script.association().counters().ce_packets_received, 2);
}

#[test]
fn the_lowest_tsn_of_a_packet_is_reported() {
    let mut script = marked();
    let tsn = script.tsn;
    let chunks: Vec<_> = (0..3).map(|_| script.data(0, 0, vec![1; 10])).collect();
    script.send(&chunks);
    assert_eq!(reported(&mut script), Some(Some((tsn, 1))));
}

#[test]
fn only_new_data_in_valid_packets_counts() {
    let mut script = marked();
    script.ecn = Ecn::NotEct;
    let data = script.data(0, 0, vec![1; 10]);
    script.send(std::slice::from_ref(&data));
    script.ecn = Ecn::Ce;
    // A duplicate.
    script.send(&[data]);
    // No data.
    script.send(&[cwr(Tsn(1))]);
    let data = script.data(0, 0, vec![1; 10]);
    // A wrong tag.
    let mut wrong = script.endpoint_tag;
    wrong.0 ^= 1;
    script.send_tagged(wrong, std::slice::from_ref(&data));
    // A wrong checksum.
    let mut packet = script.packet(script.endpoint_tag, &[data]);
    packet[8] ^= 1;
    script.send_raw(packet);
    assert_eq!(script.association().counters().ce_packets_received, 0);
    script.ecn = Ecn::Ect1;
    assert_eq!(next_report(&mut script), None);
}

#[test]
fn without_negotiation_nothing_is_reported_and_the_chunks_are_unknown() {
    for (config, parameters) in [(Config::default(), capable()), (with_ecn(), Parameters::empty())] {
        let mut script = Script::new(config, 1);
        script.set_up_with(parameters);
        script.ecn = Ecn::Ce;
        // An ECNE that cannot be decoded is an unknown chunk, too.
        let header = [12, 0, 0, 5, 0, 0, 0, 0];
        let packet = script.packet_of_bytes(script.endpoint_tag, &header);
        script.send_raw(packet);
        script.send(&[cwr(Tsn(1))]);
        script.expect_silence();
        assert_eq!(next_report(&mut script), None);
        assert_eq!(script.association().counters().ce_packets_received, 0);
    }
}

#[test]
fn the_parameter_is_answered_and_never_reported() {
    for ecn in [false, true] {
        for offered in [false, true] {
            let mut script = Script::new(with(Config::default(), |config| config.ecn = ecn), 1);
            let parameters = if offered { capable() } else { Parameters::empty() };
            let init = script.init(parameters);
            script.send_tagged(anabranch_proto::VerificationTag(0), &[Chunk::Init(init)]);
            let Chunk::InitAck(ack) = script.expect_chunk() else {
                panic!("INIT ACK")
            };
            let listed: Vec<_> = ack
                .parameters
                .iter()
                .map(|raw| Parameter::decode(raw.expect("a parameter")).expect("as it must be"))
                .collect();
            assert_eq!(listed.contains(&Parameter::EcnCapable), ecn && offered);
            let is_report = |one: &Parameter| matches!(one, Parameter::UnrecognizedParameter(_));
            assert!(!listed.iter().any(is_report));
        }
    }
}

#[test]
fn a_report_that_cannot_be_read_ends_the_association() {
    let mut script = marked();
    let header = [12, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0];
    let packet = script.packet_of_bytes(script.endpoint_tag, &header);
    script.send_raw(packet);
    assert!(matches!(script.expect_chunk(), Chunk::Abort(_)));
}
