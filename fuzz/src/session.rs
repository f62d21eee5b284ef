//! A whole session of data channels: ICE, DTLS, SCTP and the channels, with an application that uses it. Its peer is hostile and has the right
//! keys, or it is another session with a well-behaved application. The input also chooses what the network does to each datagram, what
//! strangers send, and how the network between them changes descriptions.
//!
//! The rules: no panic; polls and timeouts have an end; events, messages and errors fit together (`side.rs`); the memory of a session is at
//! most the sum of the rows of docs/LIMITS.md for its settings. Between two sessions, nothing that a stranger or the network does loses,
//! changes a message or delivers it twice once the network works again, and no session and no channel ends unless its application ends it.
//!
//! The credentials of ICE and the keys of DTLS are random, and so are the bytes of most datagrams. A finding may need several runs of its input.

mod foe;
mod sdp;
mod side;
mod stun;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use anabranch_datachannel::{ChannelConfig, ChannelLimits, Datagram, Session, SessionConfig};
use anabranch_dtls::Certificate;
use anabranch_proto::{Config, Reliability, SchedulerKind, Timestamp};
use is::IceCreds;

use crate::input::Input;
use foe::Foe;
use side::{Side, Stage, reliability};

/// The side that is attacked; its peer is hostile, or another session.
const VICTIM: usize = 0;
const OTHER: usize = 1;
/// Datagrams that are kept for replays, and those in transit; later ones are lost.
const KEPT: usize = 32;
const IN_TRANSIT: usize = 1024;
/// The most arrivals and timeouts of a time, and more for each second of it.
const MOST_STEPS: u64 = 20_000;
const STEPS_PER_SECOND: u64 = 500;
/// The time for set-up over a network without loss.
const SET_UP: Duration = Duration::from_secs(4);
/// The time that an input may take, so that neither ICE nor DTLS nor SCTP ends in a network that loses everything.
const MOST_FAIR_TIME: Duration = Duration::from_secs(8);
/// The same with a hostile peer.
const MOST_TIME: Duration = Duration::from_secs(150);
/// The time in which everything arrives once the network works again.
const HEALED: Duration = Duration::from_secs(300);
/// The time in which a session with a silent peer ends.
const SILENCE: Duration = Duration::from_secs(400);
/// Messages and bytes of messages that one input sends.
const MOST_MESSAGES: usize = 200;
const MOST_BYTES: usize = 200_000;

/// Made once: making certificates takes longer than a handshake.
fn certificate(number: usize) -> Certificate {
    static CERTIFICATES: OnceLock<[Certificate; 3]> = OnceLock::new();
    let made = CERTIFICATES.get_or_init(|| [0; 3].map(|_| Certificate::generate().expect("a certificate")));
    made[number].clone()
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + side as u8], 4000 + side as u16))
}

/// Another address of the victim.
fn second_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 1, 1], 4000))
}

/// A datagram in transit. The earliest arrival comes first; datagrams with equal arrival times keep the order of sending.
struct Flight {
    at: Timestamp,
    number: u64,
    datagram: Datagram,
}

