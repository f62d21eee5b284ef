//! A client with two networks, each behind an address translator, and a server with one address, in virtual time: one network is pulled, and
//! comes back. A file and messages with a deadline share the association.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{
    Bytes, Config, DynamicAddressConfig, LinkConfig, MultipathMode, PathStats, SendOptions, StreamId,
};
use anabranch_netsim::{Application, Host, HostApi, LinkId, Network, Node, NodeId, Packet};
use anabranch_proto::{AssociationId, AssociationState, ConnectOptions, Event, Timestamp};
use serde_json::{Value, json};

use super::PORT;
use super::together::{Counter, Source, feed};
use crate::delays::millis;
use crate::paint::{Colour, Paint};
use crate::units;

const UDP_PORT: u16 = 9899;
const SERVER: IpAddr = ip([203, 0, 113, 5]);
/// The addresses of the client and of the translators.
const PRIVATE: [IpAddr; 2] = [ip([192, 168, 1, 20]), ip([10, 64, 3, 7])];
const PUBLIC: [IpAddr; 2] = [ip([198, 51, 100, 1]), ip([198, 51, 100, 2])];
const NAMES: [&str; 2] = ["Wi-Fi", "mobile"];
const LINKS: [&str; 2] = [
    "rate=8mbit,delay=20ms,queue=60p",
    "rate=4mbit,delay=30ms,queue=60p",
];
/// The first network is pulled after a third of the time, and comes back after two thirds.
const TIME: Duration = Duration::from_secs(24);
const STEP: Duration = Duration::from_secs(2);
/// The messages with a deadline: their stream, interval, deadline and bytes.
const READINGS: StreamId = StreamId(1);
const INTERVAL: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_millis(150);
static READING: [u8; 100] = [0; 100];
/// A bar has a mark for each half of a Mbit/s.
const MARKS: [char; 2] = ['█', '░'];
const COLOURS: [Colour; 2] = [Colour::Green, Colour::Blue];
const MARK: f64 = 5e5;
/// The marks of both links together.
const WIDTH: usize = 24;

const fn ip([a, b, c, d]: [u8; 4]) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(a, b, c, d))
}

/// An address translator with one client: it shows the server its own address and a port of its own.
#[derive(Debug)]
struct Translator {
    public: SocketAddr,
    private: SocketAddr,
    outgoing: VecDeque<Packet>,
}

impl Node for Translator {
    fn handle_packet(&mut self, _: Timestamp, mut packet: Packet) {
        if packet.destination.ip() == SERVER {
            packet.source = self.public;
        } else if packet.destination == self.public {
            packet.destination = self.private;
        } else {
            return;
        }
        self.outgoing.push_back(packet);
    }

    fn handle_timeout(&mut self, _: Timestamp) {}

    fn poll_transmit(&mut self, _: Timestamp) -> Option<Packet> {
        self.outgoing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }
}

/// Bytes that each network carried in a step.
type Step = [u64; 2];

/// The result of the transfer.
#[derive(Debug)]
pub(super) struct Pulled {
    steps: Vec<Step>,
    pause: Duration,
    /// Messages with a deadline: sent, and arrived in time.
    readings: (u32, u32),
}

/// The receiver: it counts the messages that arrive in time, and leaves the rest to the counter. The payload protocol identifier of a
/// reading is its number, which gives its time of sending.
#[derive(Debug)]
struct Sink {
    begun: Timestamp,
    in_time: u32,
    counter: Counter,
}

impl Application for Sink {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        let Some(association) = api.association(id).filter(|_| event == Event::Readable) else {
            return;
        };
        while let Some(part) = association.recv(now) {
            if part.stream == READINGS {
                let sent = self.begun + INTERVAL * part.ppid.0;
                self.in_time += u32::from(now.saturating_duration_since(sent) <= DEADLINE);
            } else {
                self.counter.count(part.payload.len(), now);
            }
        }
    }
}

struct Scene {
    network: Network,
    client: NodeId,
    server: NodeId,
    id: AssociationId,
    /// The links between the client and the first translator.
    pulled: (LinkId, LinkId),
}

fn config() -> Config {
    let mut config = Config::default();
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    config
}

