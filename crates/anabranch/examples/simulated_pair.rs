//! The same protocol in virtual time: ten megabytes over a slow and lossy link, with the same result in every run.
//! `cargo run --example simulated_pair`.

use anabranch_netsim::LinkConfig;
use anabranch_proto::Config;
use anabranch_testkit::{Pair, Setup, Side};

const MESSAGES: usize = 1000;
const LEN: usize = 10_000;

fn run(seed: u64) -> Result<(f64, u64), Box<dyn std::error::Error>> {
    let link: LinkConfig = "rate=10mbit,delay=25ms,loss=0.5%,queue=100kib".parse()?;
    let mut config = Config::default();
    config.buffers.send = 2 * MESSAGES * LEN;
    let mut pair: Pair = Setup::new(seed).path(link).config(config).connect();
    let begin = pair.now();
    for number in 0..MESSAGES {
        pair.send(Side::A, (number % 4) as u16, vec![number as u8; LEN]);
    }
    let mut received = 0;
    let limit = begin + std::time::Duration::from_secs(3600);
    let complete = pair.run_to(limit, |pair| {
        received += pair.messages(Side::Z).len();
        received == MESSAGES
    });
    if !complete {
        return Err(format!("seed {seed}: only {received} of {MESSAGES} messages arrived").into());
    }
    let seconds = pair.now().saturating_duration_since(begin).as_secs_f64();
    let counters = pair.association(Side::A).stats().counters;
    Ok((
        seconds,
        counters.retransmissions_fast + counters.retransmissions_timeout,
    ))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for seed in 1..=3 {
        let (seconds, retransmissions) = run(seed)?;
        println!("seed {seed}: {seconds:.3} virtual seconds, {retransmissions} chunks retransmitted");
        if run(seed)? != (seconds, retransmissions) {
            return Err("two runs with the same seed differ".into());
        }
    }
    Ok(())
}