impl Flight {
    fn key(&self) -> (Timestamp, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Flight {}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The messages of one side in one channel between two well-behaved sides.
struct Ledger {
    is_ordered: bool,
    is_reliable: bool,
    sent: Vec<(bool, Vec<u8>)>,
    seen: Vec<bool>,
    /// The message after the last one that arrived.
    next: usize,
    /// The receiver knows the channel.
    is_known: bool,
    /// The receiver has closed the channel, and reads no more.
    is_left: bool,
}

impl Ledger {
    fn check(&mut self, is_text: bool, bytes: &[u8]) {
        let number = match bytes {
            // Only ordered and reliable channels have empty messages.
            [] => self.next,
            [_, _, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => panic!("a message that was not sent: {bytes:?}"),
        };
        let is_sent = self
            .sent
            .get(number)
            .is_some_and(|(text, sent)| *text == is_text && sent == bytes);
        assert!(is_sent, "message {number} was not sent so");
        assert!(
            !std::mem::replace(&mut self.seen[number], true),
            "message {number} arrives twice"
        );
        if self.is_ordered {
            assert!(number >= self.next, "message {number} is late");
            assert!(
                !self.is_reliable || number == self.next,
                "message {} is missing",
                self.next
            );
            self.next = number + 1;
        }
    }

    fn is_complete(&self) -> bool {
        !self.is_reliable || !self.is_known || self.is_left || self.seen.iter().all(|seen| *seen)
    }
}

struct World<'a> {
    now: Timestamp,
    sides: Vec<Side>,
    foe: Option<Foe>,
    transit: BinaryHeap<Reverse<Flight>>,
    number: u64,
    /// The fates of the next datagrams; each takes one byte or more.
    fates: Input<'a>,
    seen: VecDeque<Datagram>,
    /// The messages of each side in each channel.
    ledgers: BTreeMap<(usize, u16), Ledger>,
    /// Whether descriptions were changed, so that the sessions may not come together.
    is_changed: bool,
    /// Time, messages and bytes that are left for the input.
    time: Duration,
    messages: usize,
    bytes: usize,
    instances: u16,
}

fn config(input: &mut Input<'_>, side: usize) -> SessionConfig {
    let (first, second) = (input.u8(), input.u8());
    let mut sctp = Config::default();
    sctp.buffers.growth = 1;
    sctp.buffers.receive = [16 << 10, 64 << 10][usize::from(first & 1)];
    sctp.buffers.send = [16 << 10, 64 << 10][usize::from(first >> 1 & 1)];
    sctp.buffers.max_message = 64 << 10;
    sctp.interleaving.offer = first & 4 == 0;
    sctp.scheduler =
        [SchedulerKind::Priority, SchedulerKind::FirstComeFirstServed][usize::from(first >> 3 & 1)];
    sctp.streams.max_inbound = [100, 4000, u16::MAX, 1024][usize::from(first >> 4 & 3)];
    sctp.partial_reliability.early_discard = first & 0x40 != 0;
    sctp.sack.frequency = [2, 1][usize::from(first >> 7)];
    let mut limits = ChannelLimits::default();
    limits.max_message = [64 << 10, 4 << 10, 256 << 10, 1][usize::from(second & 3)];
    limits.max_channels = [8, 2, 64, 300][usize::from(second >> 2 & 3)];
    let mut local = vec![address(side)];
    if side == VICTIM && second & 0x10 != 0 {
        local.push(second_address());
    }
    SessionConfig::new(certificate(side), local)
        .sctp(sctp)
        .limits(limits)
        .ice_lite(second & 0x20 != 0)
}

/// Beginnings.
impl<'a> World<'a> {
    fn empty(now: Timestamp, time: Duration) -> Self {
        Self {
            now,
            sides: Vec::new(),
            foe: None,
            transit: BinaryHeap::new(),
            number: 0,
            fates: Input(&[]),
            seen: VecDeque::new(),
            ledgers: BTreeMap::new(),
            is_changed: false,
            time,
            messages: MOST_MESSAGES,
            bytes: MOST_BYTES,
            instances: 0,
        }
    }

    /// Two sessions.
    fn pair(now: Timestamp, input: &mut Input<'_>) -> Option<Self> {
        let mut world = Self::empty(now, MOST_FAIR_TIME);
        let configs = [config(input, VICTIM), config(input, OTHER).ice_lite(false)];
        let (mut offers, offer) = Side::new(&configs[VICTIM], |config| Session::offer(now, config))?;
        let text = world.change(&offer, input);
        let answer = |text: &str| Side::new(&configs[OTHER], |config| Session::answer(now, config, text));
        let (mut answers, answer) = answer(&text).or_else(|| answer(&offer))?;
        let text = world.change(&answer, input);
        let accepted = offers.call(|session| session.accept_answer(now, &text).is_ok());
        if !accepted && !offers.call(|session| session.accept_answer(now, &answer).is_ok()) {
            return None;
        }
        let is_client = sdp::attribute(&answer, "setup") == Some("passive");
        offers.is_client = (!world.is_changed).then_some(is_client);
        answers.is_client = (!world.is_changed).then_some(!is_client);
        // With a changed `max-message-size`, for example, a side closes channels whose peer breaks no rule that it knows.
        (offers.is_fair, answers.is_fair) = (!world.is_changed, !world.is_changed);
        world.sides = vec![offers, answers];
        world.settle();
        Some(world)
    }

    /// A session and a hostile peer.
    fn attacked(now: Timestamp, input: &mut Input<'_>) -> Option<Self> {
        let mut world = Self::empty(now, MOST_TIME);
        let (choice, bits) = (input.u8(), input.u8());
        let config = config(input, VICTIM);
        let credentials = IceCreds::new();
        let certificate = certificate(OTHER);
        let fingerprint = certificate.fingerprint().to_string();
        let choice = choice & !0x40 | u8::from(config.sctp.interleaving.offer) << 6;
        let mut foe = Foe::new(
            now,
            credentials.clone(),
            &certificate,
            [address(VICTIM), address(OTHER)],
            choice,
        );
        let setup = ["actpass", "active", "passive", "passive"][usize::from(bits & 3)];
        let offers = bits & 4 != 0;
        foe.is_client = setup == "active" || setup == "actpass";
        let setup = if !offers && setup == "actpass" {
            "active"
        } else {
            setup
        };
        let description = sdp::description(&credentials, &fingerprint, setup, bits & 8 != 0);
        let text = world.change(&description, input);
        let (mut victim, theirs) = if offers {
            let answer = |text: &str| Side::new(&config, |config| Session::answer(now, config, text));
            answer(&text).or_else(|| answer(&description))?
        } else {
            let (mut victim, offer) = Side::new(&config, |config| Session::offer(now, config))?;
            if !victim.call(|session| session.accept_answer(now, &text).is_ok()) {
                victim.call(|session| session.accept_answer(now, &description).is_ok());
            }
            (victim, offer)
        };
        victim.is_client = (!world.is_changed).then_some(!foe.is_client);
        foe.begin(now, sdp::credentials(&theirs), offers || config.ice_lite);
        world.sides = vec![victim];
        world.foe = Some(foe);
        world.settle();
        Some(world)
    }

    fn change(&mut self, text: &str, input: &mut Input<'_>) -> String {
        let changed = sdp::change(text, input);
        self.is_changed |= changed != text;
        changed
    }

    fn is_fair(&self) -> bool {
        self.foe.is_none() && !self.is_changed
    }
}

/// The network and the clock.
impl World<'_> {
    /// Takes the output of all sides, and checks it.
    fn settle(&mut self) {
        for side in 0..self.sides.len() {
            let sent = self.sides[side].drain(self.now);
            for datagram in sent {
                self.carry(datagram);
            }
            self.sides[side].check_memory(self.foe.as_ref());
            self.look(side);
        }
        if let Some(foe) = &mut self.foe {
            for datagram in std::mem::take(&mut foe.sent) {
                self.carry(datagram);
            }
        }
    }

    /// Puts a datagram in transit, as its fate is.
    fn carry(&mut self, datagram: Datagram) {
        if self.seen.len() == KEPT {
            self.seen.pop_front();
        }
        self.seen.push_back(datagram.clone());
        let (mut delay, mut copies, mut datagram) = (Duration::ZERO, 1, datagram);
        if !self.fates.is_empty() {
            match self.fates.u8() {
                0..144 => {}
                144..176 => copies = 0,
                176..192 => copies = 2,
                192..232 => delay = Duration::from_millis(u64::from(self.fates.u8())),
                _ => {
                    let at = usize::from(self.fates.u16()) % datagram.bytes.len().max(1);
                    // During set-up, a changed datagram can be an alert that ends the handshake.
                    let is_set_up = self.sides.iter().all(|side| side.stage >= Stage::Connected);
                    if self.is_fair() && !is_set_up {
                        copies = 0;
                    } else if let Some(byte) = datagram.bytes.get_mut(at) {
                        *byte ^= self.fates.u8() | 1;
                    }
                }
            }
        }
        for _ in 0..copies {
            self.fly(delay, datagram.clone());
        }
    }

    fn fly(&mut self, delay: Duration, datagram: Datagram) {
        if self.transit.len() < IN_TRANSIT {
            self.number += 1;
            self.transit.push(Reverse(Flight {
                at: self.now + delay,
                number: self.number,
                datagram,
            }));
        }
    }

    fn arrive(&mut self, datagram: &Datagram) {
        let to = datagram.destination;
        if to == address(VICTIM) || to == second_address() {
            self.sides[VICTIM].handle(self.now, datagram);
        } else if to == address(OTHER) {
            match &mut self.foe {
                Some(foe) => foe.handle(self.now, datagram),
                None => self.sides[OTHER].handle(self.now, datagram),
            }
        }
    }

    fn next(&mut self) -> Option<Timestamp> {
        let arrival = self.transit.peek().map(|Reverse(flight)| flight.at);
        let timeouts = self.sides.iter_mut().filter_map(Side::poll_timeout).min();
        let foe = self.foe.as_mut().and_then(Foe::poll_timeout);
        [arrival, timeouts, foe].into_iter().flatten().min()
    }

    /// One arrival, or the timeouts that are due. Returns whether there was something before `end`.
    fn step(&mut self, end: Timestamp) -> bool {
        let Some(next) = self.next().filter(|next| *next <= end) else {
            self.now = self.now.max(end);
            return false;
        };
        self.now = self.now.max(next);
        let is_arrival = |Reverse(flight): &Reverse<Flight>| flight.at <= self.now;
        if self.transit.peek().is_some_and(is_arrival)
            && let Some(Reverse(flight)) = self.transit.pop()
        {
            self.arrive(&flight.datagram);
        } else {
            for side in &mut self.sides {
                side.handle_timeout(self.now);
            }
            if let Some(foe) = &mut self.foe
                && foe.poll_timeout().is_some_and(|due| due <= self.now)
            {
                foe.handle_timeout(self.now);
            }
        }
        self.settle();
        true
    }

    /// Runs for this time, or until `done`.
    fn run(&mut self, time: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.now + time;
        let mut left = MOST_STEPS + time.as_secs() * STEPS_PER_SECOND;
        while !done(self) && self.step(end) {
            left = left.checked_sub(1).expect("the steps of a time have an end");
        }
    }

    fn pass(&mut self, time: Duration) {
        let time = time.min(self.time);
        self.time -= time;
        self.run(time, |_| false);
    }

    fn set_up(&mut self) {
        let is_disturbed = !self.fates.is_empty();
        self.run(SET_UP, |world| {
            world.sides.iter().all(|side| side.stage == Stage::Connected)
        });
        if self.is_fair() && !is_disturbed {
            let stages: Vec<Stage> = self.sides.iter().map(|side| side.stage).collect();
            assert_eq!(stages, [Stage::Connected; 2], "set-up without loss");
        }
    }
}

/// Two well-behaved applications.
impl World<'_> {
    /// Looks at what a side read, and at the channels that its session accepted and closed.
    fn look(&mut self, side: usize) {
        let accepted = std::mem::take(&mut self.sides[side].accepted);
        let closed = std::mem::take(&mut self.sides[side].closed);
        let inbox = std::mem::take(&mut self.sides[side].inbox);
        if !self.sides[side].is_fair {
            return;
        }
        for id in accepted {
            let instance = self.sides[side].channels[&id].instance.expect("a known channel");
            let ledger = self.ledgers.get_mut(&(1 - side, instance));
            ledger.expect("a channel that was opened").is_known = true;
        }
        for read in inbox {
            let instance = read.instance.expect("a known channel");
            let ledger = self.ledgers.get_mut(&(1 - side, instance));
            let ledger = ledger.expect("a channel that was opened");
            ledger.check(read.is_text, &read.bytes);
        }
        if self.is_fair() {
            for (id, instance) in closed {
                let instance = instance.expect("a known channel");
                let of = |from: usize| &self.ledgers[&(from, instance)];
                let is_left = of(side).is_left || of(1 - side).is_left;
                // The peer refuses channels that it never knew.
                assert!(
                    is_left || !of(side).is_known,
                    "channel {id} is closed, and nobody closed it"
                );
            }
        }
    }

