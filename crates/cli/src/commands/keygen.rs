//! `anabranch keygen`: a key pair for `--tls`, without a certificate.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anabranch::SecretKey;
use clap::{Args, ValueHint};

use crate::failure::Failure;
use crate::private_file;

/// Arguments of `keygen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch keygen server.key
  anabranch keygen client.key
  anabranch listen --echo --tls --key server.key --allow client.key.pub
  anabranch ping 127.0.0.1 --tls --key client.key --peer server.key.pub

Give the file with the public key to the peer, and keep the other one to yourself. Files that exist are not replaced.")]
pub(crate) struct KeygenArgs {
    /// File for the private key, which only its owner may read. The public key is written to the same name with .pub
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &KeygenArgs) -> Result<(), Failure> {
    let key = SecretKey::generate().map_err(|error| Failure::new(error.to_string()))?;
    let mut public = args.file.clone().into_os_string();
    public.push(".pub");
    let public = PathBuf::from(public);
    if public.exists() {
        return Err(exists(&public));
    }
    write(&args.file, key.to_pem().as_bytes(), true)?;
    write(&public, format!("{}\n", key.public()).as_bytes(), false)?;
    println!(
        "{}: private key; {}: public key {}",
        args.file.display(),
        public.display(),
        key.public()
    );
    Ok(())
}

fn exists(file: &Path) -> Failure {
    Failure::new(format!(
        "{} exists: choose another name, or remove it",
        file.display()
    ))
}

/// Writes a new file.
fn write(file: &Path, bytes: &[u8], secret: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if secret {
        private_file::for_owner(&mut options);
    }
    let written = options.open(file).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(file),
        _ => Failure::new(format!(
            "cannot write {}: {error}; give a file in a directory that you may write to",
            file.display()
        )),
    })
}
