//! `anabranch demo`: sends a file, a chat and telemetry at the same time between two endpoints in this process, over real UDP
//! sockets and a slow, lossy link. A table shows the delivered messages, how many were in time, and their delays. A simulation in virtual
//! time then shows two networks, of which one is pulled. With `--compare`, more simulations compare partial reliability, stream priorities
//! and several paths.
//!
//! Each [`Setting`] gives one run and one group of columns in the table.

mod board;
mod comparison;
mod network;
mod progress;
mod pulled;
mod together;
mod traffic;
mod urgent;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anabranch::{Association, Config, Counters, Endpoint, LinkConfig, LinkStats, SchedulerKind};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::delays::Summary;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::negotiated;
use crate::options::{Observe, bind_failure};
use crate::output::{note, peak_resident};
use crate::paint::{Colour, Paint};
use crate::reliability::{self, Offer, Persist};
use crate::scheduling::Schedule;
use crate::table::{Group, Table};
use crate::units;
use board::{Board, Kind, Stream};
use progress::Progress;
use traffic::FileSource;

/// The SCTP port of the receiving side.
const PORT: u16 = 7;
/// Time limits for the association setup and for the shutdown.
const SET_UP: Duration = Duration::from_secs(15);
const ENDING: Duration = Duration::from_secs(15);

const RUN: &str = "Run";

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch demo
  anabranch demo --size 1mib --link rate=1mbit,delay=100ms,loss=3%,queue=32kib
  anabranch demo --file FILE --seconds 120 --pcap demo.pcapng
  anabranch demo --compare-only --link rate=2mbit,delay=40ms,loss=5%
  anabranch demo --lifetime 100ms --early-discard --selective-forward-tsn

Two endpoints in this process send over UDP on 127.0.0.1; the demo needs no root. The file (stream
0) and the chat (stream 1) are reliable and ordered. The telemetry, 50 readings a second, is sent
twice: with a deadline of 150 ms (stream 2), and reliable and ordered (stream 3). Delay is the time
from the call of `send` to the delivery of the message. Then a simulation in virtual time shows a
client with two networks behind address translators, of which one is pulled. --compare adds
simulations that compare partially reliable with reliable messages, the delay of a chat next to a
file with and without priorities, and several paths one at a time and together. The same --seed
gives the same simulations. --lifetime, --max-retransmissions and --pr-priority replace the deadline
of the telemetry, and apply to the position messages of the simulation.
The exit status is 0 only if every sent message that was not abandoned was delivered, and the
checksum of the file is correct.")]
pub(crate) struct DemoArgs {
    /// File to send [default: a generated file of --size bytes]
    #[arg(long, help_heading = RUN, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "size")]
    file: Option<PathBuf>,
    /// Size of the generated file in bytes
    #[arg(long, help_heading = RUN, value_name = "SIZE", default_value = "1mib", value_parser = units::parse_size)]
    size: u64,
    /// Stop sending after this many seconds, or a time like 1m30s, even before the end of the file, 1 to 86400 seconds
    #[arg(long, help_heading = RUN, value_name = "SECONDS", default_value = "20", value_parser = length)]
    seconds: Duration,
    /// Emulated link between the two endpoints, in each direction
    #[arg(
        long,
        display_order = 0,
        value_name = "SETTINGS",
        default_value = "rate=2mbit,delay=40ms,loss=10%,queue=64kib"
    )]
    link: LinkConfig,
    /// Seed of the random numbers of the link and of the message contents
    #[arg(long, help_heading = RUN, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Show more simulations after the demonstration: partial reliability, priorities and several paths
    #[arg(long, display_order = 2)]
    compare: bool,
    /// Run only the simulations
    #[arg(long, display_order = 3, conflicts_with_all = ["compare", "file", "size", "seconds", "pcap", "qlog"])]
    compare_only: bool,
    #[command(flatten)]
    persist: Persist,
    #[command(flatten)]
    schedule: Schedule,
    #[command(flatten)]
    pub(crate) observe: Observe,
    #[command(flatten)]
    offer: Offer,
}

fn length(text: &str) -> Result<Duration, String> {
    let time = units::parse_seconds(text)?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(86_400);
    allowed
        .contains(&time)
        .then_some(time)
        .ok_or_else(|| "give 1 to 86400 seconds, like 45 or 1m30s".to_owned())
}

