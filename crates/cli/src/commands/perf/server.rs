//! `anabranch perf server`: runs the measurements of any number of clients at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch::{Association, Endpoint, RecvError};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ServerArgs;
use super::clock::{Clock, Comparison};
use super::control::Control;
use super::plan::{MAX_JOINED, Plan, Role};
use super::report::Voice;
use super::session::Session;
use crate::encryption::Encrypt;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::negotiated;
use crate::output::{self, Output};
use crate::units;

/// Time limit for a client to request its measurement, and to end the association after the results.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limit on the graceful shutdown of all clients after the user asked to stop: a little more than the limit of a run.
const HURRY: Duration = Duration::from_secs(4);

/// State that all clients share.
#[derive(Debug)]
struct Server {
    output: Output,
    encrypt: Encrypt,
    interval: Option<Duration>,
    counter: AtomicU64,
    interrupt: Interrupt,
}

/// How a client was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Well,
    /// The client ended early, or is not a client of `perf`.
    Badly,
    /// Messages were lost, duplicated or out of order.
    Faulty,
}

#[derive(Debug, Default)]
struct Totals {
    clients: u64,
    failed: u64,
    faulty: u64,
}

/// Runs the command.
pub(super) async fn run(args: ServerArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let output = args.observe.output();
    output::serve(output)?;
    let endpoint = args.local.listen(&args.carry, &args.observe, MAX_JOINED)?;
    let server = Arc::new(Server {
        output,
        encrypt: args.carry.encrypt.clone(),
        interval: super::interval(args.interval),
        counter: AtomicU64::new(1),
        interrupt,
    });
    let totals = server.serve(&args, &endpoint).await;
    let _ = timeout(HURRY, endpoint.close()).await;
    let text = format!(
        "{} served; {} ended early, {} had messages lost, duplicated or out of order",
        units::counted(totals.clients, "client"),
        totals.failed,
        totals.faulty
    );
    let record = json!({
        "event": "summary", "clients": totals.clients, "failed": totals.failed, "faulty": totals.faulty,
    });
    output.fact(text, &record);
    if totals.faulty > 0 {
        return Err(Failure::new(
            "messages were lost, duplicated or out of order: see above",
        ));
    }
    if args.one_off && totals.failed > 0 {
        return Err(Failure::new("the client ended early: see above"));
    }
    Ok(())
}

impl Totals {
    fn add(&mut self, served: Served) {
        self.failed += u64::from(served == Served::Badly);
        self.faulty += u64::from(served == Served::Faulty);
    }
}

