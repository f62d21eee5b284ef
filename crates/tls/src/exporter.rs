//! The keys of an epoch from a TLS handshake (draft-porfiri-tsvwg-sctp-dtls-handshake §5).

use anabranch_proto::{Agreement, KeyRole};
use rustls::Connection;
use zeroize::Zeroizing;

use crate::record::{DtlsKey, IV_LEN};
use crate::suite::Suite;

/// The label of all exports.
const LABEL: &[u8] = b"EXPORTER_TLS_FOR_DTLS_IN_SCTP";

/// The key roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum KeyUse {
    /// For ordinary packets.
    Primary = 0,
    /// For a restart of the association.
    Restart = 1,
}

/// The kinds of key material.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyKind {
    /// The key of the AEAD.
    Key = 0,
    /// The key for sequence numbers.
    SequenceNumber = 1,
    /// The initialization vector.
    Iv = 2,
}

/// The context of an export: the endpoint that sends with the key, the kind of key material, and the parameters of both endpoints, that of the
/// client first. The draft orders them by initiator and responder, which is the same unless the initiator becomes the server; if both
/// endpoints set up the association at once, only the roles are the same at both.
#[must_use]
pub fn exporter_context(sender: KeyRole, kind: KeyKind, agreement: &Agreement) -> Vec<u8> {
    context(KeyUse::Primary, sender, kind, agreement)
}

/// The context of an export of restart keys: see [`exporter_context`].
#[must_use]
pub fn restart_exporter_context(sender: KeyRole, kind: KeyKind, agreement: &Agreement) -> Vec<u8> {
    context(KeyUse::Restart, sender, kind, agreement)
}

fn context(used: KeyUse, sender: KeyRole, kind: KeyKind, agreement: &Agreement) -> Vec<u8> {
    let direction = u8::from(sender == KeyRole::Server);
    [
        &[direction, used as u8, kind as u8][..],
        &agreement.client,
        &agreement.server,
    ]
    .concat()
}

/// The secrets of one direction and one epoch, wiped when they are dropped.
pub(crate) struct Material {
    pub(crate) suite: Suite,
    /// The key of the AEAD.
    pub(crate) key: Zeroizing<Vec<u8>>,
    /// The key for sequence numbers.
    pub(crate) sn_key: Zeroizing<Vec<u8>>,
    /// The initialization vector.
    pub(crate) iv: Zeroizing<[u8; IV_LEN]>,
}

impl Material {
    pub(crate) fn key(&self) -> Option<DtlsKey> {
        DtlsKey::new(self.suite, &self.key, &self.sn_key, *self.iv)
    }
}

