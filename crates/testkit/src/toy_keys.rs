//! Keys without cryptography, and a key management that sends the messages of the TLS handshake without TLS: with these, the protection of
//! packets is tested where no cryptography is. Nobody is kept from reading or forging such packets on purpose.

use anabranch_proto::{
    Agreement, FIRST_EPOCH, InitGuard, KeyError, KeyLimits, KeyManager, KeyRole, ProtectionConfig, RecordKey,
    Timestamp,
};
use bytes::Bytes;

/// Mixes the bits of a number.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(0x7F4A_7C15);
    (number ^ (number >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ (number >> 32)
}

/// Settings that protect packets with toy keys.
pub fn protect(config: &mut anabranch_proto::Config) {
    config.authentication = None;
    config.require_protection(ProtectionConfig::default());
}

/// Settings that protect packets with toy keys, and that keep restart keys.
pub fn protect_with_restarts(config: &mut anabranch_proto::Config) {
    config.authentication = None;
    let mut protection = ProtectionConfig::default();
    protection.restart = true;
    config.require_protection(protection);
}

/// A key: the same number at both ends.
#[derive(Clone, Copy, Debug)]
pub struct ToyKey {
    /// The number.
    pub secret: u64,
    /// How often it may be used.
    pub limits: KeyLimits,
}

impl ToyKey {
    /// The key with this number and no limits.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        let limits = KeyLimits {
            sealed: u64::MAX,
            failed: u64::MAX,
        };
        Self { secret, limits }
    }

    fn apply(&self, sequence: u64, content: &mut [u8]) {
        let mut state = mix(self.secret ^ sequence);
        for block in content.chunks_mut(8) {
            state = mix(state);
            block
                .iter_mut()
                .zip(state.to_be_bytes())
                .for_each(|(byte, mask)| *byte ^= mask);
        }
    }

    fn tag(&self, sequence: u64, header: [u8; 3], encrypted: &[u8]) -> [u8; 16] {
        let mut state = mix(self.secret.rotate_left(32) ^ sequence);
        for block in encrypted.chunks(8).chain([&header[..]]) {
            let mut bytes = [0; 8];
            bytes[..block.len()].copy_from_slice(block);
            state = mix(state ^ u64::from_be_bytes(bytes));
        }
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&state.to_be_bytes());
        tag[8..].copy_from_slice(&mix(state).to_be_bytes());
        tag
    }
}

impl RecordKey for ToyKey {
    fn seal(&self, sequence: u64, header: [u8; 3], content: &mut [u8]) -> Option<[u8; 16]> {
        self.apply(sequence, content);
        Some(self.tag(sequence, header, content))
    }

    fn open(&self, sequence: u64, header: [u8; 3], record: &mut [u8]) -> bool {
        let Some((content, tag)) = record.split_last_chunk_mut::<16>() else {
            return false;
        };
        let authentic = *tag == self.tag(sequence, header, content);
        self.apply(sequence, content);
        authentic
    }

    fn mask(&self, sample: [u8; 16]) -> [u8; 2] {
        let mut first = [0; 8];
        first.copy_from_slice(&sample[..8]);
        let [high, low, ..] = mix(self.secret ^ u64::from_be_bytes(first)).to_be_bytes();
        [high, low]
    }

    fn limits(&self) -> KeyLimits {
        self.limits
    }
}

/// The messages, in their order.
const HELLO: u8 = 1;
const KEYS: u8 = 2;
const FINISHED: u8 = 3;
const ESTABLISHED: u8 = 4;

/// Restart keys, as an endpoint stores them.
#[derive(Clone, Copy, Debug)]
pub struct ToyRestartKeys {
    /// Their epoch.
    pub epoch: u64,
    /// For packets of the peer.
    pub receiving: ToyKey,
    /// For packets to the peer.
    pub sending: ToyKey,
}

impl ToyRestartKeys {
    /// Restarts an association whose INIT was not answered yet.
    ///
    /// # Errors
    /// As [`KeyManager::restart`].
    pub fn restart(self, manager: &mut KeyManager<'_>) -> Result<(), KeyError> {
        let (receiving, sending) = (Box::new(self.receiving), Box::new(self.sending));
        manager.restart(self.epoch, receiving, sending)
    }
}