/// One way to run the demonstration.
#[derive(Clone, Debug)]
struct Setting {
    name: &'static str,
    config: Config,
}

/// The results of one run.
#[derive(Debug)]
struct Run {
    name: &'static str,
    took: Duration,
    board: Board,
    /// For `--json`.
    negotiated: Value,
    counters: Counters,
    link: Option<(LinkStats, LinkStats)>,
    /// Why the shutdown was not graceful.
    problem: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(args: DemoArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let mut config = Config::low_latency();
    args.schedule.apply(&mut config)?;
    args.offer.apply(&mut config);
    let mut trouble = None;
    if !args.compare_only {
        let settings = [Setting {
            name: "real time",
            config: config.clone(),
        }];
        let mut runs = Vec::new();
        for setting in settings {
            runs.push(carry(&args, setting, &interrupt).await?);
            if interrupt.is_set() {
                break;
            }
        }
        report(&args, &runs);
        trouble = runs.iter().find_map(Run::trouble);
    }
    if (args.compare || args.compare_only) && !interrupt.is_set() {
        let compared = compare(&args, &config)?;
        trouble = trouble.or(compared);
    }
    if !interrupt.is_set() {
        let pulled = tokio::task::block_in_place(|| pulled::run(args.seed)).map_err(Failure::new)?;
        let paint = Paint::stdout();
        let output = args.observe.output();
        output.fact(format!("\n{}", pulled.text(paint)), &pulled.to_json());
    }
    trouble.map_or(Ok(()), |trouble| Err(Failure::new(trouble)))
}

/// The tables of the simulations; returns a failed check, if any.
fn compare(args: &DemoArgs, config: &Config) -> Result<Option<String>, Failure> {
    let reliability = args.persist.reliability();
    let compare = || {
        let expiring = comparison::compare(config, reliability, &args.link, args.seed)?;
        Ok::<_, String>((
            expiring,
            urgent::compare(args.seed)?,
            together::compare(args.seed)?,
        ))
    };
    let (compared, urgent, together) = tokio::task::block_in_place(compare).map_err(Failure::new)?;
    let output = args.observe.output();
    output.fact(format!("\n{}", compared.text()), &compared.to_json());
    output.fact(format!("\n{}", urgent.text()), &urgent.to_json());
    output.fact(format!("\n{}", together.text()), &together.to_json());
    Ok(compared.trouble())
}

/// Two endpoints with the link between them.
async fn endpoints(args: &DemoArgs, config: Config) -> Result<(Endpoint, Endpoint), Failure> {
    let receiver = Endpoint::builder()
        .config(config.clone())
        .bind("127.0.0.1:0")
        .await;
    let receiver = receiver.map_err(|error| bind_failure(&error))?;
    receiver
        .listen_on_port(PORT)
        .map_err(|error| Failure::new(error.to_string()))?;
    let builder = Endpoint::builder()
        .config(config)
        .link(args.link.clone(), args.seed);
    let sender = args
        .observe
        .record(builder)
        .bind("127.0.0.1:0")
        .await
        .map_err(|error| bind_failure(&error))?;
    Ok((sender, receiver))
}

async fn connect(
    args: &DemoArgs,
    sender: &Endpoint,
    receiver: &Endpoint,
) -> Result<(Association, Association), Failure> {
    let both = async {
        tokio::join!(
            sender.connect_to_port(receiver.local_addr(), PORT),
            receiver.accept()
        )
    };
    match timeout(SET_UP, both).await {
        Ok((Ok(outgoing), Some(incoming))) => Ok((outgoing, incoming)),
        Ok((Err(error), _)) => Err(Failure::new(format!(
            "the association setup between the two endpoints failed: {error}"
        ))),
        Ok((Ok(_), None)) | Err(_) => Err(Failure::new(format!(
            "no association was set up within {} over --link {}: give a faster link, or a link with fewer losses",
            units::duration(SET_UP),
            args.link
        ))),
    }
}

async fn carry(args: &DemoArgs, setting: Setting, interrupt: &Interrupt) -> Result<Run, Failure> {
    let file = FileSource::open(args.file.as_deref(), args.size, args.seed)?;
    let scheduler = setting.config.scheduler;
    if !args.observe.json {
        // With losses, the set-up may take seconds.
        note(format!("connecting over a link with {}", args.link));
    }
    let (sender, receiver) = endpoints(args, setting.config).await?;
    let connecting = connect(args, &sender, &receiver);
    let (outgoing, incoming) = tokio::select! {
        connected = connecting => connected?,
        () = interrupt.wait() => return Err(Failure::interrupted("interrupted before anything was sent")),
    };
    if scheduler == SchedulerKind::Priority {
        // The file leaves after everything else; `--priority` may choose otherwise.
        let after = outgoing.set_stream_priority(Kind::File.stream(), 1);
        after.map_err(|error| Failure::new(error.to_string()))?;
    }
    args.schedule.set(&outgoing)?;
    let begun = Instant::now();
    let board = Arc::new(Mutex::new(Board::new(begun, file.length(), args.seed)));
    let receiving = tokio::spawn(traffic::receive(incoming, Arc::clone(&board)));
    let (stop, stopped) = watch::channel(false);
    let sources = traffic::start(&outgoing, file, args.persist.reliability(), &board, &stopped);
    let mut progress = Progress::new(args.observe.json);
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let end = begun + args.seconds;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = interrupt.wait() => break,
            _ = outgoing.closed() => break,
        }
        let done = {
            let board = board.lock().unwrap_or_else(PoisonError::into_inner);
            progress.show(&board, begun.elapsed());
            board.file_through()
        };
        if done || Instant::now() >= end {
            break;
        }
    }
    stop.send_replace(true);
    let mut problem = None;
    for source in sources {
        if let Err(error) = source.await.unwrap_or_else(|_| Err("a sender ended".to_owned())) {
            problem.get_or_insert(error);
        }
    }
    let ending = async {
        outgoing.drained().await?;
        outgoing.shutdown().await
    };
    match timeout(ENDING, ending).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => problem = Some(error.to_string()),
        Err(_) => {
            problem = Some(format!(
                "the link did not carry the rest within {}",
                units::duration(ENDING)
            ))
        }
    }
    if problem.is_some() {
        outgoing.abort("the demonstration is over");
    }
    let _ = timeout(ENDING, receiving).await;
    progress.finish();
    let (stats, link) = (outgoing.stats(), sender.link_stats());
    let _ = timeout(Duration::from_secs(2), async {
        tokio::join!(sender.close(), receiver.close())
    })
    .await;
    let board = board.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Run {
        name: setting.name,
        took: begun.elapsed(),
        board,
        negotiated: negotiated::to_json(&stats),
        counters: stats.counters,
        link,
        problem,
    })
}

