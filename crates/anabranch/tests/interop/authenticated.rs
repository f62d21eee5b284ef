//! Authenticated chunks with usrsctp (RFC 4895): what each side requires, the shared keys, and a change of the active key.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch::{
    Association, AssociationState, AuthenticationConfig, AuthenticationEvent, Event, HmacAlgorithm,
    SendOptions, SharedKey,
};
use tokio::task::JoinHandle;

use crate::peer_messages::{Sizes, send_all};
use crate::{Exchange, Outcome, verdict};

/// Shared keys: identifier, secret.
type Keys = &'static [(u16, &'static str)];

/// The settings of authentication at both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The chunk types that each side requires to be signed by the other.
    pub(crate) peer_signs: &'static [u8],
    pub(crate) we_sign: &'static [u8],
    /// The shared keys of each side. The first is active; after half of the messages the second, if there is one.
    pub(crate) our_keys: Keys,
    pub(crate) peer_keys: Keys,
}

const AUTH: u8 = 15;
/// HMAC Identifier of SHA-1. usrsctp 0.9.5 has no other.
const SHA_1: u16 = 1;
const FIRST: Keys = &[(1, "a secret of both")];
const BOTH: Keys = &[(1, "a secret of both"), (7, "the next secret")];

impl Terms {
    /// DATA and SACK of the peer are signed with the empty key 0.
    pub(crate) const PEER_SIGNS: Self = Self {
        peer_signs: &[0, 3],
        we_sign: &[],
        our_keys: &[],
        peer_keys: &[],
    };

    /// DATA and SACK are signed both ways.
    pub(crate) const KEYS: Self = Self {
        peer_signs: &[0, 3],
        we_sign: &[0, 3],
        our_keys: FIRST,
        peer_keys: FIRST,
    };

    /// The same with a change of the key.
    pub(crate) const CHANGE: Self = Self {
        our_keys: BOTH,
        peer_keys: BOTH,
        ..Self::KEYS
    };

    /// I-DATA and SACK are signed both ways. usrsctp 0.9.5 signs I-DATA only if DATA has to be signed too.
    pub(crate) const INTERLEAVED: Self = Self {
        peer_signs: &[0, 3, 64],
        we_sign: &[64, 3],
        ..Self::KEYS
    };

    /// The same identifier with different secrets.
    pub(crate) const SECRETS_DIFFER: Self = Self {
        peer_keys: &[(1, "a secret of one")],
        ..Self::KEYS
    };

    /// Each side signs with a key that the other does not have.
    pub(crate) const KEYS_DIFFER: Self = Self {
        peer_keys: &[(2, "a secret of both")],
        ..Self::KEYS
    };

    /// A part of a file name.
    pub(crate) fn name(self) -> String {
        let keys = |keys: Keys| -> String {
            keys.iter()
                .map(|(id, secret)| format!("{id}{}", secret.len()))
                .collect()
        };
        format!(
            "-signs-{:?}-{}-{}",
            self.peer_signs,
            keys(self.our_keys),
            keys(self.peer_keys)
        )
    }

    /// The settings of this side. A key for later is not among them.
    pub(crate) fn config(self) -> AuthenticationConfig {
        let mut authentication = AuthenticationConfig::default();
        authentication.keys = self.our_keys.iter().take(1).map(key).collect();
        authentication.chunks = self.peer_signs.to_vec();
        authentication
    }

    /// The arguments of usrsctp's program.
    pub(crate) fn arguments(self, messages: u64) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        if !self.we_sign.is_empty() {
            let kinds: Vec<String> = self.we_sign.iter().map(u8::to_string).collect();
            add("--auth-chunks", kinds.join(","));
        }
        for (id, secret) in self.peer_keys {
            add("--auth-key", format!("{id}:{secret}"));
        }
        if self.peer_keys.len() > 1 {
            add("--next-key-after", (messages / 2).to_string());
        }
        arguments
    }

    /// Whether the key changes.
    pub(crate) fn change(&self) -> bool {
        self.our_keys.len() > 1
    }
}

