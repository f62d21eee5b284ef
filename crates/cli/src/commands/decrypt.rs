//! `anabranch decrypt`: a capture of DTLS chunks with the chunks in clear text, from the keys that `--key-log` wrote.

mod capture;
mod headers;

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use anabranch::{Decryptor, OpenedPacket, read_key_log};
use anabranch_proto::wire::packet::Packet;
use bytes::Bytes;
use clap::{Args, ValueHint};
use serde_json::json;

use self::capture::Problem;
use self::headers::Carried;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::private_file;
use crate::units::counted;

/// Arguments of `decrypt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch ping 127.0.0.1 --tls --key client.key --peer server.key.pub \\
    --pcap ping.pcapng --key-log ping.keys
  anabranch decrypt ping.pcapng --key-log ping.keys --output clear.pcapng
  tshark -n -r clear.pcapng -d udp.port==9899,sctp

Packets that are not encrypted, and those without a key, are copied as they are. The capture may
also be one of Wireshark, or of tcpdump after `editcap tcpdump.pcap capture.pcapng`.")]
pub(crate) struct DecryptArgs {
    /// Capture (pcapng) of associations with --tls, which --pcap or Wireshark wrote
    #[arg(value_name = "CAPTURE", value_hint = ValueHint::FilePath)]
    capture: PathBuf,
    /// File with the keys of these associations, which --key-log wrote at one of the endpoints
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key_log: PathBuf,
    /// File for the decrypted capture, which only its owner may read; a file of this name is replaced
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl DecryptArgs {
    pub(crate) fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Text }
    }
}

/// Packets of a capture.
#[derive(Debug, Default)]
struct Counts {
    decrypted: u64,
    clear: u64,
    no_key: u64,
    failed: u64,
}

/// Runs the command.
pub(crate) fn run(args: &DecryptArgs) -> Result<(), Failure> {
    let log = std::fs::read_to_string(&args.key_log)
        .map_err(|error| error.to_string())
        .and_then(|text| read_key_log(&text).map_err(|error| error.to_string()));
    let keys = log.map_err(|error| {
        Failure::new(format!(
            "--key-log {}: {error}; give the file that --key-log of listen, send, ping or perf wrote",
            args.key_log.display()
        ))
    })?;
    let input = File::open(&args.capture)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", args.capture.display())))?;
    let output = create(args)?;
    let mut decryptor = Decryptor::new(&keys);
    let mut counts = Counts::default();
    let copied = capture::copy(
        BufReader::new(input),
        BufWriter::new(output),
        |link_type, packet| open(&mut decryptor, &mut counts, link_type, packet),
    );
    if copied.map_err(|problem| explain(args, &problem))? {
        note(format!(
            "note: {} ends within a packet: its writer was stopped",
            args.capture.display()
        ));
    }
    report(args, &counts)
}

/// Decrypts a captured packet. `None` if it stays as it is.
fn open(decryptor: &mut Decryptor, counts: &mut Counts, link_type: u16, packet: &[u8]) -> Option<Vec<u8>> {
    let carried = Carried::of(link_type, packet);
    // Any program may use UDP: a datagram is taken for SCTP if its checksum is that of SCTP.
    let is_sctp = |carried: &Carried<'_>| {
        carried.is_raw() || Packet::parse_or_zero_checksum(Bytes::copy_from_slice(carried.sctp)).is_ok()
    };
    let opened = match carried.as_ref().filter(|carried| is_sctp(carried)) {
        Some(carried) => decryptor.open(carried.sctp),
        None => OpenedPacket::Clear,
    };
    match opened {
        OpenedPacket::Decrypted(sctp) => {
            counts.decrypted += 1;
            return carried.map(|carried| carried.with(&sctp));
        }
        OpenedPacket::NoKey => counts.no_key += 1,
        OpenedPacket::Failed => counts.failed += 1,
        _ => counts.clear += 1,
    }
    None
}

/// Creates the output. It has messages in clear text, so nobody but its owner may read it.
fn create(args: &DecryptArgs) -> Result<File, Failure> {
    for (input, name) in [(&args.capture, "the capture"), (&args.key_log, "the key log")] {
        if is_same(input, &args.output) {
            return Err(Failure::new(format!(
                "--output {}: this is {name}; give another file",
                args.output.display()
            )));
        }
    }
    private_file::open(
        OpenOptions::new().write(true).truncate(true),
        "--output",
        &args.output,
    )
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn explain(args: &DecryptArgs, problem: &Problem) -> Failure {
    let name = args.capture.display();
    Failure::new(match problem {
        Problem::Write(error) => return private_file::cannot_write("--output", &args.output, error),
        Problem::Read(error) => format!("cannot read {name}: {error}"),
        Problem::Pcap => format!(
            "{name} has the form of tcpdump (pcap), not pcapng: convert it with `editcap {name} {name}.pcapng`, which comes with Wireshark"
        ),
        Problem::Other => {
            format!("{name} is no capture in the pcapng format: give a file that --pcap or Wireshark wrote")
        }
        Problem::Malformed => format!(
            "{name}: a block of the capture is malformed; {} has the packets before it",
            args.output.display()
        ),
    })
}

/// Tells how many packets were decrypted. It is an error if packets are encrypted and none was decrypted.
fn report(args: &DecryptArgs, counts: &Counts) -> Result<(), Failure> {
    let Counts {
        decrypted,
        clear,
        no_key,
        failed,
    } = *counts;
    args.output().fact(
        format!(
            "{}: {} decrypted, {clear} not encrypted, {no_key} without a key, {failed} not authentic",
            args.output.display(),
            counted(decrypted, "packet")
        ),
        &json!({
            "event": "decrypted",
            "decrypted": decrypted,
            "not_encrypted": clear,
            "no_key": no_key,
            "not_authentic": failed,
        }),
    );
    let (capture, log) = (args.capture.display(), args.key_log.display());
    match (decrypted, no_key + failed) {
        (0, 0) => Err(Failure::new(format!(
            "{capture} has no packet with a DTLS chunk: give a capture of an association with --tls"
        ))),
        (0, _) => Err(Failure::new(format!(
            "--key-log {log}: none of its keys decrypts a packet of {capture}; give the --key-log of the same run as the capture"
        ))),
        _ => Ok(()),
    }
}
