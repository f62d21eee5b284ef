//! Two key managements that exchange messages, without SCTP between them: who is accepted, rekeying, attacks on the handshake.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_proto::{Agreement, KeyRole, KeyUsage, RecordKey, Timestamp};
use anabranch_tls::{
    AcceptedKeys, Action, Fingerprint, Identity, KeyLog, KeyManagement, LoggedKey, PeerIdentity, RestartKeys,
    SecretKey, TlsSettings, Trust, read_key_log,
};
use bytes::Bytes;

const ALICE: (&str, &str) = (
    include_str!("certificates/alice.pem"),
    include_str!("certificates/alice.key"),
);
const BOB: (&str, &str) = (
    include_str!("certificates/bob.pem"),
    include_str!("certificates/bob.key"),
);
const EXPIRED: (&str, &str) = (
    include_str!("certificates/expired.pem"),
    include_str!("certificates/expired.key"),
);
const MALLORY: (&str, &str) = (
    include_str!("certificates/mallory.pem"),
    include_str!("certificates/mallory.key"),
);
const AUTHORITY: &str = include_str!("certificates/authority.pem");

fn certified((certificate, key): (&str, &str)) -> Identity {
    Identity::from_pem(certificate, key).unwrap()
}

fn by_authority(who: (&str, &str), name: Option<&str>) -> TlsSettings {
    TlsSettings::new(&certified(who), &Trust::authorities(AUTHORITY, name).unwrap()).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1000 * seconds)
}

type Key = Box<dyn RecordKey>;

/// One end: its key management, and what a driver would have done.
struct End {
    keys: KeyManagement,
    sending: Option<(u64, Box<dyn RecordKey>)>,
    receiving: Vec<(u64, Box<dyn RecordKey>)>,
    /// The newest restart keys, for packets of the peer and to it.
    restart: Option<(u64, Key, Key)>,
    stored: Option<RestartKeys>,
    restart_ended: bool,
    required: bool,
    failed: Option<String>,
    /// Messages to the peer, and whether they leave protected.
    out: VecDeque<(Bytes, bool)>,
}

impl End {
    fn new(settings: &TlsSettings, role: KeyRole) -> Self {
        let agreement = Agreement {
            role,
            method: anabranch_tls::METHOD,
            client: Bytes::from_static(b"client"),
            server: Bytes::from_static(b"server"),
        };
        Self::with(settings, agreement)
    }

    fn with(settings: &TlsSettings, agreement: Agreement) -> Self {
        Self::of(KeyManagement::new(at(0), settings.clone(), agreement))
    }

    fn of(keys: KeyManagement) -> Self {
        let mut end = Self {
            keys,
            sending: None,
            receiving: Vec::new(),
            restart: None,
            stored: None,
            restart_ended: false,
            required: false,
            failed: None,
            out: VecDeque::new(),
        };
        end.act();
        end
    }

    fn act(&mut self) {
        while let Some(action) = self.keys.poll_action() {
            match action {
                Action::Send(message) => self.out.push_back((message, self.sending.is_some())),
                Action::InstallReceiving(epoch, key) => self.receiving.push((epoch, key)),
                Action::InstallSending(epoch, key) => self.sending = Some((epoch, key)),
                Action::RemoveReceiving(epoch) => self.receiving.retain(|(one, _)| *one != epoch),
                Action::InstallRestart(epoch, receiving, sending) => {
                    assert_eq!(self.epochs().last(), Some(&epoch), "primary keys come first");
                    self.restart = Some((epoch, receiving, sending));
                }
                Action::StoreRestart(keys) => {
                    assert_eq!(self.sending.as_ref().map(|(epoch, _)| *epoch), Some(keys.epoch()));
                    self.stored = Some(*keys);
                }
                Action::EndRestart => self.restart_ended = true,
                Action::Require => self.required = true,
                Action::Fail(why) => self.failed = Some(why.into_owned()),
                other => panic!("{other:?}"),
            }
        }
    }

    fn take(&mut self, now: Timestamp, (message, protected): &(Bytes, bool)) {
        self.keys.handle_message(now, message, *protected);
        self.act();
    }

