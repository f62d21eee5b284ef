//! The task that receives from a socket: whole batches, so that acknowledgements and what they release leave in
//! batches too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::association::Shared;
use super::{Hub, stopped};
use crate::socket::ReceiveBuffers;

/// System calls in a row before other tasks get their turn.
const CALLS_IN_A_ROW: usize = 8;
/// Pause after an error, so that a broken socket does not take a processor.
const PAUSE: Duration = Duration::from_millis(10);

impl Hub {
    pub(super) async fn receive(self: Arc<Self>, index: usize, mut stop: watch::Receiver<bool>) {
        let mut buffers = ReceiveBuffers::new();
        let mut touched = Vec::new();
        loop {
            tokio::select! {
                // An error is told by the call that receives.
                _ = self.sockets[index].readable() => {}
                () = stopped(&mut stop) => return,
            }
            for _ in 0..CALLS_IN_A_ROW {
                match self.receive_batch(index, &mut buffers, &mut touched) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        tracing::debug!(%error, "receiving failed");
                        tokio::time::sleep(PAUSE).await;
                        break;
                    }
                }
            }
            tokio::task::consume_budget().await;
        }
    }

    fn receive_batch(
        self: &Arc<Self>,
        index: usize,
        buffers: &mut ReceiveBuffers,
        touched: &mut Vec<Arc<Shared>>,
    ) -> io::Result<()> {
        let socket = &self.sockets[index];
        socket.try_recv(buffers)?;
        for buffer in 0..buffers.filled() {
            let datagrams = socket.datagrams(buffers, buffer);
            match &self.link {
                Some(link) => link.enqueue_received(self.now(), socket.local(), datagrams),
                None => self.handle_datagrams(datagrams, socket.local(), touched),
            }
        }
        for association in touched.drain(..) {
            association.after_packets();
        }
        Ok(())
    }
}
