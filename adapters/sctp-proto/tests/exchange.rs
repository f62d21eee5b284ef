//! Two hosts exchange messages: both with this crate, and one of them with the original `sctp-proto`, in both roles.

mod common;

use std::time::Duration;

use common::{Host, Kind, Seen, World, message, messages, ours, theirs};

/// Runs scenarios with each pair of hosts: those of the first list with all pairs, and the others with the named pair alone.
macro_rules! with_each_pair {
    (all: $all:tt $($pair:ident($client:ident, $server:ident): $own:tt)*) => {
        $(mod $pair {
            with_each_pair!(@tests $client $server $all);
            with_each_pair!(@tests $client $server $own);
        })*
    };
    (@tests $client:ident $server:ident [$($scenario:ident)*]) => {
        $(#[test]
        fn $scenario() {
            super::$scenario(super::$client::Host::default(), super::$server::Host::default());
        })*
    };
}

// The endpoint of the original forgets an association whose shutdown begins, so that messages in flight are lost. Only this crate begins one.
with_each_pair! {
    all: [
        ordered_messages_arrive_in_order_despite_losses
        unordered_messages_arrive_once_despite_losses
        messages_with_few_retransmissions_are_abandoned
        messages_with_a_lifetime_are_abandoned
        a_closed_stream_ends_in_both_directions_and_its_number_is_used_again
        both_close_a_stream_at_once
        many_streams_are_opened_and_closed_and_no_message_is_lost
    ]
    both_ours(ours, ours): [
        a_shutdown_of_the_client_waits_for_its_messages
        a_shutdown_of_the_server_waits_for_its_messages
        an_endpoint_takes_the_next_association_after_a_shutdown
    ]
    client_is_ours(ours, theirs): [a_shutdown_of_the_client_waits_for_its_messages]
    server_is_ours(theirs, ours): [a_shutdown_of_the_server_waits_for_its_messages]
}

fn ordered_messages_arrive_in_order_despite_losses(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    world.loss = 50;
    let all: Vec<_> = (0..60)
        .map(|number| message(number, number as usize * 1000))
        .collect();
    for stream in 0..4 {
        world.client.open(stream, false, Kind::Reliable);
    }
    for (index, message) in all.iter().enumerate() {
        assert!(world.client.write(index as u16 % 4, message));
    }
    world.until("the server has all", |world| {
        (0..4)
            .map(|stream| messages(&world.server, stream).len())
            .sum::<usize>()
            == all.len()
    });
    for stream in 0..4_u16 {
        let of: Vec<_> = all.iter().skip(stream.into()).step_by(4).cloned().collect();
        assert_eq!(messages(&world.server, stream), of);
        assert!(world.server.seen().contains(&Seen::Opened(stream)));
    }
    // The server answers in a stream that the client opened.
    for message in &all {
        assert!(world.server.write(3, message));
    }
    world.until("the client has all", |world| {
        messages(&world.client, 3).len() == all.len()
    });
    assert_eq!(messages(&world.client, 3), all);
}

fn unordered_messages_arrive_once_despite_losses(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    world.loss = 100;
    world.client.open(1, true, Kind::Reliable);
    let mut all: Vec<_> = (0..200).map(|number| message(number, 2000)).collect();
    for message in &all {
        assert!(world.client.write(1, message));
    }
    world.until("the server has all", |world| {
        messages(&world.server, 1).len() == all.len()
    });
    let mut arrived = messages(&world.server, 1);
    assert_ne!(arrived, all, "no message overtook another one");
    arrived.sort();
    all.sort();
    assert_eq!(arrived, all);
}

fn messages_with_few_retransmissions_are_abandoned(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    world.client.open(1, false, Kind::Rexmit(0));
    world.client.open(2, false, Kind::Reliable);
    world.loss = 200;
    for number in 0..300 {
        assert!(world.client.write(1, &message(number, 500)));
        assert!(world.client.write(2, &message(number, 500)));
        world.run(Duration::from_millis(10));
    }
    world.loss = 0;
    world.until("the reliable messages are here", |world| {
        messages(&world.server, 2).len() == 300
    });
    world.run(Duration::from_secs(2));
    let arrived = messages(&world.server, 1);
    assert!((150..300).contains(&arrived.len()), "{}", arrived.len());
    assert!(arrived.is_sorted(), "in order");
}

fn messages_with_a_lifetime_are_abandoned(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    world.server.open(5, false, Kind::Timed(100));
    assert!(world.server.write(5, &message(0, 100)));
    world.until("the first message is here", |world| {
        messages(&world.client, 5).len() == 1
    });
    // Longer than a lifetime: it does not count from the last packet.
    world.run(Duration::from_secs(3));
    assert!(world.server.write(5, &message(1, 100)));
    world.until("the second message is here", |world| {
        messages(&world.client, 5).len() == 2
    });
    world.cut_until = Some(world.now + Duration::from_secs(1));
    for number in 2..10 {
        assert!(world.server.write(5, &message(number, 100)));
        world.run(Duration::from_millis(100));
    }
    world.run(Duration::from_secs(5));
    assert!(world.server.write(5, &message(10, 100)));
    world.until("the last message is here", |world| {
        messages(&world.client, 5).contains(&message(10, 100))
    });
    let arrived = messages(&world.client, 5);
    assert_eq!(arrived, [message(0, 100), message(1, 100), message(10, 100)]);
}