    fn epochs(&self) -> Vec<u64> {
        self.receiving.iter().map(|(epoch, _)| *epoch).collect()
    }
}

/// Passes messages until there are none.
fn exchange(now: Timestamp, ends: &mut [End; 2]) {
    let [a, b] = ends;
    while !a.out.is_empty() || !b.out.is_empty() {
        for message in std::mem::take(&mut a.out) {
            b.take(now, &message);
        }
        for message in std::mem::take(&mut b.out) {
            a.take(now, &message);
        }
    }
}

fn pair(client: &TlsSettings, server: &TlsSettings) -> [End; 2] {
    let mut ends = [
        End::new(client, KeyRole::Client),
        End::new(server, KeyRole::Server),
    ];
    exchange(at(0), &mut ends);
    ends
}

/// Whether the second key decrypts what the first one encrypted.
fn passes(sending: &dyn RecordKey, receiving: &dyn RecordKey) -> bool {
    let mut content = *b"data";
    let tag = sending.seal(1, [1, 2, 3], &mut content).unwrap();
    let mut record = [&content[..], &tag].concat();
    receiving.open(1, [1, 2, 3], &mut record) && record.starts_with(b"data")
}

/// Whether both ends have keys, each for the packets of the other.
fn agree(ends: &[End; 2]) -> bool {
    let agrees = |from: &End, to: &End| {
        let Some((epoch, sending)) = &from.sending else {
            return false;
        };
        let receiving = to.receiving.iter().find(|(one, _)| one == epoch);
        receiving.is_some_and(|(_, receiving)| passes(&**sending, &**receiving))
    };
    agrees(&ends[0], &ends[1]) && agrees(&ends[1], &ends[0]) && ends.iter().all(|end| end.required)
}

fn no_keys(ends: &[End; 2]) -> bool {
    ends.iter().all(|end| !end.required && end.sending.is_none())
}

#[test]
fn certificates_of_an_authority() {
    let ends = pair(
        &by_authority(ALICE, Some("bob.example")),
        &by_authority(BOB, None),
    );
    assert!(agree(&ends));
    let fingerprint = certified(BOB).fingerprint();
    assert_eq!(
        ends[0].keys.peer().and_then(PeerIdentity::fingerprint),
        fingerprint
    );
    assert_eq!(ends[0].epochs(), [3]);
    // An address is a name too, and the endpoint that was connected to may demand one as well.
    assert!(agree(&pair(
        &by_authority(ALICE, Some("127.0.0.1")),
        &by_authority(BOB, Some("alice.example"))
    )));
}

/// Neither end gets keys if one refuses, and both say which one refused.
#[test]
fn other_certificates_are_refused() {
    let good = by_authority(BOB, None);
    for (client, server, who) in [
        (by_authority(ALICE, Some("carol.example")), good.clone(), 0),
        (by_authority(ALICE, None), by_authority(EXPIRED, None), 0),
        (by_authority(ALICE, None), by_authority(MALLORY, None), 0),
        (by_authority(MALLORY, None), good.clone(), 1),
        (by_authority(EXPIRED, None), good.clone(), 1),
        (
            by_authority(ALICE, None),
            by_authority(BOB, Some("carol.example")),
            1,
        ),
    ] {
        let ends = pair(&client, &server);
        assert!(no_keys(&ends));
        let why = |end: usize| ends[end].failed.clone().unwrap_or_default();
        let refusal = ["the client refused the server", "the server refused the client"][who];
        assert!(
            why(0).contains(refusal) && why(1).contains(refusal),
            "{} and {}",
            why(0),
            why(1)
        );
    }
}

#[test]
fn fingerprints_accept_one_certificate() {
    let pinned = |who, of| {
        let fingerprint = certified(of).fingerprint().unwrap();
        TlsSettings::new(&certified(who), &Trust::fingerprints([fingerprint])).unwrap()
    };
    // Names and dates are not checked.
    assert!(agree(&pair(&pinned(ALICE, EXPIRED), &pinned(EXPIRED, ALICE))));
    assert!(no_keys(&pair(&pinned(ALICE, EXPIRED), &pinned(BOB, ALICE))));
    let text = certified(BOB).fingerprint().unwrap().to_string();
    assert_eq!(text.parse::<Fingerprint>().unwrap().to_string(), text);
    assert!("AB:CD".parse::<Fingerprint>().is_err());
}

