//! Which clients a server accepts, and which places each of them may use.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch::{Association, PeerIdentity, PublicKey};
use anabranch_forward::{Permission, Policy};

use super::file::{self, ClientTable};
use crate::encryption::public_keys;
use crate::failure::Failure;

/// The policy of each client, by its public key.
#[derive(Debug, Default)]
pub(super) struct Permissions(HashMap<PublicKey, Arc<Policy>>);

pub(super) fn parse_place(text: &str) -> Result<Permission, String> {
    text.parse()
        .map_err(|problem: anabranch_forward::RuleError| problem.to_string())
}

impl Permissions {
    /// Gives `general` to the clients with a key in the files of `--allow`, and to those of a table only what the table lists.
    pub(super) fn read(general: Policy, allow: &[PathBuf], tables: &[ClientTable]) -> Result<Self, Failure> {
        let general = Arc::new(general);
        let keys = public_keys(allow.iter().map(|file| ("--allow", file)))?;
        let mut all: HashMap<_, _> = keys.into_iter().map(|key| (key, Arc::clone(&general))).collect();
        for table in tables {
            let own = Arc::new(Policy {
                targets: file::read_all("allow-to", &table.allow_to, parse_place)?,
                listening: file::read_all("allow-listen", &table.allow_listen, parse_place)?,
            });
            for key in public_keys([("[[client]] key", &table.key)].into_iter())? {
                if all.insert(key, Arc::clone(&own)).is_some() {
                    return Err(Failure::new(format!(
                        "[[client]] key {}: the key {key} is in another table or in --allow too; give each key once",
                        table.key.display()
                    )));
                }
            }
        }
        Ok(Self(all))
    }

    /// The keys of the clients that the server accepts.
    pub(super) fn keys(&self) -> Vec<PublicKey> {
        self.0.keys().copied().collect()
    }

    /// Whether no client may use any place.
    pub(super) fn permit_nothing(&self) -> bool {
        self.0.values().all(|policy| **policy == Policy::default())
    }

    /// The policy of the client of an association: nothing for an unknown one.
    pub(super) fn of(&self, association: &Association) -> Arc<Policy> {
        self.known(association).cloned().unwrap_or_default()
    }

    fn known(&self, association: &Association) -> Option<&Arc<Policy>> {
        match association.peer_identity() {
            Some(PeerIdentity::Key(key)) => self.0.get(&key),
            _ => None,
        }
    }

    /// The reason to end an association that was accepted with `former` permissions, if these are others.
    pub(super) fn change_since(&self, former: &Self, association: &Association) -> Option<String> {
        let reason = match (former.known(association), self.known(association)) {
            (_, None) => "the server does not accept this client any more",
            (Some(former), Some(now)) if former == now => return None,
            _ => "the server has changed what this client may use",
        };
        Some(reason.to_owned())
    }
}
