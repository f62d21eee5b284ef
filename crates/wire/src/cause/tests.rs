//! Every cause there and back, and lists of them.

use super::*;

/// Reads the cause in `bytes`, checks that it is `expected` and writes back to the same bytes, and that no truncation of
/// it is taken for it.
fn check(bytes: &[u8], expected: Cause) {
    assert_eq!(
        Causes::from_causes(core::slice::from_ref(&expected)).as_bytes()[..],
        *bytes
    );
    let read: Vec<_> = Causes::from_bytes(Bytes::copy_from_slice(bytes)).iter().collect();
    assert_eq!(read, [Ok(expected.clone())]);
    for len in 1..bytes.len() {
        let list = Causes::from_bytes(Bytes::copy_from_slice(&bytes[..len]));
        assert_eq!(list.iter().next(), Some(Err(CauseError::Framing { left: len })));
        if len >= HEADER_LEN {
            let mut short = bytes[..len].to_vec();
            short[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            assert_ne!(
                Causes::from_bytes(short.into()).iter().next(),
                Some(Ok(expected.clone()))
            );
        }
    }
}

#[test]
fn causes_with_fields() {
    check(
        &[0, 1, 0, 8, 0, 9, 0, 0],
        Cause::InvalidStreamIdentifier { stream: StreamId(9) },
    );
    check(
        &[0, 2, 0, 12, 0, 0, 0, 2, 0, 7, 0, 5],
        Cause::MissingMandatoryParameter([7, 5].into()),
    );
    check(
        &[0, 3, 0, 8, 0, 0, 1, 0],
        Cause::StaleCookie { staleness_us: 256 },
    );
    check(&[0, 9, 0, 8, 0, 0, 1, 0], Cause::NoUserData { tsn: Tsn(256) });
    check(&[1, 5, 0, 6, 0, 3], Cause::UnsupportedHmac { hmac_id: 3 });
}

#[test]
fn causes_without_information() {
    check(&[0, 4, 0, 4], Cause::OutOfResource);
    check(&[0, 7, 0, 4], Cause::InvalidMandatoryParameter);
    check(&[0, 10, 0, 4], Cause::CookieReceivedWhileShuttingDown);
    check(&[0, 0xA3, 0, 4], Cause::IllegalAsconfAck);
}

#[test]
fn causes_with_opaque_information() {
    type Make = fn(Bytes) -> Cause;
    let make: [(u16, Make); 10] = [
        (5, Cause::UnresolvableAddress),
        (6, Cause::UnrecognizedChunkType),
        (8, Cause::UnrecognizedParameters),
        (11, Cause::RestartWithNewAddresses),
        (12, Cause::UserInitiatedAbort),
        (13, Cause::ProtocolViolation),
        (0xA0, Cause::DeleteLastAddress),
        (0xA1, Cause::OperationRefused),
        (0xA2, Cause::DeleteSourceAddress),
        (0xA4, Cause::NoAuthorization),
    ];
    for (code, cause) in make {
        check(
            &[(code >> 8) as u8, code as u8, 0, 7, b'a', b'b', b'c'],
            cause(Bytes::from_static(b"abc")),
        );
    }
    check(
        b"\x77\x77\0\x07abc",
        Cause::Unknown {
            code: 0x7777,
            value: Bytes::from_static(b"abc"),
        },
    );
}

#[test]
fn information_that_does_not_fit_is_refused_alone() {
    // The second cause counts three types and lists two; the third is fine.
    let bytes = [
        0, 4, 0, 5, 1, 0, 0, 0, 0, 2, 0, 12, 0, 0, 0, 3, 0, 7, 0, 5, 0, 7, 0, 4,
    ];
    let read: Vec<_> = Causes::from_bytes(Bytes::copy_from_slice(&bytes))
        .iter()
        .collect();
    let expected = [
        Err(CauseError::Content { code: 4 }),
        Err(CauseError::Content { code: 2 }),
        Ok(Cause::InvalidMandatoryParameter),
    ];
    assert_eq!(read, expected);
    let huge = [0, 2, 0, 8, 0xFF, 0xFF, 0xFF, 0xFF];
    let read = Causes::from_bytes(Bytes::copy_from_slice(&huge)).iter().next();
    assert_eq!(read, Some(Err(CauseError::Content { code: 2 })));
}

#[test]
fn a_list_pads_all_but_the_last() {
    let text = Cause::UserInitiatedAbort(Bytes::from_static(b"x"));
    let list = Causes::from_causes(&[text.clone(), text.clone()]);
    assert_eq!(list.as_bytes()[..], *b"\0\x0C\0\x05x\0\0\0\0\x0C\0\x05x");
    assert_eq!(list.iter().collect::<Vec<_>>(), [Ok(text.clone()), Ok(text)]);
    assert_eq!(Causes::empty().iter().next(), None);
}
