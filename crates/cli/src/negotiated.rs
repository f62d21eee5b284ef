//! The extensions that an association negotiated, as JSON.

use anabranch::{AssociationStats, HmacAlgorithm};
use serde_json::{Value, json};

use crate::authentication;

/// The extensions in use: `true` or `false` for each. `authentication` has its details, or is null; its chunk
/// types have the names of `--auth-chunks`.
pub(crate) fn to_json(stats: &AssociationStats) -> Value {
    let extensions = &stats.extensions;
    let details = stats.authentication.as_ref().map(|one| {
        json!({
            "hmac": match one.hmac {
                HmacAlgorithm::Sha1 => "SHA-1",
                HmacAlgorithm::Sha256 => "SHA-256",
                _ => "another",
            },
            "key": one.active_key, "peer_key": one.peer_key,
            "chunks_required": authentication::names(&one.chunks_required),
            "chunks_signed": authentication::names(&one.chunks_signed),
        })
    });
    json!({
        "partial_reliability": extensions.partial_reliability, "nr_sack": extensions.nr_sack,
        "selective_forward_tsn": extensions.selective_forward_tsn, "interleaving": extensions.interleaving,
        "extended_forward_tsn": extensions.extended_forward_tsn,
        "eca": extensions.eca, "ecn": extensions.ecn, "reconfiguration": extensions.reconfiguration,
        "dynamic_addresses": extensions.dynamic_addresses, "zero_checksum": extensions.zero_checksum,
        "port_pairs": extensions.port_pairs, "repair": extensions.repair,
        "protection": extensions.protection,
        "authentication": details,
    })
}