/// Sets up an association over the first network.
fn scene(seed: u64) -> Result<Scene, String> {
    let mut network = Network::new(seed);
    let host = |network: &mut Network, name: &str, config: Config| {
        let seed = network.generator(name).bytes();
        Host::new(config, UDP_PORT, seed).map_err(|error| error.to_string())
    };
    let mut clients = config();
    clients.local_addresses = PRIVATE.to_vec();
    clients.multipath.mode = MultipathMode::Eca;
    let client = host(&mut network, "client", clients)?;
    let client = network.add_node("client", &PRIVATE, client);
    let server = host(&mut network, "server", config())?;
    let server = network.add_node("server", &[SERVER], server);
    let mut links = Vec::new();
    for ((private, public), (name, link)) in PRIVATE.into_iter().zip(PUBLIC).zip(NAMES.into_iter().zip(LINKS))
    {
        let translator = Translator {
            public: SocketAddr::new(public, 40_000),
            private: SocketAddr::new(private, UDP_PORT),
            outgoing: VecDeque::new(),
        };
        let translator = network.add_node(&format!("translator of {name}"), &[SERVER, public], translator);
        let link: LinkConfig = link.parse().map_err(|error| format!("{error}"))?;
        links.push(network.connect((client, private), (translator, SERVER), link.clone(), link));
        let wire = LinkConfig::default();
        network.connect((translator, public), (server, SERVER), wire.clone(), wire);
    }
    let listening = network.host_mut(server).endpoint_mut().listen(PORT);
    listening.map_err(|error| error.to_string())?;
    let options = ConnectOptions::default().local_address(PRIVATE[0]);
    let remote = SocketAddr::new(SERVER, UDP_PORT);
    let connected = network
        .host_mut(client)
        .connect(Timestamp::ZERO, remote, PORT, options);
    let id = connected.map_err(|error| error.to_string())?;
    let setting_up = |network: &mut Network| {
        let association = network.host(client).association(id);
        association.is_some_and(|association| association.state() != AssociationState::Established)
    };
    network.run_while(Timestamp::ZERO + TIME, setting_up);
    Ok(Scene {
        network,
        client,
        server,
        id,
        pulled: links[0],
    })
}

impl Scene {
    /// Cuts or restores the first network. The client's system reports the change, as it does for an interface.
    fn pull(&mut self, down: bool) -> Result<(), String> {
        for link in [self.pulled.0, self.pulled.1] {
            self.network.cut(link, down);
        }
        let now = self.network.now();
        let association = self.network.host_mut(self.client).association_mut(self.id);
        let association = association.ok_or("the association failed")?;
        let changed = match down {
            true => association.local_addresses().remove(now, PRIVATE[0]),
            false => association.local_addresses().add(now, PRIVATE[0]),
        };
        changed.map_err(|error| error.to_string())
    }

    fn send_reading(&mut self, number: u32) {
        let now = self.network.now();
        let mut options = SendOptions::default().deadline(DEADLINE);
        options.ppid.0 = number;
        if let Some(association) = self.network.host_mut(self.client).association_mut(self.id) {
            // A message that is not accepted counts as late.
            let _ = association.send(now, READINGS, Bytes::from_static(&READING), options);
        }
    }

    /// Bytes that were sent over each network so far, since its path exists.
    fn sent(&self) -> Result<Step, String> {
        let association = self.network.host(self.client).association(self.id);
        let paths = association.ok_or("the association failed")?.stats().paths;
        Ok(PRIVATE.map(|local| {
            let own = paths.iter().filter(|path: &&PathStats| path.local == Some(local));
            own.map(|path| path.data_bytes_sent).sum()
        }))
    }
}

/// Runs the transfer.
///
/// # Errors
/// The association failed.
pub(super) fn run(seed: u64) -> Result<Pulled, String> {
    let mut scene = scene(seed)?;
    let begun = scene.network.now();
    scene.network.host_mut(scene.client).run(Source, None);
    scene.network.host_mut(scene.server).run(
        Sink {
            begun,
            in_time: 0,
            counter: Counter::new(begun),
        },
        None,
    );
    if let Some(association) = scene.network.host_mut(scene.client).association_mut(scene.id) {
        feed(association, begun);
    }
    let count = (TIME.as_secs() / STEP.as_secs()) as u32;
    let (mut steps, mut before) = (Vec::new(), [0; 2]);
    let mut readings = 0;
    for step in 0..count {
        if step == count / 3 {
            scene.pull(true)?;
        }
        if step == 2 * count / 3 {
            scene.pull(false)?;
        }
        while scene.network.now() < begun + STEP * (step + 1) {
            scene.send_reading(readings);
            readings += 1;
            scene.network.run_until(begun + INTERVAL * readings);
        }
        let sent = scene.sent()?;
        // A path that was removed and added again counts from 0.
        let grown = |network: usize| {
            sent[network]
                .checked_sub(before[network])
                .unwrap_or(sent[network])
        };
        steps.push([grown(0), grown(1)]);
        before = sent;
    }
    scene.network.run_for(DEADLINE);
    let sink = scene.network.host(scene.server).application::<Sink>();
    let sink = sink.ok_or("the receiver counts nothing: this is a bug")?;
    Ok(Pulled {
        steps,
        pause: sink.counter.pause(),
        readings: (readings, sink.in_time),
    })
}

