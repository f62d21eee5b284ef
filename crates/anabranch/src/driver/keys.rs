//! The key management of an association whose packets are encrypted: passes messages, keys and time between the core and TLS.

use std::collections::VecDeque;

use anabranch_proto::{Association, ProtectionConfig, SendError, Timestamp};
pub(crate) use anabranch_tls::TlsSettings;
use anabranch_tls::{Action, KeyManagement, PeerIdentity, RestartKeys, RestartPlace, ShownIdentity, Suite};
use bytes::Bytes;

/// The longest message of key management that is joined from its parts.
const MOST_MESSAGE: usize = 1 << 16;

/// The settings of the core for packets that are encrypted with such keys.
pub(crate) fn protection(settings: &TlsSettings) -> ProtectionConfig {
    let mut protection = ProtectionConfig::default();
    protection.restart = settings.permits_restarts();
    protection
}

/// The key management of one association.
#[derive(Debug)]
pub(crate) struct Keys {
    settings: TlsSettings,
    storage: Storage,
    /// The peer and the cipher suite of the restart keys with which this endpoint restarts the association.
    restarting: Option<(PeerIdentity, Suite)>,
    /// The restarts by the peer so far.
    restarts: u64,
    /// `None` before set-up is complete.
    management: Option<KeyManagement>,
    /// The parts of a message that has not ended.
    partial: Vec<u8>,
    /// Messages that the association did not take, because the application has not ended one on their stream.
    waiting: VecDeque<Bytes>,
}

