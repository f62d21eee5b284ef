//! The locks: cryptography of several connections at the same time, and bounds that hold for several threads.

use std::sync::{Condvar, mpsc};
use std::time::Duration;

use super::*;
use crate::certificate::Certificate;
use crate::connection::State;
use crate::settings::Trust;

const SERVER: u32 = 80;

fn config() -> DtlsConfig {
    DtlsConfig::new(Certificate::generate().unwrap())
}

type Call<'a> = &'a dyn Fn(&Peers<u32>, Timestamp, &mut Effects<u32>);

/// Calls one side, and gives all datagrams to the other one and back until none is left. Returns the packets that arrived at both.
fn exchange(client: &Peers<u32>, (server, key): (&Peers<u32>, u32), begin: Call<'_>) -> Vec<Vec<u8>> {
    let now = Timestamp::ZERO;
    let mut effects = Effects::default();
    begin(client, now, &mut effects);
    let mut packets = Vec::new();
    let mut to_server = true;
    while effects.datagrams().len() > 0 {
        let mut answers = Effects::default();
        for (_, datagram) in effects.datagrams() {
            let (to, from) = if to_server {
                (server, key)
            } else {
                (client, SERVER)
            };
            to.handle_datagram(now, from, datagram, &mut answers);
        }
        packets.extend(answers.packets().map(|(_, packet)| packet.to_vec()));
        (effects, to_server) = (answers, !to_server);
    }
    packets
}

fn connect(client: &Peers<u32>, server: &Peers<u32>, key: u32) {
    exchange(client, (server, key), &|peers, now, effects| {
        peers.connect(now, SERVER, effects);
    });
}

/// One connection is locked. The test would hang if a call for another connection, or for the table, waited for it.
#[test]
fn a_busy_connection_delays_no_other() {
    let server = Peers::new(config());
    let clients = [0, 1, 2].map(|_| Peers::new(config()));
    connect(&clients[0], &server, 0);
    connect(&clients[1], &server, 1);
    let busy = server.table().all(0).0[0].clone().expect("a connection");
    let _guard = lock(&busy);
    let sent = exchange(&clients[1], (&server, 1), &|peers, now, effects| {
        peers.send(now, SERVER, b"to the server", effects);
    });
    assert_eq!(sent, [b"to the server"]);
    let mut effects = Effects::default();
    server.send(Timestamp::ZERO, 1, b"to the client", &mut effects);
    assert_eq!(effects.datagrams().len(), 1);
    // A third client sets a connection up, and the table knows all of them.
    connect(&clients[2], &server, 2);
    assert_eq!(
        (server.connections(), server.unused(), server.handshakes()),
        (3, 3, 0)
    );
    server.hold(Timestamp::ZERO, 0);
    server.release(Timestamp::ZERO, 1, &mut effects);
    assert!(server.has_any(0) && server.timeout().is_some());
}

/// Both certificates are checked during a handshake: neither check ends before the other one has begun. The limit of the wait ends a
/// failing test.
#[test]
fn two_handshakes_run_at_the_same_time() {
    let (begun, another) = (Mutex::new(0), Condvar::new());
    let check = Trust::Check(Arc::new(move |_| {
        let mut begun = lock(&begun);
        *begun += 1;
        another.notify_all();
        let limit = Duration::from_secs(20);
        let waited = another.wait_timeout_while(begun, limit, |begun| *begun < 2);
        !waited.expect("no panic").1.timed_out()
    }));
    let server = Peers::new(config().trust(check));
    std::thread::scope(|scope| {
        for key in [1, 2] {
            let server = &server;
            scope.spawn(move || connect(&Peers::new(config()), server, key));
        }
    });
    assert_eq!(server.connections(), 2);
}

/// A thread has found a handshake, which another thread then drops, and completes it.
#[test]
fn a_connection_that_has_left_the_table_does_not_come_back() {
    let (client, server, now) = (Peers::new(config()), Peers::new(config()), Timestamp::ZERO);
    let mut hellos = Effects::default();
    client.connect(now, SERVER, &mut hellos);
    let mut found: Option<Shared> = None;
    while hellos.datagrams().len() > 0 {
        let (mut answers, mut next) = (Effects::default(), Effects::default());
        for (_, datagram) in hellos.datagrams() {
            match &found {
                Some(found) => server.on(now, 1, found, &mut answers, |connection, out| {
                    connection.handle_datagram(now, datagram, out);
                }),
                None => server.handle_datagram(now, 1, datagram, &mut answers),
            }
            if found.is_none() {
                found = server.table().remove_handshake(1).map(|entry| entry.connection);
            }
        }
        for (_, datagram) in answers.datagrams() {
            client.handle_datagram(now, SERVER, datagram, &mut next);
        }
        hellos = next;
    }
    let found = found.expect("a handshake");
    assert!(matches!(lock(&found).state, State::Established(_)));
    assert_eq!(
        (server.connections(), server.handshakes(), server.timeout()),
        (0, 0, None)
    );
}

/// Threads set connections up and send packets, while others let time pass and close connections.
#[test]
fn the_table_stays_within_its_bounds_with_several_threads() {
    const MOST: usize = 3;
    const EACH: u32 = 12;
    let server = Peers::new(config().max_handshakes(MOST).max_connections(MOST));
    let bounded = |server: &Peers<u32>| {
        let table = server.table();
        assert!(table.handshakes.len() <= MOST && table.begun.len() == table.handshakes.len());
        assert!(table.established.len() <= MOST && table.unused.len() <= table.established.len());
    };
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let server = &server;
        for thread in 0..3 {
            let done = done.clone();
            scope.spawn(move || {
                for number in 0..EACH {
                    let key = thread * EACH + number;
                    let client = Peers::new(config());
                    connect(&client, server, key);
                    bounded(server);
                    exchange(&client, (server, key), &|peers, now, effects| {
                        peers.send(now, SERVER, b"a packet", effects);
                    });
                    bounded(server);
                }
                drop(done);
            });
        }
        drop(done);
        let mut key = 0;
        while is_done.try_recv() == Err(mpsc::TryRecvError::Empty) {
            let mut effects = Effects::default();
            server.handle_timeout(Timestamp::ZERO, &mut effects);
            server.close(Timestamp::ZERO, key % (3 * EACH), &mut effects);
            bounded(server);
            key += 1;
        }
    });
    let mut effects = Effects::default();
    server.close_all(Timestamp::ZERO, &mut effects);
    let table = server.table();
    assert_eq!((table.established.len(), table.handshakes.len()), (0, 0));
    assert_eq!((table.unused.len(), table.begun.len()), (0, 0));
    assert_eq!(table.timeouts.first(), None);
}
