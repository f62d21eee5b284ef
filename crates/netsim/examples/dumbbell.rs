//! Runs four greedy TCP flows and one SCTP association over one bottleneck for 200 simulated seconds, and prints the result of each. The
//! SCTP association sends messages of 72 bytes as a Poisson process, 0.6 Mbit/s. With a file name, the example also captures all packets.
//!
//! usage: dumbbell [CAPTURE.pcapng]

use core::time::Duration;
use std::fs::File;
use std::io::BufWriter;

use anabranch_netsim::{
    Application, Dumbbell, Generator, Host, HostApi, LinkConfig, Network, TcpConfig, TcpSource, Traffic,
};
use anabranch_proto::{
    AssociationId, Config, ConnectOptions, Event, SendError, SendOptions, StreamId, Timestamp,
};
use bytes::Bytes;

const SECONDS: u64 = 200;
const PORT: u16 = 5000;
const MESSAGE: Bytes = Bytes::from_static(&[0; 72]);
/// Mean time between messages: 72 bytes each, so 0.6 Mbit/s of payload.
const MEAN_INTERVAL: Duration = Duration::from_micros(960);

/// Sends a message at each event of a Poisson process.
struct Sender {
    id: AssociationId,
    random: Generator,
    refused: u64,
}

impl Application for Sender {
    fn on_event(&mut self, _: &mut HostApi<'_>, _: AssociationId, _: Event) {}

    fn on_timer(&mut self, api: &mut HostApi<'_>) {
        let now = api.now();
        let Some(association) = api.association(self.id) else {
            return;
        };
        let options = SendOptions::default().unordered(true);
        match association.send(now, StreamId(0), MESSAGE, options) {
            Ok(_) => {}
            Err(SendError::BufferFull) => self.refused += 1,
            Err(error) => panic!("send: {error}"),
        }
        let interval = MEAN_INTERVAL.mul_f64(self.random.exponential());
        api.set_timer(Some(now + interval.max(Duration::from_nanos(1))));
    }
}

/// Counts the received messages.
#[derive(Default)]
struct Receiver {
    messages: u64,
}

impl Application for Receiver {
    fn on_event(&mut self, api: &mut HostApi<'_>, id: AssociationId, event: Event) {
        let now = api.now();
        if let (Event::Readable, Some(association)) = (event, api.association(id)) {
            while let Some(part) = association.recv(now) {
                self.messages += u64::from(part.ending);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut network = Network::new(1);
    let bottleneck = "rate=10mbit,delay=40ms,queue=dummynet:73kb".parse()?;
    let mut dumbbell = Dumbbell::new(
        &mut network,
        bottleneck,
        "rate=10mbit,delay=40ms".parse::<LinkConfig>()?,
    );
    let flows: Vec<_> = (0..4)
        .map(|flow| {
            let start = Timestamp::from_millis(flow * 700);
            let (name, config) = (format!("tcp{flow}"), TcpConfig::default());
            dumbbell.add_tcp(&mut network, &name, &config, Traffic::Greedy, start)
        })
        .collect();

    let mut seeds = network.generator("sctp seeds");
    let left = Host::new(Config::default(), 0, seeds.bytes())?;
    let mut right = Host::new(Config::default(), 0, seeds.bytes())?;
    right.endpoint_mut().listen(PORT)?;
    right.run(Receiver::default(), None);
    let sctp = dumbbell.add_pair(&mut network, "sctp", left, right);
    if let Some(file) = std::env::args().nth(1) {
        network.capture(BufWriter::new(File::create(file)?))?;
    }

    let (now, remote) = (network.now(), (sctp.right_address, 0).into());
    let random = network.generator("sctp messages");
    let host = network.host_mut(sctp.left);
    let id = host.connect(now, remote, PORT, ConnectOptions::default())?;
    let sender = Sender {
        id,
        random,
        refused: 0,
    };
    host.run(sender, Some(Timestamp::from_millis(15_000)));
    network.run_until(Timestamp::from_millis(SECONDS * 1000));
    network.finish_capture()?;

    for (number, flow) in flows.iter().enumerate() {
        println!("TCP {number}: {:?}", network.node::<TcpSource>(flow.left).stats());
    }
    let received = network
        .host(sctp.right)
        .application::<Receiver>()
        .map(|receiver| receiver.messages);
    let refused = network
        .host(sctp.left)
        .application::<Sender>()
        .map(|sender| sender.refused);
    println!("SCTP: {received:?} messages received, {refused:?} refused");
    let link = network.link_stats(dumbbell.forward);
    println!("bottleneck: {link:?}");
    println!("{} events", network.events_handled());
    Ok(())
}
