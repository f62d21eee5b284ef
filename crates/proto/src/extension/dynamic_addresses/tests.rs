//! The rules of RFC 5061 §5 for requests and responses, without an association around them.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Asconf, AsconfAck};
use anabranch_wire::parameter::{
    AddressAction, PairAction, Parameter, Parameters, ParametersBuilder, RawParameter,
};
use bytes::Bytes;

use super::responses::perform;
use super::*;
use crate::path::PathId;
use crate::time::Timestamp;

const A: IpAddr = ip(1);
const B: IpAddr = ip(2);
const C: IpAddr = ip(3);
const UNSPECIFIED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
const ROOM: usize = 1000;
const LONGEST: Duration = Duration::from_secs(30);

const fn ip(last: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, last))
}

fn requests(local: &[IpAddr], wildcard: bool) -> Requests {
    Requests::new(100, local.to_vec(), wildcard)
}

fn next(requests: &mut Requests) -> Option<Sending> {
    let sending = requests.next(|_| true, |_| true);
    if sending.is_some() {
        requests.on_sent(Timestamp::from_millis(1), PathId(0), Timestamp::from_millis(9));
    }
    sending
}

/// The changes that an ASCONF requests.
fn changes(asconf: &Asconf) -> Vec<(AddressAction, IpAddr)> {
    let parameters = asconf
        .requests()
        .map(|raw| Parameter::decode(raw.expect("whole")));
    let change = |parameter| match parameter {
        Ok(Parameter::Address { action, address, .. }) => (action, address),
        other => panic!("a request, not {other:?}"),
    };
    parameters.map(change).collect()
}

fn correlations(asconf: &Asconf) -> Vec<u32> {
    let parameters = asconf
        .requests()
        .map(|raw| Parameter::decode(raw.expect("whole")));
    let correlation = |parameter| match parameter {
        Ok(Parameter::Address { correlation, .. }) => correlation,
        other => panic!("a request, not {other:?}"),
    };
    parameters.map(correlation).collect()
}

fn ack(serial: u32, responses: &[Parameter]) -> AsconfAck {
    let builder = responses
        .iter()
        .fold(ParametersBuilder::new(), ParametersBuilder::push);
    AsconfAck {
        serial,
        parameters: builder.finish(),
    }
}

fn error(correlation: u32, cause: Cause) -> Parameter {
    Parameter::AsconfError {
        correlation,
        causes: Causes::from_causes(&[cause]).as_bytes().clone(),
    }
}

fn outcomes(verdict: AckVerdict) -> Vec<Outcome> {
    match verdict {
        AckVerdict::Answer { outcomes, .. } => outcomes,
        other => panic!("an answer, not {other:?}"),
    }
}

#[test]
fn one_asconf_is_outstanding_and_serial_numbers_begin_at_the_initial_tsn() {
    let mut requests = requests(&[A], false);
    assert_eq!(next(&mut requests), None, "nothing changed");
    requests.want(vec![A, B]);
    let first = next(&mut requests).expect("B is new");
    assert_eq!((first.asconf.serial, first.source), (100, A), "§5.1 A2, §5.3 F1");
    assert_eq!(first.asconf.address(), Some(A));
    assert_eq!(changes(&first.asconf), [(AddressAction::Add, B)]);
    requests.want(vec![A, B, C]);
    assert_eq!(next(&mut requests), None, "§5.1 A3, C1");
    assert_eq!(
        outcomes(requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST)),
        [Outcome::Added(B)],
        "§5.1 A8"
    );
    let second = next(&mut requests).expect("C is new");
    assert_eq!(
        (second.asconf.serial, changes(&second.asconf)),
        (101, vec![(AddressAction::Add, C)])
    );
    assert_ne!(
        correlations(&first.asconf),
        correlations(&second.asconf),
        "§5.1 A1"
    );
}

#[test]
fn a_retransmission_is_the_same_chunk_and_gives_no_round_trip_time() {
    let mut requests = requests(&[A], false);
    requests.want(vec![A, B]);
    let first = next(&mut requests).expect("B is new");
    assert_eq!(
        (requests.due(), requests.path()),
        (Some(Timestamp::from_millis(9)), Some(PathId(0)))
    );
    let second = requests.again(|_| true, |_| true).expect("it is outstanding");
    assert_eq!(second, first, "§5.1 B4");
    let AckVerdict::Answer { sample, .. } = requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST) else {
        panic!("an answer")
    };
    assert_eq!((sample, requests.due()), (None, None));
    requests.want(vec![A]);
    next(&mut requests).expect("B goes");
    let AckVerdict::Answer { sample, .. } = requests.on_ack(&ack(101, &[]), Timestamp::ZERO, LONGEST) else {
        panic!("an answer")
    };
    assert_eq!(sample, Some((PathId(0), Timestamp::from_millis(1))));
}