    /// Opens a channel, at both sides if it is negotiated.
    fn open(&mut self, side: usize, input: &mut Input<'_>) {
        let (bits, more) = (input.u8(), input.u8());
        let ordered = bits & 1 == 0;
        let instance = self.instances;
        self.instances += 1;
        // Labels of different lengths.
        let label = format!("{:.>1$}", instance, [1, 20, 500, 1][usize::from(bits >> 1 & 3)]);
        let label = if self.foe.is_some() && bits & 0x80 != 0 {
            "\0".repeat(40_000)
        } else {
            label
        };
        let mut config = ChannelConfig::new(label)
            .ordered(ordered)
            .reliability(reliability(more))
            .priority(u16::from(bits >> 3 & 3) * 256);
        if bits & 0x20 != 0 {
            config = config.negotiated(u16::from(more >> 6 | bits >> 4 & 4));
        }
        let id = self.sides[side].open(self.now, &config);
        let other = config.negotiated.filter(|_| self.foe.is_none() && id.is_some());
        let other = other.map(|_| self.sides[1 - side].open(self.now, &config));
        for from in 0..2 {
            let ledger = Ledger {
                is_ordered: ordered,
                is_reliable: config.reliability == Reliability::Reliable,
                sent: Vec::new(),
                seen: Vec::new(),
                next: 0,
                is_known: from != side || other.is_some(),
                is_left: false,
            };
            self.ledgers.insert((from, instance), ledger);
        }
        for (side, id) in [(side, id), (1 - side, other.flatten())] {
            if let Some(id) = id {
                let known = self.sides[side].channels.get_mut(&id).expect("it is open");
                known.instance = Some(instance);
            }
        }
        if let (Some(id), Some(None)) = (id, other) {
            self.settle();
            self.close(side, id);
        }
    }