#[test]
fn certificates_of_every_usual_kind() {
    let kinds = [
        ALICE,
        (
            include_str!("certificates/rsa.pem"),
            include_str!("certificates/rsa.key"),
        ),
        (
            include_str!("certificates/p384.pem"),
            include_str!("certificates/p384.key"),
        ),
        (
            include_str!("certificates/ed25519.pem"),
            include_str!("certificates/ed25519.key"),
        ),
    ];
    let fingerprints = || kinds.map(|kind| certified(kind).fingerprint().unwrap());
    let trusting = |own| TlsSettings::new(&certified(own), &Trust::fingerprints(fingerprints())).unwrap();
    for client in kinds {
        for server in kinds {
            assert!(agree(&pair(&trusting(client), &trusting(server))));
        }
    }
}

#[test]
fn public_keys_without_certificates() {
    let [alice, bob, mallory] = [0; 3].map(|_| SecretKey::generate().unwrap());
    let settings = |own: &SecretKey, peer: &SecretKey| {
        TlsSettings::new(
            &Identity::from_key(own).unwrap(),
            &Trust::public_keys([peer.public()]),
        )
        .unwrap()
    };
    let ends = pair(&settings(&alice, &bob), &settings(&bob, &alice));
    assert!(agree(&ends));
    assert_eq!(ends[1].keys.peer(), Some(&PeerIdentity::Key(alice.public())));
    assert!(no_keys(&pair(&settings(&mallory, &bob), &settings(&bob, &alice))));
    assert!(no_keys(&pair(
        &settings(&alice, &bob),
        &settings(&mallory, &alice)
    )));
    // One end with certificates, the other without.
    assert!(no_keys(&pair(&settings(&alice, &bob), &by_authority(BOB, None))));
    let mixed = TlsSettings::new(
        &Identity::from_key(&alice).unwrap(),
        &Trust::authorities(AUTHORITY, None).unwrap(),
    );
    assert!(mixed.is_err());
}

#[test]
fn accepted_keys_change_while_an_endpoint_is_open() {
    let [server, alice, bob] = [0; 3].map(|_| SecretKey::generate().unwrap());
    let accepted = AcceptedKeys::new([alice.public()]);
    let settings = |own: &SecretKey, trust| {
        let settings = TlsSettings::new(&Identity::from_key(own).unwrap(), &trust).unwrap();
        settings.rekey_after(Duration::from_secs(100))
    };
    let of_server = settings(&server, Trust::accepted_keys(accepted.clone()));
    let client = |own| settings(own, Trust::public_keys([server.public()]));
    let mut with_alice = pair(&client(&alice), &of_server);
    assert!(agree(&with_alice) && no_keys(&pair(&client(&bob), &of_server)));
    accepted.replace([bob.public()]);
    assert!(!accepted.contains(&alice.public()) && accepted.contains(&bob.public()));
    assert!(agree(&pair(&client(&bob), &of_server)) && no_keys(&pair(&client(&alice), &of_server)));
    // An association of a peer that is not accepted any more gets no further keys.
    with_alice[0].keys.handle_timeout(at(100));
    with_alice[0].act();
    exchange(at(100), &mut with_alice);
    assert_eq!(with_alice[1].keys.epoch(), Some(3));
}

/// The parameters of set-up are part of the keys: a change of one gives other keys.
#[test]
fn a_changed_parameter_gives_other_keys() {
    let settings = by_authority(ALICE, None);
    let agreement = |role, client: &'static [u8]| Agreement {
        role,
        method: anabranch_tls::METHOD,
        client: Bytes::from_static(client),
        server: Bytes::from_static(b"server"),
    };
    let mut ends = [
        End::with(&settings, agreement(KeyRole::Client, b"client")),
        End::with(&settings, agreement(KeyRole::Server, b"changed")),
    ];
    exchange(at(0), &mut ends);
    assert!(!agree(&ends));
}

