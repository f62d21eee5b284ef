//! `anabranch listen`: prints, stores or echoes the messages of any number of associations at once.

mod echo;
mod sink;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch::{Association, AssociationStats, Endpoint, MessagePart, Reliability};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::encryption::Encrypt;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::local::Local;
use crate::negotiated;
use crate::options::{Carry, Observe};
use crate::output::{self, Output, peak_resident, printable};
use crate::reliability::{self, Persist};
use crate::units;
use echo::Echo;
use sink::Sink;

/// The largest message that is reassembled, in bytes; larger messages are received in parts.
const MAX_JOINED: usize = 1 << 20;
/// Limit on the graceful shutdown of all associations after the user asked to stop.
const HURRY: Duration = Duration::from_secs(3);

/// Arguments of `listen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch listen
  anabranch listen --echo
  anabranch listen --output received --once
  anabranch listen --echo --lifetime 100ms
  anabranch listen --output received --path 10.1.0.2 --path 10.2.0.2

The first line of output reports the address and ports. Without --echo and --output, text messages
are printed as lines. The command runs until Ctrl-C, or with --once until the first association
ends. While the reader of the output is slow, the senders wait. If the reader takes nothing for two
seconds and a mebibyte of lines waits, further lines are dropped and counted, and the associations
continue. If a sender abandons a message after a part of it has arrived, the message is truncated, and
not counted.")]
pub(crate) struct ListenArgs {
    /// Send every message back on its stream, with the same payload protocol identifier and order flag; if the peer resets
    /// streams (RFC 6525), reset them in the other direction too
    #[arg(long)]
    echo: bool,
    /// Write the data of each association to a new file in this directory, in order of arrival
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
    /// Exit after the first association
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    local: Local,
    #[command(flatten)]
    persist: Persist,
    #[command(flatten)]
    pub(crate) observe: Observe,
    #[command(flatten)]
    pub(crate) carry: Carry,
}

/// State that all associations share.
#[derive(Debug)]
struct Job {
    output: Output,
    encrypt: Encrypt,
    echo: bool,
    /// The reliability policy of the echoes.
    reliability: Reliability,
    directory: Option<PathBuf>,
    counter: AtomicU64,
    /// Set when the graceful shutdown has taken too long.
    stop: watch::Sender<bool>,
}

/// Messages received from an association.
#[derive(Debug, Default)]
struct Tally {
    messages: u64,
    bytes: u64,
    echoed: u64,
    /// Arrival of the first and of the latest data.
    first: Option<Instant>,
    last: Option<Instant>,
}

/// Totals of all associations.
#[derive(Debug, Default)]
struct Totals {
    associations: u64,
    failed: u64,
    messages: u64,
    bytes: u64,
}

/// Runs the command.
pub(crate) async fn run(args: ListenArgs, interrupt: Interrupt) -> Result<(), Failure> {
    if args.persist.is_partial() && !args.echo {
        return Err(Failure::new(
            "--lifetime, --max-retransmissions and --pr-priority apply to sent messages, and a listener sends only with \
             --echo: add --echo, or give the flag to `anabranch send`",
        ));
    }
    if let Some(directory) = &args.output {
        std::fs::create_dir_all(directory).map_err(|error| {
            let directory = directory.display();
            Failure::new(format!(
                "--output {directory}: cannot create the directory: {error}; give a directory that you may write to"
            ))
        })?;
    }
    output::serve(args.observe.output())?;
    let endpoint = args.local.listen(&args.carry, &args.observe, MAX_JOINED)?;
    let begun = Instant::now();
    let job = Arc::new(Job {
        output: args.observe.output(),
        encrypt: args.carry.encrypt.clone(),
        echo: args.echo,
        reliability: args.persist.reliability(),
        directory: args.output.clone(),
        counter: AtomicU64::new(1),
        stop: watch::Sender::new(false),
    });
    let totals = serve(&args, &endpoint, &job, &interrupt).await;
    // Ended associations have been awaited; this ends the rest and writes the capture.
    let _ = tokio::time::timeout(HURRY, endpoint.close()).await;
    report(&totals, begun.elapsed(), job.output);
    match totals.failed {
        0 => Ok(()),
        failed if interrupt.is_set() && !args.once => {
            tracing_note(failed);
            Ok(())
        }
        failed => Err(Failure::new(format!(
            "{} did not shut down gracefully",
            units::counted(failed, "association")
        ))),
    }
}