fn reset(host: &impl Host, stream: u16) -> usize {
    host.seen()
        .iter()
        .filter(|seen| **seen == Seen::ResetComplete(stream))
        .count()
}

fn a_closed_stream_ends_in_both_directions_and_its_number_is_used_again(
    client: impl Host,
    server: impl Host,
) {
    let mut world = World::connected(client, server);
    world.loss = 50;
    for round in 1..=5 {
        world.client.open(7, false, Kind::Reliable);
        for number in 0..20 {
            assert!(world.client.write(7, &message(round * 100 + number, 5000)));
        }
        world.client.close_stream(7);
        assert!(!world.client.write(7, b"late"));
        world.until("both are reset", |world| {
            reset(&world.client, 7) == round as usize && reset(&world.server, 7) == round as usize
        });
        assert_eq!(messages(&world.server, 7).len(), 20 * round as usize);
        let last = world.server.seen().iter().rev().take(2).collect::<Vec<_>>();
        assert_eq!(last, [&Seen::ResetComplete(7), &Seen::Finished(7)]);
        assert!(!world.server.write(7, b"late"));
    }
    assert!(messages(&world.server, 7).is_sorted());
}

fn both_close_a_stream_at_once(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    for round in 1..=3 {
        world.client.open(2, false, Kind::Reliable);
        assert!(world.client.write(2, b"hello"));
        world.until("the server has the stream", |world| {
            messages(&world.server, 2).len() == round
        });
        world.client.close_stream(2);
        world.server.close_stream(2);
        world.until("both are reset", |world| {
            reset(&world.client, 2) == round && reset(&world.server, 2) == round
        });
    }
}

fn many_streams_are_opened_and_closed_and_no_message_is_lost(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    world.loss = 30;
    let mut written = vec![Vec::new(); 8];
    let mut rounds = [0; 8];
    for step in 0..400_u32 {
        // Each stream is open for some steps, which differ from stream to stream, and is opened again as soon as its number is free.
        for stream in 0..8_u16 {
            let index = usize::from(stream);
            if rounds[index] == reset(&world.client, stream) {
                world.client.open(stream, false, Kind::Reliable);
                rounds[index] += 1;
            }
            let message = message(step, 50 + usize::from(stream) * 700);
            if world.client.write(stream, &message) {
                written[index].push(message);
                if step % (u32::from(stream) + 3) == 0 {
                    world.client.close_stream(stream);
                }
            }
        }
        world.run(Duration::from_millis(15));
    }
    world.until("all is here", |world| {
        (0..8).all(|stream| messages(&world.server, stream).len() == written[usize::from(stream)].len())
    });
    for stream in 0..8_u16 {
        let index = usize::from(stream);
        assert_eq!(messages(&world.server, stream), written[index]);
        if world.client.write(stream, b"last") {
            world.client.close_stream(stream);
        }
    }
    world.until("all are reset", |world| {
        (0..8).all(|stream| {
            let rounds = rounds[usize::from(stream)];
            reset(&world.client, stream) == rounds && reset(&world.server, stream) == rounds
        })
    });
    assert!(rounds.iter().sum::<usize>() > 40, "{rounds:?}");
}

fn a_shutdown_of_the_client_waits_for_its_messages(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    world.loss = 50;
    let all = write_and_shut_down(&mut world.client);
    world.until("both have ended", |world| {
        world.client.is_closed() && world.server.is_closed()
    });
    assert_eq!(messages(&world.server, 0), all);
    for seen in [world.client.seen(), world.server.seen()] {
        assert_eq!(seen.last(), Some(&Seen::Lost));
    }
}

fn a_shutdown_of_the_server_waits_for_its_messages(client: impl Host, server: impl Host) {
    let mut world = World::connected(client, server);
    world.loss = 50;
    let all = write_and_shut_down(&mut world.server);
    world.until("both have ended", |world| {
        world.client.is_closed() && world.server.is_closed()
    });
    assert_eq!(messages(&world.client, 0), all);
    for seen in [world.client.seen(), world.server.seen()] {
        assert_eq!(seen.last(), Some(&Seen::Lost));
    }
}

/// Returns the messages.
fn write_and_shut_down(host: &mut impl Host) -> Vec<Vec<u8>> {
    host.open(0, false, Kind::Reliable);
    let all: Vec<_> = (0..50).map(|number| message(number, 10_000)).collect();
    for message in &all {
        assert!(host.write(0, message));
    }
    host.shutdown();
    assert!(!host.write(0, b"late"));
    all
}

fn an_endpoint_takes_the_next_association_after_a_shutdown(client: ours::Host, server: ours::Host) {
    let mut world = World::connected(client, server);
    for round in 1..=3 {
        world.client.open(0, false, Kind::Reliable);
        assert!(world.client.write(0, b"hello"));
        world.until("the message is here", |world| {
            messages(&world.server, 0).len() == round
        });
        world.client.shutdown();
        world.until("both have ended", |world| {
            world.client.is_closed() && world.server.is_closed()
        });
        world.run(Duration::from_secs(1));
        world.client.connect();
        world.until("the client is connected again", |world| {
            let connected = |seen: &&Seen| **seen == Seen::Connected;
            world.client.seen().iter().filter(connected).count() == round + 1
        });
    }
}