#[test]
fn rekeying_by_time_by_use_and_from_both_sides_at_once() {
    let settings = by_authority(ALICE, None).rekey_after(Duration::from_secs(100));
    let mut ends = pair(&settings, &by_authority(BOB, None));
    assert_eq!(ends[0].keys.poll_timeout(), Some(at(100)));
    ends[0].keys.handle_timeout(at(100));
    ends[0].act();
    exchange(at(100), &mut ends);
    assert!(agree(&ends));
    for end in &ends {
        assert_eq!(end.keys.epoch(), Some(4));
        assert_eq!(end.epochs(), [3, 4], "packets in flight are still decrypted");
    }
    // The older keys are forgotten after a time.
    for end in &mut ends {
        end.keys.handle_timeout(at(100 + 303));
        end.act();
        end.out.clear();
        assert_eq!(end.epochs(), [4]);
    }
    let mut ends = pair(&settings, &by_authority(BOB, None));
    for (epoch, who) in [(4, [1, 0]), (5, [0, 1]), (6, [0, 0]), (7, [1, 1])] {
        let usage = KeyUsage {
            sealed: 6_000_000,
            ..KeyUsage::default()
        };
        let fewer = KeyUsage {
            sealed: 5_999_999,
            ..usage
        };
        ends[0].keys.handle_usage(at(1), fewer);
        ends[0].act();
        assert!(ends[0].out.is_empty());
        for end in who {
            ends[end].keys.handle_usage(at(1), usage);
            ends[end].act();
        }
        exchange(at(1), &mut ends);
        assert!(agree(&ends), "{epoch}");
        assert!(ends.iter().all(|end| end.keys.epoch() == Some(epoch)));
    }
}

/// The parameters of endpoints that permit restarts, with other tie breakers for each number.
fn permitting(role: KeyRole, number: u8) -> Agreement {
    let parameter = |flags| vec![0x80, 6, 0, 10, number, 0, 0, flags, flags, 192].into();
    Agreement {
        role,
        method: anabranch_tls::METHOD,
        client: parameter(5),
        server: parameter(6),
    }
}

/// Two ends that permit restarts, after the first handshake.
fn permitting_pair(settings: [&TlsSettings; 2]) -> [End; 2] {
    let mut ends = [
        End::with(settings[0], permitting(KeyRole::Client, 1)),
        End::with(settings[1], permitting(KeyRole::Server, 1)),
    ];
    exchange(at(0), &mut ends);
    ends
}

/// draft-porfiri-tsvwg-sctp-dtls-handshake §5.4: each epoch has restart keys, if both endpoints permit restarts.
#[test]
fn each_epoch_has_restart_keys() {
    let (alice, bob) = (by_authority(ALICE, None), by_authority(BOB, None));
    let mut ends = permitting_pair([&alice, &bob]);
    for epoch in [3, 4] {
        assert!(agree(&ends));
        for (one, other) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
            let (of, _, sending) = one.restart.as_ref().unwrap();
            let (_, receiving, _) = other.restart.as_ref().unwrap();
            assert_eq!(*of, epoch);
            assert!(passes(&**sending, &**receiving));
            let (_, primary) = other.receiving.last().unwrap();
            assert!(
                !passes(&**sending, &**primary),
                "they are other keys than the primary ones"
            );
            let stored = one.stored.as_ref().unwrap();
            let stored = RestartKeys::from_bytes(&stored.to_bytes()).unwrap();
            assert_eq!((stored.epoch(), Some(stored.suite())), (epoch, one.keys.suite()));
            assert_eq!(Some(stored.peer()), one.keys.peer());
            let (_, sending) = stored.keys().unwrap();
            assert!(passes(&sending, &**receiving));
        }
        ends[1].keys.rekey(at(epoch));
        ends[1].act();
        exchange(at(epoch), &mut ends);
    }
    let ends = pair(&alice, &bob);
    assert!(
        ends.iter()
            .all(|end| end.restart.is_none() && end.stored.is_none())
    );
}

