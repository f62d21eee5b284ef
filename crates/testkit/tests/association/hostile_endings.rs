//! The end of an association with a hostile peer: in each state and for each behaviour of the peer, an association that is shut
//! down, aborted or dropped ends within the bound of docs/LIMITS.md, section *Ends* (RFC 9260 §9.2, T5-shutdown-guard).
//!
//! `ENDING_SEEDS=100..200` (or one number) chooses the seeds; a failure prints the command that runs it again.

use std::ops::Range;
use std::time::Duration;

use anabranch_netsim::Generator;
use anabranch_proto::{
    AssociationId, AssociationState as State, Config, Event, Failover, SendOptions, StreamId, Timestamp, Tsn,
    VerificationTag,
};
use anabranch_testkit::{FromEndpoint, Script, Seeds, quiet, shutdown_chunk, state_cookie};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Chunk, CookieEcho, ErrorChunk, GapAckBlocks, Heartbeat, HeartbeatAck, Init, Sack, TsnList,
};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

/// Seeds that run in CI. Each runs for every state, behaviour and way to end.
const SEEDS: Range<u64> = 0..40;

const REPEATED: Seeds = Seeds {
    variable: "ENDING_SEEDS",
    binary: "association hostile_endings",
};

const MS: Duration = Duration::from_millis(1);
const ZERO: VerificationTag = VerificationTag(0);

const STATES: [State; 8] = [
    State::Closed,
    State::CookieWait,
    State::CookieEchoed,
    State::Established,
    State::ShutdownPending,
    State::ShutdownSent,
    State::ShutdownReceived,
    State::ShutdownAckSent,
];

/// The peer's behaviour until the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// Sends nothing.
    Silent,
    /// Answers heartbeats, and nothing else.
    Heartbeats,
    /// Acknowledges received chunks with an a_rwnd of 0.
    ClosedWindow,
    /// Acknowledges one TSN at a time, with an a_rwnd of one byte.
    OneByOne,
    /// Restarts.
    Restarts,
    /// Sends SHUTDOWN again and again, without acknowledging more.
    Shutdowns,
    /// Sends DATA without end.
    Data,
    /// Answers INIT, and every COOKIE ECHO with the ERROR Stale Cookie.
    StaleCookies,
    /// Completes set-up, late.
    SetsUp,
    /// Sends INITs without COOKIE ECHO.
    Inits,
    /// Sends HEARTBEATs, which have to be answered.
    Pings,
    /// A random one of the other behaviours each time.
    Any,
}

const HABITS: [Habit; 12] = [
    Habit::Silent,
    Habit::Heartbeats,
    Habit::ClosedWindow,
    Habit::OneByOne,
    Habit::Restarts,
    Habit::Shutdowns,
    Habit::Data,
    Habit::StaleCookies,
    Habit::SetsUp,
    Habit::Inits,
    Habit::Pings,
    Habit::Any,
];

/// How the association is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `shutdown`; `Endpoint::close` does the same to each association.
    Shutdown,
    Abort,
    /// The last handle is dropped, as in the driver: shut down if set-up was complete, aborted otherwise.
    Drop,
}

const WAYS: [Way; 3] = [Way::Shutdown, Way::Abort, Way::Drop];

#[test]
fn every_end_ends() {
    REPEATED.run(REPEATED.chosen(SEEDS), |seed| {
        for (number, (state, habit, way)) in all().enumerate() {
            run(seed, number as u64, state, habit, way);
        }
        vec!["all"]
    });
}

fn all() -> impl Iterator<Item = (State, Habit, Way)> {
    STATES.into_iter().flat_map(|state| {
        HABITS
            .into_iter()
            .flat_map(move |habit| WAYS.into_iter().map(move |way| (state, habit, way)))
    })
}

/// From docs/LIMITS.md: T5-shutdown-guard once for each time that the peer keeps to 200 bytes/s, twice at the end, and once for set-up.
fn bound(config: &Config, left: usize, setting_up: bool) -> Duration {
    let guard = config.effective_shutdown_guard();
    let progress = guard.as_millis() as u32 / 5;
    let rounds = left as u32 / progress + 2 + u32::from(setting_up);
    guard * rounds
}