/// An interrupted server succeeds: the errors of its peers were reported when they occurred.
fn tracing_note(failed: u64) {
    output::note(format!(
        "{} did not shut down gracefully",
        units::counted(failed, "association")
    ));
}

/// Accepts associations until the user asks to stop, or with `--once` until the first association ends.
async fn serve(args: &ListenArgs, endpoint: &Endpoint, job: &Arc<Job>, interrupt: &Interrupt) -> Totals {
    let mut totals = Totals::default();
    let mut tasks = JoinSet::new();
    loop {
        let accepting = !(args.once && totals.associations > 0);
        tokio::select! {
            accepted = endpoint.accept(), if accepting => {
                let Some(association) = accepted else { break };
                totals.associations += 1;
                if args.once {
                    endpoint.stop_listening(args.local.port);
                }
                tasks.spawn(Arc::clone(job).receive(association));
            }
            Some(ended) = tasks.join_next() => {
                totals.add(ended);
                if args.once {
                    return totals;
                }
            }
            () = interrupt.wait() => break,
        }
    }
    // A graceful shutdown, during which data is still received; after the limit the associations are aborted.
    let close = endpoint.clone();
    let closing = tokio::spawn(async move { close.close().await });
    let end = tokio::time::Instant::now() + HURRY;
    while let Ok(Some(ended)) = tokio::time::timeout_at(end, tasks.join_next()).await {
        totals.add(ended);
    }
    job.stop.send_replace(true);
    while let Some(ended) = tasks.join_next().await {
        totals.add(ended);
    }
    closing.abort();
    totals
}

impl Totals {
    fn add(&mut self, ended: Result<(Tally, bool), tokio::task::JoinError>) {
        match ended {
            Ok((tally, orderly)) => {
                self.messages += tally.messages;
                self.bytes += tally.bytes;
                self.failed += u64::from(!orderly);
            }
            Err(_) => self.failed += 1,
        }
    }
}

impl Job {
    /// Serves one association to its end; returns its tally and whether the shutdown was graceful.
    async fn receive(self: Arc<Self>, association: Association) -> (Tally, bool) {
        let remote = association.remote_addr();
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let mut tally = Tally::default();
        let encryption = self.introduce(remote, &association);
        let mut sink = None;
        let mut stop = self.stop.subscribe();
        let result = tokio::select! {
            result = self.receive_all(&association, remote, number, &mut tally, &mut sink) => result,
            _ = stop.wait_for(|stop| *stop) => {
                association.abort("the receiver was stopped");
                Err("stopped before the peer ended the association".to_owned())
            }
        };
        let stored = match sink {
            Some(sink) => sink.finish().map(Some),
            None => Ok(None),
        };
        let (stored, result) = match (stored, result) {
            (Ok(stored), result) => (stored, result),
            (Err(error), Ok(())) => (None, Err(error)),
            (Err(_), Err(error)) => (None, Err(error)),
        };
        self.tell(
            remote,
            &tally,
            (&association.stats(), encryption),
            stored.as_ref(),
            result.as_ref().err().map(String::as_str),
        )
        .await;
        (tally, result.is_ok())
    }

    /// Prints the certificate of a peer whose messages are encrypted; returns the same facts.
    fn introduce(&self, remote: SocketAddr, association: &Association) -> Value {
        let (encrypted, facts) = self.encrypt.describe(association);
        if !facts.is_null() {
            let record = json!({ "event": "connected", "remote": remote.to_string(), "encryption": facts });
            self.output.fact(format!("{remote}: {encrypted}"), &record);
        }
        facts
    }

    async fn receive_all(
        &self,
        association: &Association,
        remote: SocketAddr,
        number: u64,
        tally: &mut Tally,
        sink: &mut Option<Sink>,
    ) -> Result<(), String> {
        let refuse = |error: String| {
            association.abort("the receiver cannot go on");
            error
        };
        if let Some(directory) = &self.directory {
            *sink = Some(Sink::create(directory, remote, number).map_err(refuse)?);
        }
        let mut echo = self.echo.then(|| Echo::new(self.reliability));
        // Whether more events may come.
        let mut open = true;
        loop {
            let received = tokio::select! {
                biased;
                received = association.recv_part() => received,
                event = association.next_event(), if open && echo.is_some() => {
                    match (&mut echo, event) {
                        (Some(echo), Some(event)) => echo.on_event(association, &event),
                        _ => open = false,
                    }
                    continue;
                }
            };
            let part = match received {
                Ok(Some(part)) => part,
                Ok(None) => return Ok(()),
                Err(anabranch::RecvError::Closed(reason)) => return Err(reason.to_string()),
                Err(error) => return Err(error.to_string()),
            };
            tally.count(&part);
            if let Some(sink) = sink {
                sink.write(&part.payload).map_err(refuse)?;
            }
            match &mut echo {
                Some(echo) => {
                    echo.send(association, part).await.map_err(refuse)?;
                    tally.echoed = echo.messages();
                }
                None if self.directory.is_none() => self.print(remote, part).await,
                None => {}
            }
        }
    }

