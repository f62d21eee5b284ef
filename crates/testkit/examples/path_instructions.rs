//! Does a stated amount of work over two simulated paths, so that valgrind can count its instructions: `tests/budgets.rs` does that with the
//! lines of `budgets.txt` that begin with `path`. A program of its own: the simulator changes how the compiler lays out the core, and with it
//! the cost of the work in `instructions.rs`. [`USAGE`] has the kinds of work.

use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, MultipathMode};
use anabranch_testkit::{Bulk, Greedy, Setup};

const USAGE: &str = "\
path_instructions MODE SIZE COUNT   send and read COUNT ordered messages over two paths; MODE is cmt or eca";

/// The length of a packet with its IPv4 and UDP headers, as in the benchmarks of other stacks.
const PACKET: u16 = 1_228;

/// Sends and reads messages. The simulated links are part of the cost.
fn messages(mode: MultipathMode, size: usize, total: u64) {
    let mut config = Config::default();
    config.path_mtu = PACKET;
    config.path_mtu_limit = PACKET;
    config.multipath.mode = mode;
    let link: LinkConfig = "rate=100mbit,delay=5ms".parse().expect("a link");
    let setup = Setup::new(1).path(link.clone()).path(link).config(config);
    let mut bulk = Bulk::of(setup, Greedy::new(size));
    while bulk.sink().bytes < total * size as u64 {
        bulk.pair.run_for(Duration::from_millis(1));
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| -> u64 { text.parse().expect(USAGE) };
    let [mode, size, count] = words.as_slice() else {
        panic!("{USAGE}");
    };
    let mode = match *mode {
        "cmt" => MultipathMode::Cmt,
        "eca" => MultipathMode::Eca,
        _ => panic!("{USAGE}"),
    };
    messages(mode, number(size) as usize, number(count));
}
