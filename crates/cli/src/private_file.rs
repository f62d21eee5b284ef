//! Files that only their owner may read: keys, and messages in clear text.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::failure::Failure;

/// A new file that these options create is for its owner alone. Systems without such permissions ignore it.
pub(crate) fn for_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Opens or creates a file of the option `flag`. A file that exists keeps its permissions, so the user is told if others may read it.
pub(crate) fn open(options: &mut OpenOptions, flag: &str, path: &Path) -> Result<File, Failure> {
    let file = for_owner(options.create(true)).open(path);
    let file = file.map_err(|error| cannot_write(flag, path, &error))?;
    warn_if_readable(path);
    Ok(file)
}

/// The error of a file of the option `flag` that cannot be written.
pub(crate) fn cannot_write(flag: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!(
        "{flag}: cannot write {}: {error}; give a file in an existing directory that you may write to",
        path.display()
    ))
}

/// Other users of this machine could read the secrets.
#[cfg(unix)]
pub(crate) fn warn_if_readable(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        crate::output::note(format!(
            "note: other users may read the secrets in {0}: chmod 600 {0}",
            file.display()
        ));
    }
}

#[cfg(not(unix))]
pub(crate) fn warn_if_readable(_file: &Path) {}