#[test]
fn acknowledgements_of_other_asconfs() {
    let mut requests = requests(&[A], false);
    assert_eq!(
        requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST),
        AckVerdict::Illegal,
        "§5.3 F0"
    );
    assert_eq!(
        requests.on_ack(&ack(99, &[]), Timestamp::ZERO, LONGEST),
        AckVerdict::Old
    );
    requests.want(vec![A, B]);
    next(&mut requests).expect("B is new");
    assert_eq!(
        requests.on_ack(&ack(101, &[]), Timestamp::ZERO, LONGEST),
        AckVerdict::Illegal
    );
    assert_eq!(
        requests.on_ack(&ack(99, &[]), Timestamp::ZERO, LONGEST),
        AckVerdict::Old
    );
    assert_eq!(
        outcomes(requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST)),
        [Outcome::Added(B)]
    );
    assert_eq!(
        requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST),
        AckVerdict::Old
    );
    let half = 100_u32.wrapping_add(1 << 31);
    assert_eq!(
        requests.on_ack(&ack(half, &[]), Timestamp::ZERO, LONGEST),
        AckVerdict::Illegal
    );
    assert_eq!(
        requests.on_ack(&ack(half.wrapping_add(1), &[]), Timestamp::ZERO, LONGEST),
        AckVerdict::Old
    );
}

#[test]
fn an_address_is_replaced_in_one_asconf() {
    let mut requests = requests(&[A], false);
    requests.want(vec![B]);
    assert!(requests.is_between_addresses());
    let only = next(&mut requests).expect("A becomes B");
    assert_eq!((only.source, only.asconf.address()), (B, Some(A)), "§5.3.2, F6");
    assert_eq!(
        changes(&only.asconf),
        [(AddressAction::Add, B), (AddressAction::Delete, A)],
        "§5.3 F5"
    );
    assert!(requests.is_leaving(A) && !requests.is_leaving(B), "§5.3 F4");
    let done = outcomes(requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST));
    assert_eq!(done, [Outcome::Added(B), Outcome::Removed(A)]);
    assert!(!requests.is_between_addresses() && !requests.is_leaving(A));
    assert_eq!(requests.usable(), [B]);
}

/// In protected packets the lookup address is the wildcard, whatever the requests name (draft-ietf-tsvwg-sctp-dtls-chunk §3.2).
#[test]
fn a_protected_asconf_has_no_lookup_address() {
    let mut requests = requests(&[A], false);
    requests.hide_lookup_address();
    requests.want(vec![A, B]);
    let add = next(&mut requests).expect("B is new");
    assert_eq!(add.asconf.address(), Some(UNSPECIFIED));
    assert_eq!(changes(&add.asconf), [(AddressAction::Add, B)]);
}

#[test]
fn the_last_address_is_never_deleted() {
    let mut requests = requests(&[A], false);
    requests.want(vec![B]);
    assert_eq!(
        requests.next(|address| address == A, |_| true),
        None,
        "B reaches no address of the peer"
    );
}

#[test]
fn wildcards_stand_for_the_source() {
    let mut requests = requests(&[A], true);
    requests.want(vec![A, B]);
    let add = next(&mut requests).expect("B is new");
    assert_eq!(
        (add.source, add.asconf.address()),
        (B, Some(UNSPECIFIED)),
        "RFC 6951 §5.7"
    );
    assert_eq!(changes(&add.asconf), [(AddressAction::Add, UNSPECIFIED)]);
    assert_eq!(
        outcomes(requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST)),
        [Outcome::Added(B)]
    );
    requests.ask_primary(B);
    let primary = next(&mut requests).expect("B is to be primary");
    assert_eq!(
        (primary.source, changes(&primary.asconf)),
        (B, vec![(AddressAction::SetPrimary, UNSPECIFIED)])
    );
    assert_eq!(
        outcomes(requests.on_ack(&ack(101, &[]), Timestamp::ZERO, LONGEST)),
        []
    );
    requests.want(vec![B]);
    let delete = next(&mut requests).expect("A goes");
    assert_eq!(
        (delete.source, changes(&delete.asconf)),
        (B, vec![(AddressAction::Delete, UNSPECIFIED)])
    );
    assert_eq!(
        outcomes(requests.on_ack(&ack(102, &[]), Timestamp::ZERO, LONGEST)),
        [Outcome::Removed(A)]
    );
    // A change of the only address, and one wildcard for several old addresses.
    requests.want(vec![B, C]);
    next(&mut requests).expect("C is new");
    requests.on_ack(&ack(103, &[]), Timestamp::ZERO, LONGEST);
    requests.want(vec![A]);
    let replace = next(&mut requests).expect("A replaces B and C");
    let both = [
        (AddressAction::Add, UNSPECIFIED),
        (AddressAction::Delete, UNSPECIFIED),
    ];
    assert_eq!((replace.source, changes(&replace.asconf)), (A, both.to_vec()));
    let done = outcomes(requests.on_ack(&ack(104, &[]), Timestamp::ZERO, LONGEST));
    assert_eq!(
        done,
        [Outcome::Added(A), Outcome::Removed(B), Outcome::Removed(C)]
    );
}

