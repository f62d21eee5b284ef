//! The file for the data of an association, and its checksum.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anabranch::Payload;
use sha2::{Digest, Sha256};

use crate::output::hex;

/// Bytes that are collected before they are hashed and written.
const GATHERED: usize = 256 << 10;
/// Limit of file names to try.
const MAX_TRIES: u64 = 100_000;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Sink {
    path: PathBuf,
    file: File,
    digest: Sha256,
    gathered: Vec<u8>,
}

/// A file that is complete.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) path: PathBuf,
    pub(super) sha256: String,
}

impl Sink {
    /// Creates a file. Its name consists of the peer's address and UDP port and a number; nothing in it comes from the peer's
    /// data. Existing files are never changed.
    pub(super) fn create(directory: &Path, remote: SocketAddr, number: u64) -> Result<Self, String> {
        let address = remote.ip().to_canonical().to_string().replace(':', "-");
        for number in number..number.saturating_add(MAX_TRIES) {
            let path = directory.join(format!("peer-{address}_{}_{number}.data", remote.port()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let gathered = Vec::with_capacity(GATHERED);
                    return Ok(Self {
                        path,
                        file,
                        digest: Sha256::new(),
                        gathered,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("--output: {} cannot be created: {error}", path.display())),
            }
        }
        Err(format!(
            "--output {}: all file names are in use; empty the directory, or give another one",
            directory.display()
        ))
    }

    /// Adds data to the file.
    pub(super) fn write(&mut self, payload: &Payload) -> Result<(), String> {
        for piece in payload.pieces() {
            self.gathered.extend_from_slice(piece);
        }
        if self.gathered.len() >= GATHERED {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        let written = tokio::task::block_in_place(|| {
            self.digest.update(&self.gathered);
            self.file.write_all(&self.gathered)
        });
        self.gathered.clear();
        written.map_err(|error| format!("--output: {} cannot be written: {error}", self.path.display()))
    }

    /// Writes the remaining data, and returns the checksum.
    pub(super) fn finish(mut self) -> Result<Stored, String> {
        self.flush()?;
        Ok(Stored {
            path: self.path,
            sha256: hex(&self.digest.finalize()),
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch::Bytes;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn names_are_new_and_the_checksum_is_that_of_the_content() {
        let directory = std::env::temp_dir().join(format!("anabranch-sink-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let remote: SocketAddr = "[::1]:4242".parse().unwrap();
        let mut stored = Vec::new();
        for content in ["first", "second"] {
            let mut sink = Sink::create(&directory, remote, 1).unwrap();
            sink.write(&Payload::from(Bytes::from(content))).unwrap();
            stored.push(sink.finish().unwrap());
        }
        let names: Vec<_> = stored
            .iter()
            .map(|stored| stored.path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["peer---1_4242_1.data", "peer---1_4242_2.data"]);
        assert_eq!(std::fs::read(&stored[1].path).unwrap(), b"second");
        assert_eq!(stored[0].sha256, hex(&Sha256::digest(b"first")));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