/// A client that fails before the server has its last message has the former keys in its storage, which the server has too.
#[test]
fn restart_keys_are_stored_when_the_peer_has_them() {
    let mut ends = permitting_pair([&by_authority(ALICE, None), &by_authority(BOB, None)]);
    ends[0].keys.rekey(at(1));
    ends[0].act();
    for from in [0, 1] {
        for message in std::mem::take(&mut ends[from].out) {
            ends[1 - from].take(at(1), &message);
        }
    }
    let epochs = |end: &End| {
        let installed = end.restart.as_ref().map(|(epoch, ..)| *epoch);
        (installed, end.stored.as_ref().map(RestartKeys::epoch))
    };
    assert_eq!(
        (epochs(&ends[0]), epochs(&ends[1])),
        ((Some(4), Some(3)), (Some(3), Some(3)))
    );
    for message in std::mem::take(&mut ends[0].out) {
        ends[1].take(at(1), &message);
    }
    assert_eq!(
        (epochs(&ends[0]), epochs(&ends[1])),
        ((Some(4), Some(3)), (Some(4), Some(4)))
    );
    exchange(at(1), &mut ends);
    assert_eq!(epochs(&ends[0]), (Some(4), Some(4)));
}

/// Both ends after a restart, each with the identity that it knows of the other.
fn restarted(settings: [&TlsSettings; 2], before: &[End; 2], role: KeyRole) -> [End; 2] {
    let roles = [role, role.other()];
    [0, 1].map(|end| {
        let peer = before[end].keys.peer().unwrap().clone();
        let suite = before[end].keys.suite().unwrap();
        let agreement = permitting(roles[end], 2);
        End::of(KeyManagement::after_restart(
            at(1000),
            settings[end].clone(),
            agreement,
            peer,
            suite,
        ))
    })
}

/// Messages between two ends whose packets are protected by restart keys.
fn exchange_protected(now: Timestamp, ends: &mut [End; 2]) {
    for _ in 0..10 {
        for from in [0, 1] {
            for (message, _) in std::mem::take(&mut ends[from].out) {
                ends[1 - from].take(now, &(message, true));
            }
        }
    }
}

/// §6.3: after a restart the epochs begin at 3 again, and the restart keys are forgotten after a time.
#[test]
fn a_restart_has_new_keys_at_once() {
    let (alice, bob) = (by_authority(ALICE, None), by_authority(BOB, None));
    let settings = [&alice, &bob];
    for role in [KeyRole::Client, KeyRole::Server] {
        let before = permitting_pair(settings);
        let mut ends = restarted(settings, &before, role);
        for (end, former) in ends.iter().zip(&before) {
            assert_eq!((end.keys.peer(), end.keys.epoch()), (former.keys.peer(), None));
        }
        exchange_protected(at(1001), &mut ends);
        assert!(agree(&ends));
        for end in &mut ends {
            assert_eq!((end.keys.epoch(), end.epochs()), (Some(3), vec![3]));
            assert_eq!(end.restart.as_ref().map(|(epoch, ..)| *epoch), Some(3));
            assert!(end.stored.is_some() && !end.restart_ended);
            end.keys.handle_timeout(at(1001 + 303));
            end.act();
            assert!(end.restart_ended && end.epochs() == [3]);
        }
    }
}

