//! Resident memory of received data: the rows of docs/LIMITS.md for data that the application has not read, each with the packets that
//! cost most memory for each byte on the wire. Each shape is measured in a process of its own. M is the peer, A the endpoint.
#![cfg(target_os = "linux")]

use std::process::Command;

use anabranch_netsim::{Ecn, Node, Packet};
use anabranch_proto::{Association, Config, Dscp, StreamId, Timestamp, Tsn};
use anabranch_testkit::fixture::lists;
use anabranch_testkit::{Script, quiet, resident};
use anabranch_wire::chunk::{
    Chunk, Data, IData, MessageNumber, Pad, SelectiveForwardTsn, experimental_kind, kind,
};
use anabranch_wire::{Fsn, Mid, Ppid, Ssn};
use bytes::Bytes;

/// Associations that are measured together, so that the measurement is larger than what the process allocates beside them.
const ASSOCIATIONS: usize = 16;

/// `buffers.receive` of the example in docs/LIMITS.md.
const RECEIVE: u32 = 64 << 10;

/// The row of docs/LIMITS.md for one association with that setting: 3 × `buffers.receive` + 48 KiB.
const ROW: usize = 240 << 10;

/// Memory of an association that holds no data, with the simulated host around it.
const EMPTY: usize = 24 << 10;

/// Packets that M sends. Before the memory counted, they took at least four times the row in most shapes.
const PACKETS: u32 = 200;

/// Chunks in a packet.
const CHUNKS: u32 = 40;

/// The memory of an inbound stream, and for interleaving.
const STREAM: usize = 8;
const INTERLEAVED_STREAM: usize = 34;
/// Of a stream that the application reads separately, in addition.
const SEPARATE_STREAM: usize = 100;

/// An association and its peer, which sends packets that nobody logs.
struct Victim {
    script: Script,
    first: Tsn,
}

impl Victim {
    fn new(change: fn(&mut Config)) -> Self {
        let mut config = quiet();
        config.buffers.receive = RECEIVE;
        config.buffers.growth = 1;
        config.partial_reliability.offer = true;
        config.partial_reliability.selective_forward_tsn = Some(1);
        config.nr_sack.offer = true;
        change(&mut config);
        let mut script = Script::new(config, 1);
        script.streams = u16::MAX;
        script.set_up_with(lists(&[
            kind::FORWARD_TSN,
            kind::NR_SACK,
            kind::I_DATA,
            kind::I_FORWARD_TSN,
            experimental_kind::SELECTIVE_FORWARD_TSN,
        ]));
        script.talker().reading = false;
        let first = script.tsn;
        Self { script, first }
    }

    fn send(&mut self, chunks: &[Chunk]) {
        let payload = Bytes::from(self.script.packet(self.script.endpoint_tag, chunks));
        let packet = Packet {
            source: self.script.remote,
            destination: self.script.local,
            payload: payload.into(),
            may_fragment: true,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
        };
        let now = self.script.now();
        let host = self.script.host_mut();
        host.handle_packet(now, packet);
        while host.poll_transmit(now).is_some() {}
    }

    fn association(&mut self) -> (&mut Association, Timestamp) {
        let now = self.script.now();
        let id = self.script.id().expect("an association");
        let association = self.script.host_mut().association_mut(id);
        (association.expect("it is there"), now)
    }

    /// The application reads everything.
    fn read(&mut self) {
        let (association, now) = self.association();
        while association.recv(now).is_some() {}
    }

    /// Sends a packet with the chunks that `chunk` makes of numbers.
    fn send_made(&mut self, packet: u32, chunk: &impl Fn(Tsn, u32) -> Chunk) {
        let numbers = packet * CHUNKS..(packet + 1) * CHUNKS;
        let chunks: Vec<_> = numbers.map(|number| chunk(self.first, number)).collect();
        self.send(&chunks);
    }