impl Pulled {
    /// A line with two bars for each step, and a sentence of what they show.
    pub(super) fn text(&self, paint: Paint) -> String {
        let mut text = format!(
            "two networks behind address translators, in {} of virtual time:\n",
            units::duration(TIME)
        );
        for (((name, mark), colour), link) in NAMES.iter().zip(MARKS).zip(COLOURS).zip(LINKS) {
            let mark = paint.paint(colour, &mark.to_string());
            text.push_str(&format!("  {mark} {name}: {link}\n"));
        }
        text.push('\n');
        let third = self.steps.len() / 3;
        for (place, step) in self.steps.iter().enumerate() {
            let mut bars = String::new();
            let mut marks = 0;
            for ((bytes, mark), colour) in step.iter().zip(MARKS).zip(COLOURS) {
                let bits = units::bits_per_second(*bytes, STEP).unwrap_or_default();
                let count = (bits / MARK).round() as usize;
                marks += count;
                bars.push_str(&paint.paint(colour, &mark.to_string().repeat(count)));
            }
            let at = STEP.as_secs() * place as u64;
            let rate = units::rate(step.iter().sum(), STEP);
            let room = " ".repeat(WIDTH.saturating_sub(marks));
            let happened = match place {
                _ if place == third => format!("  {} is pulled", NAMES[0]),
                _ if place == 2 * third => format!("  {} is back", NAMES[0]),
                _ => String::new(),
            };
            text.push_str(&format!("{at:>4} s {bars}{room} {rate:>12}{happened}\n"));
        }
        let (sent, in_time) = self.readings;
        let share = format!("{:.1} %", f64::from(in_time) * 100.0 / f64::from(sent.max(1)));
        text.push_str(&format!(
            "\nOne association used both networks, and went on when {} was pulled:\n  {} of {sent} messages arrived within their \
             deadline of {}\n  the longest pause of the file was {}\n\n\
             (in a program: EndpointBuilder::bind_paths; docs/how-to/use-several-paths.md)",
            NAMES[0],
            paint.paint(Colour::Green, &share),
            units::duration(DEADLINE),
            units::duration(self.pause),
        ));
        text
    }

    /// For `--json`.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "event": "two-networks", "networks": NAMES, "links": LINKS, "seconds": TIME.as_secs_f64(),
            "step_seconds": STEP.as_secs_f64(), "bytes_by_network": self.steps, "longest_pause_ms": millis(self.pause),
            "deadline_ms": millis(DEADLINE), "deadline_sent": self.readings.0, "deadline_in_time": self.readings.1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulled_network_leaves_and_joins_again() {
        let pulled = run(1).unwrap();
        let told = pulled.text(Paint::PLAIN);
        println!("{told}");
        let third = pulled.steps.len() / 3;
        let [both, one, again] = [0, 1, 2].map(|part| {
            let steps = &pulled.steps[part * third..][..third];
            let sum = |network: usize| steps.iter().map(|step| step[network]).sum::<u64>();
            [sum(0), sum(1)]
        });
        assert!(both[0] > 0 && both[1] > both[0] / 8, "both networks: {told}");
        assert!(one[0] == 0 && one[1] > 0, "the other network: {told}");
        assert!(again[0] > again[1] && again[1] > 0, "both again: {told}");
        assert!(pulled.pause < Duration::from_millis(500), "{told}");
        assert_eq!(
            pulled.to_json(),
            run(1).unwrap().to_json(),
            "a seed fixes the picture"
        );
    }
}
