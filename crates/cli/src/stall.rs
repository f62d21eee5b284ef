//! A time limit for the peer's acknowledgement of all data. A peer can keep an association alive for ever without accepting
//! data: it closes its receive window and answers every window probe. A command that has done its work does not wait for
//! such a peer.

use std::time::{Duration, Instant};

use anabranch::Association;

use crate::units;

/// How long a peer may make no progress. In a shutdown, it is the command's T5-shutdown-guard: 5 · `RTO.Max`, as RFC 9260 §9.2 recommends, in
/// place of the library's 5 s.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);
/// Bytes that a peer must acknowledge within the limit, unless fewer remain: a slow transfer continues, but a transfer of one byte per
/// minute ends.
const PROGRESS: usize = 64 << 10;
/// Maximum time between two checks.
const LOOK: Duration = Duration::from_millis(250);

/// Waits until all sent data is acknowledged.
///
/// # Errors
/// The association ended earlier, or the peer acknowledged neither 64 KiB nor all remaining data within [`LIMIT`]. The wait takes
/// at most [`LIMIT`] for each 64 KiB of outstanding data, plus [`LIMIT`].
pub(crate) async fn drained(association: &Association) -> Result<(), String> {
    drained_within(association, LIMIT).await
}

async fn drained_within(association: &Association, limit: Duration) -> Result<(), String> {
    tokio::select! {
        drained = association.drained() => drained.map_err(|error| error.to_string()),
        left = stalled(association, limit) => Err(format!(
            "the peer accepts no more data: {left} bytes are not acknowledged, and the peer acknowledged less than {} in {}",
            units::size(PROGRESS as u64),
            units::duration(limit)
        )),
    }
}

/// Waits until the peer makes no progress; returns the number of unacknowledged bytes.
async fn stalled(association: &Association, limit: Duration) -> usize {
    let left = || {
        let stats = association.stats();
        stats.queued_bytes + stats.outstanding_bytes
    };
    let (mut least, mut since) = (left(), Instant::now());
    loop {
        tokio::time::sleep(LOOK.min(limit / 4)).await;
        let left = left();
        if least.saturating_sub(left) >= PROGRESS {
            (least, since) = (left, Instant::now());
        } else if since.elapsed() >= limit {
            return left;
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::{Config, Endpoint, StreamId};

    use super::*;

    const SHORT: Duration = Duration::from_millis(500);

    /// A client, and a server whose receive window has room for one message.
    async fn pair() -> (Endpoint, Association, Association) {
        let mut config = Config::default();
        config.buffers.receive = 8 << 10;
        config.buffers.growth = 1;
        let bind = |config| Endpoint::builder().config(config).bind("127.0.0.1:0");
        let server = bind(config).await.unwrap();
        let client = bind(Config::default()).await.unwrap();
        server.listen().unwrap();
        let (ours, theirs) = tokio::join!(client.connect(server.local_addr()), server.accept());
        (client, ours.unwrap(), theirs.unwrap())
    }

    async fn within<T>(work: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(60), work)
            .await
            .expect("it takes too long")
    }

    #[tokio::test]
    async fn the_wait_for_a_peer_that_accepts_nothing_ends_at_the_limit() {
        let (_client, ours, theirs) = pair().await;
        ours.send(StreamId(0), vec![7; 200_000]).await.unwrap();
        let begun = Instant::now();
        let problem = within(drained_within(&ours, SHORT)).await.unwrap_err();
        assert!(begun.elapsed() >= SHORT);
        assert!(problem.contains("accepts no more"), "{problem}");
        assert_eq!((ours.close_reason(), theirs.close_reason()), (None, None));
    }

    #[tokio::test]
    async fn a_slow_reader_is_waited_for() {
        let (_client, ours, theirs) = pair().await;
        for _ in 0..20 {
            ours.send(StreamId(0), vec![7; 8_000]).await.unwrap();
        }
        let reading = async {
            for _ in 0..20 {
                theirs.recv().await.unwrap().expect("another message");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // The limit for each 64 KiB is far longer than this transfer.
        let (drained, ()) = within(async { tokio::join!(drained(&ours), reading) }).await;
        assert_eq!(drained, Ok(()));
    }
}
