//! A receiver with more gaps than fit an acknowledgement still acknowledges (RFC 9260 §6.2).

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::Config;
use anabranch_testkit::{Setup, Side};

const MS: Duration = Duration::from_millis(1);

/// Every second one of 2,000 packets of 1,500 bytes is lost: 1,000 gaps. An acknowledgement of 1,456 bytes lists 359 of them.
#[test]
fn more_gaps_than_fit_an_acknowledgement() {
    let mut config = Config::default();
    config.path_mtu = 1500;
    config.path_mtu_limit = 1500;
    config.initial_window = Some(4000);
    config.max_burst = 4000;
    config.buffers.send = 8 << 20;
    config.buffers.receive = 8 << 20;
    let link = LinkConfig::default()
        .with_rate(100_000_000)
        .with_delay(250 * MS)
        .with_queue(QueueLimit::Unlimited);
    let mut pair = Setup::new(1).path(link.clone()).config(config).connect();
    let lost = (0..1000).map(|gap| 100 + 2 * gap).collect();
    pair.set_path(0, &link.clone().with_loss(LossModel::Script(lost)));
    let begin = pair.now();
    pair.send(Side::A, 0, vec![1; 3000 * 1444]);
    pair.run_ms(10);
    pair.set_path(0, &link);
    let arrived = pair.run_to(begin + 30_000 * MS, |pair| !pair.messages(Side::Z).is_empty());
    let counters = pair.association(Side::A).counters();
    assert!(arrived, "{counters:?}");
}