fn run(seed: u64, number: u64, state: State, habit: Habit, way: Way) {
    let mut random = Generator::of_process(seed * 1000 + number, "endings");
    let config = random_config(&mut random);
    let mut peer = Peer::in_state(state, config.clone(), &mut random);
    let setting_up = matches!(state, State::CookieWait | State::CookieEchoed);
    let stats = peer.script.association().stats();
    let left = stats.queued_bytes + stats.outstanding_bytes;
    let began = peer.script.now();
    let at_once = peer.end(way);
    let bound = if at_once {
        Duration::ZERO
    } else {
        bound(&config, left, setting_up)
    };
    // A peer that restarts after the end gets another association.
    let id = peer.script.id().expect("it was set up");
    while peer.state_of(id) != State::Closed {
        let took = peer.script.now().saturating_duration_since(began);
        assert!(
            took < bound,
            "{way:?} in {state:?} with a peer that does {habit:?}: {:?} after {took:?}, {left} bytes were left",
            peer.state_of(id),
        );
        let step = MS * random.below(1500) as u32;
        peer.script.advance(step.min(bound - took));
        peer.act(habit, &mut random);
    }
    let told = peer.script.talker().events.iter();
    let ends = told.filter(|(_, of, event)| *of == id && matches!(event, Event::Closed(_)));
    let expected = usize::from(state != State::Closed);
    assert_eq!(ends.count(), expected, "told once: {way:?} in {state:?}");
    let association = peer.script.host_mut().association(id).expect("it is there");
    assert_eq!(association.poll_timeout(), None, "no timer runs");
}