    /// Sends packets with the chunks that `chunk` makes of numbers.
    fn flood(&mut self, chunk: impl Fn(Tsn, u32) -> Chunk) {
        (0..PACKETS).for_each(|packet| self.send_made(packet, &chunk));
    }

    /// Sends a chunk that `chunk` makes on each stream. The application reads.
    fn use_all_streams(&mut self, chunk: impl Fn(Tsn, u32) -> Chunk) {
        for packet in 0..65_535 / CHUNKS {
            self.send_made(packet, &chunk);
            self.read();
        }
        self.first = self.first.plus(65_535 / CHUNKS * CHUNKS);
    }
}

/// DATA with one byte: a complete ordered message.
fn data(tsn: Tsn, stream: u16, ssn: u16) -> Data {
    Data {
        tsn,
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: Ppid(0),
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        payload: Bytes::from_static(b"x"),
    }
}

/// I-DATA with one byte: a fragment in the middle of an ordered message.
fn i_data(tsn: Tsn, stream: u16, mid: u32, fsn: u32) -> IData {
    IData {
        tsn,
        stream: StreamId(stream),
        mid: Mid(mid),
        ppid: Ppid(0),
        fsn: Fsn(fsn),
        unordered: false,
        beginning: fsn == 0,
        ending: false,
        immediate: false,
        repair: false,
        payload: Bytes::from_static(b"x"),
    }
}

