//! `anabranch perf client`: asks a server for a measurement and reports the results of both sides.

use std::time::Instant;

use anabranch::{Association, RecvError};
use serde_json::json;
use tokio::time::timeout;

use super::ClientArgs;
use super::clock::{Clock, Comparison};
use super::control::Control;
use super::plan::{MAX_JOINED, Plan, Role};
use super::report::Voice;
use super::session::Session;
use crate::connect::{Client, Wish};
use crate::delays::millis;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::negotiated;
use crate::units;

/// Number of round trips to compare the clocks; only the shortest is used.
const ROUND_TRIPS: u64 = 8;
/// The command to start at the peer, for error messages.
const SERVER: &str = "anabranch perf server";

/// Runs the command.
pub(super) async fn run(args: ClientArgs, interrupt: Interrupt) -> Result<(), Failure> {
    let plan = args.plan();
    plan.check()
        .map_err(|problem| Failure::new(format!("--size and --streams: {problem}")))?;
    let wish = Wish {
        server: SERVER,
        streams: plan.streams + 1,
        max_joined_message: MAX_JOINED,
        schedule: args.schedule.clone(),
    };
    let client = args
        .target
        .open(&args.carry, &args.observe, &wish, &interrupt)
        .await?;
    client.tell_refused(&args.carry.offer, &args.persist);
    client.tell_paths();
    let result = measure(&args, &plan, &client, &interrupt).await;
    if result.is_err() {
        // This has no effect if the association has already ended.
        client.association.abort("the measurement failed");
        client.endpoint.close().await;
    }
    result
}

async fn measure(
    args: &ClientArgs,
    plan: &Plan,
    client: &Client,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let host = &args.target.host;
    let streams = client.association.outbound_streams();
    if streams <= plan.streams {
        return Err(Failure::new(format!(
            "--streams {}: {host} accepts only {} data streams; give at most this number",
            plan.streams,
            streams.saturating_sub(1)
        )));
    }
    args.schedule.set(&client.association)?;
    let voice = Voice {
        output: args.observe.output(),
        interval: super::interval(args.interval),
        client: None,
    };
    let clock = Clock::start();
    let answer = tokio::select! {
        answer = timeout(args.target.timeout, agree(&client.association, plan, clock)) => answer,
        () = interrupt.wait() => return Err(Failure::interrupted("interrupted before the measurement")),
    };
    let clocks = match answer {
        Ok(Ok(clocks)) => clocks,
        Ok(Err(problem)) => return Err(Failure::new(format!("{host}: {problem}"))),
        Err(_) => {
            return Err(Failure::new(format!(
                "{host} accepts associations, but does not answer the request of `anabranch perf` within {}: check that \
                 `{SERVER}` runs there, check --port, or raise --timeout",
                units::duration(args.target.timeout)
            )));
        }
    };
    let text = format!(
        "{}: {}\nclocks compared by {ROUND_TRIPS} round trips, the shortest {}",
        client.remote,
        plan.describe(),
        units::duration(clocks.round_trip)
    );
    let record = json!({
        "event": "start", "host": host, "remote": client.remote.to_string(), "plan": plan.to_json(),
        "round_trip_ms": millis(clocks.round_trip),
        "negotiated": negotiated::to_json(&client.association.stats()),
    });
    voice.fact(&text, record);
    let session = Session::new(
        &client.association,
        plan,
        Role::Client,
        clock.with_peer_ahead(clocks.ahead),
    );
    let outcome = session.run(&voice, interrupt).await;
    voice.results("summary", plan, clocks, &outcome);
    if let Some(fault) = outcome.fault(plan) {
        return Err(Failure::new(format!("{host}: {fault}")));
    }
    match outcome.trouble {
        Some(trouble) if interrupt.is_set() => {
            return Err(Failure::interrupted(format!("{host}: {trouble}")));
        }
        Some(trouble) => {
            return Err(Failure::new(format!(
                "{host}: the measurement ended early: {trouble}; the results above are from this side only"
            )));
        }
        None => {}
    }
    let ending = client.finish(interrupt).await.result;
    ending.map_err(|error| Failure::new(format!("{host}: the shutdown was not graceful: {error}")))?;
    if outcome.stopped && !interrupt.is_set() {
        return Err(Failure::new(format!(
            "{host}: the server was stopped before the end; the results above end at that time"
        )));
    }
    Ok(())
}

/// Compares the clocks and requests the run; returns when data may be sent.
async fn agree(association: &Association, plan: &Plan, clock: Clock) -> Result<Comparison, String> {
    let mut best: Option<Comparison> = None;
    for number in 0..ROUND_TRIPS {
        let begun = clock.show(Instant::now());
        say(&Control::Echo { number }, association).await?;
        let theirs = match hear(association).await? {
            Control::Echoed {
                number: answered,
                clock,
            } if answered == number => clock,
            Control::Echo { .. } => {
                return Err(format!(
                    "it is an echo server, not `{SERVER}`: check --port and --udp-port"
                ));
            }
            other => return Err(unexpected(other)),
        };
        let comparison = Comparison::of(begun, theirs, clock.show(Instant::now()));
        if best.is_none_or(|best| comparison.round_trip < best.round_trip) {
            best = Some(comparison);
        }
    }
    let clocks = best.ok_or("the clocks could not be compared")?;
    say(&Control::Start { plan: *plan, clocks }, association).await?;
    match hear(association).await? {
        Control::Ready => Ok(clocks),
        other => Err(unexpected(other)),
    }
}

fn unexpected(control: Control) -> String {
    match control {
        Control::Refused { why } => format!("it refused: {why}"),
        Control::Stop => "the server is being stopped".to_owned(),
        _ => format!("it sent an unexpected control message; use the same version of `{SERVER}`"),
    }
}

async fn say(control: &Control, association: &Association) -> Result<(), String> {
    control.send(association).await.map_err(|error| error.to_string())
}

async fn hear(association: &Association) -> Result<Control, String> {
    let message = match association.recv().await {
        Ok(Some(message)) => message,
        Ok(None) => return Err(format!("it ended the association; is it `{SERVER}`?")),
        Err(RecvError::Closed(reason)) => {
            return Err(format!("{reason}; is it `{SERVER}`?"));
        }
        Err(error) => return Err(error.to_string()),
    };
    Control::of(&message).ok_or_else(|| "it sent data before the request".to_owned())?
}
