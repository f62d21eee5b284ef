//! Messages with deadlines of several associations on one link, and of a game server beside the maps that its clients load.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{AssociationId, Config, ConnectOptions, SendOptions, StreamId, Timestamp};
use anabranch_testkit::{PORT, Pair, Setup, Side, protect, with};

const DEADLINE: Duration = Duration::from_millis(100);
const STATES: StreamId = StreamId(0);
const MAP: StreamId = StreamId(1);
/// Messages a second.
const RATE: u32 = 60;

/// Some associations between two hosts, and how many of the messages that each sends arrive in time.
struct Clients {
    pair: Pair,
    ids: Vec<AssociationId>,
    sent: Vec<u32>,
    in_time: Vec<u32>,
    /// The bytes of the maps that arrived, and when the last one did.
    maps: usize,
    map_at: Timestamp,
}

impl Clients {
    fn new(config: Config, link: &str, count: usize) -> Self {
        Self::with_seed(1, config, link, count)
    }

    fn with_seed(seed: u64, config: Config, link: &str, count: usize) -> Self {
        let link: LinkConfig = link.parse().expect("a link");
        let setup = Setup::new(seed).captured(false).config(config).path(link);
        let mut pair = setup.connect();
        let first = pair.id(Side::A).expect("it was started");
        let others = (1..count).map(|_| pair.begin_to(Side::A, PORT, ConnectOptions::default()));
        let ids: Vec<_> = [first].into_iter().chain(others.collect::<Vec<_>>()).collect();
        pair.run_ms(1_000);
        let is_ready = |pair: &Pair, id| {
            let association = pair.host(Side::A).association(id);
            let protection = association.and_then(|association| association.stats().protection);
            protection.is_none_or(|stats| stats.is_protected)
        };
        let limit = pair.now() + Duration::from_secs(60);
        assert!(pair.run_to(limit, |pair| ids.iter().all(|id| is_ready(pair, *id))));
        Self {
            pair,
            ids,
            sent: vec![0; count],
            in_time: vec![0; count],
            maps: 0,
            map_at: Timestamp::ZERO,
        }
    }

    /// Sends messages of so many bytes on each association for some seconds.
    fn run(&mut self, size: usize, seconds: u32) {
        let ticks = seconds * RATE;
        for tick in 0..ticks + RATE {
            for place in 0..self.ids.len() {
                // Each client at its own time.
                let pause = Duration::from_secs(1) / RATE / self.ids.len() as u32;
                self.pair.run_for(pause);
                self.receive();
                if tick >= ticks {
                    continue;
                }
                self.send(place, size);
            }
        }
    }

    /// Sends a message of so many bytes on an association.
    fn send(&mut self, place: usize, size: usize) {
        let now = self.pair.now();
        let mut message = vec![place as u8; size];
        message[..8].copy_from_slice(&now.0.to_be_bytes());
        self.pair.use_association(Side::A, self.ids[place]);
        let association = self.pair.association_mut(Side::A);
        let options = SendOptions::default().deadline(DEADLINE);
        association
            .send(now, STATES, message.into(), options)
            .expect("there is room");
        self.sent[place] += 1;
    }

    fn receive(&mut self) {
        for message in self.pair.messages(Side::Z) {
            if message.stream == MAP {
                self.maps += message.bytes.len();
                self.map_at = message.at;
                continue;
            }
            let stamp = message.bytes[..8].try_into().expect("eight bytes");
            let sent = Timestamp(u64::from_be_bytes(stamp));
            let in_time = message.at.saturating_duration_since(sent) <= DEADLINE;
            self.in_time[usize::from(message.bytes[8])] += u32::from(in_time);
        }
    }

    /// The share of each client's messages that arrived in time.
    fn shares(&self) -> Vec<f64> {
        let clients = self.in_time.iter().zip(&self.sent);
        clients
            .map(|(in_time, sent)| f64::from(*in_time) / f64::from(*sent))
            .collect()
    }

    /// The copies of a message.
    fn copies(&mut self) -> f64 {
        let mut copies = 0;
        for id in self.ids.clone() {
            self.pair.use_association(Side::A, id);
            copies += self.pair.association_mut(Side::A).stats().counters.early_copies;
        }
        copies as f64 / f64::from(self.sent.iter().sum::<u32>())
    }
}

/// The link carries 1.2 times what the messages take, each in a packet of its own. Copies would fill it; the queue shows that, and they stop.
#[test]
fn copies_make_no_shared_link_worse() {
    for loss in ["0%", "3%"] {
        for count in [1, 3, 10] {
            // IPv4, UDP, SCTP, the chunk's header and the message.
            let packet = 20 + 8 + 12 + 16 + 200;
            let rate = count * RATE as usize * packet * 8 * 12 / 10;
            let queue = rate * 60 / 8_000;
            let link = format!("rate={rate}bit,delay=30ms,queue={queue}b,loss={loss}");
            let run = |late_per_million| {
                let config = with(Config::default(), |config| {
                    config.late_per_million = late_per_million;
                });
                let mut clients = Clients::new(config, &link, count);
                clients.run(200, 30);
                let share = clients.shares().iter().sum::<f64>() / count as f64;
                (share, clients.copies())
            };
            let ((plain, none), (copied, copies)) = (run(1_000_000), run(1_000));
            println!("{count} at {loss} loss: {plain:.4} in time, {copied:.4} with {copies:.2} copies");
            assert!(none == 0.0 && copied > plain - 0.02, "{none}");
        }
    }
}

