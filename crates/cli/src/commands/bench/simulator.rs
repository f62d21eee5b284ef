//! The simulator: how fast virtual time passes on a dumbbell with TCP and the real protocol.

use std::time::{Duration, Instant};

use anabranch_lab::{Benchmark, Work};
use anabranch_proto::Timestamp;
use serde_json::json;

use super::meter::cpu_time;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::units;

/// Lengths of the fifth flow's messages, in bytes.
const SIZES: [usize; 2] = [72, 1400];
const SIMULATED: u64 = 200;
/// Simulated seconds between two checks whether the user asked to stop.
const STEP: u64 = 5;

/// Runs the dumbbell with each length, and prints its cost.
pub(super) fn run(output: Output, interrupt: &Interrupt) -> Result<(), Failure> {
    for bytes in SIZES {
        let mut benchmark = Benchmark::new(1, bytes);
        let (begun, cpu) = (Instant::now(), cpu_time());
        for second in (0..=SIMULATED).step_by(STEP as usize) {
            if interrupt.is_set() {
                return Err(Failure::interrupted("interrupted before the simulation's end"));
            }
            benchmark.run_until(Timestamp::from_millis(second * 1000));
        }
        let (wall, cpu) = (begun.elapsed(), cpu_time().saturating_sub(cpu));
        tell(output, bytes, benchmark.work(), wall, cpu);
    }
    Ok(())
}

fn tell(output: Output, bytes: usize, work: Work, wall: Duration, cpu: Duration) {
    let a_second = |count: u64| count as f64 / wall.as_secs_f64();
    let text = format!(
        "simulator, 4 TCP flows and messages of {}, {SIMULATED} s: {} of real time, {} of processor time; {} events, \
         {:.2} million/s; {} packets at the bottleneck, {:.0}/s",
        units::size(bytes as u64),
        units::duration(wall),
        units::duration(cpu),
        work.events,
        a_second(work.events) / 1e6,
        work.packets,
        a_second(work.packets),
    );
    let record = json!({
        "event": "bench", "lib": "anabranch", "mode": "simulator", "size": bytes, "simulated_s": SIMULATED,
        "wall": wall.as_secs_f64(), "cpu": cpu.as_secs_f64(), "events": work.events,
        "events_per_s": a_second(work.events), "packets": work.packets, "packets_per_s": a_second(work.packets),
        "refused": work.refused, "msgs": work.messages,
    });
    output.fact(text, &record);
}
