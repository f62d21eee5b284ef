//! Owns the form of key logs: the key of one direction and one epoch on a line, as in the files of the variable SSLKEYLOGFILE (RFC 9850).
//! A key log decrypts captures; without [`KeyLog`] no secret leaves this crate.

use core::fmt::{self, Write as _};

use anabranch_proto::{Agreement, FIRST_EPOCH, KeyRole};
use zeroize::Zeroizing;

use crate::error::KeyLogError;
use crate::exporter::Material;
use crate::record::{DtlsKey, IV_LEN};
use crate::suite::Suite;

/// The first word of a line. RFC 9850 lets readers of TLS secrets ignore labels that they do not know.
const LABEL: &str = "SCTP_DTLS_CHUNK";

/// Bytes of the name of an association: the tie breakers of the client and of the server.
const NAME_LEN: usize = 8;

/// Where the tie breaker is in a DTLS Key Management parameter (draft-ietf-tsvwg-sctp-dtls-chunk §4.1): after type and length.
const TIE_BREAKER: core::ops::Range<usize> = 4..8;

/// Takes the keys of associations, for example to write them to a file: see [`crate::TlsSettings::key_log`]. Everyone with these keys can
/// read the messages.
pub trait KeyLog: fmt::Debug + Send + Sync {
    /// A key is going to be installed. This is called on the thread that drives the association, so it must not wait long.
    fn log(&self, key: &LoggedKey);
}

/// The key with which one endpoint of an association sends in one epoch. Secrets are wiped when it is dropped.
pub struct LoggedKey {
    association: [u8; NAME_LEN],
    sender: KeyRole,
    epoch: u64,
    material: Material,
}

impl fmt::Debug for LoggedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedKey")
            .field("sender", &self.sender)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl LoggedKey {
    pub(crate) fn new(agreement: &Agreement, sender: KeyRole, epoch: u64, material: Material) -> Self {
        let mut association = [0; NAME_LEN];
        for (name, parameter) in association
            .chunks_exact_mut(4)
            .zip([&agreement.client, &agreement.server])
        {
            if let Some(tie_breaker) = parameter.get(TIE_BREAKER) {
                name.copy_from_slice(tie_breaker);
            }
        }
        Self {
            association,
            sender,
            epoch,
            material,
        }
    }

    /// The epoch, from 3.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The key with which records are decrypted; `None` if the cryptography refuses it.
    #[must_use]
    pub fn key(&self) -> Option<DtlsKey> {
        self.material.key()
    }

    /// The line of the key, without its end: label, association, sender (its role from set-up), epoch, cipher suite, key, key for sequence numbers, and
    /// initialization vector. The association has the tie breakers of the client and of the server, which INIT and INIT ACK show; bytes
    /// are hexadecimal.
    #[must_use]
    pub fn to_line(&self) -> Zeroizing<String> {
        let material = &self.material;
        let secrets = 2 * (material.key.len() + material.sn_key.len() + material.iv.len());
        // Growth would leave copies of the secrets that nothing wipes.
        let mut line = Zeroizing::new(String::with_capacity(secrets + 128));
        let sender = match self.sender {
            KeyRole::Client => "client",
            KeyRole::Server => "server",
        };
        line.push_str(LABEL);
        line.push(' ');
        push_hex(&mut line, &self.association);
        let suite = material.suite.name();
        // Writing to a string does not fail.
        let _ = write!(line, " {sender} {} {suite}", self.epoch);
        for secret in [&material.key[..], &material.sn_key, &material.iv[..]] {
            line.push(' ');
            push_hex(&mut line, secret);
        }
        line
    }

    fn from_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut association = [0; NAME_LEN];
        association.copy_from_slice(words.next().and_then(|word| unhex(word, NAME_LEN))?.as_slice());
        let sender = match words.next()? {
            "client" => KeyRole::Client,
            "server" => KeyRole::Server,
            _ => return None,
        };
        let epoch = words.next()?.parse().ok().filter(|epoch| *epoch >= FIRST_EPOCH)?;
        let suite = Suite::named(words.next()?)?;
        let mut secret = |len| unhex(words.next()?, len);
        let (key, sn_key, iv) = (
            secret(suite.key_len())?,
            secret(suite.key_len())?,
            secret(IV_LEN)?,
        );
        let mut material = Material {
            suite,
            key,
            sn_key,
            iv: Zeroizing::new([0; IV_LEN]),
        };
        material.iv.copy_from_slice(&iv);
        words.next().is_none().then_some(Self {
            association,
            sender,
            epoch,
            material,
        })
    }
}

/// The keys of a key log. Lines with other labels, empty lines and lines that begin with `#` are ignored. A key that both endpoints logged
/// is returned once.
///
/// # Errors
/// A line of a key is malformed, or there is none.
pub fn read_key_log(text: &str) -> Result<Vec<LoggedKey>, KeyLogError> {
    let mut keys = Vec::new();
    let mut known = std::collections::HashSet::new();
    for (place, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        if words.next() != Some(LABEL) || !known.insert(line) {
            continue;
        }
        keys.push(LoggedKey::from_words(words).ok_or(KeyLogError::Line { line: place + 1 })?);
    }
    if keys.is_empty() {
        return Err(KeyLogError::Empty);
    }
    Ok(keys)
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
}

/// As many bytes, and nothing else.
fn unhex(text: &str, len: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(len));
    let digit = |digit: u8| char::from(digit).to_digit(16);
    for pair in text.as_bytes().chunks(2) {
        let [high, low] = *pair else { return None };
        bytes.push((digit(high)? << 4 | digit(low)?) as u8);
    }
    (bytes.len() == len).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(suite: &str, len: usize) -> String {
        let secret = "5a".repeat(len);
        let iv = "a5".repeat(12);
        format!("SCTP_DTLS_CHUNK 0102030405060708 client 3 {suite} {secret} {secret} {iv}")
    }

    #[test]
    fn keys_survive_their_lines() {
        for (suite, len) in [
            ("TLS_AES_128_GCM_SHA256", 16),
            ("TLS_AES_256_GCM_SHA384", 32),
            ("TLS_CHACHA20_POLY1305_SHA256", 32),
        ] {
            let line = line(suite, len);
            let text = format!("# keys\n\nCLIENT_RANDOM 00 00\n{line}\n{line}\n");
            let keys = read_key_log(&text).unwrap();
            assert_eq!(keys.len(), 1, "a key that both endpoints logged is there once");
            assert_eq!(*keys[0].to_line(), line);
            assert_eq!(keys[0].epoch(), 3);
            assert!(keys[0].key().is_some());
            assert!(!format!("{:?}", keys[0]).contains("5a"));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let good = line("TLS_AES_128_GCM_SHA256", 16);
        for text in ["", "CLIENT_RANDOM 00 00\n"] {
            assert_eq!(read_key_log(text).unwrap_err(), KeyLogError::Empty);
        }
        let wrong = [
            good.replace("client", "nobody"),
            good.replace(" 3 ", " 2 "),
            good.replace("128", "129"),
            good.replace("5a ", "5 "),
            good.replace("0102", "01"),
            good.replace("a5", "+5"),
            good[..good.len() - 2].to_owned(),
            format!("{good} more"),
        ];
        for line in wrong {
            let text = format!("{good}\n{line}\n");
            assert_eq!(
                read_key_log(&text).unwrap_err(),
                KeyLogError::Line { line: 2 },
                "{line}"
            );
        }
    }
}