    fn send(&mut self, side: usize, id: u16, bits: u8) {
        let count = [1, 1, 4, 20][usize::from(bits & 3)];
        let len = [5, 100, 1200, 5000, 20_000, 0, 5, 66_000][usize::from(bits >> 2 & 7)];
        for _ in 0..count {
            let instance = self.sides[side].channels[&id].instance;
            let ledger = instance.and_then(|instance| self.ledgers.get_mut(&(side, instance)));
            if self.messages == 0 || self.bytes < len {
                return;
            }
            let is_text = bits & 0x20 != 0;
            let Some(ledger) = ledger else {
                self.messages -= 1;
                self.bytes -= len;
                self.sides[side].send(self.now, id, is_text, &vec![bits; len]);
                continue;
            };
            let number = (ledger.sent.len() as u16).to_be_bytes();
            let [high, low] = instance.unwrap_or_default().to_be_bytes();
            let mut bytes = vec![side as u8, high, low, number[0], number[1]];
            let may_be_empty = ledger.is_ordered && ledger.is_reliable;
            bytes.resize(if may_be_empty { len } else { len.max(5) }, number[1]);
            if self.sides[side].send(self.now, id, is_text, &bytes) {
                self.messages -= 1;
                self.bytes -= len;
                ledger.sent.push((is_text, bytes));
                ledger.seen.push(false);
            }
        }
    }