/// The key management of one association.
#[derive(Clone, Debug, Default)]
pub struct ToyKeys {
    /// Limits of all keys; `None` for none.
    pub limits: Option<KeyLimits>,
    /// The messages so far, and whether each arrived protected.
    pub messages: Vec<(Bytes, bool)>,
    /// The newest restart keys, if both endpoints keep them.
    pub stored: Option<ToyRestartKeys>,
}

impl ToyKeys {
    fn key(&self, agreement: &Agreement, of: KeyRole, epoch: u64) -> ToyKey {
        let parameters = agreement.client.iter().chain(&agreement.server);
        let secret = parameters.fold(epoch, |state, byte| mix(state ^ u64::from(*byte)));
        let mut key = ToyKey::new(mix(secret ^ u64::from(of == KeyRole::Client)));
        key.limits = self.limits.unwrap_or(key.limits);
        key
    }

    fn restart_keys(&self, agreement: &Agreement, epoch: u64) -> ToyRestartKeys {
        let key = |of| ToyKey::new(mix(self.key(agreement, of, epoch).secret));
        ToyRestartKeys {
            epoch,
            receiving: key(agreement.role.other()),
            sending: key(agreement.role),
        }
    }

    /// Begins: the client sends its first message. Nothing happens without protection.
    ///
    /// # Panics
    /// If the message cannot be sent.
    pub fn begin(&mut self, now: Timestamp, manager: &mut KeyManager<'_>, epoch: u64) {
        if manager
            .agreement()
            .is_some_and(|agreed| agreed.role == KeyRole::Client || epoch > FIRST_EPOCH)
        {
            manager
                .send(now, Bytes::from(vec![epoch as u8, HELLO]))
                .expect("sent");
        }
    }

    /// Handles the messages that arrived. Keys are installed in the order of draft-porfiri-tsvwg-sctp-dtls-handshake §6.1 and §6.2.
    ///
    /// # Panics
    /// If a key is of the wrong epoch.
    pub fn handle(&mut self, now: Timestamp, manager: &mut KeyManager<'_>) {
        let Some(agreement) = manager.agreement().cloned() else {
            return;
        };
        while let Some((part, protected)) = manager.recv(now) {
            let bytes = Bytes::from(part.payload.pieces().concat());
            self.messages.push((bytes.clone(), protected));
            let [epoch, message] = bytes[..] else {
                manager.fail(now, "a message that nobody sends");
                return;
            };
            let number = u64::from(epoch);
            let (own, peer) = (agreement.role, agreement.role.other());
            let receiving = Box::new(self.key(&agreement, peer, number));
            let sending = Box::new(self.key(&agreement, own, number));
            let restart = self.restart_keys(&agreement, number);
            let keeps = agreement.permits_restart();
            match message {
                HELLO | KEYS => manager
                    .install_receiving(number, receiving)
                    .expect("the next epoch"),
                FINISHED => manager
                    .install_sending(now, number, sending)
                    .expect("the next epoch"),
                ESTABLISHED if protected => manager
                    .install_sending(now, number, sending)
                    .expect("the next epoch"),
                _ => manager.fail(now, "a message that nobody sends"),
            }
            if keeps && message < FINISHED {
                let (receiving, sending) = (Box::new(restart.receiving), Box::new(restart.sending));
                manager
                    .install_restart(number, receiving, sending)
                    .expect("permitted");
            } else if keeps {
                // Before the peer can use these keys alone, and not before it has them.
                self.stored = Some(restart);
            }
            if message < ESTABLISHED {
                // The association may have ended.
                let _ = manager.send(now, Bytes::from(vec![epoch, message + 1]));
            }
            if message >= FINISHED && number == FIRST_EPOCH {
                manager.require(now);
            }
        }
    }
}

/// A guard whose proof is a checksum that begins with a secret. A real one is a keyed hash.
#[derive(Debug)]
pub struct ToyGuard(pub u32);

impl InitGuard for ToyGuard {
    fn prove(&self, init: &[u8]) -> Vec<u8> {
        let add = |sum: u32, byte: &u8| sum.wrapping_mul(31).wrapping_add((*byte).into());
        init.iter().fold(self.0, add).to_be_bytes().to_vec()
    }

    fn accepts(&self, init: &[u8], proof: &[u8]) -> bool {
        self.prove(init) == proof
    }
}
