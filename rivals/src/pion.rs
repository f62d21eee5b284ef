//! SCTP by pion, a stack in Go: the helper `rival-pion`, built from `rivals/pion` and beside this program, has the association. Messages go
//! to it and come from it by pipes.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::files::{read_all, write_messages};
use crate::traffic::generate;
use crate::{Job, Outcome, Rival, Side};

pub(crate) const RIVALS: &[Rival] = &[
    Rival::new("pion", "pion", "reliable, ordered").second(),
    Rival::new(
        "pion-lifetime",
        "pion",
        "PR-SCTP: unordered, lifetime = deadline (control: reliable, ordered)",
    ),
];

fn helper() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name("rival-pion");
    path.exists().then_some(path)
}

/// The rivals, if there is the helper.
pub(crate) fn rivals() -> &'static [Rival] {
    if helper().is_some() { RIVALS } else { &[] }
}

pub(crate) async fn run(side: Side, job: &Job) -> Outcome<()> {
    let expires = job.rival == "pion-lifetime" && !job.traffic.is_reliable();
    let lifetime = if expires {
        job.traffic.deadline().as_millis()
    } else {
        0
    };
    let role = if side == Side::Receiver { "receive" } else { "send" };
    let mut helper = Command::new(helper().ok_or("there is no rival-pion beside this program")?)
        .args([role, &job.addr.to_string(), &lifetime.to_string()])
        .arg(if job.file { "file" } else { "messages" })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    crate::helper::set(helper.id().unwrap_or_default());
    let mut output = helper.stdout.take().ok_or("no pipe")?;
    if side == Side::Receiver {
        // The helper says itself why it ended, or was ended.
        let _ = read_all(&mut output).await;
        return Ok(());
    }
    // A line says that the association is up.
    output.read_u8().await?;
    let mut input = helper.stdin.take().ok_or("no pipe")?;
    write_messages(generate(job), &mut input).await
}
