//! The settings of the core, for programs that cannot reach the settings of their associations. One test, because they are set once.

mod common;

use std::time::Duration;

use common::{Host, Kind, World, message, messages, ours};
use sctp_proto::anabranch_proto::{Config, controller::CongestionControl};
use sctp_proto::{TransportConfig, set_default_transport};

#[test]
fn the_default_transport_is_that_of_all_associations() {
    let mut core = Config::low_latency();
    core.interleaving.offer = false;
    core.streams.outbound = 100;
    core.congestion_control = CongestionControl::Cubic;
    let transport = TransportConfig::from(core).with_lifetime_is_deadline(true);
    assert!(set_default_transport(transport.clone()));
    assert!(!set_default_transport(transport));
    let mut world = World::connected(ours::Host::default(), ours::Host::default());
    let stats = world.client.association().core().stats();
    assert!(!stats.extensions.interleaving);
    assert_eq!(world.server.association().core().outbound_streams(), 100);
    // Messages with a deadline get copies where packets are lost.
    world.client.open(0, true, Kind::Timed(100));
    world.loss = 100;
    for number in 0..500 {
        assert!(world.client.write(0, &message(number, 200)));
        world.run(Duration::from_millis(10));
    }
    let arrived = messages(&world.server, 0).len();
    let counters = *world.client.association().core().counters();
    assert!(
        counters.early_copies > 100 || counters.repair_chunks > 100,
        "{counters:?}"
    );
    assert!(arrived > 490, "{arrived}");
}
