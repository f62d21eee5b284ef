//! Parameters as bytes.

use alloc::vec;

use super::*;
use crate::parameter::{KeyManagementFlags, Parameters};
use crate::types::StreamId;

fn check(bytes: &[u8], expected: &Parameter) {
    let list = Parameters::from_bytes(Bytes::copy_from_slice(bytes));
    let raw = list.iter().next().unwrap().unwrap();
    assert_eq!(Parameter::decode(raw).as_ref(), Ok(expected));
    let mut written = Vec::new();
    expected.encode_unpadded(&mut written);
    assert_eq!(written, bytes);
}

#[test]
fn round_trips() {
    check(&[0, 5, 0, 8, 10, 0, 0, 1], &Parameter::Ipv4([10, 0, 0, 1].into()));
    let mut ipv6 = vec![0, 6, 0, 20];
    ipv6.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
    check(&ipv6, &Parameter::Ipv6(Ipv6Addr::LOCALHOST));
    check(
        &[0, 12, 0, 8, 0, 5, 0, 6],
        &Parameter::SupportedAddressTypes(vec![5, 6]),
    );
    check(
        &[0x80, 8, 0, 6, 64, 192],
        &Parameter::SupportedExtensions(Bytes::from_static(&[64, 192])),
    );
    check(&[0x80, 0, 0, 4], &Parameter::EcnCapable);
    check(&[0xC0, 0, 0, 4], &Parameter::ForwardTsnSupported);
    check(
        &[0, 17, 0, 12, 0, 0, 0, 1, 0, 5, 0, 0],
        &Parameter::AddOutgoing { request: 1, count: 5 },
    );
    let streams = StreamList::from_streams([StreamId(4)]);
    check(
        &[0, 14, 0, 10, 0, 0, 0, 1, 0, 4],
        &Parameter::IncomingReset {
            request: 1,
            streams: streams.clone(),
        },
    );
    let bytes = [0, 13, 0, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 4];
    check(
        &bytes,
        &Parameter::OutgoingReset {
            request: 1,
            response: 2,
            last_tsn: Tsn(3),
            streams,
        },
    );
    let bytes = [0, 16, 0, 20, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4];
    let next_tsns = Some((Tsn(3), Tsn(4)));
    check(
        &bytes,
        &Parameter::ReConfigResponse {
            sequence: 1,
            result: 2,
            next_tsns,
        },
    );
    let address = [10, 0, 0, 1].into();
    let bytes = [0xC0, 2, 0, 16, 0, 0, 0, 9, 0, 5, 0, 8, 10, 0, 0, 1];
    check(
        &bytes,
        &Parameter::Address {
            action: AddressAction::Delete,
            correlation: 9,
            address,
        },
    );
    check(
        &[0x80, 1, 0, 8, 0, 0, 0, 1],
        &Parameter::ZeroChecksumAcceptable { method: 1 },
    );
}

#[test]
fn parameters_of_authentication() {
    let random = Bytes::from(vec![7; 32]);
    check(
        &[&[0x80, 2, 0, 36], &random[..]].concat(),
        &Parameter::Random(random.clone()),
    );
    let types = Bytes::from_static(&[0, 193, 128]);
    check(&[0x80, 3, 0, 7, 0, 193, 128], &Parameter::ChunkList(types));
    check(&[0x80, 3, 0, 4], &Parameter::ChunkList(Bytes::new()));
    check(
        &[0x80, 4, 0, 8, 0, 3, 0, 1],
        &Parameter::RequestedHmacs(vec![3, 1]),
    );
}

#[test]
fn the_parameter_of_key_management() {
    let flags = KeyManagementFlags {
        restart: true,
        server: false,
        client: true,
    };
    let parameter = KeyManagement::new(0x0102_0304, flags, &[192, 0]);
    let bytes = [0x80, 6, 0, 11, 1, 2, 3, 4, 5, 192, 0];
    check(&bytes, &Parameter::KeyManagement(parameter.clone()));
    assert_eq!(parameter.whole(), bytes);
    assert_eq!((parameter.tie_breaker(), parameter.flags()), (0x0102_0304, flags));
    assert_eq!(parameter.methods(), [192, 0]);
    // Keys are derived from the bytes: reserved bits stay as they were received.
    let reserved = KeyManagement::from_value(Bytes::from_static(&[1, 2, 3, 4, 0xFA, 192])).unwrap();
    check(
        &[0x80, 6, 0, 10, 1, 2, 3, 4, 0xFA, 192],
        &Parameter::KeyManagement(reserved.clone()),
    );
    assert!(reserved.flags().server && !reserved.flags().client && !reserved.flags().restart);
    // Without a method.
    for len in 0..=5 {
        assert_eq!(KeyManagement::from_value(Bytes::from(vec![0; len])), None);
    }
}