/// The secrets with which the TLS role `sender` of a finished handshake sends.
pub(crate) fn export(
    connection: &Connection,
    used: KeyUse,
    sender: KeyRole,
    agreement: &Agreement,
) -> Option<Material> {
    let suite = Suite::of(connection.negotiated_cipher_suite()?)?;
    let get = |kind, len| {
        let context = context(used, sender, kind, agreement);
        let mut output = Zeroizing::new(vec![0; len]);
        connection
            .export_keying_material(&mut output[..], LABEL, Some(&context))
            .ok()?;
        Some(output)
    };
    let mut iv = Zeroizing::new([0; IV_LEN]);
    iv.copy_from_slice(&get(KeyKind::Iv, IV_LEN)?);
    Some(Material {
        suite,
        key: get(KeyKind::Key, suite.key_len())?,
        sn_key: get(KeyKind::SequenceNumber, suite.key_len())?,
        iv,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use anabranch_proto::RecordKey;
    use aws_lc_rs::{digest, hmac};
    use rustls::KeyLog;
    use serde_json::Value;

    use super::*;
    use crate::identity::Identity;
    use crate::key_file::SecretKey;
    use crate::settings::TlsSettings;
    use crate::trust::Trust;

    /// HKDF-Expand-Label (RFC 8446 §7.1), written apart from the TLS library.
    fn expand(
        algorithm: hmac::Algorithm,
        secret: &[u8],
        label: &[u8],
        context: &[u8],
        len: usize,
    ) -> Vec<u8> {
        let key = hmac::Key::new(algorithm, secret);
        let label = [b"tls13 ", label].concat();
        let (mut out, mut block) = (Vec::new(), Vec::new());
        let info = [
            &(len as u16).to_be_bytes()[..],
            &[label.len() as u8],
            &label,
            &[context.len() as u8],
            context,
        ]
        .concat();
        while out.len() < len {
            let counter = [(out.len() / key.algorithm().len() + 1) as u8];
            block = hmac::sign(&key, &[&block[..], &info, &counter].concat())
                .as_ref()
                .to_vec();
            out.extend_from_slice(&block);
        }
        out.truncate(len);
        out
    }

    trait Len {
        fn len(&self) -> usize;
    }

    impl Len for hmac::Algorithm {
        fn len(&self) -> usize {
            self.digest_algorithm().output_len()
        }
    }

    /// The exporter (RFC 8446 §7.5) from the exporter secret of a handshake.
    fn exported(algorithm: hmac::Algorithm, secret: &[u8], context: &[u8], len: usize) -> Vec<u8> {
        let hash = |bytes: &[u8]| digest::digest(algorithm.digest_algorithm(), bytes);
        let derived = expand(algorithm, secret, LABEL, hash(b"").as_ref(), algorithm.len());
        expand(algorithm, &derived, b"exporter", hash(context).as_ref(), len)
    }

    fn agreement(client: &str, server: &str) -> Agreement {
        Agreement {
            role: KeyRole::Client,
            method: 192,
            client: bytes(client).into(),
            server: bytes(server).into(),
        }
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(pair).collect()
    }

    fn algorithm(suite: &str) -> hmac::Algorithm {
        if suite == "Aes256Gcm" {
            hmac::HMAC_SHA384
        } else {
            hmac::HMAC_SHA256
        }
    }

    /// Contexts and exports are those of another implementation (tests/vectors.py).
    #[test]
    fn contexts_and_exports_are_those_of_the_vectors() {
        let vectors: Value = serde_json::from_str(include_str!("../tests/vectors.json")).unwrap();
        let exports = vectors["exports"].as_array().unwrap();
        assert_eq!(exports.len(), 36);
        for vector in exports {
            let text = |name: &str| vector[name].as_str().unwrap();
            let agreement = agreement(text("client"), text("server"));
            let sender = [KeyRole::Client, KeyRole::Server][vector["direction"].as_u64().unwrap() as usize];
            let kinds = [KeyKind::Key, KeyKind::SequenceNumber, KeyKind::Iv];
            let kind = kinds[vector["kind"].as_u64().unwrap() as usize];
            let context = match vector["role"].as_u64().unwrap() {
                0 => exporter_context(sender, kind, &agreement),
                _ => restart_exporter_context(sender, kind, &agreement),
            };
            assert_eq!(context, bytes(text("context")));
            let expected = bytes(text("export"));
            let ours = exported(
                algorithm(text("suite")),
                &bytes(text("exporter_secret")),
                &context,
                expected.len(),
            );
            assert_eq!(ours, expected);
        }
    }

    #[derive(Debug, Default)]
    struct Log(Mutex<Vec<u8>>);

    impl KeyLog for Log {
        fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
            if label == "EXPORTER_SECRET" {
                *self.0.lock().unwrap() = secret.to_vec();
            }
        }
    }

    /// The keys of a handshake are those exports of its exporter secret: they decrypt what the other end's keys encrypt.
    #[test]
    fn the_keys_of_a_handshake_are_its_exports() {
        let identity = Identity::from_key(&SecretKey::generate().unwrap()).unwrap();
        let settings = TlsSettings::new(&identity, &Trust::accept_anybody_even_an_attacker()).unwrap();
        let log = Arc::new(Log::default());
        let settings = settings.with_tls_log(log.clone());
        let (mut client, mut server) = (settings.connect().unwrap(), settings.accept().unwrap());
        for _ in 0..4 {
            let pass = |from: &mut Connection, to: &mut Connection| {
                let mut records = Vec::new();
                while from.wants_write() {
                    from.write_tls(&mut records).unwrap();
                }
                let mut rest = &records[..];
                while !rest.is_empty() {
                    to.read_tls(&mut rest).unwrap();
                    to.process_new_packets().unwrap();
                }
            };
            pass(&mut client, &mut server);
            pass(&mut server, &mut client);
        }
        let agreement = agreement("8006000a0102030403c0", "8006000a0506070802c0");
        let secret = log.0.lock().unwrap().clone();
        let both = [KeyRole::Client, KeyRole::Server];
        let uses = [KeyUse::Primary, KeyUse::Restart];
        for (sender, used) in both
            .into_iter()
            .flat_map(|sender| uses.map(|used| (sender, used)))
        {
            let suite = Suite::of(client.negotiated_cipher_suite().unwrap()).unwrap();
            let algorithm = if suite == Suite::Aes256Gcm {
                hmac::HMAC_SHA384
            } else {
                hmac::HMAC_SHA256
            };
            let of = |kind, len| exported(algorithm, &secret, &context(used, sender, kind, &agreement), len);
            let iv = of(KeyKind::Iv, IV_LEN).try_into().unwrap();
            let (key, sn_key) = (
                of(KeyKind::Key, suite.key_len()),
                of(KeyKind::SequenceNumber, suite.key_len()),
            );
            let expected = DtlsKey::new(suite, &key, &sn_key, iv).unwrap();
            let other = export(
                if sender == KeyRole::Client {
                    &server
                } else {
                    &client
                },
                used,
                sender,
                &agreement,
            )
            .and_then(|material| material.key())
            .unwrap();
            let ours = export(
                if sender == KeyRole::Client {
                    &client
                } else {
                    &server
                },
                used,
                sender,
                &agreement,
            )
            .and_then(|material| material.key())
            .unwrap();
            let mut content = *b"chunks";
            let tag = ours.seal(7, [40, 0, 7], &mut content).unwrap();
            for key in [expected, other] {
                let mut record = [&content[..], &tag].concat();
                assert!(key.open(7, [40, 0, 7], &mut record));
                assert!(record.starts_with(b"chunks"));
                assert_eq!(key.mask([9; 16]), ours.mask([9; 16]));
            }
        }
    }
}