#[test]
fn the_successor_replaces_all_others_when_the_peer_knows_it() {
    for wildcard in [false, true] {
        let mut requests = requests(&[A, B], wildcard);
        requests.replace_all(C);
        let add = next(&mut requests).expect("C is new");
        assert_eq!(changes(&add.asconf).len(), 1);
        assert_eq!(requests.usable(), [A, B], "nothing is broken before it is made");
        assert_eq!(
            outcomes(requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST)),
            [Outcome::Added(C)]
        );
        assert!(!requests.on_heartbeat(Some(A)));
        assert_eq!(requests.usable(), [A, B, C], "the peer has not tested C yet");
        assert!(requests.on_heartbeat(Some(C)) && !requests.on_heartbeat(Some(C)));
        assert_eq!((requests.usable(), requests.wanted()), (vec![C], &[C][..]));
        let delete = next(&mut requests).expect("A and B go");
        assert_eq!(delete.source, C);
        let done = outcomes(requests.on_ack(&ack(101, &[]), Timestamp::ZERO, LONGEST));
        assert_eq!(done, [Outcome::Removed(A), Outcome::Removed(B)]);
        // An address that the peer knows already.
        requests.want(vec![A, C]);
        next(&mut requests).expect("A is new");
        requests.on_ack(&ack(102, &[]), Timestamp::ZERO, LONGEST);
        requests.replace_all(A);
        assert_eq!(requests.usable(), [A]);
    }
}

#[test]
fn a_wildcard_cannot_delete_one_of_three() {
    let mut requests = requests(&[A, B, C], true);
    requests.want(vec![A, B]);
    assert_eq!(next(&mut requests), None, "it would delete A or B too");
    assert_eq!(requests.usable(), [A, B]);
}

#[test]
fn an_addition_from_another_source_than_the_first_is_requested_again() {
    let mut requests = requests(&[A], true);
    requests.want(vec![B]);
    next(&mut requests).expect("B is new");
    requests.want(vec![C]);
    let again = requests.again(|_| true, |_| true).expect("it is outstanding");
    assert_eq!(again.source, C, "B is gone");
    // The peer may have added B or C.
    assert_eq!(
        outcomes(requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST)),
        [Outcome::Removed(A)]
    );
    let next = next(&mut requests).expect("C once more, and B if the peer knows it");
    let both = [
        (AddressAction::Add, UNSPECIFIED),
        (AddressAction::Delete, UNSPECIFIED),
    ];
    assert_eq!((next.source, changes(&next.asconf)), (C, both.to_vec()));
    assert_eq!(
        outcomes(requests.on_ack(&ack(101, &[]), Timestamp::ZERO, LONGEST)),
        [Outcome::Added(C)]
    );
    assert_eq!(requests.next(|_| true, |_| true), None);
}

#[test]
fn after_an_error_only_reported_successes_count() {
    let four = |requests: &mut Requests| {
        requests.want(vec![A, ip(11), ip(12), ip(13), ip(14)]);
        let sending = next(requests).expect("four are new");
        correlations(&sending.asconf)
    };
    let shortage = |correlation| error(correlation, Cause::ResourceShortage(Bytes::new()));
    let mut one = requests(&[A], false);
    let ids = four(&mut one);
    let success = Parameter::AsconfSuccess { correlation: ids[3] };
    let verdict = one.on_ack(&ack(100, &[shortage(ids[1]), success]), Timestamp::ZERO, LONGEST);
    let expected = [
        Outcome::Added(ip(11)),
        Outcome::Refused(ip(12), 0xA1),
        Outcome::Refused(ip(13), 0),
        Outcome::Added(ip(14)),
    ];
    assert_eq!(outcomes(verdict), expected, "§5.1 A7, §5.3 F10");
    assert_eq!(next(&mut one), None, "a refused address is not requested again");
    one.want(vec![A, ip(11), ip(12), ip(14)]);
    let sending = next(&mut one).expect("the application asked again");
    assert_eq!(changes(&sending.asconf), [(AddressAction::Add, ip(12))]);
}

#[test]
fn a_peer_that_understands_no_asconf_gets_no_more() {
    let unrecognized = |correlation| error(correlation, Cause::UnrecognizedParameters(Bytes::new()));
    let mut one = requests(&[A], false);
    one.want(vec![A, B]);
    let sending = next(&mut one).expect("B is new");
    one.on_ack(
        &ack(100, &[unrecognized(correlations(&sending.asconf)[0])]),
        Timestamp::ZERO,
        LONGEST,
    );
    assert!(one.is_stopped(), "§5.3 F3a");
    one.want(vec![A, C]);
    assert_eq!(next(&mut one), None);
    // §5.3 F3b: Set Primary alone.
    let mut one = requests(&[A, B], false);
    one.ask_primary(B);
    let sending = next(&mut one).expect("B is to be primary");
    one.on_ack(
        &ack(100, &[unrecognized(correlations(&sending.asconf)[0])]),
        Timestamp::ZERO,
        LONGEST,
    );
    assert!(!one.is_stopped());
    // §5.1 A9.
    one.want(vec![A]);
    next(&mut one).expect("B goes");
    assert!(one.stop() && !one.stop());
    assert_eq!((one.due(), next(&mut one)), (None, None));
}

/// The addresses of a peer, of which there may be at most three.
#[derive(Default)]
struct Peer {
    addresses: Vec<IpAddr>,
    preferred: Option<IpAddr>,
    pairs: Vec<(u32, PairPlace)>,
    renewed: Vec<u32>,
}