#[test]
fn parameters_of_dynamic_addresses() {
    let ipv6 = Ipv6Addr::LOCALHOST.octets();
    for (kind, action) in [
        (1, AddressAction::Add),
        (2, AddressAction::Delete),
        (4, AddressAction::SetPrimary),
    ] {
        let head = [0xC0, kind, 0, 28, 1, 2, 0x34, 0x74, 0, 6, 0, 20];
        check(
            &[&head[..], &ipv6].concat(),
            &Parameter::Address {
                action,
                correlation: 0x0102_3474,
                address: Ipv6Addr::LOCALHOST.into(),
            },
        );
    }
    // The example of RFC 5061 §4.3.1.
    let cause = [
        0, 0xA0, 0, 20, 0xC0, 2, 0, 16, 1, 2, 0x34, 0x76, 0, 5, 0, 8, 192, 0, 2, 1,
    ];
    check(
        &[&[0xC0, 3, 0, 28, 1, 2, 0x34, 0x76][..], &cause].concat(),
        &Parameter::AsconfError {
            correlation: 0x0102_3476,
            causes: Bytes::copy_from_slice(&cause),
        },
    );
    check(
        &[0xC0, 5, 0, 8, 0, 0, 0, 9],
        &Parameter::AsconfSuccess { correlation: 9 },
    );
    check(&[0xC0, 6, 0, 8, 0, 0, 0, 7], &Parameter::AdaptationLayer(7));
}

#[test]
fn parameters_of_port_pairs() {
    check(&[0x9A, 1, 0, 4], &Parameter::PortPairsSupported);
    check(&[0x9A, 3, 0, 4], &Parameter::RepairSupported);
    check(
        &[0x9A, 2, 0, 6, 7, 8],
        &Parameter::KnownKeys(Bytes::from_static(&[7, 8])),
    );
    for (kind, action) in [(1, PairAction::Renew), (2, PairAction::Delete)] {
        check(
            &[0xDA, kind, 0, 12, 0, 0, 0, 9, 0, 0, 0, 2],
            &Parameter::Pair {
                action,
                correlation: 9,
                pair: 2,
            },
        );
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for bytes in [
        &[0, 5, 0, 7, 10, 0, 0][..],
        &[0, 5, 0, 9, 10, 0, 0, 1, 2],
        &[0, 12, 0, 5, 0],
        &[0xC0, 0, 0, 5, 1],
        &[0x80, 4, 0, 7, 0, 3, 0],
        // Without a correlation ID, without an address, with another parameter in its place, with bytes after the address.
        &[0xC0, 1, 0, 6, 0, 0],
        &[0xC0, 1, 0, 8, 0, 0, 0, 1],
        &[0xC0, 2, 0, 16, 0, 0, 0, 9, 0, 9, 0, 8, 10, 0, 0, 1],
        &[0xC0, 2, 0, 14, 0, 0, 0, 9, 0, 6, 0, 6, 10, 0],
        &[0xC0, 4, 0, 20, 0, 0, 0, 9, 0, 5, 0, 8, 10, 0, 0, 1, 0, 0, 0, 0],
        &[0xC0, 3, 0, 6, 0, 0],
        &[0xC0, 5, 0, 4],
        &[0xC0, 6, 0, 12, 0, 0, 0, 9, 0, 0, 0, 9],
        &[0x9A, 1, 0, 8, 0, 0, 0, 1],
        &[0xDA, 1, 0, 8, 0, 0, 0, 9],
    ] {
        let raw = Parameters::from_bytes(Bytes::copy_from_slice(bytes))
            .iter()
            .next()
            .unwrap()
            .unwrap();
        assert!(
            matches!(Parameter::decode(raw), Err(ParameterError::Content { .. })),
            "{bytes:?}"
        );
    }
}
