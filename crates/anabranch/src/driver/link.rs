//! The task that takes packets out of the in-process links, in real time.
//!
//! The runtime's timers have a resolution of 1 ms: packets arrive up to 1 ms later than the link's delay requires, and the
//! packets of a fast link leave in bursts.

use std::sync::Arc;
use std::time::Duration;

use anabranch_netsim::Packet;
use tokio::sync::watch;

use super::hub::{Hub, Stop, Touched, stopped};
use super::link_layer::LinkLayer;
use crate::datagram::{Datagram, MAX_BATCH, Outgoing};

/// How long the endpoint waits for the SHUTDOWN ACK that a peer retransmits after the loss of the SHUTDOWN COMPLETE. With an
/// RTO.Min of 1 s, the third retransmission comes after 7 s.
const LAST_ANSWER: Duration = Duration::from_secs(8);
/// Interval of the checks whether the endpoint has answered it.
const LOOK: Duration = Duration::from_millis(10);
impl Hub {
    /// Whether a link lost the packet that was sent last.
    pub(super) fn lost_last(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.lost_last().is_some())
    }

    /// If a link lost the last packet, the SHUTDOWN COMPLETE, waits for the peer's next SHUTDOWN ACK, which the core answers.
    pub(super) async fn wait_for_shutdown_acks(&self) {
        let lost = || self.link.as_ref().and_then(LinkLayer::lost_last);
        while lost().is_some_and(|lost| self.now() < lost + LAST_ANSWER) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the links are empty after the stop. It waits for the end of [`Hub::carry`], not for empty links: nobody would empty
    /// them if a packet came later, or if the runtime ended that task.
    pub(super) async fn carried(&self) {
        if let Some(link) = &self.link {
            stopped(&mut link.ended.subscribe()).await;
        }
    }

    /// The task that takes packets out of the links when they are due: it sends them, or handles them as received. After the stop it ends as
    /// soon as the links are empty.
    pub(super) fn carry(self: Arc<Self>, stop: watch::Receiver<bool>) -> impl Future<Output = ()> + Send {
        // Also if the runtime drops the task before it begins.
        let ended = self.link.as_ref().map(|link| Stop(link.ended.clone()));
        async move {
            let _ended = ended;
            self.carry_until(stop).await;
        }
    }

    async fn carry_until(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let Some(link) = &self.link else { return };
        let (mut outward, mut inward, mut touched) = (Vec::new(), Vec::new(), Touched::default());
        let mut buffer = Vec::new();
        let mut stopping = false;
        loop {
            link.take(self.now(), &mut outward, &mut inward);
            for group in groups(&outward) {
                self.send_group(group, &mut buffer).await;
            }
            outward.clear();
            let datagrams = inward.drain(..).map(
                |Packet {
                     source,
                     destination,
                     payload,
                     ecn,
                     ..
                 }| {
                    let local = (!destination.ip().is_unspecified()).then_some(destination.ip());
                    Datagram {
                        local,
                        remote: source,
                        ecn,
                        payload: payload.into_sctp(),
                    }
                },
            );
            // All sockets have the same port, and the datagrams contain their addresses.
            if self.handle_batch(
                datagrams,
                std::convert::identity,
                self.sockets.all()[0].local(),
                &mut touched,
            ) {
                tokio::task::yield_now().await;
            }
            // After the endpoint is closed, the last packets (SHUTDOWN COMPLETE, ABORT) must still leave, and also the answers
            // to the packets that have just arrived.
            let next = link.next_event();
            if stopping && next.is_none() {
                return;
            }
            tokio::select! {
                () = link.wake.notified() => {}
                () = tokio::time::sleep_until(self.instant(next.unwrap_or_default())), if next.is_some() => {}
                () = stopped(&mut stop), if !stopping => stopping = true,
            }
        }
    }

    /// Sends packets as one batch.
    async fn send_group(&self, group: &[Packet], buffer: &mut Vec<u8>) {
        let Some(first) = group.first() else { return };
        buffer.clear();
        group
            .iter()
            .for_each(|packet| buffer.extend_from_slice(packet.payload.sctp()));
        let source = first.source.ip();
        let mut outgoing = Outgoing {
            source: (!source.is_unspecified()).then_some(source),
            destination: first.destination,
            len: buffer.len(),
            segment: first.payload.len(),
            may_fragment: first.may_fragment,
            ecn: first.ecn,
            dscp: first.dscp,
            sent: 0,
        };
        let Some(socket) = self.socket_for(&outgoing) else {
            return;
        };
        while let Err(error) = socket.try_send(&mut outgoing, buffer) {
            if error.kind() != std::io::ErrorKind::WouldBlock {
                tracing::debug!(destination = %outgoing.destination, %error, "lost after the link");
                return;
            }
            socket.writable().await;
        }
    }
}