impl Responder for Peer {
    fn add(&mut self, address: IpAddr, _pair: Option<u32>) -> bool {
        let room = self.addresses.len() < 3;
        if room && !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
        room
    }

    fn has_other_than(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|other| *other != address)
    }

    fn knows(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    fn delete(&mut self, address: IpAddr) {
        self.addresses.retain(|other| *other != address);
    }

    fn delete_all_but(&mut self, address: IpAddr) {
        self.addresses.retain(|other| *other == address);
    }

    fn prefer(&mut self, address: IpAddr) {
        self.preferred = Some(address);
    }

    fn is_usable(&self, address: IpAddr) -> bool {
        !address.is_multicast()
    }

    fn tells_ports_apart(&self) -> bool {
        !self.pairs.is_empty()
    }

    fn pair(&self, pair: u32) -> Option<PairPlace> {
        let (_, place) = self.pairs.iter().find(|(name, _)| *name == pair)?;
        Some(*place)
    }

    fn renew(&mut self, pair: u32) -> bool {
        self.renewed.push(pair);
        self.renewed.len() < 2
    }

    fn delete_pair(&mut self, pair: u32) {
        self.pairs.retain(|(name, _)| *name != pair);
    }
}

fn asconf(requests: &[(AddressAction, IpAddr)]) -> Asconf {
    let mut builder = ParametersBuilder::new().push(&Parameter::Ipv4([10, 0, 0, 1].into()));
    for (correlation, (action, address)) in requests.iter().enumerate() {
        builder = builder.push(&Parameter::Address {
            action: *action,
            correlation: correlation as u32,
            address: *address,
        });
    }
    Asconf {
        serial: 7,
        parameters: builder.finish(),
    }
}

/// The responses by their correlation: `None` is a success, otherwise the cause code.
fn responses(parameters: &Parameters) -> Vec<(u32, Option<u16>)> {
    let response = |raw: Result<RawParameter, _>| match Parameter::decode(raw.expect("whole")) {
        Ok(Parameter::AsconfSuccess { correlation }) => (correlation, None),
        Ok(Parameter::AsconfError { correlation, causes }) => {
            let cause = Causes::from_bytes(causes).iter().next().expect("a cause");
            (correlation, Some(cause.expect("whole").code()))
        }
        other => panic!("a response, not {other:?}"),
    };
    parameters.iter().map(response).collect()
}

/// Performs requests that come from `source` for a peer with these addresses.
fn answer(
    addresses: &[IpAddr],
    source: IpAddr,
    wanted: &[(AddressAction, IpAddr)],
) -> (Vec<(u32, Option<u16>)>, Peer) {
    let mut peer = Peer {
        addresses: addresses.to_vec(),
        ..Peer::default()
    };
    let ack = perform(&asconf(wanted), source, ROOM, &mut peer);
    assert_eq!(ack.serial, 7);
    (responses(&ack.parameters), peer)
}

use AddressAction::{Add, Delete, SetPrimary};

#[test]
fn requests_are_performed_in_order() {
    let (responses, peer) = answer(&[A], A, &[(Add, B), (SetPrimary, B), (Add, C)]);
    assert_eq!(
        (responses, peer.addresses, peer.preferred),
        (vec![], vec![A, B, C], Some(B)),
        "§5.2 V1"
    );
    let (responses, peer) = answer(&[A], A, &[(SetPrimary, B), (Add, B)]);
    assert_eq!(
        (responses, peer.preferred),
        (vec![(0, Some(5)), (1, None)], None),
        "§5.4"
    );
    let (responses, peer) = answer(&[A], B, &[(Add, B), (Delete, A)]);
    assert_eq!((responses, peer.addresses), (vec![], vec![B]), "§5.3.2");
}

#[test]
fn deletions_that_are_refused() {
    let (responses, peer) = answer(&[A], B, &[(Delete, A)]);
    assert_eq!(
        (responses, peer.addresses),
        (vec![(0, Some(0xA0))], vec![A]),
        "§5.3 F7"
    );
    let (responses, peer) = answer(&[A, B], B, &[(Delete, B)]);
    assert_eq!(
        (responses, peer.addresses),
        (vec![(0, Some(0xA2))], vec![A, B]),
        "§5.3 F8"
    );
    let (responses, _) = answer(&[A], A, &[(Delete, A)]);
    assert_eq!(responses, [(0, Some(0xA0))], "§5.3 F8, both rules");
    let (responses, peer) = answer(&[A, B], C, &[(Delete, UNSPECIFIED)]);
    assert_eq!(
        (responses, peer.addresses),
        (vec![(0, Some(0xA0))], vec![A, B]),
        "no address would stay"
    );
    let (responses, _) = answer(&[A, B], A, &[(Delete, C)]);
    assert_eq!(responses, [], "it is gone already");
}

#[test]
fn wildcards_stand_for_the_source_of_the_packet() {
    let (responses, peer) = answer(&[A], B, &[(Add, UNSPECIFIED), (SetPrimary, UNSPECIFIED)]);
    assert_eq!(
        (responses, peer.addresses, peer.preferred),
        (vec![], vec![A, B], Some(B)),
        "§4.2.1, §4.2.4"
    );
    let (responses, peer) = answer(&[A, B, C], B, &[(Delete, UNSPECIFIED)]);
    assert_eq!((responses, peer.addresses), (vec![], vec![B]), "§4.2.2");
}