impl Run {
    /// The first failed check of the run.
    fn trouble(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(format!("{}: {problem}", self.name));
        }
        for (kind, stream) in self.board.streams() {
            // Abandoned telemetry messages may be missing, if the telemetry is partially reliable.
            let abandoned = reliability::abandoned(&self.counters);
            let spared = if kind == Kind::Telemetry { abandoned } else { 0 };
            if stream.delivered > stream.sent || stream.delivered + spared < stream.sent {
                let (name, sent) = (kind.name(), stream.sent);
                return Some(format!(
                    "{}: {name}: {} of {sent} messages delivered",
                    self.name, stream.delivered
                ));
            }
            if stream.damaged > 0 {
                return Some(format!(
                    "{}: {}: {} messages differ from the sent messages",
                    self.name,
                    kind.name(),
                    stream.damaged
                ));
            }
        }
        let (sent, received) = self.board.checksums();
        (sent != received).then(|| format!("{}: the file's checksum is wrong", self.name))
    }

    fn retransmissions(&self) -> u64 {
        self.counters.retransmissions_fast + self.counters.retransmissions_timeout
    }

    fn to_json(&self) -> Value {
        let streams: Vec<Value> = self
            .board
            .streams()
            .map(|(kind, stream)| {
                json!({
                    "stream": kind.name(), "sent": stream.sent, "delivered": stream.delivered,
                    "damaged": stream.damaged, "bytes": stream.bytes, "in_time": stream.in_time,
                    "delay": stream.delays.summary().map(Summary::to_json),
                })
            })
            .collect();
        let (sent, received) = self.board.checksums();
        let link = |stats: &LinkStats| {
            json!({
                "packets": stats.offered, "lost_by_chance": stats.lost_model, "lost_in_queue": stats.lost_queue,
                "lost_by_aqm": stats.lost_aqm, "queue_max_bytes": stats.queue_max_bytes,
            })
        };
        json!({
            "name": self.name, "seconds": self.took.as_secs_f64(), "streams": streams,
            "in_time_ms": traffic::DEADLINE.as_millis() as u64,
            "file": {
                "bytes": self.board.file_bytes(), "of": self.board.file_length(), "sha256_sent": sent,
                "sha256_received": received, "equal": sent == received,
            },
            "link": self.link.as_ref().map(|(there, back)| json!({ "there": link(there), "back": link(back) })),
            "data_chunks": self.counters.data_chunks_sent, "retransmissions": self.retransmissions(),
            "retransmissions_fast": self.counters.retransmissions_fast,
            "retransmissions_timeout": self.counters.retransmissions_timeout,
            "partial_reliability": reliability::to_json(&self.counters), "problem": self.problem,
            "negotiated": self.negotiated,
        })
    }

    fn cells(&self, kind: Kind) -> Vec<String> {
        let stream = self.board.stream(kind);
        let mut cells = vec![stream.sent.to_string(), stream.delivered.to_string()];
        cells.push(match Kind::READINGS.contains(&kind) {
            true => share(stream),
            false => String::new(),
        });
        cells.extend(match stream.delays.summary() {
            Some(delays) => [delays.median, delays.p99, delays.max].map(units::duration),
            None => [const { String::new() }; 3],
        });
        cells
    }
}

