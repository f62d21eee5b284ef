//! Schedulers, priorities and weights (RFC 8260 §3) through the public interface.

use anabranch::{Config, SchedulerKind, SchedulingError, StreamId};

mod common;

use common::{pair, within};

/// Settings made on one handle are visible on other handles, settings without effect are refused, and every message arrives.
#[tokio::test]
async fn priorities_and_weights() {
    let pair = pair(Config::default()).await;
    let (chat, file) = (StreamId(1), StreamId(2));
    let association = pair.ours.clone();
    assert_eq!(association.scheduler(), SchedulerKind::Priority);
    association.set_scheduler(SchedulerKind::FirstComeFirstServed);
    let refused = association.set_stream_priority(file, 1);
    assert_eq!(
        refused,
        Err(SchedulingError::NoPriorities(SchedulerKind::FirstComeFirstServed))
    );
    association.set_scheduler(SchedulerKind::Priority);
    association.enable_default_priorities().unwrap();
    assert_eq!(pair.ours.stream_priority(file), 2);
    association.set_equal_priorities(chat..=StreamId(3)).unwrap();
    assert_eq!(pair.ours.stream_priority(StreamId(3)), 1);
    association.disable_priorities().unwrap();
    association.set_stream_priority(file, 7).unwrap();
    assert_eq!(
        (pair.ours.stream_priority(chat), pair.ours.stream_priority(file)),
        (0, 7)
    );
    for _ in 0..20 {
        association.send(file, vec![1; 5000]).await.unwrap();
        association.send(chat, vec![2; 50]).await.unwrap();
    }
    let mut came = [0; 2];
    for _ in 0..40 {
        let message = within(20, pair.theirs.recv()).await.unwrap().unwrap();
        came[usize::from(message.stream == file)] += 1;
    }
    assert_eq!(came, [20, 20]);
    within(20, association.drained()).await.unwrap();
    let stats = association.stream_stats(file);
    assert_eq!((stats.messages_sent, stats.messages_acknowledged), (20, 20));
    assert!(stats.network_delay_mean() <= Some(stats.network_delay_max));
    association.set_scheduler(SchedulerKind::WeightedFairQueueing);
    association.set_stream_weight(chat, 9).unwrap();
    assert_eq!(association.stream_weight(chat), 9);
    assert_eq!(
        association.set_stream_weight(chat, 0),
        Err(SchedulingError::ZeroWeight)
    );
    within(20, association.shutdown()).await.unwrap();
}
