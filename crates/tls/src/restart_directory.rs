//! Owns the files in which restart keys outlive the program.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::error::SettingsError;
use crate::restart_keys::RestartKeys;

/// The extension of a file with keys, of one that is being written, and of one whose keys are being taken.
const KEYS: &str = "restart";
const NEW: &str = "new-restart";
const TAKEN: &str = "taken-restart";

/// The most bytes of a file: a chain of certificates is far shorter.
const MOST_LEN: u64 = 1 << 20;

/// The association that restart keys belong to, as an endpoint that lost its state still knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPlace {
    /// The local SCTP port.
    pub local_port: u16,
    /// The address and UDP port of the peer with which the association was set up.
    pub remote: SocketAddr,
    /// The SCTP port of the peer.
    pub remote_port: u16,
}

impl RestartPlace {
    /// The name of its file.
    fn name(&self) -> String {
        let address = self.remote.ip().to_canonical().to_string().replace(':', "_");
        let udp = self.remote.port();
        format!("{}-{address}-{udp}-{}.{KEYS}", self.local_port, self.remote_port)
    }
}

/// A directory with the restart keys of associations, one file for each: see [`crate::TlsSettings::keep_restart_keys`]. Only the owner can
/// read the files. A file is replaced whole, and is gone before its keys are used, also after a failure of the machine.
#[derive(Clone, Debug)]
pub struct RestartDirectory(Arc<Path>);

impl RestartDirectory {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`SettingsError::File`]: the directory cannot be created or opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        let path = path.as_ref();
        Self::open_at(path).map_err(|error| SettingsError::of_file(path, &error))
    }

    fn open_at(path: &Path) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path)?;
        // Files that a program had not finished when it failed: nobody uses them.
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
            if extension == NEW || extension == TAKEN {
                remove_if_there(&path)?;
            }
        }
        Ok(Self(fs::canonicalize(path)?.into()))
    }

    /// Stores the keys of an association, in place of its former ones.
    ///
    /// # Errors
    /// The file was not written. The former file is unchanged.
    pub fn store(&self, place: &RestartPlace, keys: &RestartKeys) -> io::Result<()> {
        let path = self.path(place);
        let new = path.with_extension(NEW);
        remove_if_there(&new)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        file.write_all(&keys.to_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        self.sync()
    }

    /// Takes the keys of an association out of the directory: nobody can take them again. `None` if there are none, or if the file was
    /// changed.
    ///
    /// # Errors
    /// The file cannot be read or removed. The keys must not be used.
    pub fn take(&self, place: &RestartPlace) -> io::Result<Option<RestartKeys>> {
        let path = self.path(place);
        let taken = path.with_extension(TAKEN);
        // From now on nobody else finds the file, even if this program fails.
        match fs::rename(&path, &taken) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            renamed => renamed?,
        }
        let bytes = read(&taken);
        fs::remove_file(&taken)?;
        self.sync()?;
        Ok(RestartKeys::from_bytes(&bytes?))
    }

    /// Removes the keys of an association, if there are any: it has ended, or they were used by the peer.
    ///
    /// # Errors
    /// The file may still be there.
    pub fn remove(&self, place: &RestartPlace) -> io::Result<()> {
        if remove_if_there(&self.path(place))? {
            self.sync()?;
        }
        Ok(())
    }

    fn path(&self, place: &RestartPlace) -> PathBuf {
        self.0.join(place.name())
    }

    /// Waits until the names of the files are on the disk.
    fn sync(&self) -> io::Result<()> {
        // Other systems open no directories.
        if cfg!(unix) {
            File::open(&self.0)?.sync_all()?;
        }
        Ok(())
    }
}

/// Removes a file. False if it does not exist.
fn remove_if_there(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Reads a file into memory that is wiped.
fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let len = fs::metadata(path)?.len();
    if len > MOST_LEN {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // The memory of `fs::read` does not grow either: it knows the length of the file.
    fs::read(path).map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restart_keys::tests::{keys, peers};
    use crate::suite::Suite;

    fn place(remote: &str) -> RestartPlace {
        RestartPlace {
            local_port: 5000,
            remote: remote.parse().unwrap(),
            remote_port: 7,
        }
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn keys_are_taken_once_and_replaced_whole() {
        let path = std::env::temp_dir().join(format!("anabranch-restarts-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let directory = RestartDirectory::open(path.join("inner")).unwrap();
        let path = path.join("inner");
        let places = [
            place("192.0.2.1:9899"),
            place("[2001:db8::1]:9899"),
            place("192.0.2.1:9900"),
        ];
        let [key, chain] = peers();
        assert!(directory.take(&places[0]).unwrap().is_none());
        for place in &places {
            directory
                .store(place, &keys(Suite::Aes128Gcm, key.clone()))
                .unwrap();
        }
        let all = [
            "5000-192.0.2.1-9899-7.restart",
            "5000-192.0.2.1-9900-7.restart",
            "5000-2001_db8__1-9899-7.restart",
        ];
        assert_eq!(names(&path), all);
        // A program failed while it replaced a file.
        for unfinished in ["new-restart", "taken-restart"] {
            fs::write(path.join(format!("5000-192.0.2.1-9899-7.{unfinished}")), b"half").unwrap();
        }
        let directory = RestartDirectory::open(&path).unwrap();
        directory
            .store(&places[0], &keys(Suite::Aes256Gcm, chain.clone()))
            .unwrap();
        assert_eq!(names(&path), all);
        #[cfg(unix)]
        for name in all {
            let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(path.join(name)).unwrap());
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let mapped = place("[::ffff:192.0.2.1]:9899");
        let taken = directory.take(&mapped).unwrap().unwrap();
        assert_eq!((taken.suite(), taken.peer()), (Suite::Aes256Gcm, &chain));
        assert!(directory.take(&places[0]).unwrap().is_none());
        directory.remove(&places[1]).unwrap();
        directory.remove(&places[1]).unwrap();
        assert_eq!(names(&path), all[1..2]);
        // A file that was changed is gone as well.
        fs::write(path.join(all[1]), b"restart1").unwrap();
        assert!(directory.take(&places[2]).unwrap().is_none());
        assert!(names(&path).is_empty());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
