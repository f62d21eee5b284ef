//! RANDOM, CHUNKS and HMAC-ALGO in an INIT (RFC 4895 §3, §6.1).

use anabranch_proto::{Config, VerificationTag};
use anabranch_testkit::Script;
use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

use super::keys::with_key;

fn parameters(random: Option<usize>, chunks: Option<usize>, hmacs: Option<&[u16]>) -> Parameters {
    let random = random.map(|len| Parameter::Random(vec![1; len].into()));
    let chunks = chunks.map(|len| Parameter::ChunkList(vec![0; len].into()));
    let hmacs = hmacs.map(|hmacs| Parameter::RequestedHmacs(hmacs.to_vec()));
    let listed = Parameter::SupportedExtensions(Bytes::from_static(&[kind::AUTH]));
    let all = [Some(listed), random, chunks, hmacs];
    all.iter()
        .flatten()
        .fold(ParametersBuilder::new(), ParametersBuilder::push)
        .finish()
}

/// The endpoint's answer to an INIT with these parameters.
fn answer(config: Config, parameters: Parameters) -> Chunk {
    let mut script = Script::new(config, 1);
    let init = script.init(parameters);
    script.send_tagged(VerificationTag(0), &[Chunk::Init(init)]);
    script.expect().only()
}

fn cause(chunk: Chunk) -> Cause {
    match chunk {
        Chunk::Abort(abort) => abort.causes.iter().next().expect("a cause").expect("whole"),
        other => panic!("ABORT, not {other:?}"),
    }
}

#[test]
fn a_valid_set_is_answered_with_the_endpoints_own() {
    for hmacs in [&[1_u16][..], &[3, 1], &[9, 3, 77, 1]] {
        let Chunk::InitAck(ack) = answer(
            with_key("x", &[kind::DATA]),
            parameters(Some(32), Some(3), Some(hmacs)),
        ) else {
            panic!("INIT ACK")
        };
        let own: Vec<_> = ack
            .parameters
            .iter()
            .map(|raw| Parameter::decode(raw.expect("whole")))
            .collect();
        let has = |is: fn(&Parameter) -> bool| own.iter().flatten().any(is);
        assert!(has(
            |one| matches!(one, Parameter::Random(random) if random.len() == 32)
        ));
        assert!(has(
            |one| matches!(one, Parameter::ChunkList(chunks) if chunks[..] == [kind::DATA])
        ));
        assert!(has(
            |one| matches!(one, Parameter::RequestedHmacs(hmacs) if *hmacs == [3, 1])
        ));
    }
}

/// §6.1: a Random Number that does not have 32 bytes ends the association, also where authentication is optional.
#[test]
fn values_that_the_rfc_forbids_are_refused() {
    for required in [true, false] {
        let mut config = with_key("x", &[]);
        config.authentication.as_mut().expect("there is one").required = required;
        for wrong in [
            parameters(Some(31), None, Some(&[1])),
            parameters(Some(33), None, Some(&[1])),
            parameters(Some(0), None, None),
            parameters(Some(32), Some(257), Some(&[1])),
            parameters(Some(32), None, Some(&[])),
            parameters(Some(32), None, Some(&[2, 4])),
            parameters(Some(32), None, Some(&[3; 17])),
        ] {
            assert!(matches!(
                cause(answer(config.clone(), wrong)),
                Cause::ProtocolViolation(_)
            ));
        }
    }
}

#[test]
fn missing_parameters_are_named_or_authentication_is_not_used() {
    for (given, missing) in [
        (parameters(None, None, Some(&[1])), vec![0x8002]),
        (parameters(Some(32), None, None), vec![0x8004]),
        (parameters(None, Some(2), None), vec![0x8002, 0x8004]),
    ] {
        let mut config = with_key("x", &[]);
        assert_eq!(
            cause(answer(config.clone(), given.clone())),
            Cause::MissingMandatoryParameter(missing)
        );
        config.authentication.as_mut().expect("there is one").required = false;
        let Chunk::InitAck(ack) = answer(config, given) else {
            panic!("INIT ACK")
        };
        let own = ack
            .parameters
            .iter()
            .map(|raw| Parameter::decode(raw.expect("whole")));
        assert!({ own }.all(|one| !matches!(one, Ok(Parameter::Random(_)))));
    }
}

/// An endpoint without authentication ignores the parameters, as their types say.
#[test]
fn without_authentication_the_parameters_are_ignored() {
    let answer = answer(Config::default(), parameters(Some(31), Some(300), Some(&[2])));
    assert!(matches!(answer, Chunk::InitAck(_)), "{answer:?}");
}
