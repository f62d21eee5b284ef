//! Data over protected packets: several paths, losses, rekeying, moving addresses, path MTU.

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{
    Config, DynamicAddressConfig, Event, FIRST_EPOCH, MultipathMode, SendOptions, StreamId, TraceKind,
    TraceLevel,
};
use anabranch_testkit::{Ledger, Pair, Setup, Side, protect, with};
use anabranch_wire::chunk::kind;

use super::{MS, connected, link, protection};

fn lossy() -> LinkConfig {
    link()
        .with_rate(20_000_000)
        .with_jitter(2 * MS)
        .with_loss(LossModel::bernoulli(0.02))
        .with_reorder(0.01, 5 * MS)
        .with_duplicate(0.01)
        .with_corrupt(0.01)
}

fn post(pair: &mut Pair, messages: usize) -> [Ledger; 2] {
    let mut ledgers = Side::BOTH.map(|side| Ledger::new(pair.network.seed() + side as u64));
    for side in Side::BOTH {
        let parcels: Vec<_> = (0..messages)
            .map(|_| ledgers[side as usize].random_parcel(8, 20_000))
            .collect();
        pair.post(side, parcels);
    }
    ledgers
}

fn check_all(pair: &mut Pair, ledgers: &mut [Ledger; 2]) {
    let limit = pair.now() + 3_600_000 * MS;
    let mut arrived = |pair: &mut Pair| {
        Side::BOTH.into_iter().all(|side| {
            for message in pair.messages(side.other()) {
                ledgers[side as usize].check(&message).unwrap();
            }
            ledgers[side as usize].check_complete().is_ok()
        })
    };
    assert!(pair.run_to(limit, &mut arrived), "{}", pair.draw());
}

fn multipath(mode: MultipathMode) -> Config {
    with(Config::default(), |config| {
        config.multipath.mode = mode;
        protect(config);
    })
}

#[test]
fn two_paths_with_losses_lose_nothing() {
    for mode in [MultipathMode::Cmt, MultipathMode::Eca] {
        let setup = Setup::new(11).config(multipath(mode)).path(lossy()).path(lossy());
        let mut pair = connected(setup);
        let mut ledgers = post(&mut pair, 200);
        check_all(&mut pair, &mut ledgers);
        for path in pair.association(Side::A).stats().paths {
            assert!(path.data_chunks_sent > 20, "{path:?}");
        }
        pair.shutdown(Side::A);
        pair.run_ms(5000);
        pair.expect_orderly_end(&mut ledgers);
    }
}

/// A trace names what is in packets, whether or not they are encrypted.
#[test]
fn a_trace_reads_packets_before_their_encryption() {
    let counts = [false, true].map(|protected| {
        let config = with(Config::default(), |config| {
            if protected {
                protect(config);
            }
        });
        let mut pair = Setup::new(14).config(config).path(link()).build();
        pair.begin();
        pair.run_ms(5000);
        assert_eq!(pair.association(Side::A).stats().protection.is_some(), protected);
        Side::BOTH.into_iter().for_each(|side| pair.host_mut(side).set_tracing(TraceLevel::Packets));
        let mut ledgers = post(&mut pair, 20);
        check_all(&mut pair, &mut ledgers);
        pair.run_ms(1000);
        let events = pair.host_mut(Side::A).take_trace();
        let count = |is: fn(&TraceKind) -> bool| events.iter().filter(|(_, event)| is(&event.kind)).count();
        let acknowledged = count(|kind| matches!(kind, TraceKind::MessageAcknowledged { .. }));
        let of_dtls = count(|event| {
            matches!(event, TraceKind::PacketSent { chunks, .. } if chunks.iter().any(|chunk| chunk.kind == kind::DTLS))
        });
        (count(|kind| matches!(kind, TraceKind::DataSent { .. })) > 20, acknowledged, of_dtls)
    });
    assert_eq!(counts, [(true, 20, 0); 2]);
}

