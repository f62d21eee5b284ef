//! The files of `--config`: options with their long names as keys.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The keys of both sides.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct CommonFile {
    pub(super) key: Option<PathBuf>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) interval: Option<String>,
    pub(super) max_flows: Option<u32>,
    pub(super) memory: Option<String>,
}

/// The keys of a client.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct ClientFile {
    pub(super) host: Option<String>,
    pub(super) udp_port: Option<u16>,
    pub(super) udp: Vec<String>,
    pub(super) tcp: Vec<String>,
    pub(super) reverse_udp: Vec<String>,
    pub(super) reverse_tcp: Vec<String>,
    pub(super) path: Vec<String>,
    pub(super) peer: Vec<PathBuf>,
    key: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    interval: Option<String>,
    max_flows: Option<u32>,
    memory: Option<String>,
}

/// The keys of a server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct ServerFile {
    pub(super) bind: Option<IpAddr>,
    pub(super) udp_port: Option<u16>,
    pub(super) allow_to: Vec<String>,
    pub(super) allow_listen: Vec<String>,
    pub(super) max_clients: Option<usize>,
    pub(super) allow: Vec<PathBuf>,
    key: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    interval: Option<String>,
    max_flows: Option<u32>,
    memory: Option<String>,
}

// serde cannot flatten a struct and refuse unknown keys at the same time.
macro_rules! common {
    ($file:ty) => {
        impl $file {
            pub(super) fn common(&self) -> CommonFile {
                CommonFile {
                    key: self.key.clone(),
                    metrics: self.metrics,
                    interval: self.interval.clone(),
                    max_flows: self.max_flows,
                    memory: self.memory.clone(),
                }
            }
        }
    };
}

common!(ClientFile);
common!(ServerFile);

/// Reads the file; the empty one if there is none.
pub(super) fn read<T: DeserializeOwned + Default>(path: Option<&Path>) -> Result<T, Failure> {
    let Some(path) = path else {
        return Ok(T::default());
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::new(format!(
            "--config {shown}: {error}; give a file that exists and that you may read"
        ))
    })?;
    toml::from_str(&text).map_err(|error| Failure::new(format!("--config {shown}: {error}")))
}

/// Reads each text of a list. Errors name the key.
pub(super) fn read_all<T>(
    key: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Failure> {
    let one =
        |text: &String| read(text).map_err(|problem| Failure::new(format!("{key} {text:?}: {problem}")));
    texts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_names_of_options() {
        let file: ClientFile = toml::from_str(
            "host = \"vps.example\"\nreverse-tcp = [\"8080=127.0.0.1:80\"]\nmetrics = \"127.0.0.1:9100\"\nmax-flows = 7\nkey = \"boat.key\"\npeer = [\"vps.key.pub\"]\n",
        )
        .expect("a file");
        assert_eq!(file.host.as_deref(), Some("vps.example"));
        assert_eq!(file.reverse_tcp, ["8080=127.0.0.1:80"]);
        assert_eq!(file.common().max_flows, Some(7));
        assert_eq!(file.peer, [Path::new("vps.key.pub")]);
        let error = toml::from_str::<ServerFile>("allowto = []").expect_err("an unknown key");
        assert!(error.to_string().contains("allow-to"), "{error}");
    }
}