fn key((id, secret): &(u16, &'static str)) -> SharedKey {
    SharedKey {
        id: *id,
        secret: (*secret).into(),
    }
}

/// Adds the second key now, signs with it when half of the peer's messages have arrived, and removes the first key when the peer signs with
/// the second and has sent everything.
pub(crate) fn change_key(association: &Association, terms: Terms, messages: u64) -> JoinHandle<()> {
    let association = association.clone();
    let [(first, _), second] = terms.our_keys else {
        panic!("there are two keys");
    };
    association.put_key(key(second)).expect("authentication");
    let received = async move |association: &Association, count| {
        while association.stats().counters.messages_received < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::spawn(async move {
        received(&association, messages / 2).await;
        association.activate_key(second.0).expect("the key is there");
        received(&association, messages).await;
        let new = AuthenticationEvent::NewKey(second.0);
        while association.next_event().await.expect("the association lives") != Event::Authentication(new) {}
        association.remove_key(*first).expect("it is not active");
    })
}

/// The numbers of AUTH chunks in packets of one side, by key and HMAC.
fn signatures(outcome: &Outcome, ours: bool) -> BTreeMap<(u16, u16), u64> {
    let mut found = BTreeMap::new();
    for chunk in &outcome.chunks {
        if chunk.kind == AUTH && (chunk.source.port() == outcome.port) == ours {
            let half = |at: usize| u16::from_be_bytes([chunk.value[at], chunk.value[at + 1]]);
            *found.entry((half(0), half(2))).or_default() += 1;
        }
    }
    found
}

/// Everything that was required was signed, with the keys of these terms, and no signature was wrong.
pub(crate) fn check(outcome: &Outcome, terms: Terms) {
    let counters = &outcome.stats.counters;
    assert_eq!(
        (counters.packets_unverified, counters.chunks_unauthenticated),
        (0, 0),
        "{counters:?}"
    );
    let right = r#""missing":0,"wrong":0,"unknown_key":0,"unknown_hmac":0"#;
    assert!(outcome.verdict.contains(right), "{}", outcome.verdict);
    let stats = outcome.stats.authentication.as_ref().expect("it is negotiated");
    assert_eq!(stats.hmac, HmacAlgorithm::Sha1);
    let sorted = |kinds: &[u8]| {
        let mut kinds = kinds.to_vec();
        kinds.sort_unstable();
        kinds
    };
    assert_eq!(stats.chunks_required, sorted(terms.peer_signs));
    // usrsctp adds ASCONF and ASCONF ACK to its list.
    let signed: Vec<u8> = stats
        .chunks_signed
        .iter()
        .copied()
        .filter(|kind| !matches!(kind, 128 | 193))
        .collect();
    assert_eq!(signed, sorted(terms.we_sign));
    for (ours, keys) in [(true, terms.our_keys), (false, terms.peer_keys)] {
        let found = signatures(outcome, ours);
        println!("AUTH chunks by key and HMAC, ours {ours}: {found:?}");
        let expected: Vec<(u16, u16)> = keys.iter().map(|(id, _)| (*id, SHA_1)).collect();
        assert!(found.keys().eq(&expected), "{found:?}");
        assert!(found.values().all(|count| *count > 100), "{found:?}");
    }
}

/// Set-up succeeds, but each side discards the data of the other. `reported` is the count in which usrsctp's program has them.
pub(crate) async fn nothing_passes(exchange: Exchange, reported: &str) {
    let endpoint = exchange.open().await;
    let (child, association) = exchange.meet(&endpoint).await;
    let own = u64::from(!exchange.peer_listens);
    send_all(&association, Sizes::Mixed, own, 0..1, |_, _| {
        SendOptions::default()
    })
    .await;
    // One retransmission of ours: usrsctp has had the time to answer the first transmission.
    let counters = loop {
        let counters = association.stats().counters;
        if counters.packets_unverified > 2 && counters.timeouts > 0 {
            break counters;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(
        (counters.messages_received, counters.sacks_received),
        (0, 0),
        "{counters:?}"
    );
    assert_eq!(
        (counters.packets_verified, counters.chunks_unauthenticated),
        (0, 0),
        "{counters:?}"
    );
    assert_eq!(association.state(), AssociationState::Established);
    association.abort("the keys differ");
    association.closed().await;
    endpoint.close().await;
    let (success, verdict) = verdict(child).await;
    println!("listens {}: {verdict}{counters:?}", exchange.peer_listens);
    // usrsctp first tells of the messages that our ABORT stopped; 12 is the cause User-Initiated Abort.
    assert!(
        !success && verdict.contains("could not be sent (error 12)"),
        "{verdict}"
    );
    assert!(verdict.contains(r#""received":0,"sent""#), "{verdict}");
    let counts: Vec<&str> = ["wrong", "unknown_key"]
        .into_iter()
        .filter(|name| !verdict.contains(&format!(r#""{name}":0"#)))
        .collect();
    assert_eq!(counts, [reported], "{verdict}");
}