    fn close(&mut self, side: usize, id: u16) {
        if let Some(instance) = self.sides[side]
            .channels
            .get(&id)
            .and_then(|known| known.instance)
            && let Some(ledger) = self.ledgers.get_mut(&(1 - side, instance))
        {
            ledger.is_left = true;
        }
        self.sides[side].close(self.now, id);
    }
}

/// Commands of the input.
impl World<'_> {
    fn command(&mut self, input: &mut Input<'_>) {
        let command = input.u8();
        let more = command >> 5;
        if command & 0x10 != 0
            && let Some(foe) = &mut self.foe
        {
            foe.command(self.now, command, input);
        } else {
            let side = usize::from(command & 0x10 != 0);
            match command & 15 {
                0 => self.pass(Duration::from_millis(
                    u64::from(input.u8()) * [1, 8][usize::from(more & 1)],
                )),
                1 if self.foe.is_some() => self.pass(Duration::from_millis(u64::from(input.u8()) * 250)),
                1 | 2 => {
                    if let Some(next) = self.next() {
                        self.pass(next.saturating_duration_since(self.now));
                    }
                }
                3 | 4 => self.open(side, input),
                11 => self.replay(input),
                12 => self.forge(more, input),
                13 => match &mut self.foe {
                    Some(foe) => foe.checks(more, input),
                    None => self.restart(side),
                },
                14 if more & 1 == 0 => {
                    let line = sdp::line(input);
                    let now = self.now;
                    self.sides[side].call(|session| drop(session.add_candidate(now, &line)));
                }
                14 => match &self.foe {
                    Some(_) => self.renegotiate(more, input),
                    None => self.restart(side),
                },
                15 => {
                    let side = &mut self.sides[side];
                    side.block(!side.is_blocked);
                }
                _ => self.act(side, command, input),
            }
        }
        self.settle();
    }

    /// A call for one of the channels that the application knows, or for a number that it does not.
    fn act(&mut self, side: usize, command: u8, input: &mut Input<'_>) {
        let more = command >> 5;
        let bits = input.u8();
        let known = self.sides[side].channels.len();
        let id = match self.sides[side]
            .channels
            .keys()
            .nth(usize::from(bits & 7) % known.max(1))
        {
            Some(id) => *id,
            None => u16::from(bits),
        };
        let now = self.now;
        match command & 15 {
            5 | 6 if known > 0 => self.send(side, id, bits >> 3 | more << 5),
            7 => {
                for _ in 0..[1, 1, 5, 1000][usize::from(more & 3)] {
                    if !self.sides[side].read(now, id) {
                        break;
                    }
                }
            }
            8 if more == 6 && self.foe.is_some() => self.sides[side].call(|session| session.shutdown(now)),
            8 if more == 7 && self.foe.is_some() => self.sides[side].call(|session| session.close(now)),
            8 => self.close(side, id),
            9 => self.sides[side].reads ^= true,
            _ => self.sides[side].ask(now, id, usize::from(bits) << more),
        }
    }

    /// A side restarts ICE, and the other one answers.
    fn restart(&mut self, side: usize) {
        let now = self.now;
        let Some(offer) = self.sides[side].describe(|session| session.restart_ice(now, &[])) else {
            return;
        };
        let answer = self.sides[1 - side].describe(|session| session.accept_offer(now, &offer));
        if let Some(answer) = answer {
            let accepted = self.sides[side].call(|session| session.accept_answer(now, &answer).is_ok());
            assert!(accepted || !self.is_fair(), "an answer cannot be used");
        } else {
            assert!(
                !self.is_fair() || self.sides[1 - side].stage == Stage::Ended,
                "an offer cannot be used"
            );
        }
    }

    /// The hostile peer makes an offer, or answers one of the victim, with old or new credentials.
    fn renegotiate(&mut self, more: u8, input: &mut Input<'_>) {
        let now = self.now;
        let Some(foe) = &self.foe else { return };
        let (is_client, own) = (foe.is_client, (more & 4 != 0).then(IceCreds::new));
        let credentials = own.clone().unwrap_or(foe.credentials());
        let setup = if is_client { "active" } else { "passive" };
        let fingerprint = certificate(OTHER).fingerprint().to_string();
        let description = sdp::description(&credentials, &fingerprint, setup, false);
        let text = sdp::change(&description, input);
        let victim = &mut self.sides[VICTIM];
        let theirs = if more & 2 == 0 {
            victim.describe(|session| session.accept_offer(now, &text))
        } else {
            let local = [address(VICTIM), second_address()];
            let count = usize::from(input.u8() & 3);
            let offer = victim.describe(|session| session.restart_ice(now, &local[..count.min(2)]));
            victim.call(|session| drop(session.accept_answer(now, &text)));
            offer
        };
        if let (Some(foe), Some(theirs)) = (&mut self.foe, theirs) {
            foe.restart(now, own, sdp::credentials(&theirs));
        }
    }

    /// A datagram that was sent before arrives again, whole or shortened, perhaps from a stranger.
    fn replay(&mut self, input: &mut Input<'_>) {
        let (bits, at) = (input.u8(), input.u8());
        let Some(mut datagram) = self.seen.get(usize::from(at) % self.seen.len().max(1)).cloned() else {
            return;
        };
        if bits & 1 != 0 {
            let len = datagram.bytes.len();
            datagram
                .bytes
                .truncate(len - usize::from(input.u8()) % len.max(1));
        }
        // STUN does not protect the source address: a check that a stranger sends once more moves the path (RFC 8445 §19.2).
        let is_check = datagram.bytes.first().is_some_and(|first| *first <= 3);
        if bits & 2 != 0 && !(is_check && self.is_fair()) {
            datagram.source = SocketAddr::from(([10, 9, 9, bits >> 4], 9));
        }
        self.arrive(&datagram);
    }

    /// Any bytes arrive.
    fn forge(&mut self, more: u8, input: &mut Input<'_>) {
        let (first, len) = (input.u8(), usize::from(input.u8()));
        let mut bytes = vec![[0, 1, 20, 21, 22, 23, 64, 255][usize::from(first & 7)]];
        bytes.extend_from_slice(input.take(len & 63));
        if len & 0x40 != 0 {
            bytes.resize(bytes.len() * 20, first);
        }
        if len & 0x80 != 0 {
            bytes.clear();
        }
        let is_set_up = self.sides.iter().all(|side| side.stage >= Stage::Connected);
        if self.is_fair() && !is_set_up && bytes.first().is_some_and(|first| *first >= 20) {
            return;
        }
        let to = usize::from(more & 1);
        let source = if more & 2 == 0 {
            address(1 - to)
        } else {
            SocketAddr::from(([10, 9, 9, first], 9))
        };
        let destination = if more & 4 == 0 {
            address(to)
        } else {
            second_address()
        };
        self.arrive(&Datagram {
            source,
            destination,
            bytes,
        });
    }
}

