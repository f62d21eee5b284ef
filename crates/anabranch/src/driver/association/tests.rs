//! The effect of one association on other associations of the same socket: a panic in its code, and long work under its lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use anabranch_proto::{CloseReason, Config, PathId, StreamId};

use super::answers;
use crate::lock::lock;
use crate::{Association, Endpoint, RecvError, SendError};

const PORT: u16 = 7;

/// Fails a test that hangs.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("it takes too long")
}

/// Two endpoints, and both ends of each association between them.
struct Bench {
    client: Endpoint,
    server: Endpoint,
    both: Vec<(Association, Association)>,
}

impl Bench {
    async fn new(associations: usize) -> Self {
        let bind = || Endpoint::builder().config(Config::default()).bind("127.0.0.1:0");
        let (client, server) = (bind().await.unwrap(), bind().await.unwrap());
        server.listen_on_port(PORT).unwrap();
        let mut bench = Self {
            client,
            server,
            both: Vec::new(),
        };
        for _ in 0..associations {
            let both = bench.connect().await;
            bench.both.push(both);
        }
        bench
    }

    async fn connect(&self) -> (Association, Association) {
        let connecting = self.client.connect_to_port(self.server.local_addr(), PORT);
        let (ours, theirs) = within(async { tokio::join!(connecting, self.server.accept()) }).await;
        (ours.unwrap(), theirs.unwrap())
    }
}

/// Sends a message in each direction.
async fn talks((ours, theirs): &(Association, Association)) {
    for (from, to) in [(ours, theirs), (theirs, ours)] {
        from.send(StreamId(0), "hello").await.unwrap();
        let got = within(to.recv()).await.unwrap().unwrap();
        assert_eq!(got.into_bytes(), "hello");
    }
}

/// The association that panicked has ended and its peer got an ABORT; other and new associations work.
async fn only_the_first_is_over(bench: &Bench) {
    let (ours, theirs) = &bench.both[0];
    assert_eq!(within(ours.closed()).await, CloseReason::InternalError);
    let refused = ours.send(StreamId(0), "more").await.unwrap_err();
    assert_eq!(refused, SendError::Closed(CloseReason::InternalError));
    let ended = within(ours.recv()).await.unwrap_err();
    assert_eq!(ended, RecvError::Closed(CloseReason::InternalError));
    assert!(ended.to_string().contains("panicked"), "{ended}");
    let told = within(theirs.closed()).await;
    assert!(matches!(told, CloseReason::AbortedByPeer(_)), "{told:?}");
    talks(&bench.both[1]).await;
    talks(&bench.connect().await).await;
    within(async {
        while bench.client.associations() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(async { tokio::join!(bench.client.close(), bench.server.close()) }).await;
}

#[tokio::test]
async fn a_panic_while_a_packet_is_handled_ends_one_association() {
    let bench = Bench::new(2).await;
    let (ours, theirs) = &bench.both[0];
    lock(&ours.shared().state).panics = true;
    theirs.send(StreamId(0), "the last straw").await.unwrap();
    only_the_first_is_over(&bench).await;
}

#[tokio::test]
async fn a_panic_in_a_call_of_the_application_ends_one_association() {
    let bench = Bench::new(2).await;
    let shared = bench.both[0].0.shared();
    let call = AssertUnwindSafe(|| shared.with(|_, _| panic!("a test wants this panic")));
    assert!(catch_unwind(call).is_err(), "the caller learns of it too");
    only_the_first_is_over(&bench).await;
}

/// An association that holds its lock for long does not delay other associations on the socket: no thread works on it under the
/// endpoint's lock, and the receiving task does not wait for its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_association_at_work_holds_up_no_other() {
    let bench = Bench::new(2).await;
    let (busy, its_peer) = &bench.both[0];
    let (working, begun) = mpsc::channel();
    let (done, wait) = mpsc::channel::<()>();
    let at_work = std::thread::spawn({
        let busy = busy.clone();
        move || {
            let state = lock(&busy.shared().state);
            working.send(()).unwrap();
            let _ = wait.recv();
            drop(state);
        }
    });
    begun.recv().unwrap();
    // HEARTBEAT, DATA, and the end of the association.
    its_peer.request_heartbeat(PathId(0)).unwrap();
    its_peer.send(StreamId(0), "hello").await.unwrap();
    its_peer.request_heartbeat(PathId(0)).unwrap();
    its_peer.abort("enough");
    talks(&bench.both[1]).await;
    talks(&bench.connect().await).await;
    drop(done);
    at_work.join().unwrap();
    let got = within(busy.recv()).await.unwrap().unwrap();
    assert_eq!(got.into_bytes(), "hello", "it waited, and was not lost");
    let ended = within(busy.closed()).await;
    assert!(matches!(ended, CloseReason::AbortedByPeer(_)), "{ended:?}");
}

#[test]
fn large_packets_get_one_answer_for_64_kib() {
    assert_eq!(answers(0, 0), 8);
    assert_eq!(answers(4, 4 * 1_400), 8);
    assert_eq!(
        answers(350, 350 * 1_400),
        8,
        "also many: fast retransmission needs several"
    );
    assert_eq!(answers(4, 4 * 16_000), 1);
    assert_eq!(answers(12, 12 * 16_000), 3);
    assert_eq!(answers(8, 8 * 65_000), 8);
}
