//! The task that receives from a socket. It receives whole batches, so that acknowledgements, and the data that they allow to
//! be sent, leave in batches too. The task reads and routes packets; the tasks of the associations can handle them in parallel.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::hub::{Hub, Touched, stopped};
use super::sockets::OpenSocket;
use crate::datagram::{Datagram, ReceiveBuffers};
use crate::socket::Socket;
use crate::system_socket::{Failure, Failures};

/// Limit of system calls in a row. Then other tasks run.
const CALLS_IN_A_ROW: usize = 8;
/// Pause after an error, so that a broken socket does not keep a processor busy.
const PAUSE: Duration = Duration::from_millis(10);

impl Hub {
    pub(super) async fn receive(self: Arc<Self>, socket: Arc<OpenSocket>, mut stop: watch::Receiver<bool>) {
        let mut buffers = ReceiveBuffers::new();
        let mut touched = Touched::default();
        loop {
            tokio::select! {
                () = socket.readable() => {}
                () = socket.closed() => return,
                () = stopped(&mut stop) => return,
            }
            self.receive_icmp(&socket).await;
            let mut failures = Failures::default();
            for _ in 0..CALLS_IN_A_ROW {
                match self.receive_batch(&socket, &mut buffers, &mut touched) {
                    Ok(false) => failures = Failures::default(),
                    // The associations with full inboxes run first.
                    Ok(true) => {
                        tokio::task::yield_now().await;
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        // An error that an ICMP message about a sent packet caused needs no pause.
                        if failures.judge(socket.icmp_count()) != Failure::MayBePending {
                            tracing::debug!(%error, "receiving failed");
                            tokio::time::sleep(PAUSE).await;
                            break;
                        }
                    }
                }
            }
            tokio::task::consume_budget().await;
        }
    }

    async fn receive_icmp(&self, socket: &Socket) {
        loop {
            let (messages, more) = socket.take_icmp();
            if !messages.is_empty() {
                self.handle_icmp(messages);
            }
            if !more {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Routes a batch of datagrams to its associations; `keep` keeps the bytes of one. If one association got all of them, this task handles its inbox, which
    /// saves a change of tasks. If several did, their tasks handle them, possibly on other processors. Returns whether the
    /// inbox of an association is filled beyond `inbox::BEHIND`.
    pub(super) fn handle_batch<P: AsRef<[u8]>>(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = Datagram<P>>,
        keep: impl Fn(P) -> Bytes,
        local: SocketAddr,
        touched: &mut Touched,
    ) -> bool {
        // This runs the endpoint's code, not that of associations. A panic must not end the receiving task.
        let route = AssertUnwindSafe(|| {
            let datagrams = self.unseal(datagrams, keep);
            self.handle_datagrams(datagrams.into_iter(), local, touched);
        });
        if catch_unwind(route).is_err() {
            tracing::error!("the endpoint's code panicked: the rest of the batch of packets is lost");
        }
        let mut behind = std::mem::take(&mut touched.behind);
        let one = touched
            .associations
            .windows(2)
            .all(|pair| Arc::ptr_eq(&pair[0], &pair[1]));
        for association in touched.associations.drain(..) {
            if one && association.try_work() {
                behind = false;
            } else {
                association.wake();
            }
        }
        behind
    }

    fn receive_batch(
        self: &Arc<Self>,
        socket: &Socket,
        buffers: &mut ReceiveBuffers,
        touched: &mut Touched,
    ) -> io::Result<bool> {
        socket.try_recv(buffers)?;
        let datagrams = (0..buffers.filled()).flat_map(|buffer| socket.datagrams(buffers, buffer));
        let keep = |payload: &[u8]| buffers.pool.copy(payload);
        Ok(match &self.link {
            Some(link) => {
                let kept = datagrams.map(|datagram| datagram.keep(keep));
                let free = link.enqueue_received(self.now(), socket.local(), kept);
                self.handle_batch(free.into_iter(), std::convert::identity, socket.local(), touched)
            }
            None => self.handle_batch(datagrams, keep, socket.local(), touched),
        })
    }
}