/// Restart keys alone do not keep an association: the peer shows who it is again, and if the client does not begin, the server does.
#[test]
fn a_restart_without_new_keys_ends_the_association() {
    let (alice, bob) = (by_authority(ALICE, None), by_authority(BOB, None));
    let before = permitting_pair([&alice, &bob]);
    let mut ends = restarted([&alice, &bob], &before, KeyRole::Client);
    ends[0].out.clear();
    assert_eq!(ends[1].keys.poll_timeout(), Some(at(1060)));
    ends[1].keys.handle_timeout(at(1060));
    ends[1].act();
    assert!(!ends[1].out.is_empty(), "the server begins");
    for (end, seconds) in [(0, 1060), (1, 1120)] {
        ends[end].keys.handle_timeout(at(seconds));
        ends[end].act();
        assert!(ends[end].failed.as_ref().unwrap().contains("too long"));
    }
    // Another peer of the same authority, which has the keys of the first one.
    let certificate = certified(BOB).fingerprint().unwrap();
    assert_eq!(
        before[0].keys.peer().and_then(PeerIdentity::fingerprint),
        Some(certificate)
    );
    let mut ends = restarted([&alice, &by_authority(ALICE, None)], &before, KeyRole::Client);
    exchange_protected(at(1001), &mut ends);
    assert!(ends[0].failed.as_ref().unwrap().contains("another certificate"));
}

/// This end begins a rekeying, and the other one answers.
fn begin_rekeying(now: Timestamp, ends: &mut [End; 2], from: usize) {
    ends[from].keys.rekey(now);
    ends[from].act();
    let hello = ends[from].out.pop_front().unwrap();
    ends[1 - from].take(now, &hello);
}

/// A rekeying that fails is tried again while the keys are good.
#[test]
fn a_failed_rekeying_is_tried_again() {
    let mut ends = pair(&by_authority(ALICE, None), &by_authority(BOB, None));
    for attempt in 0..3 {
        let now = at(100 + 1000 * attempt);
        ends[0].keys.rekey(now);
        ends[0].act();
        // The peer's answer never comes.
        ends[0].out.clear();
        assert_eq!(ends[0].keys.poll_timeout(), Some(now + Duration::from_secs(60)));
        ends[0].keys.handle_timeout(now + Duration::from_secs(60));
        ends[0].act();
        assert_eq!(ends[0].failed, None);
        assert_eq!(ends[0].keys.poll_timeout(), Some(now + Duration::from_secs(120)));
    }
    let now = at(5000);
    ends[0].keys.handle_timeout(now);
    ends[0].act();
    exchange(now, &mut ends);
    assert!(agree(&ends) && ends[0].keys.epoch() == Some(4));
}

/// The peer began a rekeying, gave it up, and begins another one: the new one counts.
#[test]
fn a_rekeying_that_begins_again_replaces_the_former_one() {
    let mut ends = pair(&by_authority(ALICE, None), &by_authority(BOB, None));
    begin_rekeying(at(100), &mut ends, 0);
    ends[1].out.clear();
    for second in [160, 220] {
        ends[0].keys.handle_timeout(at(second));
        ends[0].act();
    }
    exchange(at(220), &mut ends);
    assert!(agree(&ends) && ends.iter().all(|end| end.keys.epoch() == Some(4)));
}

/// The peer stops a rekeying for which this side, which began it, has its key already: the peer's own takes its place.
#[test]
fn a_rekeying_that_the_peer_alone_has_stopped_is_replaced() {
    let mut ends = pair(&by_authority(ALICE, None), &by_authority(BOB, None));
    begin_rekeying(at(100), &mut ends, 1);
    let answer = ends[0].out.pop_front().unwrap();
    ends[1].take(at(159), &answer);
    assert_eq!(ends[1].epochs(), [3, 4]);
    let finished = ends[1].out.pop_front().unwrap();
    ends[0].keys.handle_timeout(at(160));
    ends[0].take(at(160), &finished);
    ends[0].keys.handle_timeout(at(220));
    ends[0].act();
    // The clock of the other end's machine stood still in between.
    exchange(at(159), &mut ends);
    assert!(agree(&ends) && ends.iter().all(|end| end.epochs() == [3, 4]));
}

/// After the client's last message the server sends one message, without which the client cannot acknowledge anything.
#[test]
fn the_server_closes_tls_after_the_client() {
    let mut ends = [
        End::new(&by_authority(ALICE, None), KeyRole::Client),
        End::new(&by_authority(BOB, None), KeyRole::Server),
    ];
    for to in [1, 0, 1] {
        let message = ends[1 - to].out.pop_front().unwrap();
        ends[to].take(at(0), &message);
    }
    assert_eq!(ends.each_ref().map(|end| end.out.len()), [0, 1]);
    for to in [0, 1] {
        let message = ends[1 - to].out.pop_front().unwrap();
        ends[to].take(at(0), &message);
    }
    assert!(agree(&ends));
    assert_eq!(ends.each_ref().map(|end| end.out.len()), [0, 1], "close_notify");
    exchange(at(0), &mut ends);
    assert!(ends.iter().all(|end| end.failed.is_none()));
}

