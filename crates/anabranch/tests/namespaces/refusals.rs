//! Packets that the system refuses to send during an association: packets larger than the MTU of the interface (EMSGSIZE), and all
//! packets while the interface is down (ENETUNREACH).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anabranch::{Association, Config, Endpoint, PathStats, StreamId};

use crate::bed::{Bed, wait_until};

const PORT: u16 = 7;
const MESSAGES: u32 = 300;

fn config() -> Config {
    let mut config = Config::default();
    // Larger than the interface's MTU: the system refuses the first full packet.
    config.path_mtu = 9000;
    config.path_mtu_limit = 9000;
    config.rto.initial = Duration::from_millis(50);
    config.rto.min = Duration::from_millis(50);
    config.rto.max = Duration::from_millis(200);
    config.retransmissions.association_max_retrans = 1000;
    config.retransmissions.path_max_retrans = 1000;
    config
}

fn message(number: u32) -> Vec<u8> {
    let len = 20_000 + number as usize;
    (0..len).map(|at| (at as u32 ^ number) as u8).collect()
}

async fn send(association: Association, sent: Arc<AtomicU32>) -> PathStats {
    for number in 0..MESSAGES {
        association
            .send(StreamId(0), message(number))
            .await
            .expect("the association goes on");
        sent.fetch_add(1, Ordering::Relaxed);
        // The transfer must last until the interface is down.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    association.drained().await.expect("all of it arrives");
    association.stats().paths.remove(0)
}

#[test]
fn what_the_interface_refuses_is_sent_again_or_smaller() {
    let Some(bed) = Bed::build("refusals", &["a"], &[]) else {
        return;
    };
    bed.ip("a", "link set lo mtu 2000");
    let sent = Arc::new(AtomicU32::new(0));
    let both = bed.inside("a", {
        let sent = Arc::clone(&sent);
        move || async move {
            let bind = || Endpoint::builder().config(config()).bind("127.0.0.1:0");
            let (client, server) = (bind().await.expect("bind"), bind().await.expect("bind"));
            server.listen_on_port(PORT).expect("listen");
            let (ours, theirs) =
                tokio::join!(client.connect_to_port(server.local_addr(), PORT), server.accept());
            let theirs = theirs.expect("it arrives");
            let receiving = async {
                for number in 0..MESSAGES {
                    let got = theirs.recv().await.expect("recv").expect("another message");
                    assert!(got.into_bytes() == message(number), "message {number}");
                }
            };
            tokio::join!(send(ours.expect("connect"), sent), receiving).0
        }
    });
    wait_until("a third is sent", || sent.load(Ordering::Relaxed) >= MESSAGES / 3);
    bed.ip("a", "link set lo down");
    std::thread::sleep(Duration::from_millis(300));
    bed.ip("a", "link set lo up");
    let path = both.join().expect("all of it arrives");
    assert!((1280..=2000).contains(&path.pmtu), "{}", path.pmtu);
}
