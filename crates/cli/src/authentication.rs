//! Authenticated chunks (RFC 4895) on the command line: the file of shared keys, and the chunk types to be signed.

use std::path::PathBuf;

use anabranch::{AuthenticationConfig, Bytes, Config, SharedKey};
use clap::{Args, ValueHint};

use crate::failure::Failure;
use crate::options::CARRY;
use crate::private_file::warn_if_readable;

/// The chunk types that can be signed, by their names in the RFCs. A name stands for every format of such a chunk, because the association
/// negotiates the format: with I-DATA or ECA-SCTP, `data` still signs the data. The experimental types have their default numbers; the
/// commands have no option to change these.
const NAMES: [(&str, &[u8]); 16] = [
    ("data", &[0, 64, 96, 98]),
    ("sack", &[3, 16, 97]),
    ("heartbeat", &[4]),
    ("heartbeat-ack", &[5]),
    ("abort", &[6]),
    ("shutdown", &[7]),
    ("shutdown-ack", &[8]),
    ("error", &[9]),
    ("cookie-echo", &[10]),
    ("cookie-ack", &[11]),
    ("ecne", &[12]),
    ("cwr", &[13]),
    ("asconf", &[128, 193]),
    ("re-config", &[130]),
    ("pad", &[132]),
    ("forward-tsn", &[192, 194, 160, 224]),
];

fn all_chunk_types() -> ChunkTypes {
    ChunkTypes(
        NAMES
            .iter()
            .flat_map(|(_, kinds)| kinds.iter().copied())
            .collect(),
    )
}

/// The names of these chunk types, each once, in the order of the list; a type without a name is its number.
pub(crate) fn names(kinds: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for kind in kinds {
        let known = NAMES.iter().find(|(_, kinds)| kinds.contains(kind));
        let name = known.map_or_else(|| kind.to_string(), |(name, _)| (*name).to_owned());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Shared keys, and what the peer has to sign.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Authenticate {
    /// Sign packets with the first key of this file, and accept packets signed with any of its keys (RFC 4895). One key on each
    /// line: its number (0 to 65535), a space, and the secret as text or as hex:00ff…. The peer needs the same file
    #[arg(long, help_heading = CARRY, value_name = "FILE", value_hint = ValueHint::FilePath)]
    auth_key_file: Option<PathBuf>,
    /// With --auth-key-file: the chunk types that the peer must sign in every format, such as data,sack,abort [default: all]
    #[arg(long, help_heading = CARRY, value_name = "TYPES", requires = "auth_key_file", value_parser = chunk_types)]
    auth_chunks: Option<ChunkTypes>,
}

/// A list of chunk types.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChunkTypes(Vec<u8>);

fn chunk_types(text: &str) -> Result<ChunkTypes, String> {
    if text == "all" {
        return Ok(all_chunk_types());
    }
    let mut kinds = Vec::new();
    for name in text.split(',') {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        let Some((_, found)) = found else {
            let names = NAMES.map(|(known, _)| known).join(",");
            return Err(format!("no chunk type {name:?}: give all, or some of {names}"));
        };
        if !found.iter().all(|kind| kinds.contains(kind)) {
            kinds.extend_from_slice(found);
        }
    }
    Ok(ChunkTypes(kinds))
}

impl Authenticate {
    /// Applies the options to the settings of either side.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        let Some(file) = &self.auth_key_file else {
            return Ok(());
        };
        let problem = |why: String| Failure::new(format!("--auth-key-file {}: {why}", file.display()));
        let text = std::fs::read_to_string(file)
            .map_err(|error| problem(format!("{error}; give a readable text file")))?;
        let keys = keys(&text).map_err(problem)?;
        let mut authentication = AuthenticationConfig::default();
        authentication.keys = keys;
        authentication.chunks = self.auth_chunks.clone().unwrap_or_else(all_chunk_types).0;
        config.authentication = Some(authentication);
        warn_if_readable(file);
        Ok(())
    }
}

/// The keys of a file, at least one.
fn keys(text: &str) -> Result<Vec<SharedKey>, String> {
    const FORM: &str = "write a number from 0 to 65535, a space, and the secret";
    let mut keys: Vec<SharedKey> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let (number, secret) = content
            .split_once(char::is_whitespace)
            .ok_or_else(|| format!("line {line}: there is no secret; {FORM}"))?;
        let id = number
            .parse()
            .map_err(|_| format!("line {line}: {number:?} is not the number of a key; {FORM}"))?;
        if keys.iter().any(|key| key.id == id) {
            return Err(format!(
                "line {line}: key {id} is there already; give each key another number"
            ));
        }
        let secret = match secret.trim().strip_prefix("hex:") {
            None => Bytes::copy_from_slice(secret.trim().as_bytes()),
            Some(digits) => unhex(digits).ok_or_else(|| {
                format!("line {line}: after hex: comes an even number of digits 0-9 and a-f")
            })?,
        };
        keys.push(SharedKey { id, secret });
    }
    if keys.is_empty() {
        return Err(format!("there is no key in it; {FORM}"));
    }
    Ok(keys)
}

fn unhex(digits: &str) -> Option<Bytes> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let [high, low] = <[u8; 2]>::try_from(pair)
            .ok()?
            .map(|digit| char::from(digit).to_digit(16));
        Some((high? << 4 | low?) as u8)
    };
    pairs.map(byte).collect::<Option<Vec<_>>>().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        let read = keys("# comment\n\n7 a secret\n0 hex:00fF10\n").unwrap();
        let ids: Vec<_> = read.iter().map(|key| key.id).collect();
        assert_eq!(ids, [7, 0], "the first one is active");
        assert_eq!(read[0].secret, "a secret");
        assert_eq!(read[1].secret[..], [0, 255, 16]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [
            ("", "no key"),
            ("7 x\n8", "line 2: there is no secret"),
            ("x y", "line 1: \"x\" is not the number"),
            ("70000 y", "line 1"),
            ("7 x\n7 y", "line 2: key 7 is there already"),
            ("7 hex:0", "line 1: after hex:"),
            ("7 hex:0g", "line 1: after hex:"),
        ] {
            let problem = keys(text).unwrap_err();
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }

    #[test]
    fn chunk_types_have_names() {
        assert_eq!(
            chunk_types("data,abort,data"),
            Ok(ChunkTypes(vec![0, 64, 96, 98, 6]))
        );
        assert_eq!(chunk_types("all").unwrap().0.len(), 25);
        assert!(
            chunk_types("data,init")
                .unwrap_err()
                .contains("\"init\": give all")
        );
    }
}
