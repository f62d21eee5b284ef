//! `bed run` and `bed up`: a testbed that exists until its command ends or the user stops it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anabranch_bed::{Bed, Side};
use tokio::task::JoinHandle;

use super::{Make, RunArgs, UpArgs, blocking, failure, others, tell};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Output, note};

/// Interval of the checks whether the testbed still works.
const LOOK: Duration = Duration::from_millis(500);

/// The exit status that shells give for a command that exists but cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// The exit status that shells give for a command that does not exist.
const NO_COMMAND: u8 = 127;
/// Shells add the number of the signal that ended a command to this exit status.
const SIGNALLED: i32 = 128;

/// Why the testbed is to end.
enum End {
    Interrupted,
    Ended(io::Result<ExitStatus>),
    Broken(Failure),
}

/// Creates a testbed, runs a command on the right, and removes the testbed.
pub(super) async fn run(args: RunArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let bed = make(&args.make).await?;
    note(tell::made(&bed));
    let result = commands(&bed, &args, &interrupt).await;
    finish(bed, args.observe.output(), true).await?;
    result
}

/// Creates a testbed and keeps it until the user stops it.
pub(super) async fn up(args: UpArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let bed = make(&args.make).await?;
    let output = args.observe.output();
    output.fact(
        format!("{}\n{}", tell::made(&bed), tell::how_to_enter(&bed)),
        &tell::made_record(&bed),
    );
    let end = keep(&bed, &interrupt, args.make.interval, None).await;
    finish(bed, output, false).await?;
    match end {
        End::Broken(failure) => Err(failure),
        End::Interrupted | End::Ended(_) => Ok(()),
    }
}

async fn make(make: &Make) -> Result<Arc<Bed>, Failure> {
    let plan = make.plan()?;
    let bed = blocking(move || Bed::build(&plan).map_err(|error| failure(&error))).await?;
    let bed = Arc::new(bed);
    others::answer(&bed);
    Ok(bed)
}

/// The commands of `bed run`, from start to end.
async fn commands(bed: &Arc<Bed>, args: &RunArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let name = args.command[0].to_string_lossy().into_owned();
    let mut left = match &args.left {
        None => None,
        Some(line) => {
            let mut command = Command::new("sh");
            command.args(["-c", line]).stdin(Stdio::null());
            let mut left = waited(start(bed, Side::Left, &mut command, line)?);
            tokio::select! {
                () = tokio::time::sleep(args.head_start) => Some(left),
                () = interrupt.wait() => return Err(interrupted()),
                status = &mut left => {
                    ended("the command on the left", joined(status))?;
                    None
                }
            }
        }
    };
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    let right = waited(start(bed, Side::Right, &mut command, &name)?);
    let end = keep(bed, interrupt, args.make.interval, Some(right)).await;
    // A failure of the left command explains a failure of the right command.
    if let Some(left) = left.take_if(|left| left.is_finished())
        && let Err(failure) = ended("the command on the left", joined(left.await))
    {
        note(failure.message());
    }
    match end {
        End::Interrupted => Err(interrupted()),
        End::Broken(failure) => Err(failure),
        End::Ended(status) => ended(&name, status),
    }
}

fn interrupted() -> Failure {
    Failure::interrupted("interrupted; the commands were ended and the testbed was removed")
}

fn start(bed: &Bed, side: Side, command: &mut Command, name: &str) -> Result<Child, Failure> {
    command.envs(bed.environment());
    let started = bed.inside(side, || command.spawn());
    started
        .map_err(|error| Failure::new(format!("cannot enter the host on the {side}: {error}")))?
        .map_err(|error| not_started(name, &error))
}

/// A command that cannot be started gives the status that a shell gives.
fn not_started(name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::new(format!(
            "there is no command {name}: after --, give a program of PATH or the path of a program, and its arguments"
        ))
        .with_status(NO_COMMAND),
        _ => Failure::new(format!(
            "{name} cannot be executed: {error}; after --, give a program that you may execute (for a shell command: \
             sh -c '...')"
        ))
        .with_status(NOT_EXECUTABLE),
    }
}

/// Waits for a child on its own thread.
fn waited(mut child: Child) -> JoinHandle<io::Result<ExitStatus>> {
    tokio::task::spawn_blocking(move || child.wait())
}

fn joined(result: Result<io::Result<ExitStatus>, tokio::task::JoinError>) -> io::Result<ExitStatus> {
    result.map_err(io::Error::other)?
}

/// Makes a command's exit status the status of this program, with the rules of a shell.
fn ended(name: &str, status: io::Result<ExitStatus>) -> Result<(), Failure> {
    let status = status.map_err(|error| Failure::new(format!("{name} cannot be waited for: {error}")))?;
    if status.success() {
        return Ok(());
    }
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure::new(format!("{name} ended: {status}")).with_status(code))
}

/// Keeps the testbed until its command ends, if there is one, the user stops it, or it fails. Prints the counters at the
/// interval `every`.
async fn keep(
    bed: &Arc<Bed>,
    interrupt: &Interrupt,
    every: Option<Duration>,
    command: Option<JoinHandle<io::Result<ExitStatus>>>,
) -> End {
    let mut look = tokio::time::interval(LOOK);
    // If no counters are to be printed, nothing waits for this interval.
    let mut show = tokio::time::interval(every.unwrap_or(LOOK).max(Duration::from_millis(10)));
    show.tick().await;
    let command = async {
        match command {
            Some(command) => joined(command.await),
            None => std::future::pending().await,
        }
    };
    tokio::pin!(command);
    loop {
        tokio::select! {
            status = &mut command => return End::Ended(status),
            () = interrupt.wait() => return End::Interrupted,
            _ = look.tick() => {
                if let Err(error) = bed.check() {
                    return End::Broken(failure(&error));
                }
            }
            _ = show.tick(), if every.is_some() => note(tell::now(&tell::record(bed))),
        }
    }
}

/// Prints the counters and removes the testbed. With `aside`, the text goes to standard error.
async fn finish(bed: Arc<Bed>, output: Output, aside: bool) -> Result<(), Failure> {
    blocking(move || {
        // End the commands first, so that the counters are final.
        bed.end_commands();
        let record = tell::record(&bed);
        let text = tell::summary(&record);
        match output {
            Output::Text if aside => note(text),
            _ => output.fact(text, &record),
        }
        // A thread that answers a status request may still hold the testbed for a moment.
        let mut bed = bed;
        while let Err(shared) = Arc::try_unwrap(bed) {
            bed = shared;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_do_not_start_end_as_in_a_shell() {
        let failure = |command: &str| {
            let error = Command::new(command).spawn().unwrap_err();
            not_started(command, &error)
        };
        for (command, status, message) in [
            (
                "no-such-command",
                127,
                "there is no command no-such-command: after --",
            ),
            ("/no/such/command", 127, "there is no command /no/such/command"),
            ("/", 126, "/ cannot be executed: Permission denied"),
            (
                concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
                126,
                "Cargo.toml cannot be executed",
            ),
        ] {
            let failure = failure(command);
            assert_eq!(failure.status(), status, "{command}");
            assert!(failure.message().contains(message), "{}", failure.message());
        }
    }

    #[test]
    fn the_status_of_a_command_is_passed_on() {
        let status = |line: &str| ended("sh", Command::new("sh").args(["-c", line]).status());
        assert!(status("exit 0").is_ok());
        for (line, expected) in [
            ("exit 7", 7),
            ("exit 127", 127),
            ("kill -9 $$", 137),
            ("kill -15 $$", 143),
        ] {
            assert_eq!(status(line).unwrap_err().status(), expected, "{line}");
        }
    }
}