fn share(stream: &Stream) -> String {
    format!("{:.1} %", stream.share())
}

/// The table: a row for each stream, a group of columns for each run.
fn table(runs: &[Run]) -> Table {
    let columns = ["sent", "delivered", "in time", "median", "p99", "max"];
    let groups = runs.iter().map(|run| Group {
        title: format!("{}: messages and delays", run.name),
        columns: columns.map(str::to_owned).to_vec(),
    });
    let mut table = Table::new("stream", groups.collect());
    for kind in Kind::ALL {
        let mut row = vec![kind.name().to_owned()];
        row.extend(runs.iter().flat_map(|run| run.cells(kind)));
        table.row(row);
    }
    table
}

/// The shares of readings in time that the run has shown.
fn seen(args: &DemoArgs, run: &Run, paint: Paint) -> String {
    let [telemetry, reliable] = Kind::READINGS.map(|kind| share(run.board.stream(kind)));
    let how = match reliability::describe(args.persist.reliability()) {
        None => "with a deadline".to_owned(),
        Some(how) => how,
    };
    format!(
        "In time, within {} of their sending:\n  {} of the readings {how}\n  {} of the same readings, sent reliable and in order",
        units::duration(traffic::DEADLINE),
        paint.paint(Colour::Green, &telemetry),
        paint.paint(Colour::Red, &reliable),
    )
}

fn report(args: &DemoArgs, runs: &[Run]) {
    let paint = Paint::stdout();
    let mut text = format!("\nlink: {} (each way)\n\n{}\n", args.link, table(runs).render());
    for run in runs {
        let (sent, received) = run.board.checksums();
        let verdict = if sent == received {
            "the received file is equal"
        } else {
            "THE RECEIVED FILE IS DIFFERENT"
        };
        let bytes = run.board.file_bytes();
        text.push_str(&format!(
            "\nfile: {} of {} in {} ({}), {verdict}\n  sha256 {sent}\n",
            units::size(bytes),
            units::size(run.board.file_length()),
            units::duration(run.took),
            units::rate(bytes, run.took)
        ));
        if let Some((there, _)) = &run.link {
            text.push_str(&format!(
                "  the link lost {} of {} packets by random loss and {} at its queue\n",
                there.lost_model,
                there.offered,
                there.lost_queue + there.lost_aqm
            ));
        }
        text.push_str(&format!(
            "  {} of {} DATA chunks retransmitted, {} of them after a timeout",
            run.retransmissions(),
            run.counters.data_chunks_sent,
            run.counters.retransmissions_timeout
        ));
        for line in reliability::lines(&run.counters) {
            text.push_str(&format!("\n  {line}"));
        }
        text.push_str(&format!("\n\n{}", seen(args, run, paint)));
    }
    let record = json!({
        "event": "demo", "link": args.link.to_string(), "seed": args.seed,
        "runs": runs.iter().map(Run::to_json).collect::<Vec<_>>(), "peak_resident_bytes": peak_resident(),
    });
    args.observe.output().fact(text, &record);
    if runs
        .iter()
        .any(|run| run.board.file_bytes() < run.board.file_length())
    {
        note("the file was not sent completely: raise --seconds, or make the file smaller with --size");
    }
}