#[test]
fn after_a_shortage_no_address_is_added_or_deleted() {
    let wanted = [(Add, ip(4)), (Delete, B), (SetPrimary, B), (Add, ip(5))];
    let (responses, peer) = answer(&[A, B, C], A, &wanted);
    let expected = [(0, Some(0xA1)), (1, Some(0xA1)), (2, None), (3, Some(0xA1))];
    assert_eq!(
        (responses, peer.addresses),
        (expected.to_vec(), vec![A, B, C]),
        "§5.3 F9, F11"
    );
}

#[test]
fn addresses_of_no_host_are_refused() {
    let multicast = IpAddr::from([224, 0, 0, 1]);
    let (responses, peer) = answer(&[A], A, &[(Add, multicast), (Add, B)]);
    assert_eq!(
        (responses, peer.addresses),
        (vec![(0, Some(0xA4)), (1, None)], vec![A, B])
    );
}

#[test]
fn unrecognized_parameters_are_handled_by_their_type() {
    let unknown = |kind: u16| {
        let [high, low] = kind.to_be_bytes();
        let bytes = [high, low, 0, 8, 0, 0, 0, 9];
        Parameters::from_bytes(Bytes::copy_from_slice(&bytes))
    };
    for (kind, reported, goes_on) in [
        (0x3fff, false, false),
        (0x7fff, true, false),
        (0xbfff, false, true),
        (0xffff, true, true),
    ] {
        let before = asconf(&[]).parameters;
        let after = asconf(&[(Add, B)]).parameters;
        let unknown = unknown(kind);
        let parts = [
            before.as_bytes(),
            unknown.as_bytes(),
            &after.as_bytes().slice(8..),
        ];
        let bytes = parts.map(|part| &part[..]).concat();
        let chunk = Asconf {
            serial: 7,
            parameters: Parameters::from_bytes(bytes.into()),
        };
        let mut peer = Peer {
            addresses: vec![A],
            ..Peer::default()
        };
        let responses = responses(&perform(&chunk, A, ROOM, &mut peer).parameters);
        let report = reported.then_some((9, Some(8)));
        let success = (goes_on && reported).then_some((0, None));
        let expected: Vec<_> = report.into_iter().chain(success).collect();
        assert_eq!(responses, expected, "{kind:04x}: §5.2 V2, V3");
        assert_eq!(peer.addresses.contains(&B), goes_on, "{kind:04x}");
    }
}

#[test]
fn responses_fit_their_room_and_the_rest_is_not_performed() {
    let many: Vec<_> = (10..40)
        .map(|last| (SetPrimary, ip(last)))
        .chain([(Add, B)])
        .collect();
    for room in (0..400).step_by(4) {
        let mut peer = Peer {
            addresses: vec![A],
            ..Peer::default()
        };
        let ack = perform(&asconf(&many), A, room, &mut peer);
        assert!(ack.parameters.as_bytes().len() <= room, "{room}");
        assert_eq!(peer.addresses, [A]);
    }
    let (responses, peer) = answer(&[A], A, &[(Add, B); 40]);
    assert_eq!(peer.addresses, [A, B]);
    assert_eq!(responses.len(), 8, "at most 32 requests are performed");
    assert!(responses.iter().all(|(_, code)| *code == Some(0xA1)));
}

#[test]
fn each_asconf_is_processed_once() {
    let mut one = Responses::new(7);
    let mut peer = Peer {
        addresses: vec![A],
        ..Peer::default()
    };
    assert_eq!(
        one.on_arrival(8, true),
        Known::Handled,
        "§5.2 E5: not the next one"
    );
    assert_eq!(
        one.on_arrival(6, true),
        Known::Handled,
        "§5.2 E2: nothing is kept"
    );
    assert_eq!(one.take_answers(), []);
    assert_eq!(one.on_arrival(7, true), Known::New, "§5.2 E1");
    one.process(&asconf(&[(Add, B), (Delete, ip(9))]), A, ROOM, &mut peer);
    let first = one.take_answers();
    assert_eq!(first.len(), 1);
    // The peer retransmits it, and bundles the next one with it.
    assert_eq!(one.on_arrival(7, true), Known::Handled, "§5.2 E2");
    assert_eq!(one.on_arrival(8, false), Known::New, "§5.2 E1-ext");
    let second = Asconf {
        serial: 8,
        ..asconf(&[(Delete, B)])
    };
    one.process(&second, A, ROOM, &mut peer);
    let answers = one.take_answers();
    assert_eq!((answers.len(), &answers[0]), (2, &first[0]), "§5.2 E6");
    assert_eq!(one.on_arrival(7, true), Known::Handled);
    assert_eq!(one.take_answers(), first, "§5.2 E4: kept");
    // A new one alone in its packet: the peer has all answers before it.
    assert_eq!(one.on_arrival(9, true), Known::New);
    assert_eq!(one.on_arrival(7, true), Known::Handled);
    assert_eq!(one.take_answers(), []);
}