impl Keys {
    /// The key management of a new association. If this endpoint begins the association, and has stored the restart keys of a former one with
    /// the same addresses and ports, it restarts that one. This reads and removes a file.
    pub(crate) fn new(settings: &TlsSettings, core: &mut Association) -> Self {
        let storage = Storage::new(core);
        let restarting = storage.restart(settings, core);
        Self {
            settings: settings.clone(),
            storage,
            restarting,
            restarts: 0,
            management: None,
            partial: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// The certificate or key of the peer, after the first handshake.
    pub(crate) fn peer(&self) -> Option<&PeerIdentity> {
        self.management.as_ref()?.peer()
    }

    /// The certificate or key that the peer showed and that the settings do not name.
    pub(crate) fn not_accepted(&self) -> Option<ShownIdentity> {
        self.management.as_ref()?.not_accepted()
    }

    /// When [`Keys::work`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.management.as_ref()?.poll_timeout()
    }

    /// Whether the next packet of the peer may need what [`Keys::work`] does.
    pub(crate) fn are_due(&self, core: &mut Association) -> bool {
        self.management.is_none()
            || core.counters().restarts != self.restarts
            || core.key_manager().has_message()
    }

    /// Handles the messages that arrived and the timers, and does what follows.
    pub(crate) fn work(&mut self, core: &mut Association, now: Timestamp) {
        if core.counters().restarts != self.restarts {
            self.on_restart(core);
        }
        if self.management.is_none() {
            let Some(agreement) = core.key_manager().agreement().cloned() else {
                return;
            };
            let settings = self.settings.clone();
            self.management = Some(match self.restarting.take() {
                Some((peer, suite)) => KeyManagement::after_restart(now, settings, agreement, peer, suite),
                None => KeyManagement::new(now, settings, agreement),
            });
        }
        self.manage(core, now);
    }

    /// The peer restarted the association with restart keys. This endpoint stored the same ones.
    fn on_restart(&mut self, core: &mut Association) {
        self.restarts = core.counters().restarts;
        // The COOKIE ACK, which uses the keys, has not left yet.
        if !self.storage.remove(&self.settings) {
            core.fail();
        }
        let former = self.management.take();
        self.restarting = former.and_then(|former| former.peer().cloned().zip(former.suite()));
        self.partial.clear();
        self.waiting.clear();
    }

    /// The association has ended.
    pub(crate) fn end(&mut self) {
        self.storage.remove(&self.settings);
    }

    fn manage(&mut self, core: &mut Association, now: Timestamp) {
        let Some(management) = &mut self.management else {
            return;
        };
        if management.poll_timeout().is_some_and(|due| due <= now) {
            management.handle_timeout(now);
        }
        if let Some(epoch) = management.epoch() {
            management.handle_usage(now, core.key_manager().usage(epoch));
        }
        let Self {
            settings,
            storage,
            waiting,
            ..
        } = self;
        let mut act = |management: &mut KeyManagement, core: &mut Association| {
            while let Some(action) = management.poll_action() {
                match action {
                    Action::StoreRestart(keys) => storage.store(settings, &keys),
                    action => act(action, core, now, waiting),
                }
            }
        };
        act(management, core);
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
                act(management, core);
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

fn act(action: Action, core: &mut Association, now: Timestamp, waiting: &mut VecDeque<Bytes>) {
    let mut manager = core.key_manager();
    let mut installed = Ok(());
    match action {
        Action::Send(message) => {
            let waits = !waiting.is_empty() || is_refused_for_now(core, now, &message);
            waiting.extend(waits.then_some(message));
        }
        Action::InstallReceiving(epoch, key) => installed = manager.install_receiving(epoch, key),
        Action::InstallSending(epoch, key) => installed = manager.install_sending(now, epoch, key),
        Action::RemoveReceiving(epoch) => manager.remove_receiving(epoch),
        Action::InstallRestart(epoch, receiving, sending) => {
            installed = manager.install_restart(epoch, receiving, sending);
        }
        Action::EndRestart => manager.end_restart(),
        Action::Require => manager.require(now),
        Action::Fail(why) => manager.fail(now, why),
        _ => {}
    }
    if let Err(error) = installed {
        core.key_manager().fail(now, error.to_string());
    }
}

/// The place of an association's restart keys in the directory of the settings, if they have one. Errors are logged: an association without
/// stored keys works, and is not restarted.
#[derive(Debug)]
struct Storage {
    place: RestartPlace,
    /// This association may have a file.
    stored: bool,
}

impl Storage {
    fn new(core: &Association) -> Self {
        let (local_port, remote_port) = core.ports();
        let place = RestartPlace {
            local_port,
            remote: core.remote_address(),
            remote_port,
        };
        Self { place, stored: false }
    }

    fn restart(&self, settings: &TlsSettings, core: &mut Association) -> Option<(PeerIdentity, Suite)> {
        let directory = settings.restart_directory()?;
        // The peer began an association that has an agreement already.
        if core.key_manager().agreement().is_some() {
            return None;
        }
        let keys = match directory.take(&self.place) {
            Ok(keys) => keys?,
            Err(error) => {
                tracing::warn!(%error, "the restart keys of the association cannot be used");
                return None;
            }
        };
        let (receiving, sending) = keys.keys()?;
        let (receiving, sending) = (Box::new(receiving), Box::new(sending));
        let restarts = core.key_manager().restart(keys.epoch(), receiving, sending);
        restarts.ok().map(|()| (keys.peer().clone(), keys.suite()))
    }

    fn store(&mut self, settings: &TlsSettings, keys: &RestartKeys) {
        let Some(directory) = settings.restart_directory() else {
            return;
        };
        // Also after an error: the file may be there.
        self.stored = true;
        if let Err(error) = directory.store(&self.place, keys) {
            tracing::warn!(%error, "the restart keys of the association are not stored");
        }
    }

    /// Removes the keys. False if they may still be there.
    fn remove(&mut self, settings: &TlsSettings) -> bool {
        let Some(directory) = settings.restart_directory().filter(|_| self.stored) else {
            return true;
        };
        match directory.remove(&self.place) {
            Ok(()) => self.stored = false,
            Err(error) => tracing::warn!(%error, "the restart keys of the association are not removed"),
        }
        !self.stored
    }
}
