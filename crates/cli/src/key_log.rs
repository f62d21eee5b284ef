//! The file of `--key-log`: the keys of associations in DTLS chunks, with which `anabranch decrypt` reads captures.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch::{KeyLog, LoggedKey, TlsSettings};

use crate::failure::Failure;
use crate::output::note;
use crate::private_file;

/// The variable that names a key log, as in browsers and other programs with TLS (RFC 9850).
const VARIABLE: &str = "SSLKEYLOGFILE";

/// Appends keys to a file.
#[derive(Debug)]
struct KeyLogFile {
    path: PathBuf,
    file: Mutex<File>,
    /// An error was told; the associations continue.
    failed: AtomicBool,
}

impl KeyLog for KeyLogFile {
    fn log(&self, key: &LoggedKey) {
        let mut line = key.to_line();
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One write for each line: two programs may append to the same file.
        if let Err(error) = file.write_all(line.as_bytes())
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            note(format!(
                "note: keys are missing in {}: {error}",
                self.path.display()
            ));
        }
    }
}

/// Logs the keys of associations with these settings to the file of the option, or else of the environment. The user is told, because
/// whoever has the file can read the messages.
pub(crate) fn log_keys(settings: TlsSettings, option: Option<&Path>) -> Result<TlsSettings, Failure> {
    let environment = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
    let (source, path) = match (option, environment) {
        (Some(path), _) => ("--key-log", path.to_owned()),
        (None, Some(path)) => (VARIABLE, PathBuf::from(path)),
        (None, None) => return Ok(settings),
    };
    let file = private_file::open(OpenOptions::new().append(true), source, &path)?;
    note(format!(
        "note: {source}: whoever has {} can read the messages of this run; remove the file when you do not need it any more",
        path.display()
    ));
    Ok(settings.key_log(Arc::new(KeyLogFile {
        path,
        file: Mutex::new(file),
        failed: AtomicBool::new(false),
    })))
}