/// Divides packets, in order, into runs that can leave as one batch: with the same addresses, codepoints and length. Only the last
/// packet of a run may be shorter.
fn groups(packets: &[Packet]) -> impl Iterator<Item = &[Packet]> {
    let mut rest = packets;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let len = first.payload.len();
        let most = (MAX_BATCH / len.max(1)).clamp(1, 64);
        let mut count = 1;
        while count < most
            && let Some(packet) = rest.get(count)
            && (packet.source, packet.destination) == (first.source, first.destination)
            && (packet.ecn, packet.dscp) == (first.ecn, first.dscp)
            && !packet.may_fragment
            && !first.may_fragment
            && packet.payload.len() <= len
            && !packet.payload.is_empty()
        {
            count += 1;
            if packet.payload.len() < len {
                break;
            }
        }
        let (group, after) = rest.split_at(count);
        rest = after;
        Some(group)
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch_netsim::Ecn;
    use anabranch_proto::Dscp;

    use super::*;

    fn packet(destination: u16, len: usize) -> Packet {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Packet {
            source: at(1),
            destination: at(destination),
            payload: vec![0; len].into(),
            may_fragment: false,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
        }
    }

    #[test]
    fn packets_with_equal_addresses_and_lengths_leave_in_one_batch() {
        let packets = [
            packet(5, 100),
            packet(5, 100),
            packet(5, 60),
            packet(5, 60),
            packet(6, 60),
            packet(6, 61),
        ];
        let lengths: Vec<_> = groups(&packets).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [3, 1, 1, 1]);
        let many: Vec<_> = (0..200).map(|_| packet(5, 1252)).collect();
        let lengths: Vec<_> = groups(&many).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [52, 52, 52, 44]);
        let mut mixed = vec![packet(5, 100); 5];
        mixed[2].ecn = Ecn::Ce;
        let lengths: Vec<_> = groups(&mixed).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [2, 1, 2]);
        mixed[3].dscp = Dscp::EF;
        let lengths: Vec<_> = groups(&mixed).map(<[Packet]>::len).collect();
        assert_eq!(lengths, [2, 1, 1, 1]);
    }

    async fn turns() {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }

    /// As an alert of DTLS that is sent while the endpoint stops: nothing takes it out of the link.
    #[tokio::test]
    async fn a_packet_after_the_end_of_the_links_task_holds_up_no_close() {
        let link = "delay=10ms".parse().expect("a link");
        let builder = crate::Endpoint::builder().link(link, 1);
        let endpoint = builder.bind("127.0.0.1:0").await.expect("a socket on loopback");
        endpoint.close().await;
        turns().await;
        let mut late = Outgoing {
            source: None,
            destination: SocketAddr::from(([127, 0, 0, 1], 9)),
            len: 4,
            segment: 4,
            may_fragment: false,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
            sent: 0,
        };
        endpoint
            .hub()
            .try_send(&mut late, b"late")
            .expect("the link takes it");
        tokio::select! {
            biased;
            () = endpoint.close() => {}
            () = turns() => panic!("it waits for a task that has ended"),
        }
    }
}
