//! The files of `--config`: options with their long names as keys.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Defines one struct for the keys of both sides, and one for the file of each side, with these keys too: serde cannot flatten a struct and
/// refuse unknown keys at the same time.
macro_rules! files {
    (@both { $($key:ident: $type:ty,)* }) => {
        /// The keys of both sides.
        #[derive(Debug, Default)]
        pub(super) struct CommonFile {
            $(pub(super) $key: Option<$type>,)*
        }
    };
    (@file $(#[$about:meta])* $name:ident { $($own:ident: $own_type:ty,)* } { $($key:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
        pub(super) struct $name {
            $(pub(super) $own: $own_type,)*
            $($key: Option<$type>,)*
        }

        impl $name {
            /// Takes the keys of both sides out of the file.
            pub(super) fn common(&mut self) -> CommonFile {
                CommonFile { $($key: self.$key.take(),)* }
            }
        }
    };
    ($both:tt $($(#[$about:meta])* $name:ident $own:tt)*) => {
        files!(@both $both);
        $(files!(@file $(#[$about])* $name $own $both);)*
    };
}

files! {
    {
        key: PathBuf,
        metrics: SocketAddr,
        page: String,
        interval: String,
        max_flows: u32,
        memory: String,
    }
    /// The keys of a client.
    ClientFile {
        host: Option<String>,
        udp_port: Option<u16>,
        udp: Vec<String>,
        tcp: Vec<String>,
        reverse_udp: Vec<String>,
        reverse_tcp: Vec<String>,
        path: Vec<String>,
        peer: Vec<PathBuf>,
    }
    /// The keys of a server.
    ServerFile {
        bind: Option<IpAddr>,
        udp_port: Option<u16>,
        allow_to: Vec<String>,
        allow_listen: Vec<String>,
        max_clients: Option<usize>,
        allow: Vec<PathBuf>,
        client: Vec<ClientTable>,
    }
}

/// A table `[[client]]` of a server: the places of the clients with the public keys in a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ClientTable {
    pub(super) key: PathBuf,
    #[serde(default)]
    pub(super) allow_to: Vec<String>,
    #[serde(default)]
    pub(super) allow_listen: Vec<String>,
}

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
        let mut file: ClientFile = toml::from_str(
            "host = \"vps.example\"\nreverse-tcp = [\"8080=127.0.0.1:80\"]\nmetrics = \"127.0.0.1:9100\"\nmax-flows = 7\nkey = \"boat.key\"\npeer = [\"vps.key.pub\"]\n",
        )
        .expect("a file");
        assert_eq!(file.host.as_deref(), Some("vps.example"));
        assert_eq!(file.reverse_tcp, ["8080=127.0.0.1:80"]);
        assert_eq!(file.common().max_flows, Some(7));
        assert_eq!(file.peer, [Path::new("vps.key.pub")]);
        let file = "allow-to = []\n[[client]]\nkey = \"boat.pub\"\nallow-to = [\"*:*\"]\n";
        let file: ServerFile = toml::from_str(file).expect("a file");
        assert_eq!(file.client[0].allow_to, ["*:*"]);
        assert!(file.client[0].allow_listen.is_empty(), "nothing by default");
        let error = toml::from_str::<ServerFile>("[[client]]\nallow-to = []").expect_err("no key");
        assert!(error.to_string().contains("missing field `key`"), "{error}");
        let error = toml::from_str::<ServerFile>("allowto = []").expect_err("an unknown key");
        assert!(error.to_string().contains("allow-to"), "{error}");
    }
}
