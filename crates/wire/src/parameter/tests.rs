//! The list, and the parameters that need no file of their own.

use super::*;

/// Reads the parameter in `bytes`, checks that it is `expected` and writes back to the same bytes, and that no
/// truncation of it is taken for it.
pub(super) fn check(bytes: &[u8], expected: &Parameter) {
    let raw = Parameters::from_bytes(Bytes::copy_from_slice(bytes))
        .iter()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(raw.whole(), bytes);
    assert_eq!(Parameter::decode(raw).as_ref(), Ok(expected));
    let mut written = Vec::new();
    expected.encode(&mut written);
    assert_eq!(written.len(), expected.encoded_len());
    assert_eq!(written[..bytes.len()], *bytes);
    assert!(
        written[bytes.len()..].iter().all(|byte| *byte == 0),
        "padding is zero"
    );
    for len in 0..bytes.len() {
        let list = Parameters::from_bytes(Bytes::copy_from_slice(&bytes[..len]));
        assert!(len == 0 || list.iter().next().unwrap().is_err(), "{len} bytes");
        if len >= HEADER_LEN {
            let mut short = bytes[..len].to_vec();
            short[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let raw = RawParameter {
                kind: expected.kind(),
                whole: short.into(),
            };
            assert_ne!(Parameter::decode(raw).as_ref(), Ok(expected));
        }
    }
}

/// The parameter in `bytes` has a content that its type does not allow.
pub(super) fn check_refused(bytes: &[u8]) {
    let raw = Parameters::from_bytes(Bytes::copy_from_slice(bytes))
        .iter()
        .next()
        .unwrap()
        .unwrap();
    let kind = raw.kind;
    assert_eq!(Parameter::decode(raw), Err(ParameterError::Content { kind }));
}

#[test]
fn opaque_values_round_trip() {
    let value = Bytes::from_static(b"abc");
    check(b"\0\x01\0\x07abc", &Parameter::HeartbeatInfo(value.clone()));
    check(b"\0\x07\0\x07abc", &Parameter::StateCookie(value.clone()));
    check(
        b"\0\x08\0\x07abc",
        &Parameter::UnrecognizedParameter(value.clone()),
    );
    check(b"\0\x0B\0\x07abc", &Parameter::HostName(value.clone()));
    check(b"\x80\x02\0\x07abc", &Parameter::Random(value));
    check(
        b"\x80\x03\0\x06\xC0\xC1",
        &Parameter::ChunkList([0xC0, 0xC1].into()),
    );
    check(
        b"\x80\x08\0\x05\xC0",
        &Parameter::SupportedExtensions([0xC0].into()),
    );
    let unknown = Bytes::from_static(b"\xFF\x01\0\x05z");
    check(
        &unknown,
        &Parameter::Unknown(RawParameter {
            kind: 0xFF01,
            whole: unknown.clone(),
        }),
    );
}

#[test]
fn numbers_and_flags_round_trip() {
    check(
        &[0, 9, 0, 8, 0, 0, 1, 0],
        &Parameter::CookiePreservative { increment_ms: 256 },
    );
    check(
        &[0x80, 1, 0, 8, 0, 0, 0, 1],
        &Parameter::ZeroChecksumAcceptable { method: 1 },
    );
    check(&[0xC0, 6, 0, 8, 0, 0, 0, 1], &Parameter::AdaptationLayer(1));
    check(
        &[0xC0, 5, 0, 8, 0, 0, 0, 1],
        &Parameter::SuccessIndication { correlation_id: 1 },
    );
    check(&[0x80, 0, 0, 4], &Parameter::EcnCapable);
    check(&[0xC0, 0, 0, 4], &Parameter::ForwardTsnSupported);
    check_refused(&[0xC0, 0, 0, 5, 1]);
    check_refused(&[0, 9, 0, 6, 0, 0]);
}

#[test]
fn a_failed_request_carries_its_causes() {
    let causes = Causes::from_causes(&[crate::cause::Cause::OutOfResource]);
    let bytes = [0xC0, 3, 0, 12, 0, 0, 0, 1, 0, 4, 0, 4];
    check(
        &bytes,
        &Parameter::ErrorCauseIndication {
            correlation_id: 1,
            causes,
        },
    );
}

#[test]
fn a_list_pads_all_but_the_last() {
    let (extensions, cookie) = (
        Parameter::SupportedExtensions([1].into()),
        Parameter::StateCookie(Bytes::from_static(b"ab")),
    );
    let list = ParametersBuilder::new().push(&extensions).push(&cookie).finish();
    assert_eq!(list.as_bytes()[..], *b"\x80\x08\0\x05\x01\0\0\0\0\x07\0\x06ab");
    let read: Vec<_> = list
        .iter()
        .map(|raw| Parameter::decode(raw.unwrap()).unwrap())
        .collect();
    assert_eq!(read, [extensions, cookie]);
    assert!(Parameters::empty().iter().next().is_none());
}

#[test]
fn an_impossible_length_ends_the_list() {
    for claimed in [0_u8, 3, 9] {
        let list = Parameters::from_bytes(Bytes::copy_from_slice(&[
            0xC0, 0, 0, 4, 0, 7, 0, claimed, 1, 2, 3, 4,
        ]));
        let mut parameters = list.iter();
        assert!(parameters.next().unwrap().is_ok());
        assert_eq!(parameters.next(), Some(Err(ParameterError::Framing { left: 8 })));
        assert_eq!(parameters.next(), None);
    }
}

#[test]
fn the_highest_bits_tell_what_to_do_with_unknown_parameters() {
    assert_eq!(
        unknown_parameter_action(0x3FFF),
        UnknownAction::Discard { report: false }
    );
    assert_eq!(
        unknown_parameter_action(0x7FFF),
        UnknownAction::Discard { report: true }
    );
    assert_eq!(
        unknown_parameter_action(0xBFFF),
        UnknownAction::Skip { report: false }
    );
    assert_eq!(
        unknown_parameter_action(0xFFFF),
        UnknownAction::Skip { report: true }
    );
}