#[test]
fn few_answers_are_kept() {
    let mut one = Responses::new(7);
    let mut peer = Peer {
        addresses: vec![A],
        ..Peer::default()
    };
    for serial in 7..27 {
        assert_eq!(one.on_arrival(serial, serial == 7), Known::New);
        let chunk = Asconf {
            serial,
            ..asconf(&[(Add, B)])
        };
        one.process(&chunk, A, ROOM, &mut peer);
    }
    one.take_answers();
    for serial in 7..27 {
        one.on_arrival(serial, false);
    }
    let serials: Vec<_> = one.take_answers().iter().map(|ack| ack.serial).collect();
    assert_eq!(serials, (19..27).collect::<Vec<_>>());
}

/// Requests of an endpoint behind translators, to a peer that negotiated pairs.
fn named(local: &[IpAddr]) -> Requests {
    let mut requests = requests(local, true);
    requests.name_pairs(Some(local[0]));
    requests
}

/// The requests for pairs in an ASCONF, with the pairs that they name.
fn pair_requests(asconf: &Asconf) -> Vec<(PairAction, u32)> {
    let parameters = asconf
        .requests()
        .map(|raw| Parameter::decode(raw.expect("whole")));
    let of_pair = |parameter| match parameter {
        Ok(Parameter::Pair { action, pair, .. }) => Some((action, pair)),
        _ => None,
    };
    parameters.filter_map(of_pair).collect()
}

/// The peer performs the outstanding request; returns its outcomes.
fn performed(requests: &mut Requests, sending: &Sending) -> Vec<Outcome> {
    let ack = ack(sending.asconf.serial, &[]);
    outcomes(requests.on_ack(&ack, Timestamp::ZERO, LONGEST))
}

/// The request leaves from another address without its changes, and the peer answers.
fn withdrawn(requests: &mut Requests, sending: &Sending) {
    for _ in 0..2 {
        requests.again(|_| true, |_| true);
    }
    performed(requests, sending);
}

/// Three addresses that the peer knows, and the names of their pairs.
fn three() -> (Requests, Vec<u32>) {
    let mut requests = named(&[A]);
    let mut names = vec![0];
    requests.want(vec![A, B, C]);
    for address in [B, C] {
        let sending = next(&mut requests).expect("it is new");
        assert_eq!(sending.source, address);
        names.extend(correlations(&sending.asconf));
        assert_eq!(performed(&mut requests, &sending), [Outcome::Added(address)]);
    }
    (requests, names)
}

#[test]
fn one_of_three_pairs_is_deleted_by_its_name() {
    let all = [A, B, C];
    for gone in 0..3 {
        let (mut requests, names) = three();
        let left: Vec<_> = all.iter().copied().filter(|one| *one != all[gone]).collect();
        requests.want(left.clone());
        let sending = next(&mut requests).expect("one is gone");
        assert_eq!(
            pair_requests(&sending.asconf),
            [(PairAction::Delete, names[gone])]
        );
        assert_eq!(sending.source, left[0]);
        assert_eq!(performed(&mut requests, &sending), [Outcome::Removed(all[gone])]);
        assert_eq!(requests.usable(), left);
        assert_eq!(next(&mut requests), None);
    }
}

#[test]
fn a_listed_address_has_no_name() {
    let mut requests = named(&[A, B]);
    requests.want(vec![A, B, C]);
    let sending = next(&mut requests).expect("C is new");
    performed(&mut requests, &sending);
    requests.want(vec![A, C]);
    assert_eq!(next(&mut requests), None, "a wildcard would delete two addresses");
    assert!(!requests.on_silence(B) && requests.on_silence(C));
    // Nor has that of set-up, if the COOKIE ECHO left from another one too.
    requests.forget_set_up();
    assert!(!requests.on_silence(A));
}

#[test]
fn a_silent_pair_is_renewed_from_its_address_alone() {
    let (mut requests, names) = three();
    let nothing_works = |_: IpAddr| false;
    assert!(requests.on_silence(B) && !requests.on_silence(B), "once");
    let first = requests.next(|_| true, nothing_works).expect("B is silent");
    assert_eq!(
        (first.source, pair_requests(&first.asconf)),
        (B, vec![(PairAction::Renew, names[1])])
    );
    assert!(requests.is_from_new(), "T4-rto is no error of a path");
    assert_eq!(requests.again(|_| true, nothing_works).as_ref(), Some(&first));
    // From another address, the peer would take its source for that of B.
    for works in [C, A] {
        let again = requests.again(|_| true, |one| one == works);
        let again = again.expect("it is outstanding");
        assert_eq!((again.source, again.asconf.serial), (works, first.asconf.serial));
        assert_eq!(again.asconf.requests().count(), 0);
        assert!(again.asconf.address().is_some());
        assert!(!requests.is_from_new(), "an error of a path that works");
    }
    assert_eq!(performed(&mut requests, &first), []);
    assert!(requests.rest_ends().is_some(), "later again");
    assert_eq!(requests.next(|_| true, nothing_works), None);
    assert!(requests.on_time(requests.rest_ends().expect("it rests")));
    let second = requests.next(|_| true, nothing_works).expect("B is silent");
    assert_eq!(pair_requests(&second.asconf), pair_requests(&first.asconf));
    performed(&mut requests, &second);
    assert_eq!(requests.next(|_| true, nothing_works), None, "renewed");
    assert_eq!(requests.usable(), [A, B, C]);
}