/// Ends.
impl World<'_> {
    /// The network works again, and both applications read: everything arrives, and all channels can be closed.
    fn heal(&mut self) {
        self.fates = Input(&[]);
        for side in 0..2 {
            self.sides[side].block(false);
            self.sides[side].reads = true;
            let ids: Vec<u16> = self.sides[side].channels.keys().copied().collect();
            for id in ids {
                while self.sides[side].read(self.now, id) {}
            }
        }
        self.settle();
        self.run(HEALED, Self::is_complete);
        let missing: Vec<_> = self
            .ledgers
            .iter()
            .filter(|(_, ledger)| !ledger.is_complete())
            .map(|(key, ledger)| (*key, ledger.seen.iter().filter(|seen| !**seen).count()))
            .collect();
        assert!(
            self.is_complete(),
            "the network works, but messages are missing: {missing:?}"
        );
        let id = self.sides[OTHER].channels.keys().copied().collect::<Vec<u16>>();
        for id in id {
            self.close(OTHER, id);
        }
        self.settle();
        self.run(Duration::from_secs(30), Self::is_complete);
        let is_graceful = self.instances & 1 != 0;
        let now = self.now;
        self.sides[VICTIM].call(|session| match is_graceful {
            true => session.shutdown(now),
            false => session.close(now),
        });
        self.settle();
        self.run(HEALED, |world| {
            world.sides.iter().all(|side| side.stage == Stage::Ended)
        });
        for side in &self.sides {
            assert_eq!(side.stage, Stage::Ended, "closed by one side");
        }
    }

    fn is_complete(&mut self) -> bool {
        if self.is_fair() {
            let stages: Vec<Stage> = self.sides.iter().map(|side| side.stage).collect();
            assert!(!stages.contains(&Stage::Ended), "a session ended: {stages:?}");
        }
        self.sides.iter().all(|side| side.stage == Stage::Connected)
            && self.ledgers.values().all(Ledger::is_complete)
            && self.sides.iter_mut().all(Side::is_idle)
    }

    /// The peer is silent. A session that was connected ends.
    fn silence(&mut self) {
        self.fates = Input(&[]);
        self.foe = None;
        self.is_changed = true;
        self.transit.clear();
        self.sides.truncate(1);
        self.sides[VICTIM].block(false);
        let was_connected = self.sides[VICTIM].stage == Stage::Connected;
        self.run(SILENCE, |world| {
            world.transit.clear();
            world.sides[VICTIM].stage == Stage::Ended
        });
        assert!(
            !was_connected || self.sides[VICTIM].stage == Stage::Ended,
            "a session with a silent peer does not end"
        );
    }
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    crate::print_panics();
    static WARM: OnceLock<()> = OnceLock::new();
    // The memory that the libraries take once must not count as a session's.
    WARM.get_or_init(|| play(&[1]));
    play(input);
}

fn play(input: &[u8]) {
    let mut input = Input(input);
    let now = Timestamp::ZERO;
    let bits = input.u8();
    let world = match bits & 1 {
        0 => World::attacked(now, &mut input),
        _ => World::pair(now, &mut input),
    };
    let Some(mut world) = world else { return };
    // The last part of the input is for the fates of datagrams.
    let len = input.0.len() * [8, 7, 5, 2][usize::from(bits >> 1 & 3)] / 8;
    let mut commands = Input(input.take(len));
    if bits & 8 != 0 {
        world.fates = Input(input.0);
    }
    if bits & 0x30 != 0x30 {
        world.set_up();
    }
    world.fates = Input(input.0);
    while !commands.is_empty() {
        world.command(&mut commands);
    }
    if world.is_fair() {
        world.heal();
    } else {
        if bits & 0x40 != 0 {
            let now = world.now;
            world.sides[VICTIM].call(|session| session.close(now));
            world.settle();
        }
        world.silence();
    }
    world.sides.into_iter().for_each(Side::finish);
}