/// Records after the server's close_notify, in clear and protected, before its word that it protects its packets.
#[test]
fn nothing_is_read_after_a_close_notify() {
    for protected in [false, true] {
        let mut ends = [
            End::new(&by_authority(ALICE, None), KeyRole::Client),
            End::new(&by_authority(BOB, None), KeyRole::Server),
        ];
        for _ in 0..3 {
            let to = usize::from(ends[1].out.is_empty());
            let message = ends[1 - to].out.pop_front().unwrap();
            ends[to].take(at(0), &message);
        }
        let established = ends[1].out.pop_front().unwrap();
        // The server sends its close_notify when it gets that of the client, or anything else of this handshake.
        ends[1].take(at(0), &(Bytes::from_static(b"\x03\x17"), true));
        let close_notify = ends[1].out.pop_front().unwrap();
        ends[0].take(at(0), &close_notify);
        ends[0].take(at(0), &(Bytes::from_static(b"\x03\x17"), protected));
        ends[0].take(at(0), &established);
        let refused = ends[0]
            .failed
            .as_ref()
            .is_some_and(|why| why.contains("none was due"));
        assert_eq!((refused, agree(&ends)), (!protected, protected));
    }
}

#[test]
fn the_first_handshake_must_not_fail_or_last() {
    let settings = by_authority(ALICE, None);
    let mut client = End::new(&settings, KeyRole::Client);
    client.keys.handle_timeout(at(60));
    client.act();
    assert!(client.failed.unwrap().contains("too long"));
    for message in [
        &b""[..],
        b"\x03",
        b"\x83\x02",
        b"\x83\x01",
        b"\x03\x17\x03\x03\x00\x01\x00",
    ] {
        let mut client = End::new(&settings, KeyRole::Client);
        client.take(at(1), &(Bytes::from_static(message), false));
        assert!(client.failed.is_some(), "{message:?}");
    }
}

/// Messages that are cut, changed or reordered give no keys, and never a panic.
#[test]
fn changed_messages_give_no_keys() {
    let settings = by_authority(ALICE, None);
    for place in (0..400).step_by(7) {
        for direction in 0..2 {
            let mut ends = [
                End::new(&settings, KeyRole::Client),
                End::new(&settings, KeyRole::Server),
            ];
            for _ in 0..4 {
                for from in 0..2 {
                    for (message, protected) in std::mem::take(&mut ends[from].out) {
                        let mut bytes = message.to_vec();
                        if from == direction && place + 1 < bytes.len() {
                            bytes[place + 1] ^= 0x20;
                        }
                        ends[1 - from].take(at(0), &(bytes.into(), protected));
                    }
                }
            }
            assert!(!agree(&ends), "{place}");
        }
    }
}

/// After the last message of the server, nothing more arrives in clear: an attacker cannot say for the server that it protects its packets.
#[test]
fn protection_is_not_believed_in_clear() {
    let settings = by_authority(ALICE, None);
    let mut ends = [
        End::new(&settings, KeyRole::Client),
        End::new(&settings, KeyRole::Server),
    ];
    let hello = ends[0].out.pop_front().unwrap();
    ends[1].take(at(0), &hello);
    for message in std::mem::take(&mut ends[1].out) {
        ends[0].take(at(0), &message);
    }
    ends[0].take(at(0), &(Bytes::from_static(b"\x83\x01"), false));
    assert!(ends[0].failed.is_some() && !ends[0].required && ends[0].sending.is_none());
}

