//! Before an address is validated, an endpoint sends no more bytes to it than it received from it (RFC 9260 §5.1, §12.2.4).
//! Otherwise an attacker could write a victim's address into small packets and have large answers sent there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch_proto::{Config, ConnectOptions, EcnCodepoint, Endpoint, Handling, Timestamp, VerificationTag};
use anabranch_testkit::PORT;
use anabranch_wire::chunk::{Abort, Chunk, CookieEcho, EncodeChunk, Init, Shutdown};
use anabranch_wire::packet::{CommonHeader, PacketWriter};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use anabranch_wire::{Tsn, cause::Causes};
use bytes::Bytes;

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn endpoint(local_addresses: Vec<IpAddr>) -> Endpoint {
    let mut config = Config::default();
    config.local_addresses = local_addresses;
    let mut endpoint = Endpoint::new(config, [1; 32]).expect("the settings are in range");
    endpoint.listen(PORT).expect("not port 0");
    endpoint
}

fn packet(tag: u32, port: u16, chunks: &[impl EncodeChunk]) -> Vec<u8> {
    let header = CommonHeader {
        source_port: 7000,
        destination_port: port,
        verification_tag: VerificationTag(tag),
    };
    let mut buffer = Vec::new();
    let mut writer = PacketWriter::new(&mut buffer, header, 65_000);
    for chunk in chunks {
        writer.push(chunk);
    }
    let _ = writer.finish();
    buffer
}

/// Bytes of the answer to a packet; 0 if there is no answer.
fn answer_len(endpoint: &mut Endpoint, packet: Vec<u8>) -> usize {
    let remote = SocketAddr::new(address(2), 9899);
    match endpoint.handle_datagram(
        Timestamp::from_millis(1000),
        None,
        remote,
        packet.into(),
        EcnCodepoint::NotEct,
    ) {
        Handling::Reply(reply) => reply.packet.len(),
        Handling::Done => 0,
        other => panic!("an answer without an association, not {other:?}"),
    }
}

fn init(parameters: Parameters) -> Init {
    Init {
        initiate_tag: VerificationTag(5),
        a_rwnd: 100_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(1),
        parameters,
    }
}

/// A ── INIT, padded (RFC 4820 §4) ──→ Z, not larger ←── INIT ACK ── Z
#[test]
fn an_init_ack_is_not_larger_than_a_padded_init() {
    let v6 = |last| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]);
    let families: [&dyn Fn(u8) -> IpAddr; 2] = [&address, &|last| v6(last.into())];
    for listed in families {
        for count in 0..=8 {
            let mut client = endpoint((1..=count).map(listed).collect());
            let mut server = endpoint((11..11 + count).map(listed).collect());
            let now = Timestamp::from_millis(0);
            let to = SocketAddr::new(listed(11), 9899);
            let (_, mut association) = client
                .connect(now, to, PORT, ConnectOptions::default())
                .expect("connect");
            let mut bytes = Vec::new();
            association.poll_transmit(now, &mut bytes, 1).expect("an INIT");
            let sent = bytes.len();
            let from = SocketAddr::new(listed(1), 9899);
            let Handling::Reply(reply) =
                server.handle_datagram(now, None, from, bytes.into(), EcnCodepoint::NotEct)
            else {
                panic!("an INIT ACK");
            };
            assert!(
                reply.packet.len() <= sent,
                "{count} addresses: INIT {sent}, INIT ACK {} bytes",
                reply.packet.len()
            );
        }
    }
}

/// A larger answer is allowed for one packet only: an INIT without padding, from another implementation or an attacker, must be
/// answered with a cookie. The answer to the shortest INIT has at most three times its length.
#[test]
fn a_foreign_init_is_answered_with_less_than_three_times_its_length() {
    let unknown = |kind: u16| {
        let [high, low] = kind.to_be_bytes();
        let raw = Parameters::from_bytes(Bytes::from(vec![high, low, 0, 4]));
        let raw = raw.iter().next().expect("one").expect("well-formed");
        Parameter::decode(raw).expect("unknown")
    };
    for reported in [0, 1, 10, 1000] {
        let parameters = (0..reported).fold(ParametersBuilder::new(), |list, _| list.push(&unknown(0xC0DE)));
        let init = packet(0, PORT, &[Chunk::Init(init(parameters.finish()))]);
        let (sent, answered) = (init.len(), answer_len(&mut endpoint(Vec::new()), init));
        assert!(answered > 0, "no answer");
        assert!(
            answered < 3 * sent,
            "{reported} reports: INIT {sent}, INIT ACK {answered} bytes"
        );
    }
}

/// The answer to any other packet from an address that was not validated is not larger than the packet.
#[test]
fn no_other_answer_is_larger_than_what_it_answers() {
    let refused = [
        // No endpoint listens on this port: ABORT.
        packet(0, PORT + 1, &[Chunk::Init(init(Parameters::empty()))]),
        // No streams: ABORT with cause 7.
        packet(
            0,
            PORT,
            &[Chunk::Init(Init {
                outbound_streams: 0,
                ..init(Parameters::empty())
            })],
        ),
        // A host name: ABORT with cause 5.
        packet(
            0,
            PORT,
            &[Chunk::Init(init(
                ParametersBuilder::new()
                    .push(&Parameter::HostName(Bytes::from_static(b"a")))
                    .finish(),
            ))],
        ),
        // A parameter with half a header: ABORT with cause 13.
        packet(
            0,
            PORT,
            &[Chunk::Init(init(Parameters::from_bytes(Bytes::from_static(&[
                9,
            ]))))],
        ),
        // Out of the blue (§8.4).
        packet(9, PORT, &[Chunk::CookieAck]),
        packet(9, PORT, &[Chunk::ShutdownAck]),
        packet(
            9,
            PORT,
            &[Chunk::Shutdown(Shutdown {
                cumulative_tsn_ack: Tsn(0),
            })],
        ),
        packet(
            9,
            PORT,
            &[Chunk::Abort(Abort {
                reflected_tag: false,
                causes: Causes::empty(),
            })],
        ),
        packet(
            9,
            PORT,
            &[Chunk::CookieEcho(CookieEcho {
                cookie: Bytes::from_static(b"made up"),
            })],
        ),
    ];
    let mut answered = 0;
    for (index, packet) in refused.into_iter().enumerate() {
        let sent = packet.len();
        let reply = answer_len(&mut endpoint(Vec::new()), packet);
        assert!(
            reply <= sent,
            "packet {index}: {sent} bytes are answered with {reply}"
        );
        answered += usize::from(reply > 0);
    }
    assert!(answered >= 6, "most of them are answered: {answered}");
}
