//! Two endpoints over a network that loses and reorders packets.

use anabranch_netsim::{LinkConfig, LossModel, Probability};
use anabranch_proto::{
    Config, Event, ReconfigurationError, ReconfigurationEvent, ResetDirection, StreamId, StreamSelection,
};
use anabranch_testkit::{Pair, Setup, Side};
use core::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn pair(seed: u64, config: &Config) -> Pair {
    let link = LinkConfig::default()
        .with_delay(20 * MS)
        .with_loss(LossModel::bernoulli(0.1))
        .with_reorder(Probability::new(0.1), 30 * MS);
    Setup::new(seed).path(link).config(config.clone()).connect()
}

fn resets(events: &[Event]) -> usize {
    let is_one = |event: &&Event| {
        matches!(
            event,
            Event::Reconfiguration(
                ReconfigurationEvent::InboundReset { .. } | ReconfigurationEvent::AssociationReset { .. }
            )
        )
    };
    events.iter().filter(is_one).count()
}

/// Streams are reset both ways while data flows, with DATA and I-DATA: everything arrives, in order.
#[test]
fn data_flows_while_streams_are_reset() {
    for (seed, interleaving) in (0..12).zip([false, true].into_iter().cycle()) {
        let mut config = Config::default();
        config.interleaving.offer = interleaving;
        let mut pair = pair(seed, &config);
        let (mut count, mut asked_for) = (0, 0);
        for round in 0..8 {
            for side in Side::BOTH {
                for stream in 0..4 {
                    for _ in 0..5 {
                        pair.send(side, stream, format!("{stream} {count:05}"));
                        count += 1;
                    }
                }
            }
            let side = if round % 2 == 0 { Side::A } else { Side::Z };
            let now = pair.now();
            let asked = pair.association_mut(side).reconfigure(now);
            let asked = match round {
                0 => asked.reset_association(),
                1 => asked.reset_streams(StreamSelection::All, ResetDirection::Both),
                2 => asked.reset_streams(StreamSelection::All, ResetDirection::Outgoing),
                _ => asked.reset_streams(
                    StreamSelection::Listed(vec![StreamId(1), StreamId(3)]),
                    ResetDirection::Both,
                ),
            };
            // The answer to a request may be lost several times.
            assert!(
                matches!(asked, Ok(()) | Err(ReconfigurationError::InProgress)),
                "{asked:?}"
            );
            asked_for += usize::from(asked.is_ok());
            pair.run_ms(6_000);
        }
        pair.run_ms(60_000);
        assert!(asked_for >= 4, "seed {seed}");
        for side in Side::BOTH {
            let messages = pair.messages(side);
            assert_eq!(messages.len(), 8 * 4 * 5, "seed {seed}");
            for stream in 0..4 {
                let of_stream = messages.iter().filter(|one| one.stream == StreamId(stream));
                assert!(
                    of_stream.map(|one| &one.bytes).is_sorted(),
                    "seed {seed}: order of stream {stream}"
                );
            }
            let events = pair.events(side);
            assert!(resets(&events) >= 1, "seed {seed}: {events:?}");
        }
    }
}