#[test]
fn the_only_pair_is_renewed_from_its_address_again_and_again() {
    let mut requests = named(&[A]);
    assert!(requests.on_silence(A));
    let first = requests.next(|_| true, |_| false).expect("A is silent");
    for _ in 0..5 {
        assert_eq!(requests.again(|_| true, |_| false).as_ref(), Some(&first));
        assert!(requests.is_from_new());
    }
    performed(&mut requests, &first);
    assert_eq!(requests.next(|_| true, |_| false), None);
}

#[test]
fn an_addition_is_withdrawn_from_an_address_that_works() {
    let mut requests = named(&[A]);
    requests.want(vec![A, B]);
    let first = next(&mut requests).expect("B is new");
    assert_eq!(requests.again(|_| true, |_| true).as_ref(), Some(&first));
    let again = requests.again(|_| true, |_| true).expect("it is outstanding");
    assert_eq!((again.source, again.asconf.requests().count()), (A, 0));
    assert_eq!(performed(&mut requests, &first), []);
    assert_eq!((requests.usable(), next(&mut requests)), (vec![A], None));
    assert!(requests.on_time(requests.rest_ends().expect("it rests")));
    let second = next(&mut requests).expect("B is new");
    assert_eq!(performed(&mut requests, &second), [Outcome::Added(B)]);
}

#[test]
fn a_path_that_works_again_is_not_renewed() {
    let (mut requests, _) = three();
    requests.on_silence(B);
    requests.on_silence(C);
    requests.on_heartbeat(Some(C));
    assert_eq!(requests.next(|_| true, |_| true), None);
}

#[test]
fn a_pair_that_the_peer_does_not_know_is_added_again() {
    let (mut requests, _) = three();
    requests.on_silence(B);
    let renewal = requests.next(|_| true, |_| false).expect("B is silent");
    let correlation = correlation_of_pair(&renewal.asconf);
    let unknown = error(correlation, Cause::UnresolvableAddress(Bytes::new()));
    let ack = ack(renewal.asconf.serial, &[unknown]);
    assert_eq!(outcomes(requests.on_ack(&ack, Timestamp::ZERO, LONGEST)), []);
    assert_eq!(requests.usable(), [A, B, C], "packets leave from B");
    let sending = requests.next(|_| true, |_| false).expect("B is added");
    assert_eq!((sending.source, changes(&sending.asconf)[0].0), (B, Add));
    let name = correlations(&sending.asconf)[0];
    assert_eq!(performed(&mut requests, &sending), []);
    assert!(requests.on_silence(B));
    let renewal = requests.next(|_| true, |_| false).expect("B is silent");
    assert_eq!(pair_requests(&renewal.asconf), [(PairAction::Renew, name)]);
}

fn correlation_of_pair(asconf: &Asconf) -> u32 {
    let raw = asconf.requests().next().expect("a request").expect("whole");
    match Parameter::decode(raw) {
        Ok(Parameter::Pair { correlation, .. }) => correlation,
        other => panic!("a request for a pair, not {other:?}"),
    }
}

#[test]
fn requests_for_pairs_are_performed() {
    let request = |action, pair| {
        let builder = ParametersBuilder::new().push(&Parameter::Ipv4([10, 0, 0, 1].into()));
        let parameter = Parameter::Pair {
            action,
            correlation: 5,
            pair,
        };
        Asconf {
            serial: 7,
            parameters: builder.push(&parameter).finish(),
        }
    };
    let peer = |pairs: &[(u32, PairPlace)]| Peer {
        pairs: pairs.to_vec(),
        ..Peer::default()
    };
    let here = [(0, PairPlace::Source), (3, PairPlace::Elsewhere)];
    let answer = |action, pair, pairs: &[(u32, PairPlace)]| {
        let mut peer = peer(pairs);
        let ack = perform(&request(action, pair), A, ROOM, &mut peer);
        (responses(&ack.parameters), peer)
    };
    let (told, after) = answer(PairAction::Delete, 3, &here);
    assert_eq!((told, after.pairs), (vec![], vec![here[0]]));
    let refused = |action, pair, pairs: &[_]| answer(action, pair, pairs).0;
    assert_eq!(
        refused(PairAction::Delete, 0, &here),
        [(5, Some(0xA2))],
        "the source"
    );
    let only = [(0, PairPlace::Only)];
    assert_eq!(
        refused(PairAction::Delete, 0, &only),
        [(5, Some(0xA0))],
        "the last"
    );
    assert_eq!(refused(PairAction::Delete, 9, &here), [], "it is gone already");
    assert_eq!(refused(PairAction::Renew, 9, &here), [(5, Some(5))], "unknown");
    assert_eq!(answer(PairAction::Renew, 3, &here).1.renewed, [3]);
    let not_negotiated = refused(PairAction::Renew, 3, &[]);
    assert_eq!(not_negotiated, [(5, Some(8))], "an unrecognized parameter");
}

