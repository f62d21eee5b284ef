//! Selective forward TSN with fragmented messages, measured: head-of-line blocking of the messages after a loss.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::SendOptions;
use anabranch_testkit::fixture::{MS, NEVER_AGAIN};
use anabranch_testkit::{Setup, Side, quiet};

/// The mean time that ordered frames of 3,500 bytes waited at the receiver for earlier frames, at 5 % loss and an RTT of 200
/// ms.
fn blocking(seed: u64, interleaving: bool, distance: Option<u32>) -> Duration {
    let mut config = quiet();
    config.partial_reliability.offer = true;
    config.partial_reliability.selective_forward_tsn = distance;
    config.interleaving.offer = interleaving;
    config.nr_sack.offer = true;
    let there = LinkConfig::default().with_rate(50_000_000).with_delay(100 * MS);
    let back = there.clone();
    let mut pair = Setup::new(seed)
        .captured(false)
        .config(config)
        .path_of(there.clone(), back)
        .connect();
    pair.run_ms(1000);
    let (link, _) = pair.links(0);
    pair.network
        .set_link_config(link, there.with_loss(LossModel::bernoulli(0.05)));
    let options = SendOptions::default().reliability(NEVER_AGAIN);
    let (mut sent_at, mut delays) = (Vec::new(), Vec::new());
    for frame in 0..600_u64 {
        sent_at.push(pair.now());
        let mut bytes = vec![0; 3500];
        bytes[..8].copy_from_slice(&frame.to_le_bytes());
        pair.send_with(Side::A, 0, bytes, options);
        pair.run_ms(300);
        for message in pair.messages(Side::Z) {
            let frame = u64::from_le_bytes(message.bytes[..8].try_into().expect("8 bytes"));
            delays.push(message.at.saturating_duration_since(sent_at[frame as usize]));
        }
    }
    let least = delays.iter().min().copied().expect("frames came");
    let waited: Duration = delays.iter().map(|delay| *delay - least).sum();
    waited / delays.len() as u32
}

/// Every fragment has a notice, so frames of three fragments gain as much as frames of one: the loss of a fragment blocks the
/// next frame until a later packet arrives, not until a FORWARD-TSN arrives.
#[test]
fn frames_in_fragments_gain_as_whole_ones() {
    for interleaving in [false, true] {
        let mean = |distance| {
            (0..4)
                .map(|seed| blocking(seed, interleaving, distance))
                .sum::<Duration>()
                / 4
        };
        let (without, with) = (mean(None), mean(Some(1)));
        println!("interleaving {interleaving}: {without:?} without notices, {with:?} with");
        assert!(5 * with < without, "{with:?} of {without:?}");
    }
}