/// A shape: its name, the settings, the packets, and the memory that the row allows beside [`ROW`].
type Shape = (&'static str, fn(&mut Config), fn(&mut Victim), usize);

fn interleaving(config: &mut Config) {
    config.interleaving.offer = true;
}

fn reneging(config: &mut Config) {
    config.nr_sack.may_renege = true;
}

fn both(config: &mut Config) {
    interleaving(config);
    reneging(config);
}

const SHAPES: [Shape; 22] = [
    // M → DATA (one byte, complete), …
    (
        "one-byte messages on one stream",
        |_| (),
        |victim| {
            victim.flood(|first, number| Chunk::Data(data(first.plus(number), 0, number as u16)));
        },
        0,
    ),
    (
        "one-byte messages, unordered, each after a gap",
        |_| (),
        |victim| {
            victim.flood(|first, number| {
                let data = data(first.plus(1 + 2 * number), 0, 0);
                Chunk::Data(Data {
                    unordered: true,
                    ..data
                })
            });
        },
        0,
    ),
    // The application reads, so that all streams are used.
    (
        "one-byte messages on 65,535 streams",
        |_| (),
        |victim| {
            victim.use_all_streams(|first, number| Chunk::Data(data(first.plus(number), number as u16, 0)));
            victim.flood(|first, number| {
                Chunk::Data(data(first.plus(number), (number as u16).wrapping_mul(9), 1))
            });
        },
        65_535 * STREAM,
    ),
    (
        "one-byte messages with I-DATA on 65,535 streams",
        interleaving,
        |victim| {
            let whole = |tsn, stream, mid| {
                Chunk::IData(IData {
                    ending: true,
                    ..i_data(tsn, stream, mid, 0)
                })
            };
            victim.use_all_streams(|first, number| whole(first.plus(number), number as u16, 0));
            victim.flood(|first, number| {
                Chunk::IData(IData {
                    ending: true,
                    ..i_data(first.plus(number), (number as u16).wrapping_mul(9), 1, 0)
                })
            });
        },
        65_535 * INTERLEAVED_STREAM,
    ),
    // M → DATA with SSN 1, 2, … (SSN 0 never comes)
    (
        "one-byte messages out of order",
        |_| (),
        |victim| {
            victim.flood(|first, number| Chunk::Data(data(first.plus(1 + number), 0, 1 + number as u16)));
        },
        0,
    ),
    (
        "one-byte messages out of order, each after a gap",
        |_| (),
        |victim| {
            victim.flood(|first, number| {
                Chunk::Data(data(first.plus(1 + 2 * number), 0, 1 + 2 * number as u16))
            });
        },
        0,
    ),
    (
        "the same, renegable",
        reneging,
        |victim| {
            victim.flood(|first, number| {
                Chunk::Data(data(first.plus(1 + 2 * number), 0, 1 + 2 * number as u16))
            });
        },
        0,
    ),
    (
        "one-byte messages that wait on many streams",
        |_| (),
        |victim| {
            victim.flood(|first, number| Chunk::Data(data(first.plus(2 + 2 * number), number as u16, 1)));
        },
        CHUNKS as usize * PACKETS as usize * STREAM,
    ),
    // M → a fragment in every other TSN
    (
        "one-byte fragments, each after a gap",
        |_| (),
        |victim| {
            victim.flood(|first, number| {
                let data = data(first.plus(1 + 2 * number), 0, 0);
                Chunk::Data(Data {
                    beginning: false,
                    ending: false,
                    ..data
                })
            });
        },
        0,
    ),
    (
        "one-byte fragments in pairs",
        |_| (),
        |victim| {
            victim.flood(|first, number| {
                let data = data(first.plus(1 + number + number / 2), 0, 0);
                Chunk::Data(Data {
                    beginning: false,
                    ending: false,
                    ..data
                })
            });
        },
        0,
    ),
    (
        "one-byte fragments of one message",
        |_| (),
        |victim| {
            victim.flood(|first, number| {
                let data = data(first.plus(number), 0, 0);
                Chunk::Data(Data {
                    beginning: number == 0,
                    ending: false,
                    ..data
                })
            });
        },
        0,
    ),
    // M → I-DATA with FSN 1 of MID 0, 1, 2, …
    (
        "one-byte I-DATA fragments of messages that never begin",
        interleaving,
        |victim| {
            victim.flood(|first, number| Chunk::IData(i_data(first.plus(2 * number), 0, number, 1)));
        },
        0,
    ),
    (
        "the same, renegable",
        both,
        |victim| {
            victim.flood(|first, number| Chunk::IData(i_data(first.plus(1 + 2 * number), 0, number, 1)));
        },
        0,
    ),
    (
        "two such fragments of each message",
        interleaving,
        |victim| {
            victim.flood(|first, number| {
                Chunk::IData(i_data(first.plus(number), 0, number / 2, 1 + 2 * (number % 2)))
            });
        },
        0,
    ),
    (
        "one-byte I-DATA fragments of messages that never end",
        interleaving,
        |victim| {
            victim.flood(|first, number| {
                Chunk::IData(IData {
                    unordered: true,
                    ..i_data(first.plus(2 * number), 0, number, 0)
                })
            });
        },
        0,
    ),
    // M → the first fragment of a message on each stream; the application reads all that it can
    (
        "messages of which the application has a part",
        interleaving,
        |victim| {
            let first = |tsn, number| Chunk::IData(i_data(tsn, number as u16, 0, 0));
            for packet in 0..PACKETS {
                victim.send_made(packet, &|tsn: Tsn, number| first(tsn.plus(number), number));
                victim.read();
            }
        },
        CHUNKS as usize * PACKETS as usize * INTERLEAVED_STREAM,
    ),
    // M → unordered messages on every other TSN, then on those between, from the lowest on
    (
        "gaps that are closed one after the other",
        |_| (),
        |victim| {
            for from in [1, 0] {
                victim.flood(|first, number| {
                    let data = data(first.plus(from + 2 * number), 0, 0);
                    Chunk::Data(Data {
                        unordered: true,
                        ..data
                    })
                });
            }
        },
        0,
    ),
    (
        "fragments that close gaps",
        |_| (),
        |victim| {
            for from in [1, 0] {
                victim.flood(|first, number| {
                    let number = from + 2 * number;
                    let data = data(first.plus(number), 0, 0);
                    Chunk::Data(Data {
                        beginning: number == 0,
                        ending: false,
                        ..data
                    })
                });
            }
        },
        0,
    ),
    (
        "one-byte messages on streams that are read separately",
        |_| (),
        |victim| {
            let (association, now) = victim.association();
            association.separate_new_streams(now, true);
            for packet in 0..PACKETS {
                let message = |first: Tsn, number| Chunk::Data(data(first.plus(number), number as u16, 0));
                victim.send_made(packet, &message);
                if packet < PACKETS / 2 {
                    let (association, now) = victim.association();
                    for stream in packet * CHUNKS..(packet + 1) * CHUNKS {
                        let mut stream = association.stream(now, StreamId(stream as u16));
                        while stream.recv().is_some() {}
                    }
                }
            }
        },
        CHUNKS as usize * PACKETS as usize * (STREAM + SEPARATE_STREAM),
    ),
    // M → DATA on a stream that does not exist, in every other TSN
    (
        "gaps without data",
        |config| config.streams.max_inbound = 10,
        |victim| {
            victim.flood(|first, number| Chunk::Data(data(first.plus(1 + 2 * number), 10, 0)));
        },
        0,
    ),
    // M → notices for messages that have not come
    (
        "notices of selective forward TSN",
        |_| (),
        |victim| {
            victim.flood(|first, number| {
                Chunk::SelectiveForwardTsn(SelectiveForwardTsn {
                    tsn: first.plus(50_000),
                    stream: StreamId((number % 1000) as u16),
                    number: MessageNumber::Ssn(Ssn(1 + (number / 1000) as u16)),
                })
            });
        },
        1000 * STREAM,
    ),
    // M → DATA (900 bytes), PAD; the datagrams have 3,000 bytes
    (
        "small messages in large datagrams",
        |_| (),
        |victim| {
            for number in 0..4 * RECEIVE / 900 {
                let data = data(victim.first.plus(number), 0, number as u16);
                let payload = Bytes::from(vec![7; 900]);
                victim.send(&[
                    Chunk::Data(Data { payload, ..data }),
                    Chunk::Pad(Pad { len: 2000 }),
                ]);
            }
        },
        0,
    ),
];

/// The environment variable that names the shape that a process measures.
const VARIABLE: &str = "ANABRANCH_MEASURED_SHAPE";

/// Measures one shape, if [`each_shape_stays_within_its_row`] started the process.
#[test]
fn measured_shape() {
    let Some(shape) = std::env::var(VARIABLE)
        .ok()
        .and_then(|number| number.parse::<usize>().ok())
    else {
        return;
    };
    let (_, settings, packets, _) = SHAPES[shape];
    // The first association allocates some memory once.
    drop(Victim::new(settings));
    let mut victims = Vec::with_capacity(ASSOCIATIONS);
    let before = resident("self");
    for _ in 0..ASSOCIATIONS {
        let mut victim = Victim::new(settings);
        packets(&mut victim);
        victims.push(victim);
    }
    let grown = resident("self").saturating_sub(before) / ASSOCIATIONS;
    let (association, _) = victims[0].association();
    let stats = association.stats();
    println!("measured {grown} {} {}", stats.unread_bytes, stats.a_rwnd);
}

/// `buffers.receive`: whatever a peer sends, the memory of received data stays within the row.
#[test]
fn each_shape_stays_within_its_row() {
    let mut failures = Vec::new();
    for (number, (name, _, _, more)) in SHAPES.iter().enumerate() {
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["measured_shape", "--exact", "--nocapture"])
            .env(VARIABLE, number.to_string())
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&child.stdout);
        let numbers: Vec<usize> = text
            .split_once("measured ")
            .and_then(|(_, rest)| rest.lines().next())
            .map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect())
            .unwrap_or_default();
        let [grown, unread, a_rwnd] = numbers[..] else {
            panic!("{name}: {text}{}", String::from_utf8_lossy(&child.stderr))
        };
        let row = ROW + EMPTY + more;
        println!("{name}: {grown} bytes, of at most {row}; {unread} bytes unread, window {a_rwnd}");
        if grown > row {
            failures.push(format!("{name}: {grown} bytes, more than {row}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