impl Server {
    async fn serve(self: &Arc<Self>, args: &ServerArgs, endpoint: &Endpoint) -> Totals {
        let mut totals = Totals::default();
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                accepted = endpoint.accept(), if !(args.one_off && totals.clients > 0) => {
                    let Some(association) = accepted else { break };
                    totals.clients += 1;
                    if args.one_off {
                        endpoint.stop_listening(args.local.port);
                    }
                    tasks.spawn(Arc::clone(self).client(association));
                }
                Some(served) = tasks.join_next() => {
                    totals.add(served.unwrap_or(Served::Badly));
                    if args.one_off {
                        return totals;
                    }
                }
                () = self.interrupt.wait() => break,
            }
        }
        endpoint.stop_listening(args.local.port);
        // The interrupt also stops the runs; each run ends within its own limit.
        while let Some(served) = tasks.join_next().await {
            totals.add(served.unwrap_or(Served::Badly));
        }
        totals
    }

    /// Serves a client to its end.
    async fn client(self: Arc<Self>, association: Association) -> Served {
        let voice = Voice {
            output: self.output,
            interval: self.interval,
            client: Some(self.counter.fetch_add(1, Ordering::Relaxed)),
        };
        let remote = association.remote_addr();
        let failed = |problem: String| {
            association.abort(problem.clone());
            let record = json!({ "event": "failed", "remote": remote.to_string(), "problem": problem });
            voice.fact(&format!("{remote}: {problem}"), record);
            Served::Badly
        };
        let clock = Clock::start();
        let (plan, clocks) = tokio::select! {
            asked = timeout(PATIENCE, asked(&association, clock)) => match asked {
                Ok(Ok(asked)) => asked,
                Ok(Err(problem)) => return failed(problem),
                Err(_) => return failed("it did not request a measurement".to_owned()),
            },
            () = self.interrupt.wait() => return failed("the server was stopped".to_owned()),
        };
        let (encrypted, encryption) = self.encrypt.describe(&association);
        let mut text = format!("{remote}: {}", plan.describe());
        if !encryption.is_null() {
            text.push_str(&format!("; {encrypted}"));
        }
        let record = json!({
            "event": "client", "remote": remote.to_string(), "plan": plan.to_json(),
            "negotiated": negotiated::to_json(&association.stats()), "encryption": encryption,
        });
        voice.fact(&text, record);
        if let Err(error) = Control::Ready.send(&association).await {
            return failed(error.to_string());
        }
        // The client must get `Ready` before data: on another path, data could overtake it.
        if plan.reverse
            && let Err(error) = association.drained().await
        {
            return failed(error.to_string());
        }
        // The client sent the offset of the server's clock; here the offset of the client's clock is needed.
        let clock = clock.with_peer_ahead(clocks.ahead.saturating_neg());
        let session = Session::new(&association, &plan, Role::Server, clock);
        let outcome = session.run(&voice, &self.interrupt).await;
        voice.results("result", &plan, clocks, &outcome);
        match (outcome.fault(&plan), &outcome.trouble) {
            (Some(_), _) => Served::Faulty,
            (None, Some(trouble)) => failed(trouble.clone()),
            (None, None) => match timeout(PATIENCE, ended(&association)).await {
                Ok(Ok(())) => Served::Well,
                Ok(Err(problem)) => failed(problem),
                Err(_) => failed("it did not end the association".to_owned()),
            },
        }
    }
}

/// Answers echoes until the client requests a measurement.
async fn asked(association: &Association, clock: Clock) -> Result<(Plan, Comparison), String> {
    loop {
        let message = match association.recv().await {
            Ok(Some(message)) => message,
            Ok(None) => return Err("it ended the association before it requested a measurement".to_owned()),
            Err(RecvError::Closed(reason)) => return Err(reason.to_string()),
            Err(error) => return Err(error.to_string()),
        };
        let now = Instant::now();
        let control = Control::of(&message).ok_or("it sent data before it requested a measurement")?;
        let control = match control {
            Ok(control) => control,
            Err(why) => {
                refuse(association, &why).await;
                return Err(why);
            }
        };
        match control {
            Control::Echo { number } => {
                let clock = clock.show(now);
                let answer = Control::Echoed { number, clock };
                answer
                    .send(association)
                    .await
                    .map_err(|error| error.to_string())?;
            }
            Control::Start { plan, clocks } => {
                // The client chooses the number of its outbound streams; the server needs the same number.
                let there = association.outbound_streams();
                if plan.reverse && there <= plan.streams {
                    let why = format!(
                        "--streams {}: the client accepts only {} data streams",
                        plan.streams,
                        there.saturating_sub(1)
                    );
                    refuse(association, &why).await;
                    return Err(why);
                }
                return Ok((plan, clocks));
            }
            _ => return Err("it sent an unexpected control message".to_owned()),
        }
    }
}

/// Sends the refusal to the client, and waits for the client to end the association.
async fn refuse(association: &Association, why: &str) {
    let refusal = Control::Refused { why: why.to_owned() };
    if refusal.send(association).await.is_ok() {
        let _ = timeout(PATIENCE, ended(association)).await;
    }
}

/// Waits for the client to end the association.
async fn ended(association: &Association) -> Result<(), String> {
    loop {
        match association.recv().await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(RecvError::Closed(reason)) => return Err(reason.to_string()),
            Err(error) => return Err(error.to_string()),
        }
    }
}