/// A game server: 60 states a second of 200 bytes for each client, and a map of 5 MB for each, in messages of `part` bytes.
struct Game {
    clients: Clients,
    /// How long the maps took.
    loaded: Duration,
}

impl Game {
    fn run(count: usize, part: usize, change: fn(&mut Config)) -> Self {
        let link = "rate=5mbit,delay=30ms,queue=37500b,loss=3%";
        let config = with(Config::default(), |config| {
            config.buffers.send = 8 << 20;
            config.buffers.max_message = 8 << 20;
            change(config);
        });
        let mut clients = Clients::new(config, link, count);
        let begun = clients.pair.now();
        for id in clients.ids.clone() {
            clients.pair.use_association(Side::A, id);
            let association = clients.pair.association_mut(Side::A);
            for _ in 0..5_000_000 / part {
                let map = association.send(begun, MAP, vec![7; part].into(), SendOptions::default());
                map.expect("there is room");
            }
        }
        clients.run(200, 60);
        assert_eq!(clients.maps, count * (5_000_000 / part) * part);
        let loaded = clients.map_at.saturating_duration_since(begun);
        Self { clients, loaded }
    }

    /// At least this share of each client's states was in time, and the maps took 1.25 times what they take without copies at most: 9.1 s for each.
    fn check(&mut self, least: f64) {
        let (shares, copies) = (self.clients.shares(), self.clients.copies());
        let (count, loaded) = (shares.len(), self.loaded);
        println!("{count} clients: {shares:.4?} in time, maps after {loaded:.2?}; {copies:.2} copies");
        assert!(shares.iter().all(|share| *share >= least), "{shares:?}");
        // The queue that the map itself makes is no reason to send fewer copies.
        assert!(count > 1 || copies > 1.65, "{copies}");
        assert!(loaded.as_secs_f64() < 11.9 * count as f64, "{loaded:?}");
    }
}

#[test]
fn a_game_server_needs_nothing_but_the_deadline() {
    for (count, least) in [(1, 0.99), (3, 0.95)] {
        for part in [16 << 10, 5_000_000] {
            Game::run(count, part, |_| {}).check(least);
        }
    }
}

/// The same with protected packets, which are longer.
#[test]
fn an_encrypted_game_server_needs_nothing_but_the_deadline() {
    for (count, least) in [(1, 0.99), (3, 0.95)] {
        let mut game = Game::run(count, 16 << 10, protect);
        let stats = game.clients.pair.association_mut(Side::A).stats();
        assert!(
            stats.counters.packets_sent > 0 && stats.extensions.protection,
            "{:?}",
            stats.extensions
        );
        game.check(least);
    }
}

/// The share of the states of one second in time, if a file of 5 MB begins after the first state, or that long before it: the mean of 20 runs.
fn first_second(queue: &str, loss: &str, before: Option<Duration>) -> f64 {
    let link = format!("rate=5mbit,delay=30ms,{queue},loss={loss}");
    let share = |seed| {
        let mut clients = Clients::with_seed(seed, Config::default(), &link, 1);
        if before.is_none() {
            clients.send(0, 200);
            clients.pair.run_ms(1);
        }
        clients.pair.send(Side::A, MAP.0, vec![7; 5_000_000]);
        clients.pair.run_for(before.unwrap_or_default());
        clients.run(200, 1);
        clients.shares()[0]
    };
    (1..=20).map(share).sum::<f64>() / 20.0
}

/// A file has to find the rate of the path. If the queue of the link is short, that costs little. A file that begins first, and a long queue,
/// make more states late: the page *Choose settings* has the numbers.
#[test]
fn the_first_second_of_a_file_delays_some_states() {
    let early = Some(Duration::from_millis(300));
    for (queue, loss, first, late) in [
        ("queue=37500b", "1%", 0.98..1.0, 0.90..0.96),
        ("queue=37500b", "3%", 0.97..1.0, 0.95..0.99),
        ("queue=unlimited", "1%", 0.85..0.92, 0.74..0.82),
        ("queue=unlimited", "3%", 0.85..0.92, 0.80..0.88),
    ] {
        let shares = [None, early].map(|before| first_second(queue, loss, before));
        println!("{queue}, {loss} loss: {shares:.3?} in time");
        assert!(
            first.contains(&shares[0]) && late.contains(&shares[1]),
            "{shares:?}"
        );
    }
}
