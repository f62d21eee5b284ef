//! One visitor: a peer connection, the page's traffic, and echoes.

use std::sync::Arc;
use std::time::Duration;

use anabranch::LinkedSocket;
use anabranch_datachannel::{DataChannel, PeerConnection};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::game::{CONTROL, Game};
use crate::places::Place;

/// How long a visitor may take to connect after its offer.
const CONNECTING: Duration = Duration::from_secs(30);
/// How long the last packets may take to leave the link.
const LEAVING: Duration = Duration::from_secs(2);

/// A visitor whose offer was answered.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) connection: PeerConnection,
    pub(super) socket: Arc<LinkedSocket>,
    pub(super) place: Place,
    pub(super) longest: Duration,
    /// True when the server stops.
    pub(super) stop: watch::Receiver<bool>,
}

impl Visit {
    /// Serves the visitor until it leaves or is displaced, for the longest visit at most. Calls `arrive` when it has connected. Returns why
    /// the visit ended, in words for the operator.
    pub(super) async fn serve(
        &mut self,
        displaced: impl Future<Output = ()>,
        arrive: impl FnOnce() + Send,
    ) -> String {
        let (peer, socket, place) = (&self.connection, &self.socket, &self.place);
        let visiting = async {
            let reason = tokio::select! {
                reason = visit(peer, socket, place, arrive) => reason,
                () = tokio::time::sleep(self.longest) => "the longest visit was reached".to_owned(),
                _ = self.stop.wait_for(|stop| *stop) => "stopped".to_owned(),
                () = displaced => "displaced before it connected".to_owned(),
            };
            peer.close();
            let _ = tokio::time::timeout(LEAVING, socket.drained()).await;
            reason
        };
        tokio::select! {
            reason = visiting => reason,
            () = socket.carry() => "the socket failed".to_owned(),
        }
    }
}

async fn visit(
    peer: &PeerConnection,
    socket: &Arc<LinkedSocket>,
    place: &Place,
    arrive: impl FnOnce(),
) -> String {
    match tokio::time::timeout(CONNECTING, peer.connected()).await {
        Err(_) => return "did not connect".to_owned(),
        Ok(Err(end)) => return format!("did not connect: {end}"),
        Ok(Ok(())) => {}
    }
    place.connected();
    arrive();
    // Dropped, and so ended, with the visit.
    let mut channels = JoinSet::new();
    let mut playing = false;
    loop {
        tokio::select! {
            channel = peer.accept() => {
                let Some(channel) = channel else { break };
                if channel.config().label == CONTROL && !playing {
                    playing = true;
                    let (game, peer) = (Game::new(Arc::clone(socket)), peer.clone());
                    channels.spawn(async move {
                        game.run(&peer, channel).await;
                    });
                } else {
                    channels.spawn(echo(channel));
                }
            }
            Some(_) = channels.join_next() => {}
        }
    }
    format!("left: {:?}", peer.closed().await)
}

/// Sends every message back. A visitor that does not read is not read either.
async fn echo(channel: DataChannel) {
    while let Some(message) = channel.recv().await {
        if channel.send(message).await.is_err() {
            return;
        }
    }
}