    /// Prints a whole message, or a line when the last part of a large message arrives.
    async fn print(&self, remote: SocketAddr, part: MessagePart) {
        if !part.ending {
            return;
        }
        let truncated = part.truncated;
        let whole = part.beginning.then(|| part.payload.into_bytes());
        let text = whole.as_deref().and_then(printable);
        let bytes = whole.as_ref().map(|bytes| bytes.len());
        let shown = match (&text, bytes) {
            (Some(text), _) => text.clone(),
            (None, Some(bytes)) => format!("({}, not text)", units::counted(bytes as u64, "byte")),
            (None, None) if truncated => {
                "(a large message, which its sender abandoned before its end)".to_owned()
            }
            (None, None) => "(a large message, in parts)".to_owned(),
        };
        let record = json!({
            "event": "message", "remote": remote.to_string(), "stream": part.stream.0, "ppid": part.ppid.0,
            "unordered": part.unordered, "bytes": bytes, "text": text, "truncated": truncated,
        });
        self.output
            .fact_when_read(format!("{remote} stream {}: {shown}", part.stream.0), &record)
            .await;
    }

    async fn tell(
        &self,
        remote: SocketAddr,
        tally: &Tally,
        (stats, encryption): (&AssociationStats, Value),
        stored: Option<&sink::Stored>,
        problem: Option<&str>,
    ) {
        let took = tally.took();
        let mut text = format!(
            "{remote}: received {}, {} in {} ({})",
            units::counted(tally.messages, "message"),
            units::size(tally.bytes),
            units::duration(took),
            units::rate(tally.bytes, took)
        );
        if self.echo {
            text.push_str(&format!(", sent {} back", tally.echoed));
        }
        for line in reliability::lines(&stats.counters) {
            text.push_str(&format!("\n{line}"));
        }
        if let Some(stored) = stored {
            text.push_str(&format!("\n{}: sha256 {}", stored.path.display(), stored.sha256));
        }
        if let Some(problem) = problem {
            text.push_str(&format!("\n{remote}: not complete: {problem}"));
        }
        let record = json!({
            "event": "association", "remote": remote.to_string(), "messages": tally.messages, "bytes": tally.bytes,
            "echoed": self.echo.then_some(tally.echoed), "seconds": took.as_secs_f64(),
            "bits_per_second": units::bits_per_second(tally.bytes, took),
            "file": stored.map(|stored| stored.path.display().to_string()),
            "sha256": stored.map(|stored| stored.sha256.as_str()),
            "orderly": problem.is_none(), "graceful": problem.is_none(), "problem": problem,
            "partial_reliability": reliability::to_json(&stats.counters), "negotiated": negotiated::to_json(stats),
            "encryption": encryption,
        });
        self.output.fact_when_read(text, &record).await;
    }
}

impl Tally {
    fn count(&mut self, part: &MessagePart) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.bytes += part.payload.len() as u64;
        self.messages += u64::from(part.ending && !part.truncated);
    }

    /// From the first data to the last.
    fn took(&self) -> Duration {
        match (self.first, self.last) {
            (Some(first), Some(last)) => last.duration_since(first),
            _ => Duration::ZERO,
        }
    }
}

fn report(totals: &Totals, took: Duration, output: Output) {
    let peak = peak_resident();
    let mut text = format!(
        "{}, {}, {} in {}",
        units::counted(totals.associations, "association"),
        units::counted(totals.messages, "message"),
        units::size(totals.bytes),
        units::duration(took)
    );
    if let Some(peak) = peak {
        text.push_str(&format!(", peak resident memory {}", units::size(peak)));
    }
    let record: Value = json!({
        "event": "summary", "associations": totals.associations, "failed": totals.failed,
        "messages": totals.messages, "bytes": totals.bytes, "seconds": took.as_secs_f64(),
        "peak_resident_bytes": peak,
    });
    output.fact(text, &record);
}
