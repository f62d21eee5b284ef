//! Does a stated amount of work, so that valgrind can count its instructions: the difference between a long and a short run is the cost of
//! the work in between. `tests/budgets.rs` does that with the lines of `budgets.txt`; [`USAGE`] has the kinds of work.

use std::time::Duration;

use anabranch_netsim::{Arena, Lockstep};
use anabranch_proto::{Association, Config, Reliability, SendOptions, StreamId};

const USAGE: &str = "\
instructions message SIZE QUANTUM COUNT    send and read COUNT ordered messages; the receiver gets QUANTUM packets before it answers
instructions lifetime SIZE QUANTUM COUNT   the same, with messages that live for a second
instructions set-up COUNT                  set up COUNT associations, both ends of each
instructions idle COUNT                    let COUNT minutes pass at both ends of an association";

/// The length of a packet with its IPv4 and UDP headers, as in the benchmarks of other stacks.
const PACKET: u16 = 1_228;

fn pair() -> Lockstep {
    let mut config = Config::default();
    config.path_mtu = PACKET;
    config.path_mtu_limit = PACKET;
    Lockstep::set_up(&config).expect("set-up")
}

/// Sends and reads messages.
fn messages(size: usize, quantum: u64, total: u64, options: SendOptions) {
    let mut pair = pair();
    let template = vec![0x5a; size];
    let mut application = Arena::default();
    let (mut sent, mut received) = (0, 0);
    while received < total {
        let write = |association: &mut Association, now| {
            while sent < total {
                let message = application.copy(&template);
                if association.send(now, StreamId(0), message, options).is_err() {
                    break;
                }
                sent += 1;
            }
        };
        let read = |association: &mut Association, now| {
            while let Some(part) = association.recv(now) {
                assert!(part.payload.len() == size && part.ending);
                received += 1;
            }
        };
        pair.round(quantum, write, read).expect("progress");
    }
}

/// Lets minutes pass in which the application does nothing.
fn idle(minutes: u64) {
    let mut pair = pair();
    let time = |pair: &mut Lockstep| pair.sender().expect("an association").1;
    let end = time(&mut pair) + Duration::from_secs(60 * minutes);
    while time(&mut pair) < end {
        pair.wait().expect("a heartbeat timer");
        pair.exchange(1, |_, _| {});
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| -> u64 { text.parse().expect(USAGE) };
    match words.as_slice() {
        [kind @ ("message" | "lifetime"), size, quantum, count] => {
            let mut options = SendOptions::default();
            if *kind == "lifetime" {
                options.reliability = Reliability::Lifetime(Duration::from_secs(1));
            }
            messages(number(size) as usize, number(quantum), number(count), options);
        }
        ["set-up", count] => (0..number(count)).for_each(|_| drop(pair())),
        ["idle", count] => idle(number(count)),
        _ => panic!("{USAGE}"),
    }
}