#[test]
fn a_request_from_a_new_address_measures_no_path() {
    let mut requests = requests(&[A], true);
    requests.want(vec![A, B]);
    let sending = next(&mut requests).expect("B is new");
    assert_eq!(sending.source, B);
    let AckVerdict::Answer { sample, .. } = requests.on_ack(&ack(100, &[]), Timestamp::ZERO, LONGEST) else {
        panic!("an answer")
    };
    assert_eq!(sample, None);
}

#[test]
fn a_pair_that_may_have_another_name_is_deleted_by_a_wildcard_too() {
    // The INIT listed both, so that the peer may know B by no name.
    let mut requests = named(&[A, B]);
    assert!(requests.on_unknown(B));
    let sending = next(&mut requests).expect("B is added again");
    withdrawn(&mut requests, &sending);
    requests.want(vec![A]);
    let deletion = next(&mut requests).expect("the peer may know B");
    let name = correlations_of(&sending.asconf)[0];
    assert_eq!(pair_requests(&deletion.asconf), [(PairAction::Delete, name)]);
    assert_eq!(changes_of(&deletion.asconf), [Delete]);
    performed(&mut requests, &deletion);
    assert_eq!(next(&mut requests), None);
}

#[test]
fn no_rest_ends_while_a_request_is_outstanding() {
    let mut requests = named(&[A]);
    requests.want(vec![A, B]);
    let addition = next(&mut requests).expect("B is new");
    withdrawn(&mut requests, &addition);
    let due = requests.rest_ends().expect("B rests");
    requests.ask_primary(A);
    let question = next(&mut requests).expect("the peer is asked");
    assert!(!requests.on_time(due));
    performed(&mut requests, &question);
    assert!(requests.on_time(due));
}

#[test]
fn an_address_that_is_added_again_keeps_its_name() {
    let mut requests = named(&[A]);
    requests.want(vec![A, B]);
    let first = next(&mut requests).expect("B is new");
    withdrawn(&mut requests, &first);
    // The peer may have added B, and may not see the second request.
    assert!(requests.on_time(requests.rest_ends().expect("it rests")));
    let second = next(&mut requests).expect("B may be unknown");
    assert_eq!(correlations_of(&second.asconf), correlations_of(&first.asconf));
    performed(&mut requests, &second);
    // So does the address of set-up.
    assert!(requests.on_unknown(A));
    let third = next(&mut requests).expect("A may be unknown");
    assert_eq!((third.source, correlations_of(&third.asconf)), (A, vec![0]));
}

#[test]
fn an_address_that_seems_unknown_is_deleted_when_it_is_gone() {
    let mut requests = named(&[A, B]);
    assert!(requests.on_unknown(B));
    requests.want(vec![A]);
    let deletion = next(&mut requests).expect("the peer may know B");
    assert_eq!((deletion.source, changes_of(&deletion.asconf)), (A, vec![Delete]));
}

#[test]
fn an_address_is_in_doubt_after_its_deletion_was_withdrawn() {
    let (mut requests, names) = three();
    requests.want(vec![B, C, ip(4)]);
    let first = next(&mut requests).expect("A is gone");
    assert_eq!(
        (first.source, pair_requests(&first.asconf)),
        (ip(4), vec![(PairAction::Delete, 0)])
    );
    for _ in 0..2 {
        requests.again(|_| true, |_| true);
    }
    assert_eq!(performed(&mut requests, &first), []);
    // The peer may have deleted A, or not.
    let second = next(&mut requests).expect("A may not be gone");
    assert_eq!(pair_requests(&second.asconf), [(PairAction::Delete, 0)]);
    performed(&mut requests, &second);
    // It may have added the other address, which is gone when the application does not want it any more.
    requests.want(vec![B, C]);
    let third = next(&mut requests).expect("the peer may know the address");
    assert_eq!(
        pair_requests(&third.asconf),
        [(PairAction::Delete, correlations_of(&first.asconf)[0])]
    );
    performed(&mut requests, &third);
    assert_eq!(requests.usable(), [B, C]);
    // B is deleted, and wanted again before the answer comes.
    requests.want(vec![C]);
    let first = next(&mut requests).expect("B is gone");
    assert_eq!(pair_requests(&first.asconf), [(PairAction::Delete, names[1])]);
    requests.want(vec![B, C]);
    assert_eq!(requests.usable(), [C], "the peer may have deleted B");
    assert_eq!(performed(&mut requests, &first), [Outcome::Removed(B)]);
    let add = next(&mut requests).expect("B is new");
    assert_eq!((add.source, changes_of(&add.asconf)), (B, vec![Add]));
}

fn correlations_of(asconf: &Asconf) -> Vec<u32> {
    let parameters = asconf
        .requests()
        .map(|raw| Parameter::decode(raw.expect("whole")));
    let correlation = |parameter| match parameter {
        Ok(Parameter::Address { correlation, .. }) => Some(correlation),
        _ => None,
    };
    parameters.filter_map(correlation).collect()
}

fn changes_of(asconf: &Asconf) -> Vec<AddressAction> {
    let parameters = asconf
        .requests()
        .map(|raw| Parameter::decode(raw.expect("whole")));
    let action = |parameter| match parameter {
        Ok(Parameter::Address { action, .. }) => Some(action),
        _ => None,
    };
    parameters.filter_map(action).collect()
}
