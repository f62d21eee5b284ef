//! Associations whose packets are encrypted on every path (SCTP DTLS chunk, with keys from TLS 1.3).

mod common;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{
    Association, AuthenticationConfig, BindError, Config, DynamicAddressConfig, Endpoint, EndpointBuilder,
    Identity, MultipathMode, PathState, PeerIdentity, SecretKey, ShownIdentity, StreamId, TlsSettings,
    TlsTrust,
};
use common::{PORT, Pair, within};

/// Two key pairs, and the settings of endpoints that know each other's public keys.
struct Keys {
    secrets: [SecretKey; 2],
}

impl Keys {
    fn new() -> Self {
        Self {
            secrets: [0; 2].map(|_| SecretKey::generate().unwrap()),
        }
    }

    /// The settings of one of the two.
    fn of(&self, side: usize) -> TlsSettings {
        settings(&self.secrets[side], &self.secrets[1 - side])
    }
}

fn settings(own: &SecretKey, peer: &SecretKey) -> TlsSettings {
    let identity = Identity::from_key(own).unwrap();
    TlsSettings::new(&identity, &TlsTrust::public_keys([peer.public()])).unwrap()
}

fn addresses(side: u8) -> Vec<IpAddr> {
    (1..=2).map(|path| IpAddr::from([127, 45, side, path])).collect()
}

fn builder(config: Config, tls: TlsSettings) -> EndpointBuilder {
    Endpoint::builder().config(config).secure(tls)
}

async fn listening(config: Config, tls: TlsSettings) -> Endpoint {
    let server = builder(config, tls).bind("127.0.0.1:0").await.unwrap();
    server.listen_on_port(PORT).unwrap();
    server
}

/// An association over two paths.
async fn over_two_paths(
    configure: impl Fn(&mut Config),
    change: impl Fn(TlsSettings) -> TlsSettings,
) -> (Pair, Keys) {
    let keys = Keys::new();
    let [client, server] = [0, 1].map(|side| {
        let mut config = Config::default();
        config.local_addresses = addresses(side as u8);
        config.multipath.mode = MultipathMode::Cmt;
        configure(&mut config);
        let locals: Vec<_> = config
            .local_addresses
            .iter()
            .map(|ip| SocketAddr::new(*ip, 0))
            .collect();
        let builder = builder(config, change(keys.of(side)));
        builder.bind_all(&locals).unwrap()
    });
    server.listen_on_port(PORT).unwrap();
    (common::connect(client, server).await, keys)
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|place| (place * 31 + seed * 7) as u8).collect()
}

/// Sends messages in both directions and checks them.
async fn exchange(pair: &Pair, messages: usize, len: usize) {
    let send = async |association: &Association| {
        for number in 0..messages {
            association
                .send((number % 4) as u16, bytes(len, number))
                .await
                .unwrap();
        }
    };
    let receive = async |association: &Association| {
        let mut next = [0, 1, 2, 3];
        for _ in 0..messages {
            let message = association.recv().await.unwrap().unwrap();
            let number = &mut next[usize::from(message.stream.0)];
            assert!(
                message.payload.into_bytes() == bytes(len, *number),
                "message {number}"
            );
            *number += 4;
        }
    };
    let (ours, theirs) = (&pair.ours, &pair.theirs);
    within(60, async {
        tokio::join!(send(ours), send(theirs), receive(ours), receive(theirs))
    })
    .await;
}

