use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::rule::{Protocol, Traffic};

fn flows() -> impl Strategy<Value = FlowId> {
    any::<u32>().prop_map(FlowId)
}

fn rules() -> impl Strategy<Value = RuleOffer> {
    let traffic = (
        prop::option::of(1..=3_600_000_u64),
        prop::option::of(0..=7_u8),
        prop::option::of(1..=u64::MAX),
        any::<bool>(),
        1_000..=86_400_000_u64,
    );
    let traffic = traffic.prop_map(|(deadline, class, rate, ordered, idle)| Traffic {
        deadline: deadline.map(Duration::from_millis),
        class,
        rate,
        ordered,
        idle: Duration::from_millis(idle),
    });
    (any::<[bool; 2]>(), traffic, ".{0,40}").prop_map(|([tcp, reverse], traffic, place)| RuleOffer {
        protocol: if tcp { Protocol::Tcp } else { Protocol::Udp },
        reverse,
        traffic,
        place,
    })
}

fn payloads(least: usize, most: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), least..=most).prop_map(Bytes::from)
}

fn messages() -> impl Strategy<Value = Message> {
    let hello = (any::<[u8; 16]>(), prop::collection::vec(rules(), 0..5)).prop_map(|(client, rules)| Hello {
        version: VERSION,
        client,
        rules,
    });
    let verdict = prop::result::maybe_ok(".{0,20}", ".{0,20}");
    let welcome =
        (any::<u32>(), prop::collection::vec(verdict, 0..5)).prop_map(|(most_flows, verdicts)| Welcome {
            version: VERSION,
            most_flows,
            verdicts,
        });
    let reasons = prop::sample::select(vec![
        ResetReason::Connection,
        ResetReason::Target,
        ResetReason::Forbidden,
        ResetReason::Limit,
    ]);
    prop_oneof![
        hello.prop_map(Message::Hello),
        welcome.prop_map(Message::Welcome),
        (any::<u16>(), ".{0,40}").prop_map(|(version, reason)| Message::Refusal { version, reason }),
        (flows(), any::<u16>()).prop_map(|(flow, rule)| Message::Open { flow, rule }),
        (flows(), payloads(1, 300)).prop_map(|(flow, bytes)| Message::Data { flow, bytes }),
        flows().prop_map(|flow| Message::End { flow }),
        (flows(), reasons).prop_map(|(flow, reason)| Message::Reset { flow, reason }),
        (flows(), 1..=MOST_CREDIT).prop_map(|(flow, credit)| Message::Credit { flow, credit }),
        (flows(), any::<u16>(), payloads(0, 300)).prop_map(|(flow, rule, payload)| Message::Datagram {
            flow,
            rule,
            payload
        }),
        flows().prop_map(|flow| Message::Unreachable { flow }),
    ]
}

proptest! {
    #[test]
    fn a_message_is_read_as_it_was_written(message in messages()) {
        prop_assert_eq!(Message::decode(message.encode()), Ok(message));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_message_of_the_same_bytes(
        bytes in payloads(0, 80), kind in prop::sample::select(vec![1_u8, 2, 3, 0x10, 0x11, 0x12, 0x13, 0x14, 0x20])
    ) {
        let bytes = Bytes::from([&[kind], &bytes[..]].concat());
        if let Ok(message) = Message::decode(bytes.clone())
            && !matches!(&message, Message::Hello(hello) if hello.version != VERSION)
        {
            prop_assert_eq!(message.encode(), bytes);
        }
    }

    #[test]
    fn a_part_of_a_message_is_no_message_of_a_fixed_length(message in messages(), cut in 1..40_usize) {
        let bytes = message.encode();
        let part = bytes.slice(..bytes.len().saturating_sub(cut));
        let answer = Message::decode(part);
        if !matches!(message, Message::Data { .. } | Message::Datagram { .. }) {
            prop_assert!(answer.is_err(), "{:?}", answer);
        }
    }
}

#[test]
fn the_example_of_the_page() {
    let bytes = Bytes::from_static(&[0x11, 0, 0, 0, 2, 0x68, 0x69]);
    let message = Message::Data {
        flow: FlowId(2),
        bytes: "hi".into(),
    };
    assert_eq!(Message::decode(bytes), Ok(message));
}

#[test]
fn limits_are_checked() {
    for (bytes, error) in [
        (&b""[..], WireError::Truncated),
        (&[0x40], WireError::Kind),
        (&[0x11, 0, 0, 0, 2], WireError::OutOfRange("length")),
        (&[0x12, 0, 0, 0, 2, 0], WireError::Trailing),
        (&[0x13, 0, 0, 0, 2, 4], WireError::OutOfRange("reason")),
        (&[0x14, 0, 0, 0, 2, 0, 0, 0, 0], WireError::OutOfRange("credit")),
        (
            &[0x14, 0, 0, 0, 2, 0, 0x40, 0, 1],
            WireError::OutOfRange("credit"),
        ),
        (&[0x03, 0, 1, 0, 1, 0xff], WireError::Text),
        (b"\x01HTTP", WireError::OutOfRange("magic number")),
    ] {
        assert_eq!(
            Message::decode(Bytes::copy_from_slice(bytes)),
            Err(error),
            "{bytes:?}"
        );
    }
    let long = |header: &[u8], len| Message::decode(Bytes::from([header, &vec![0; len]].concat()));
    assert!(long(&data_header(FlowId(1)), MOST_DATA).is_ok());
    assert!(long(&data_header(FlowId(1)), MOST_DATA + 1).is_err());
    assert!(long(&datagram_header(FlowId(1), 0), MOST_DATAGRAM).is_ok());
    assert!(long(&datagram_header(FlowId(1), 0), MOST_DATAGRAM + 1).is_err());
}

#[test]
fn of_a_later_version_only_the_number_is_read() {
    let bytes = [b"\x01ANBF\x00\x02".as_slice(), &[7; 16], b"anything"].concat();
    let hello = Hello {
        version: 2,
        client: [7; 16],
        rules: Vec::new(),
    };
    assert_eq!(Message::decode(bytes.into()), Ok(Message::Hello(hello)));
}

#[test]
fn a_client_has_at_most_256_rules() {
    let bytes = |count: u16| [b"\x01ANBF\x00\x01", &[0; 16][..], &count.to_be_bytes()].concat();
    let none = Message::decode(bytes(0).into());
    assert!(matches!(none, Ok(Message::Hello(_))));
    assert_eq!(
        Message::decode(bytes(257).into()),
        Err(WireError::OutOfRange("number of rules"))
    );
    assert_eq!(Message::decode(bytes(256).into()), Err(WireError::Truncated));
}
