//! The parameters of INIT and INIT ACK with usrsctp: each side accepts all that the other sends, and uses what both offer.

use anabranch::{AddressForm, EcnState, Event, SendOptions};

use crate::authenticated::Terms;
use crate::captured::{self, Captured};
use crate::peer_messages::{Inbox, Sizes, receive_all, send_all};
use crate::{Exchange, verdict};

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ERROR: u8 = 9;

const STATE_COOKIE: u16 = 7;
const UNRECOGNIZED: u16 = 8;
const SUPPORTED_ADDRESS_TYPES: u16 = 12;
/// Adaptation Layer Indication, ECN, Forward TSN Supported, Supported Extensions, Random, Requested HMAC Algorithm, Chunk List: what
/// usrsctp sends in both, in this order.
const OF_USRSCTP: [u16; 7] = [0xc006, 0x8000, 0xc000, 0x8008, 0x8002, 0x8004, 0x8003];
const MESSAGES: u64 = 50;
/// Adaptation Code Points: ours, usrsctp's.
const ADAPTATION: (u32, u32) = (0x1234_5678, 0x8765_4321);

/// The types of the parameters of the INIT or INIT ACK of one side.
fn types(chunk: &Captured) -> Vec<u16> {
    // Initiate tag, a_rwnd, numbers of streams, initial TSN.
    let mut rest = &chunk.value[16..];
    let mut found = Vec::new();
    while let [high, low, len @ ..] = rest
        && let [len_high, len_low, ..] = len
    {
        found.push(u16::from_be_bytes([*high, *low]));
        let len = usize::from(u16::from_be_bytes([*len_high, *len_low]));
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    found
}

/// Sets up an association with all extensions that both stacks have, and exchanges some messages.
pub(crate) async fn are_accepted(peer_listens: bool) {
    let exchange = Exchange {
        peer: "usrsctp",
        peer_listens,
        peer_ends: false,
        messages: MESSAGES,
        link: "delay=1ms",
        nr_sack: true,
        interleave: true,
        ecn: true,
        auth: Some(Terms::INTERLEAVED),
        moves: Some(AddressForm::Explicit),
        adaptation: Some(ADAPTATION),
        ..Exchange::RELIABLE
    };
    let endpoint = exchange.open().await;
    let (child, association) = exchange.meet(&endpoint).await;
    while association.next_event().await.expect("the association lives")
        != Event::AdaptationLayer(ADAPTATION.1)
    {}
    let own = u64::from(!peer_listens);
    send_all(&association, Sizes::Mixed, own, 0..MESSAGES, |_, _| {
        SendOptions::default()
    })
    .await;
    let mut inbox = Inbox::new(Sizes::Mixed, 1 - own, MESSAGES);
    receive_all(&association, &mut inbox, |_| true, |_| ()).await;
    association.drained().await.expect("all is acknowledged");
    let stats = association.stats();
    let negotiated = &stats.extensions;
    assert!(
        negotiated.partial_reliability
            && negotiated.nr_sack
            && negotiated.interleaving
            && negotiated.ecn
            && negotiated.reconfiguration
            && negotiated.authentication
            && negotiated.dynamic_addresses,
        "{negotiated:?}"
    );
    assert_eq!(stats.paths[0].ecn.state, EcnState::Capable);
    association.shutdown().await.expect("an orderly end");
    let port = endpoint.local_addr().port();
    endpoint.close().await;
    let (success, verdict) = verdict(child).await;
    assert!(success, "{verdict}");
    let told = format!(r#""adaptation":{}"#, ADAPTATION.0);
    assert!(verdict.contains(&told), "{verdict}");
    drop(endpoint);
    let capture = exchange.capture().expect("it has one");
    let chunks = captured::chunks(&std::fs::read(capture).expect("a capture"));
    assert!(
        chunks.iter().all(|chunk| chunk.kind != ERROR),
        "nothing is reported as unknown"
    );
    for ours in [true, false] {
        let setup = |chunk: &&Captured| {
            (chunk.source.port() == port) == ours && matches!(chunk.kind, INIT | INIT_ACK)
        };
        let chunk = chunks.iter().find(setup).expect("one");
        let found = types(chunk);
        assert!(!found.contains(&UNRECOGNIZED), "{found:x?}");
        let last = if peer_listens {
            STATE_COOKIE
        } else {
            SUPPORTED_ADDRESS_TYPES
        };
        if !ours {
            assert_eq!(found, [&OF_USRSCTP[..], &[last]].concat());
        }
    }
}