/// A rekey begins every 50 ms, from alternating sides, while data flows and one path is lost meanwhile.
#[test]
fn rekeying_under_load_loses_nothing() {
    let setup = Setup::new(12)
        .config(multipath(MultipathMode::Cmt))
        .path(lossy())
        .path(lossy());
    let mut pair = connected(setup);
    let mut ledgers = post(&mut pair, 3000);
    let mut epoch = FIRST_EPOCH;
    for round in 0..200 {
        let side = Side::BOTH[round % 2];
        let both = Side::BOTH.map(|side| protection(&pair, side).epoch);
        // The next one begins when the last one has ended.
        if both == [Some(epoch); 2] {
            epoch += 1;
            for side in Side::BOTH {
                let manager = pair.association_mut(side);
                manager.key_manager().remove_receiving(epoch - 2);
            }
            let now = pair.now();
            let mut keys = std::mem::take(&mut pair.talker(side).keys);
            keys.begin(
                now,
                &mut pair.association_mut(side).key_manager(),
                epoch.max(FIRST_EPOCH + 1),
            );
            pair.talker(side).keys = keys;
        }
        pair.cut(1, (20..40).contains(&round));
        pair.run_ms(50);
    }
    assert!(epoch > FIRST_EPOCH + 4, "{epoch}");
    check_all(&mut pair, &mut ledgers);
    for side in Side::BOTH {
        assert!(protection(&pair, side).epoch >= Some(epoch - 1));
    }
}

/// §3.2: addresses change in protected packets, without AUTH and without the lookup address.
#[test]
fn addresses_are_added_and_deleted() {
    let config = with(multipath(MultipathMode::Cmt), |config| {
        config.dynamic_addresses = Some(DynamicAddressConfig::default());
    });
    let setup = Setup::new(13).config(config).path(link()).path(link());
    let first = "10.0.0.1".parse().unwrap();
    let second = "10.1.0.1".parse().unwrap();
    let mut pair = connected(setup.adjust(Side::A, |config| config.local_addresses = vec![first]));
    let now = pair.now();
    pair.association_mut(Side::A)
        .local_addresses()
        .add(now, second)
        .expect("negotiated");
    pair.run_ms(3000);
    let now = pair.now();
    assert_eq!(
        pair.association_mut(Side::A).local_addresses().list(),
        [first, second]
    );
    let mut ledgers = post(&mut pair, 50);
    check_all(&mut pair, &mut ledgers);
    pair.association_mut(Side::A)
        .local_addresses()
        .remove(now, first)
        .expect("negotiated");
    pair.run_ms(3000);
    let known: Vec<_> = pair
        .association(Side::Z)
        .stats()
        .paths
        .iter()
        .map(|path| path.remote.ip())
        .collect();
    assert!(!known.contains(&first) && known.contains(&second), "{known:?}");
    let events = pair.events(Side::A);
    assert!(events.iter().any(|event| matches!(event, Event::Addresses(_))));
    pair.send(Side::Z, 3, "to the new address");
    pair.run_ms(500);
    assert!(
        pair.messages(Side::A)
            .iter()
            .any(|message| message.stream == StreamId(3))
    );
}

/// A record has at most 16,384 bytes of chunks.
#[test]
fn path_mtu_discovery_counts_the_overhead() {
    for (mtu, expected) in [(1500, 1500), (9000, 9000), (65_535, 16_384 + 12 + 28 + 28)] {
        let config = with(Config::default(), |config| {
            config.path_mtu_limit = mtu;
            protect(config);
        });
        let mut pair = connected(
            Setup::new(14)
                .config(config)
                .path(link().with_rate(1_000_000_000).with_mtu(u16::MAX)),
        );
        let limit = pair.now() + 600_000 * MS;
        let found = pair.run_to(limit, |pair| {
            let now = pair.now();
            let association = pair.association_mut(Side::A);
            // Full packets keep discovery going.
            let _ = association.send(now, StreamId(0), vec![7; 200_000].into(), SendOptions::default());
            pair.messages(Side::Z);
            pair.association(Side::A).stats().paths[0].pmtu == expected
        });
        assert!(found, "{mtu}");
        pair.run_ms(60_000);
        assert_eq!(pair.association(Side::A).stats().paths[0].pmtu, expected);
    }
}
