//! A transfer between two associations in memory.

use anabranch_netsim::{Arena, Lockstep, LockstepError};
use anabranch_proto::{Association, SendOptions};

use super::{BenchArgs, MEMORY_PACKET, Meter, Report, is_stamped, stamp};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Carries the messages.
pub(super) fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<Report, Failure> {
    let ended = |error: LockstepError| Failure::new(format!("the benchmark ended early: {error}"));
    let mut pair = Lockstep::set_up(&args.config()?).map_err(ended)?;
    pair.hold = args.held_bytes().div_ceil(usize::from(MEMORY_PACKET));
    let set = args.set_classes(pair.sender().map_err(ended)?.0);
    set.map_err(|error| Failure::new(error.to_string()))?;
    let total = args.messages();
    let mut template = vec![0x5a; usize::try_from(args.size).unwrap_or(usize::MAX)];
    let len = template.len();
    let options = SendOptions::default().unordered(args.unordered);
    let (mut sent, mut received, mut wrong) = (0, 0, 0);
    let mut application = Arena::default();
    let meter = Meter::start();
    while received < total && !interrupt.is_set() {
        if sent == total {
            pair.hold = 0;
        }
        let write = |association: &mut Association, now| {
            while sent < total {
                stamp(&mut template, sent);
                let message = application.copy(&template);
                if association
                    .send(now, args.stream_of(sent), message, options)
                    .is_err()
                {
                    break;
                }
                sent += 1;
            }
        };
        let read = |association: &mut Association, now| {
            while let Some(part) = association.recv(now) {
                let whole = part.beginning && part.ending && part.payload.len() == len;
                let right = args.scheduler.is_some()
                    || part
                        .payload
                        .pieces()
                        .first()
                        .is_some_and(|first| is_stamped(first, received));
                wrong += u64::from(!(whole && right));
                received += 1;
            }
        };
        pair.round(args.quantum, write, read).map_err(ended)?;
    }
    if wrong > 0 {
        return Err(Failure::new(format!(
            "{wrong} messages arrived out of order or truncated: this is a bug"
        )));
    }
    let packet = args.packet.unwrap_or(MEMORY_PACKET);
    Ok(meter.report(received, received * args.size, packet, pair.packets()))
}