fn pick<T: Copy>(random: &mut Generator, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn random_config(random: &mut Generator) -> Config {
    let mut config = quiet();
    config.rto.max = MS * pick(random, &[1000, 2000, 8000]);
    config.rto.min = config.rto.max.min(MS * pick(random, &[100, 1000]));
    config.rto.initial = config.rto.min.max(1000 * MS).min(config.rto.max);
    config.shutdown_guard = pick(random, &[None, Some(5000 * MS), Some(20_000 * MS)]);
    config.heartbeat.interval = pick(random, &[None, Some(500 * MS)]);
    config.retransmissions.association_max_retrans = pick(random, &[2, 10, 10_000]);
    config.retransmissions.max_init_retransmits = pick(random, &[2, 8, 10_000]);
    config.retransmissions.failover = pick(random, &[Failover::Rfc9260, Failover::Fast]);
    config.buffers.receive = pick(random, &[4000, 100_000]);
    config.nr_sack.offer = random.below(2) == 0;
    config
}

/// The peer and its state.
struct Peer {
    script: Script,
    /// The TSNs that it has acknowledged.
    acknowledged: Tsn,
    /// The last TSN received.
    highest: Option<Tsn>,
    /// The chunks received since its last action.
    came: Vec<FromEndpoint>,
    tag: u32,
}

impl Peer {
    /// Sets up an association in this state, or in one that was in this state just before the application ends it.
    fn in_state(state: State, config: Config, random: &mut Generator) -> Self {
        let mut script = Script::new(config, random.below(1 << 32));
        script.talker().reading = random.below(2) == 0;
        let further = random.below(3) as u8;
        let addresses = (0..further).fold(ParametersBuilder::new(), |builder, subnet| {
            builder.push(&Parameter::Ipv4([10, 1 + subnet, 0, 2].into()))
        });
        match state {
            State::CookieWait => {
                script.connect();
            }
            State::CookieEchoed => {
                script.connect();
                script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
            }
            _ => script.set_up_with(addresses.finish()),
        }
        let acknowledged = script.endpoint_tsn.minus(1);
        let mut peer = Self {
            script,
            acknowledged,
            highest: None,
            came: Vec::new(),
            tag: 0x5000,
        };
        let count = match state {
            State::ShutdownSent | State::ShutdownAckSent => 0,
            State::ShutdownPending | State::ShutdownReceived => 1 + random.below(60),
            _ => random.below(60),
        };
        for _ in 0..count {
            let len = 1 + random.below(3000) as usize;
            peer.script.act(|association, now| {
                association
                    .send(now, StreamId(0), vec![1; len].into(), SendOptions::default())
                    .expect("send");
            });
        }
        match state {
            State::ShutdownPending | State::ShutdownSent => {
                peer.script.act(|association, now| association.shutdown(now))
            }
            State::ShutdownReceived | State::ShutdownAckSent => {
                peer.script.send(&[shutdown_chunk(acknowledged)]);
            }
            State::Closed => peer
                .script
                .act(|association, now| association.abort(now, Bytes::new())),
            _ => {}
        }
        assert_eq!(peer.script.association().state(), state);
        peer.script.events();
        if state == State::Closed {
            peer.script.skip_answers();
        }
        peer
    }

    fn state_of(&mut self, id: AssociationId) -> State {
        let association = self.script.host_mut().association(id);
        association.expect("it is there").state()
    }

    /// Ends the association; returns whether it has to be over at once.
    fn end(&mut self, way: Way) -> bool {
        let setting_up = matches!(
            self.script.association().state(),
            State::CookieWait | State::CookieEchoed
        );
        let aborts = way == Way::Abort || (way == Way::Drop && setting_up);
        self.script.act(|association, now: Timestamp| {
            if aborts {
                association.abort(now, Bytes::new());
            } else {
                association.shutdown(now);
            }
        });
        aborts
    }

    fn act(&mut self, habit: Habit, random: &mut Generator) {
        let habit = match habit {
            Habit::Any => pick(random, &HABITS[..HABITS.len() - 1]),
            habit => habit,
        };
        self.look();
        match habit {
            Habit::Silent | Habit::Any => {}
            Habit::Heartbeats => self.answer_heartbeats(),
            Habit::ClosedWindow => {
                self.acknowledged = self.highest.unwrap_or(self.acknowledged);
                self.acknowledge(0);
            }
            Habit::OneByOne => {
                if self.highest.is_some_and(|highest| highest != self.acknowledged) {
                    self.acknowledged = self.acknowledged.next();
                }
                self.acknowledge(1);
            }
            Habit::Restarts => self.restart(),
            Habit::Shutdowns => self.script.send(&[shutdown_chunk(self.acknowledged)]),
            Habit::Data => {
                let ssn = self.script.tsn.0 as u16;
                let data = self.script.data(0, ssn, "more");
                self.script.send(&[data]);
            }
            Habit::StaleCookies => self.answer_set_up(Chunk::Error(ErrorChunk {
                causes: Causes::from_causes(&[Cause::StaleCookie { staleness_us: 5 }]),
            })),
            Habit::SetsUp => self.answer_set_up(Chunk::CookieAck),
            Habit::Inits => {
                for _ in 0..10 {
                    self.init();
                }
            }
            Habit::Pings => self.script.send(&[Chunk::Heartbeat(Heartbeat {
                tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
            })]),
        }
    }

    /// Records received chunks.
    fn look(&mut self) {
        self.came = core::iter::from_fn(|| self.script.next_answer()).collect();
        let mut tsns = self.came.iter().flat_map(FromEndpoint::data).map(|data| data.tsn);
        // Chunks arrive in order here, retransmissions before new data.
        let last = tsns.by_ref().last();
        let ahead = |tsn: &Tsn| tsn.distance_from(self.acknowledged) < 1 << 31;
        if let Some(last) = last.filter(ahead) {
            self.highest = Some(last);
        }
    }

    fn acknowledge(&mut self, a_rwnd: u32) {
        self.script.send(&[Chunk::Sack(Sack {
            cumulative_tsn_ack: self.acknowledged,
            a_rwnd,
            gap_ack_blocks: GapAckBlocks::default(),
            duplicate_tsns: TsnList::default(),
        })]);
    }

    fn answer_heartbeats(&mut self) {
        let first = self.script.remote;
        for answer in core::mem::take(&mut self.came) {
            self.script.remote = answer.destination;
            for chunk in answer.chunks {
                if let Chunk::Heartbeat(heartbeat) = chunk {
                    let info = heartbeat.info().expect("a Heartbeat Info");
                    self.script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
                }
            }
        }
        self.script.remote = first;
    }

    /// Answers an INIT with INIT ACK, and a COOKIE ECHO with this chunk.
    fn answer_set_up(&mut self, answer: Chunk) {
        let chunks: Vec<_> = self.came.drain(..).flat_map(|packet| packet.chunks).collect();
        for chunk in chunks {
            match chunk {
                Chunk::Init(_) => self
                    .script
                    .send(&[Chunk::InitAck(self.script.init_ack(b"a cookie"))]),
                Chunk::CookieEcho(_) => self.script.send(core::slice::from_ref(&answer)),
                _ => {}
            }
        }
    }

    fn init(&mut self) {
        self.tag += 1;
        let init = Init {
            initiate_tag: VerificationTag(self.tag),
            initial_tsn: Tsn(self.tag),
            ..self.script.init(Parameters::empty())
        };
        self.script.send_tagged(ZERO, &[Chunk::Init(init)]);
    }

    fn restart(&mut self) {
        self.init();
        self.look();
        let ack = self
            .came
            .iter()
            .flat_map(|packet| &packet.chunks)
            .find_map(|chunk| match chunk {
                Chunk::InitAck(ack) => Some(ack.clone()),
                _ => None,
            });
        let Some(ack) = ack else { return };
        let script = &mut self.script;
        (script.tag, script.tsn) = (VerificationTag(self.tag), Tsn(self.tag));
        (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
        (self.acknowledged, self.highest) = (ack.initial_tsn.minus(1), None);
        let cookie = state_cookie(&ack);
        script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
    }
}
