//! Protected packets against vectors that another implementation made (`vectors.py`).

use anabranch_proto::RecordKey;
use anabranch_proto::wire::chunk::{Chunk, Dtls};
use anabranch_proto::wire::packet::{Packet, PacketWriter};
use anabranch_tls::{DtlsKey, Fingerprint, Suite};
use bytes::Bytes;
use serde_json::Value;

fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// The function `fixed` of the script.
fn fixed(label: &str, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < length {
        out.extend_from_slice(Fingerprint::of(format!("{label} {}", out.len()).as_bytes()).as_bytes());
    }
    out.truncate(length);
    out
}

struct Vector {
    key: DtlsKey,
    epoch: u8,
    sequence: u64,
    chunks: Vec<u8>,
    hash: String,
    packet: Option<Vec<u8>>,
}

fn vectors() -> Vec<Vector> {
    let file: Value = serde_json::from_str(include_str!("vectors.json")).unwrap();
    let read = |vector: &Value| {
        let text = |name: &str| vector[name].as_str().unwrap();
        let suite = match text("suite") {
            "Aes128Gcm" => Suite::Aes128Gcm,
            "Aes256Gcm" => Suite::Aes256Gcm,
            _ => Suite::ChaCha20Poly1305,
        };
        let iv = bytes(text("iv")).try_into().unwrap();
        let chunks = match vector["chunks"].as_u64() {
            Some(len) => fixed(text("label"), len as usize),
            None => bytes(text("chunks")),
        };
        Vector {
            key: DtlsKey::new(suite, &bytes(text("key")), &bytes(text("sn_key")), iv).unwrap(),
            epoch: vector["epoch"].as_u64().unwrap() as u8,
            sequence: vector["sequence"].as_u64().unwrap(),
            chunks,
            hash: text("sha256").to_owned(),
            packet: vector["packet"].as_str().map(bytes),
        }
    };
    file["records"].as_array().unwrap().iter().map(read).collect()
}

fn hash(packet: &[u8]) -> String {
    let hash = Fingerprint::of(packet);
    hash.to_string().replace(':', "").to_lowercase()
}

#[test]
fn packets_are_encrypted_as_the_vectors() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 15);
    for vector in vectors {
        let mut content = vector.chunks.clone();
        content.push(23);
        let number = (vector.sequence as u16).to_be_bytes();
        let header = Dtls::record_header(vector.epoch, number);
        let tag = vector.key.seal(vector.sequence, header, &mut content).unwrap();
        content.extend_from_slice(&tag);
        let [high, low] = vector.key.mask(content[..16].try_into().unwrap());
        let chunk = Chunk::Dtls(Dtls {
            restart: false,
            epoch: vector.epoch & 3,
            sequence: [number[0] ^ high, number[1] ^ low],
            encrypted: content.into(),
        });
        let header = anabranch_proto::wire::packet::CommonHeader {
            source_port: 40_000,
            destination_port: 7,
            verification_tag: anabranch_proto::VerificationTag(0xDEAD_BEEF),
        };
        let mut packet = Vec::new();
        let mut writer = PacketWriter::new(&mut packet, header, 20_000);
        writer.push(&chunk);
        let _ = writer.finish_with_zero_checksum();
        assert_eq!(hash(&packet), vector.hash);
    }
}

#[test]
fn packets_of_the_vectors_are_decrypted() {
    for vector in vectors() {
        let Some(bytes) = vector.packet else { continue };
        let packet = Packet::parse_unchecked(Bytes::from(bytes)).unwrap();
        let raw = packet.chunks().next().unwrap().unwrap();
        let chunk = Dtls::decode(&raw).unwrap();
        let [high, low] = vector.key.mask(chunk.encrypted[..16].try_into().unwrap());
        let number = [chunk.sequence[0] ^ high, chunk.sequence[1] ^ low];
        assert_eq!(u16::from_be_bytes(number), vector.sequence as u16);
        let header = Dtls::record_header(chunk.epoch, number);
        let mut record = chunk.encrypted.to_vec();
        assert!(vector.key.open(vector.sequence, header, &mut record));
        record.truncate(record.len() - 16);
        assert_eq!(record.pop(), Some(23));
        assert_eq!(record, vector.chunks);
        let mut record = chunk.encrypted.to_vec();
        assert!(!vector.key.open(vector.sequence + 1, header, &mut record));
    }
}

#[test]
fn wrong_lengths_are_refused() {
    assert!(DtlsKey::new(Suite::Aes128Gcm, &[0; 15], &[0; 16], [0; 12]).is_none());
    assert!(DtlsKey::new(Suite::Aes128Gcm, &[0; 16], &[0; 32], [0; 12]).is_none());
}
