//! Testbeds of other processes: `bed status` and `bed down`. A testbed answers on a socket with an abstract name, so that no
//! file remains.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use anabranch_bed::{Bed, BedId, running, sweep};
use serde_json::{Value, json};

use super::{DownArgs, StatusArgs, tell};
use crate::failure::Failure;
use crate::units;

/// Time limit for the answer of a testbed. A testbed that does not answer is probably ending.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for the end of a testbed: it first asks its commands to end, and then kills them.
const GONE_WITHIN: Duration = Duration::from_secs(30);

fn address(bed: BedId) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("anabranch-bed-{bed}"))
}

/// Answers status requests as long as the testbed exists. If the socket cannot be opened, the testbed only has no status.
pub(super) fn answer(bed: &Arc<Bed>) {
    let listener = address(bed.id()).and_then(|address| UnixListener::bind_addr(&address));
    let Ok(listener) = listener else { return };
    let bed = Arc::downgrade(bed);
    // The thread ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that disconnects early gets no answer.
            let _ = stream.and_then(|stream| tell_status(stream, &bed));
        }
    });
}

fn tell_status(mut stream: UnixStream, bed: &Weak<Bed>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let record = bed.upgrade().map(|bed| tell::record(&bed));
    record.map_or(Ok(()), |record| writeln!(stream, "{record}"))
}

fn ask(bed: BedId) -> io::Result<Value> {
    let mut stream = UnixStream::connect_addr(&address(bed)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(serde_json::from_str(&said)?)
}

/// Shows the testbeds of this machine.
pub(super) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let output = args.observe.output();
    let beds = running();
    if beds.is_empty() {
        output.fact(
            "no testbed runs on this machine",
            &json!({ "event": "beds", "beds": 0 }),
        );
    }
    for bed in beds {
        match ask(bed) {
            Ok(record) => output.fact(tell::summary(&record), &record),
            Err(error) => output.fact(
                format!("testbed {bed} of process {} does not answer (it is ending, or another program made it): {error}", bed.pid()),
                &json!({ "event": "bed", "bed": bed.to_string(), "answers": false }),
            ),
        }
    }
    Ok(())
}

/// Ends testbeds.
pub(super) fn down(args: &DownArgs) -> Result<(), Failure> {
    let beds = running();
    let chosen = match (args.bed, &beds[..]) {
        (Some(bed), _) if beds.contains(&bed) => vec![bed],
        (Some(bed), _) => {
            return Err(Failure::new(format!(
                "no testbed {bed} runs on this machine; `anabranch bed status` lists the running testbeds"
            )));
        }
        (None, beds) if args.all || beds.len() <= 1 => beds.to_vec(),
        (None, several) => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            return Err(Failure::new(format!(
                "there are {} testbeds: {}; name one of them, or give --all",
                names.len(),
                names.join(", ")
            )));
        }
    };
    for bed in &chosen {
        bed.end(GONE_WITHIN).map_err(|error| {
            Failure::new(format!(
                "testbed {bed} of process {} cannot be ended: {error}",
                bed.pid()
            ))
        })?;
    }
    let left = sweep();
    let ended = units::counted(chosen.len() as u64, "testbed");
    args.observe.output().fact(
        format!(
            "ended {ended}; removed {} of killed testbeds",
            units::counted(left as u64, "namespace")
        ),
        &json!({ "event": "down", "ended": chosen.len(), "left_behind": left }),
    );
    Ok(())
}
