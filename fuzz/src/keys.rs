//! TLS handshakes for the keys of DTLS chunks, while somebody loses, duplicates, cuts, changes and forges messages, and records of both ends.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

use anabranch_proto::{Agreement, KeyRole, RecordKey, Timestamp};
use anabranch_tls::{Action, Identity, KeyManagement, METHOD, SecretKey, TlsSettings, Trust};
use bytes::Bytes;

use crate::input::Input;

/// The most actions that a message causes.
const MOST_ACTIONS: usize = 8;

/// The key pairs are made once.
fn settings(side: usize) -> TlsSettings {
    static KEYS: OnceLock<[SecretKey; 2]> = OnceLock::new();
    let keys = KEYS.get_or_init(|| [0, 1].map(|_| SecretKey::generate().expect("a key")));
    let identity = Identity::from_key(&keys[side]).expect("an identity");
    let trust = Trust::public_keys([keys[1 - side].public()]);
    TlsSettings::new(&identity, &trust).expect("the settings are right")
}

struct End {
    keys: KeyManagement,
    sending: Option<(u64, Box<dyn RecordKey>)>,
    receiving: Vec<(u64, Box<dyn RecordKey>)>,
    required: bool,
    failed: bool,
    /// Messages to the peer, and whether each leaves protected.
    out: VecDeque<(Bytes, bool)>,
}

impl End {
    fn new(side: usize) -> Self {
        let agreement = Agreement {
            role: [KeyRole::Client, KeyRole::Server][side],
            method: METHOD,
            client: Bytes::from_static(b"client"),
            server: Bytes::from_static(b"server"),
        };
        let mut end = Self {
            keys: KeyManagement::new(Timestamp::ZERO, settings(side), agreement),
            sending: None,
            receiving: Vec::new(),
            required: false,
            failed: false,
            out: VecDeque::new(),
        };
        end.act();
        end
    }

    fn act(&mut self) {
        let mut count = 0;
        while let Some(action) = self.keys.poll_action() {
            count += 1;
            assert!(count <= MOST_ACTIONS, "a message causes many actions");
            assert!(!self.failed, "{action:?} after the end");
            match action {
                Action::Send(message) => self.out.push_back((message, self.sending.is_some())),
                Action::InstallReceiving(epoch, key) => {
                    let last = self.receiving.last().map_or(2, |(epoch, _)| *epoch);
                    assert_eq!(epoch, last + 1, "the next epoch");
                    self.receiving.push((epoch, key));
                }
                Action::InstallSending(epoch, key) => {
                    let last = self.sending.as_ref().map_or(2, |(epoch, _)| *epoch);
                    assert_eq!(epoch, last + 1, "the next epoch");
                    self.sending = Some((epoch, key));
                }
                Action::RemoveReceiving(epoch) => self.receiving.retain(|(one, _)| *one != epoch),
                Action::Require => self.required = true,
                Action::Fail(_) => self.failed = true,
                other => panic!("{other:?}"),
            }
        }
        assert!(self.receiving.len() <= 3, "many keys are kept");
        assert!(!self.required || self.sending.is_some() && !self.receiving.is_empty());
    }

    /// Encrypts data with the present key; the peer decrypts it, or has failed, or will never have this key.
    fn seal(&self) -> Option<(u64, Vec<u8>)> {
        let (epoch, key) = self.sending.as_ref()?;
        let mut content = *b"content";
        let tag = key.seal(1, [1, 2, 3], &mut content).expect("it is short");
        Some((*epoch, [&content[..], &tag].concat()))
    }

    fn opens(&self, epoch: u64, record: &[u8]) -> bool {
        let key = self.receiving.iter().find(|(one, _)| *one == epoch);
        let mut record = record.to_vec();
        key.is_some_and(|(_, key)| key.open(1, [1, 2, 3], &mut record) && record.starts_with(b"content"))
    }
}

/// Runs the input's steps. Messages that nobody touched always give keys that fit.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut ends = [End::new(0), End::new(1)];
    let (mut now, mut touched) = (Timestamp::ZERO, false);
    while !input.is_empty() {
        let step = input.u8();
        let to = usize::from(step >> 7);
        match step % 8 {
            0..=2 => {
                if let Some((message, protected)) = ends[1 - to].out.pop_front() {
                    ends[to].keys.handle_message(now, &message, protected);
                }
            }
            3 => {
                // SCTP loses nothing: only an attacker's chunk takes the place of another.
                touched |= ends[1 - to].out.pop_front().is_some();
            }
            4 => {
                if let Some((message, protected)) = ends[1 - to].out.pop_front() {
                    let mut bytes = message.to_vec();
                    let place = usize::from(input.u16()) % bytes.len();
                    bytes[place] ^= input.u8() | 1;
                    bytes.truncate(bytes.len() - usize::from(input.u8()) % bytes.len());
                    ends[to].keys.handle_message(now, &bytes.into(), protected);
                    touched = true;
                }
            }
            5 => {
                let len = usize::from(input.u8());
                let forged = Bytes::copy_from_slice(input.take(len));
                ends[to].keys.handle_message(now, &forged, step & 64 != 0);
                touched = true;
            }
            6 => {
                now += Duration::from_secs(u64::from(input.u8()));
                ends[to].keys.handle_timeout(now);
                // The time of a handshake may be over.
                touched |= ends.iter().any(|end| end.failed);
            }
            _ => ends[to].keys.rekey(now),
        }
        ends.iter_mut().for_each(End::act);
    }
    while !touched && ends.iter().any(|end| !end.out.is_empty()) {
        for to in 0..2 {
            while let Some((message, protected)) = ends[1 - to].out.pop_front() {
                ends[to].keys.handle_message(now, &message, protected);
                ends[to].act();
            }
        }
    }
    for to in 0..2 {
        if touched || ends.iter().any(|end| end.failed) {
            break;
        }
        let (epoch, record) = ends[1 - to].seal().expect("the handshake is complete");
        assert!(ends[to].opens(epoch, &record), "the keys of the two ends differ");
    }
}
