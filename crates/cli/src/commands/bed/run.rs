//! `bed run` and `bed up`: a bed that lasts as long as this process has a reason to keep it.

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

/// How often a bed is asked whether it still carries.
const LOOK: Duration = Duration::from_millis(500);

/// Why a bed need not be kept any longer.
enum End {
    Interrupted,
    Ended(io::Result<ExitStatus>),
    Broken(Failure),
}

/// Runs a command on the right, with a bed around it.
pub(super) async fn run(args: RunArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let bed = make(&args.make).await?;
    note(tell::made(&bed));
    let result = commands(&bed, &args, &interrupt).await;
    finish(bed, args.observe.output(), true).await?;
    result
}

/// Keeps a bed until the user has enough of it.
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
    Failure::interrupted("interrupted; the commands were ended and the bed is gone")
}

fn start(bed: &Bed, side: Side, command: &mut Command, name: &str) -> Result<Child, Failure> {
    bed.spawn(side, command)
        .map_err(|error| Failure::new(format!("cannot start {name} on the {side}: {error}")))
}

/// Waits for a child on a thread of its own.
fn waited(mut child: Child) -> JoinHandle<io::Result<ExitStatus>> {
    tokio::task::spawn_blocking(move || child.wait())
}

fn joined(result: Result<io::Result<ExitStatus>, tokio::task::JoinError>) -> io::Result<ExitStatus> {
    result.map_err(io::Error::other)?
}

/// A command's status becomes this program's, as a shell would have it.
fn ended(name: &str, status: io::Result<ExitStatus>) -> Result<(), Failure> {
    let status = status.map_err(|error| Failure::new(format!("{name} cannot be waited for: {error}")))?;
    if status.success() {
        return Ok(());
    }
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure::new(format!("{name} ended: {status}")).with_status(code))
}

/// Keeps the bed until the command ends, if there is one, or the user asks; shows the counters now and then.
async fn keep(
    bed: &Arc<Bed>,
    interrupt: &Interrupt,
    every: Option<Duration>,
    command: Option<JoinHandle<io::Result<ExitStatus>>>,
) -> End {
    let mut look = tokio::time::interval(LOOK);
    // A second interval that nobody waits for if nothing is to be shown.
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

/// Says what the bed did, and takes it away. With `aside`, people read it on standard error.
async fn finish(bed: Arc<Bed>, output: Output, aside: bool) -> Result<(), Failure> {
    blocking(move || {
        // Ends what still runs, so that the counters are the last.
        bed.end_commands();
        let record = tell::record(&bed);
        let text = tell::summary(&record);
        match output {
            Output::Text if aside => note(text),
            _ => output.fact(text, &record),
        }
        // A thread that answers a status request may hold the testbed a moment longer.
        let mut bed = bed;
        while let Err(shared) = Arc::try_unwrap(bed) {
            bed = shared;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })
    .await
}