async fn wait_for_paths(pair: &Pair) {
    let active = |association: &Association| {
        let paths = association.stats().paths;
        paths
            .iter()
            .filter(|path| path.state == PathState::Active)
            .count()
            == 2
    };
    within(30, async {
        while !(active(&pair.ours) && active(&pair.theirs)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn both_paths_carry_encrypted_messages() {
    let (pair, keys) = over_two_paths(|_| {}, |tls| tls).await;
    assert_eq!(
        pair.ours.peer_identity(),
        Some(PeerIdentity::Key(keys.secrets[1].public()))
    );
    assert_eq!(
        pair.theirs.peer_identity(),
        Some(PeerIdentity::Key(keys.secrets[0].public()))
    );
    wait_for_paths(&pair).await;
    exchange(&pair, 400, 20_000).await;
    for association in [&pair.ours, &pair.theirs] {
        let stats = association.stats();
        let protection = stats.protection.unwrap();
        assert!(protection.is_protected && stats.extensions.protection);
        assert_eq!((protection.epoch, protection.packets_unauthentic), (Some(3), 0));
        for path in stats.paths {
            assert!(path.data_chunks_sent > 0, "{path:?}");
        }
    }
    within(20, async {
        tokio::join!(pair.client.close(), pair.server.close())
    })
    .await;
}

/// A rekeying each second under load loses nothing.
#[tokio::test]
async fn rekeying_under_load_loses_nothing() {
    let (pair, _) = over_two_paths(|_| {}, |tls| tls.rekey_after(Duration::from_secs(1))).await;
    let epoch = || pair.ours.stats().protection.unwrap().epoch;
    within(60, async {
        while epoch() < Some(6) {
            exchange(&pair, 20, 20_000).await;
        }
    })
    .await;
    exchange(&pair, 20, 1000).await;
    for association in [&pair.ours, &pair.theirs] {
        assert_eq!(association.stats().protection.unwrap().packets_unauthentic, 0);
    }
}

/// Nothing of a message, and no chunk, is readable in the packets.
#[tokio::test]
async fn captures_have_no_clear_text() {
    let file = std::env::temp_dir().join(format!("anabranch-secure-{}.pcapng", std::process::id()));
    let keys = Keys::new();
    let server = listening(Config::default(), keys.of(1)).await;
    let client = builder(Config::default(), keys.of(0)).capture(&file);
    let pair = common::connect(client.bind("127.0.0.1:0").await.unwrap(), server).await;
    let text = b"nobody else can read this sentence";
    pair.ours.send(0, &text[..]).await.unwrap();
    let message = within(20, pair.theirs.recv()).await.unwrap().unwrap();
    assert_eq!(message.payload.into_bytes(), text[..]);
    within(20, async {
        tokio::join!(pair.client.close(), pair.server.close())
    })
    .await;
    let captured = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(captured.len() > 1000);
    assert!(!captured.windows(text.len()).any(|window| window == text));
}

/// A peer that does not encrypt gets no association, and both sides are told why.
#[tokio::test]
async fn a_peer_that_does_not_encrypt_is_refused() {
    let keys = Keys::new();
    let secure = listening(Config::default(), keys.of(1)).await;
    let plain = common::listening(Config::default()).await;
    let error = within(20, plain.connect_to_port(secure.local_addr(), PORT))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("it requires encryption"), "{error}");
    let client = builder(Config::default(), keys.of(0))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let error = within(20, client.connect_to_port(plain.local_addr(), PORT))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("this side requires encryption"),
        "{error}"
    );
    assert_eq!(secure.associations(), 0);
}

/// A peer with another key is refused by whoever notices, and no `accept` returns.
#[tokio::test]
async fn a_peer_with_another_key_is_refused() {
    let (keys, mallory) = (Keys::new(), SecretKey::generate().unwrap());
    let server = listening(Config::default(), keys.of(1)).await;
    // Mallory knows the server, which does not know mallory; and the client knows another server than mallory's.
    for (number, client, who) in [
        (
            0,
            settings(&mallory, &keys.secrets[1]),
            "the server refused the client: its public key or certificate is not among the accepted ones",
        ),
        (
            1,
            settings(&keys.secrets[0], &mallory),
            "the client refused the server: its public key or certificate is not among the accepted ones",
        ),
    ] {
        let client = builder(Config::default(), client)
            .bind("127.0.0.1:0")
            .await
            .unwrap();
        let error = within(20, client.connect_to_port(server.local_addr(), PORT))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(who), "{error}");
        let accepted = tokio::time::timeout(Duration::from_millis(100), server.accept()).await;
        assert!(
            accepted.is_err(),
            "an association of a stranger is not given to the application"
        );
        within(20, async {
            while server.failed_handshakes() <= number {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let failed = within(20, server.next_failed_handshake())
            .await
            .expect("it is open");
        assert!(failed.reason.to_string().contains(who), "{}", failed.reason);
        assert_eq!(failed.remote, client.local_addr());
        // The client of the second round shows a key that the server accepts.
        let shown = (number == 0).then(|| ShownIdentity::Key(mallory.public()));
        assert_eq!(failed.shown, shown);
        assert_eq!(client.failed_handshakes(), 0, "`connect` told it");
    }
    // The next association is accepted as before.
    let client = builder(Config::default(), keys.of(0))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let pair = common::connect(client, server).await;
    exchange(&pair, 4, 100).await;
    assert_eq!(pair.server.failed_handshakes(), 2);
}

/// An address is added and the other one is deleted, in encrypted requests without AUTH.
#[tokio::test]
async fn addresses_change_without_authenticated_chunks() {
    let keys = Keys::new();
    let [client, server] = [0, 1].map(|side| {
        let mut config = Config::default();
        config.dynamic_addresses = Some(DynamicAddressConfig::default());
        config.local_addresses = vec![addresses(2 + side as u8)[0]];
        let locals: Vec<_> = addresses(2 + side as u8)
            .iter()
            .map(|ip| SocketAddr::new(*ip, 0))
            .collect();
        builder(config, keys.of(side)).bind_all(&locals).unwrap()
    });
    server.listen_on_port(PORT).unwrap();
    let pair = common::connect(client, server).await;
    let [first, second] = addresses(2)[..] else {
        panic!("two addresses");
    };
    pair.ours.set_local_addresses(&[first, second]).unwrap();
    let knows = |wanted: &[IpAddr]| {
        let paths = pair.theirs.stats().paths;
        let mut known: Vec<_> = paths.iter().map(|path| path.remote.ip()).collect();
        known.sort();
        known == wanted
    };
    within(20, async {
        while !knows(&[first, second]) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        pair.ours.set_local_addresses(&[second]).unwrap();
        while !knows(&[second]) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    exchange(&pair, 10, 1000).await;
    assert!(!pair.ours.stats().extensions.authentication);
}

/// The extensions of all five papers work encrypted: cooperative acknowledgements on two paths, NR-SACK, early discard with notices, selective
/// forward TSN, and priorities.
#[tokio::test]
async fn all_five_papers_encrypted() {
    let (pair, _) = over_two_paths(
        |config| {
            config.multipath.mode = MultipathMode::Eca;
            config.nr_sack.offer = true;
            config.partial_reliability.offer = true;
            config.partial_reliability.early_discard = true;
            config.partial_reliability.selective_forward_tsn = Some(1);
            config.low_priority_delay = Some(Duration::from_millis(20));
        },
        |tls| tls,
    )
    .await;
    let extensions = pair.ours.stats().extensions;
    assert!(extensions.eca && extensions.nr_sack && extensions.partial_reliability);
    assert!(extensions.selective_forward_tsn && extensions.protection);
    pair.ours.set_stream_priority(StreamId(3), 1).unwrap();
    wait_for_paths(&pair).await;
    exchange(&pair, 400, 5000).await;
}

#[tokio::test]
async fn authenticated_chunks_cannot_be_combined() {
    let mut config = Config::default();
    config.authentication = Some(AuthenticationConfig::default());
    let refused = builder(config, Keys::new().of(0)).bind("127.0.0.1:0").await;
    let Err(BindError::Config(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.setting, "authentication");
}

/// A server that is silent answers the client that knows its public key, and leaves other INITs without an answer.
#[tokio::test]
async fn a_silent_server_answers_those_who_know_its_key() {
    let keys = Keys::new();
    let silent = |side: usize| builder(Config::default(), keys.of(side)).silent_to_strangers();
    let server = silent(1).bind("127.0.0.1:0").await.unwrap();
    server.listen_on_port(PORT).unwrap();
    let mallory = settings(&keys.secrets[0], &SecretKey::generate().unwrap());
    let others = [
        builder(Config::default(), mallory.clone()).silent_to_strangers(),
        // It accepts the server's key, but its INIT does not show that.
        builder(Config::default(), keys.of(0)),
        Endpoint::builder(),
    ];
    for other in others {
        let stranger = other.bind("127.0.0.1:0").await.unwrap();
        let wait = Duration::from_millis(100);
        let answer = tokio::time::timeout(wait, stranger.connect_to_port(server.local_addr(), PORT)).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    let client = silent(0).bind("127.0.0.1:0").await.unwrap();
    let pair = common::connect(client, server).await;
    exchange(&pair, 4, 100).await;
    let no_keys = Endpoint::builder()
        .silent_to_strangers()
        .bind("127.0.0.1:0")
        .await;
    assert!(matches!(no_keys, Err(BindError::SilenceNeedsKeys)), "{no_keys:?}");
}

/// A translator that forwards two packets in each direction: INIT, INIT ACK, COOKIE ECHO and its answer.
async fn cut_off_after_set_up(server: SocketAddr) -> SocketAddr {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut client, mut forwarded) = (address, [0; 2]);
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
            let (to, count) = if from == server {
                (client, &mut forwarded[1])
            } else {
                client = from;
                (server, &mut forwarded[0])
            };
            *count += 1;
            if *count <= 2 {
                socket.send_to(&buffer[..len], to).await.unwrap();
            }
        }
    });
    address
}

/// An attacker that begins handshakes and completes none keeps no client at another address out.
#[tokio::test]
async fn handshakes_from_one_address_take_a_quarter_of_the_backlog() {
    let keys = Keys::new();
    let server = builder(Config::default(), keys.of(1)).backlog(8);
    let server = server.bind("127.0.0.1:0").await.unwrap();
    server.listen_on_port(PORT).unwrap();
    let mut clients = Vec::new();
    for number in 0..4 {
        let translator = cut_off_after_set_up(server.local_addr()).await;
        let client = builder(Config::default(), keys.of(0));
        let client = client.bind("127.0.0.1:0").await.unwrap();
        let connecting = client.connect_to_port(translator, PORT);
        let answer = tokio::time::timeout(Duration::from_millis(300), connecting).await;
        let is_refused = matches!(answer, Ok(Err(_)));
        assert_eq!(is_refused, number >= 2, "{number}: {answer:?}");
        clients.push(client);
    }
    assert_eq!(server.associations(), 2);
    let client = builder(Config::default(), keys.of(0))
        .bind("127.0.0.2:0")
        .await
        .unwrap();
    let pair = common::connect(client, server).await;
    exchange(&pair, 4, 100).await;
}
