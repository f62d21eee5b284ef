//! An association over two paths, in virtual time: the first path is cut, the data moves to the second, and returns when the
//! first path works again. `cargo run --example simulated_paths`.

use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Event, PathState};
use anabranch_testkit::{Pair, Setup, Side};

/// Sends a message every 100 ms for a while; returns the number of arrived messages.
fn talk(pair: &mut Pair, seconds: u64) -> usize {
    for number in 0..seconds * 10 {
        pair.send(Side::A, 0, vec![number as u8; 500]);
        pair.run_ms(100);
    }
    pair.messages(Side::Z).len()
}

fn tell(pair: &mut Pair) {
    let now = pair.now().as_secs_f64();
    for event in pair.events(Side::A) {
        if let Event::PathChanged { path, remote, state } = event {
            println!("{now:>5.0} s  path {path} to {remote} is {state:?}");
        }
    }
    for path in pair.association(Side::A).stats().paths {
        println!(
            "         path {}: {:?}, {} bytes sent",
            path.id, path.state, path.data_bytes_sent
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wired: LinkConfig = "rate=10mbit,delay=10ms".parse()?;
    let radio: LinkConfig = "rate=2mbit,delay=40ms".parse()?;
    let mut pair = Setup::new(1)
        .path(wired)
        .path(radio)
        .adjust_both(|config| {
            // Detect a failed path within seconds instead of a minute.
            config.rto.max = Duration::from_secs(2);
            config.heartbeat.interval = Some(Duration::from_secs(2));
        })
        .connect();

    let mut arrived = talk(&mut pair, 10);
    tell(&mut pair);
    println!("the first path is cut");
    pair.cut(0, true);
    arrived += talk(&mut pair, 30);
    tell(&mut pair);
    println!("the first path is back");
    pair.cut(0, false);
    arrived += talk(&mut pair, 20);
    pair.run_ms(10_000);
    arrived += pair.messages(Side::Z).len();
    tell(&mut pair);

    let stats = pair.association(Side::A).stats();
    println!(
        "{arrived} of 600 messages arrived, {} failover",
        stats.counters.failovers
    );
    let all_active = stats.paths.iter().all(|path| path.state == PathState::Active);
    if arrived != 600 || stats.counters.failovers == 0 || !all_active {
        return Err("that is not what should have happened".into());
    }
    Ok(())
}