/// A rekeying by which another certificate or key takes the place of the peer's is refused, although a new association with it would be
/// accepted, and whichever end begins the rekeying.
#[test]
fn a_rekeying_with_another_identity_is_refused() {
    let keys = [(); 3].map(|()| SecretKey::generate().unwrap());
    let by_key = |own: usize| {
        let trust = Trust::public_keys(keys.iter().map(SecretKey::public).collect::<Vec<_>>());
        TlsSettings::new(&Identity::from_key(&keys[own]).unwrap(), &trust).unwrap()
    };
    for [alice, bob, other] in [
        [
            by_authority(ALICE, None),
            by_authority(BOB, None),
            by_authority(BOB, None),
        ],
        [by_key(0), by_key(1), by_key(2)],
    ] {
        for (other, is_same) in [(&alice, true), (&other, false)] {
            for begins in [0, 1] {
                let [_, server] = pair(&alice, &bob);
                // This end has keys of its own, and takes the place of the client.
                let [client, _] = pair(other, &bob);
                assert!(client.sending.is_some() && server.sending.is_some());
                let mut ends = [client, server];
                ends[begins].keys.rekey(at(10));
                ends[begins].act();
                exchange(at(10), &mut ends);
                if is_same {
                    assert!(agree(&ends));
                    assert_eq!(ends[1].epochs(), [3, 4]);
                    continue;
                }
                let why = ends[1].failed.as_deref().unwrap_or_default();
                assert_eq!(why, "the peer showed another certificate than before");
                assert_eq!(ends[1].epochs(), [3], "it accepts nothing of the other's");
                assert_eq!(ends[1].sending.as_ref().map(|(epoch, _)| *epoch), Some(3));
            }
        }
    }
}

#[derive(Debug, Default)]
struct Lines(Mutex<Vec<String>>);

impl KeyLog for Lines {
    fn log(&self, key: &LoggedKey) {
        self.0.lock().unwrap().push(key.to_line().to_string());
    }
}

/// Both ends log the keys of both directions in each epoch, with the tie breakers of the association.
#[test]
fn a_key_log_has_the_keys_of_both_directions_in_each_epoch() {
    let logs = [(); 2].map(|()| Arc::new(Lines::default()));
    let mut roles = [(ALICE, KeyRole::Client), (BOB, KeyRole::Server)]
        .iter()
        .zip(&logs)
        .map(|((who, role), log)| {
            let agreement = Agreement {
                role: *role,
                method: anabranch_tls::METHOD,
                client: Bytes::from_static(&[0x80, 6, 0, 10, 1, 2, 3, 4, 3, 192]),
                server: Bytes::from_static(&[0x80, 6, 0, 10, 5, 6, 7, 8, 3, 192]),
            };
            End::with(&by_authority(*who, None).key_log(log.clone()), agreement)
        });
    let mut ends = [roles.next().unwrap(), roles.next().unwrap()];
    exchange(at(0), &mut ends);
    ends[1].keys.rekey(at(10));
    ends[1].act();
    exchange(at(10), &mut ends);
    assert!(agree(&ends));
    let [mut client, mut server] = [0, 1].map(|end| logs[end].0.lock().unwrap().clone());
    client.sort();
    server.sort();
    assert_eq!(client, server);
    for (line, begin) in client
        .iter()
        .zip(["client 3", "client 4", "server 3", "server 4"])
    {
        let begin = format!("SCTP_DTLS_CHUNK 0102030405060708 {begin} TLS_");
        assert!(line.starts_with(&begin), "{begin}");
    }
    // The keys of the newest epoch, from the log, are those that the ends installed.
    let keys = read_key_log(&client.join("\n")).unwrap();
    assert_eq!(keys.len(), 4);
    for (logged, end) in [(&keys[1], 0), (&keys[3], 1)] {
        let (epoch, sending) = ends[end].sending.as_ref().unwrap();
        assert_eq!(logged.epoch(), *epoch);
        let (mut ours, mut theirs) = (*b"data", *b"data");
        let tag = sending.seal(1, [1, 2, 3], &mut ours);
        assert_eq!(logged.key().unwrap().seal(1, [1, 2, 3], &mut theirs), tag);
        assert_eq!(ours, theirs);
    }
}
