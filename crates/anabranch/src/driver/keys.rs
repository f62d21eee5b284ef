//! The key management of an association whose packets are encrypted: passes messages, keys and time between the core and TLS.

use std::collections::VecDeque;

use anabranch_proto::{Association, SendError, Timestamp};
pub(crate) use anabranch_tls::TlsSettings;
use anabranch_tls::{Action, KeyManagement, PeerIdentity};
use bytes::Bytes;

/// The longest message of key management that is joined from its parts.
const MOST_MESSAGE: usize = 1 << 16;

/// The key management of one association.
#[derive(Debug)]
pub(crate) struct Keys {
    settings: TlsSettings,
    /// `None` before set-up is complete.
    management: Option<KeyManagement>,
    /// The parts of a message that has not ended.
    partial: Vec<u8>,
    /// Messages that the association did not take, because the application has not ended one on their stream.
    waiting: VecDeque<Bytes>,
}

impl Keys {
    pub(crate) fn new(settings: &TlsSettings) -> Self {
        Self {
            settings: settings.clone(),
            management: None,
            partial: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// The certificate or key of the peer, after the first handshake.
    pub(crate) fn peer(&self) -> Option<&PeerIdentity> {
        self.management.as_ref()?.peer()
    }

    /// When [`Keys::work`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.management.as_ref()?.poll_timeout()
    }

    /// Handles the messages that arrived and the timers, and does what follows.
    pub(crate) fn work(&mut self, core: &mut Association, now: Timestamp) {
        if self.management.is_none() {
            let Some(agreement) = core.key_manager().agreement().cloned() else {
                return;
            };
            let management = KeyManagement::new(now, self.settings.clone(), agreement);
            self.management = Some(management);
        }
        let Some(management) = &mut self.management else {
            return;
        };
        if management.poll_timeout().is_some_and(|due| due <= now) {
            management.handle_timeout(now);
        }
        if let Some(epoch) = management.epoch() {
            management.handle_usage(now, core.key_manager().usage(epoch));
        }
        act(management, core, now, &mut self.waiting);
        while let Some((part, protected)) = core.key_manager().recv(now) {
            for piece in part.payload.pieces() {
                self.partial.extend_from_slice(piece);
            }
            // A longer message is malformed, and its beginning is enough to see that.
            self.partial.truncate(MOST_MESSAGE + 1);
            if part.ending {
                let message = std::mem::take(&mut self.partial).into();
                management.handle_message(now, &message, protected);
                // Before the next message: the keys of this one may be needed for it.
                act(management, core, now, &mut self.waiting);
            }
        }
        while let Some(message) = self.waiting.front() {
            if is_refused_for_now(core, now, message) {
                return;
            }
            self.waiting.pop_front();
        }
    }
}

/// Sends a message. True if the association takes it later.
fn is_refused_for_now(core: &mut Association, now: Timestamp, message: &Bytes) -> bool {
    // An association that has ended takes none, and needs none.
    let sent = core.key_manager().send(now, message.clone());
    matches!(sent, Err(SendError::MessageOpen(_)))
}

fn act(
    management: &mut KeyManagement,
    core: &mut Association,
    now: Timestamp,
    waiting: &mut VecDeque<Bytes>,
) {
    while let Some(action) = management.poll_action() {
        let mut manager = core.key_manager();
        let installed = match action {
            Action::Send(message) => {
                if !waiting.is_empty() || is_refused_for_now(core, now, &message) {
                    waiting.push_back(message);
                }
                continue;
            }
            Action::InstallReceiving(epoch, key) => manager.install_receiving(epoch, key),
            Action::InstallSending(epoch, key) => manager.install_sending(now, epoch, key),
            Action::RemoveReceiving(epoch) => {
                manager.remove_receiving(epoch);
                Ok(())
            }
            Action::Require => {
                manager.require(now);
                Ok(())
            }
            Action::Fail(why) => {
                manager.fail(now, why);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = installed {
            core.key_manager().fail(now, error.to_string());
        }
    }
}
