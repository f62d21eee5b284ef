//! The network of most experiments: a sending and a receiving host with their own links. Greedy TCP flows may share a bottleneck with them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anabranch_netsim::{
    Dumbbell, DumbbellPair, Generator, Host, LinkConfig, LinkId, Network, NodeId, TcpConfig, Traffic,
};
use anabranch_proto::{Association, Config, Counters, Timestamp};

use crate::stage::{Demand, Scenario, TcpFlows, windows};
use crate::tap::Tap;
use crate::trace::{MessageRow, RunTrace, Tracing};
use crate::traffic::{BothWays, Sink, Source, Submission};
use crate::trial::Trial;

const PORT: u16 = 7;
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// The destination of the source: address and UDP port, and the SCTP port.
pub(crate) const PEER: (SocketAddr, u16) = (SocketAddr::new(RECEIVER, 0), PORT);

/// The same destination if TCP flows share the bottleneck.
pub(crate) const PEER_BESIDE_TCP: (SocketAddr, u16) =
    (SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1)), 0), PORT);

/// The applications on the hosts.
struct Doing {
    source: Source,
    /// The time at which the source begins, if it does.
    start: Option<Timestamp>,
    /// The source on the receiving host, if data flows both ways, and the time at which its schedule begins, if it has one.
    answer: Option<(Source, Option<Timestamp>)>,
}

impl Doing {
    fn one_way(source: Source, start: Option<Timestamp>) -> Self {
        Self {
            source,
            start,
            answer: None,
        }
    }
}

/// The links of a path, and the number of the bottleneck that it leads through.
pub(crate) type SharedPath = ((LinkConfig, LinkConfig), Option<usize>);

/// The network of a run.
pub(crate) struct Pair {
    pub(crate) network: Network,
    /// The links that data takes, one for each path.
    pub(crate) data_links: Vec<LinkId>,
    /// The links that acknowledgements take, one for each path.
    pub(crate) return_links: Vec<LinkId>,
    /// For each bottleneck that several paths share, the link that data takes and the link that acknowledgements take.
    pub(crate) shared_links: Vec<(LinkId, LinkId)>,
    /// The TCP cross traffic.
    pub(crate) tcp: Vec<DumbbellPair>,
    /// The receiver's addresses, one for each path.
    destinations: Vec<IpAddr>,
    sender: NodeId,
    receiver: NodeId,
    /// The destination of the run's trace, if one is wanted.
    tracing: Option<Tracing>,
}

/// A run ends with its network.
impl Drop for Pair {
    fn drop(&mut self) {
        let Some(tracing) = self.tracing.take() else {
            return;
        };
        // A network with TCP only has no association.
        if self.association().is_none() || std::thread::panicking() {
            return;
        }
        let messages = self.source().submitted().iter().enumerate();
        let row = |(number, message): (usize, &Submission)| MessageRow {
            class: message.class,
            bytes: message.len,
            submitted: message.at,
            sent: self.sender().sent().of(number),
            arrived: self.receiver().arrived().of(number),
            delivered: self.sink().delivered().of(number),
        };
        let messages = messages.map(row).collect();
        let series = self.sender_mut().take_series().unwrap_or_default();
        tracing.add(RunTrace { messages, series });
    }
}

impl Pair {
    /// Both hosts with these settings and one path. The source begins within the first second, at a time that the seed decides.
    pub(crate) fn new(trial: &Trial<'_>, config: &Config, link: LinkConfig, source: Source) -> Self {
        Self::over(trial, config, vec![(link.clone(), link)], source)
    }

    /// Both hosts with several paths. Each path has a link for data and one for acknowledgements.
    pub(crate) fn over(
        trial: &Trial<'_>,
        config: &Config,
        links: Vec<(LinkConfig, LinkConfig)>,
        source: Source,
    ) -> Self {
        let start = begin(trial.seed, "start");
        Self::between(trial, config, links, Doing::one_way(source, Some(start)))
    }

    /// Both hosts with one or several paths, and with TCP cross traffic if there is one path. `answer` is the source on the receiving host
    /// and the time at which it begins.
    pub(crate) fn of_user(
        trial: &Trial<'_>,
        config: &Config,
        mut links: Vec<(LinkConfig, LinkConfig)>,
        tcp: Option<&TcpFlows>,
        (source, answer): (Source, Option<(Source, Timestamp)>),
    ) -> Self {
        let doing = Doing {
            source,
            start: Some(begin(trial.seed, "start")),
            answer: answer.map(|(answer, start)| (answer, Some(start))),
        };
        match tcp {
            Some(flows) => Self::at_bottleneck(trial, config, links.swap_remove(0), flows, doing),
            None => Self::between(trial, config, links, doing),
        }
    }

    fn between(
        trial: &Trial<'_>,
        config: &Config,
        links: Vec<(LinkConfig, LinkConfig)>,
        doing: Doing,
    ) -> Self {
        let paths = links.into_iter().map(|links| (links, None)).collect();
        Self::on_paths(trial, config, (paths, Vec::new()), None, doing)
    }

    /// Both hosts with several paths, of which some lead through shared bottlenecks. A path that does has its links between the sender and
    /// the bottleneck. TCP cross traffic takes one bottleneck.
    pub(crate) fn at_bottlenecks(
        trial: &Trial<'_>,
        config: &Config,
        (paths, shared): (Vec<SharedPath>, Vec<(LinkConfig, LinkConfig)>),
        tcp: Option<(usize, &TcpFlows)>,
        (source, answer): (Source, Option<(Source, Timestamp)>),
    ) -> Self {
        let doing = Doing {
            source,
            start: Some(begin(trial.seed, "start")),
            answer: answer.map(|(answer, start)| (answer, Some(start))),
        };
        Self::on_paths(trial, config, (paths, shared), tcp, doing)
    }

    /// Both hosts with one or several paths, of which some may lead through the bottlenecks `shared`.
    fn on_paths(
        trial: &Trial<'_>,
        config: &Config,
        (paths, shared): (Vec<SharedPath>, Vec<(LinkConfig, LinkConfig)>),
        tcp: Option<(usize, &TcpFlows)>,
        doing: Doing,
    ) -> Self {
        let addresses = [SENDER, RECEIVER].map(|first| {
            let addresses = (0..paths.len() as u8).map(|path| on_path(path, first));
            addresses.collect::<Vec<IpAddr>>()
        });
        let mut network = Network::new(trial.seed);
        let [sender, receiver] = hosts(&network, config, &addresses, doing);
        let sender = network.add_node("sender", &addresses[0], sender);
        let receiver = network.add_node("receiver", &addresses[1], receiver);
        let dumbbells = shared.into_iter();
        let mut dumbbells: Vec<Dumbbell> = dumbbells
            .map(|(there, back)| Dumbbell::new(&mut network, there, back))
            .collect();
        let ends = addresses[0].iter().zip(&addresses[1]).zip(paths);
        let (data_links, return_links) = ends
            .map(|((from, to), ((there, back), through))| {
                let (left, right) = ((sender, *from), (receiver, *to));
                match through {
                    None => network.connect(left, right, there, back),
                    Some(place) => dumbbells[place].attach(&mut network, left, right, (there, back)),
                }
            })
            .unzip();
        let mut flows = Vec::new();
        if let Some((place, tcp)) = tcp {
            let mut dumbbell = dumbbells[place].clone().with_access(tcp.access.clone());
            // The first addresses are those of the paths.
            (0..=u8::MAX).for_each(|_| dumbbell.skip_addresses());
            for (flow, start) in tcp.starts.iter().enumerate() {
                let name = format!("tcp {flow}");
                flows.push(dumbbell.add_tcp(&mut network, &name, &tcp.config, Traffic::Greedy, *start));
            }
            dumbbells[place] = dumbbell;
        }
        trial.observe(&mut network);
        let [_, destinations] = addresses;
        let pair = Self {
            network,
            data_links,
            return_links,
            shared_links: dumbbells.iter().map(|one| (one.forward, one.backward)).collect(),
            tcp: flows,
            destinations,
            sender,
            receiver,
            tracing: None,
        };
        pair.traced(trial)
    }

    /// Both hosts at a bottleneck that greedy TCP flows share. These also begin within the first second.
    pub(crate) fn beside_tcp(
        trial: &Trial<'_>,
        config: &Config,
        bottleneck: LinkConfig,
        flows: u32,
        source: Source,
    ) -> Self {
        let starts = (0..flows).map(|flow| begin(trial.seed, &format!("tcp {flow}")));
        let flows = TcpFlows {
            config: TcpConfig::default(),
            real: TcpConfig::linux(),
            starts: starts.collect(),
            access: LinkConfig::default()
                .with_rate(100_000_000)
                .with_delay(Duration::from_micros(10)),
        };
        let start = begin(trial.seed, "start");
        Self::at_bottleneck(
            trial,
            config,
            (bottleneck.clone(), bottleneck),
            &flows,
            Doing::one_way(source, Some(start)),
        )
    }

    /// Both hosts and TCP flows, if there are any, at the ends of a bottleneck with a link in each direction. The source begins at its
    /// time.
    pub(crate) fn at_dumbbell(
        trial: &Trial<'_>,
        config: &Config,
        bottleneck: (LinkConfig, LinkConfig),
        tcp: &TcpFlows,
        (source, start): (Source, Timestamp),
    ) -> Self {
        Self::at_bottleneck(
            trial,
            config,
            bottleneck,
            tcp,
            Doing::one_way(source, Some(start)),
        )
    }

    /// The hosts and links of a scenario.
    pub(crate) fn staged(trial: &Trial<'_>, scenario: Scenario) -> Self {
        let mut paths = scenario.paths;
        let peer = match (&scenario.tcp, paths.len()) {
            (Some(_), 1) => PEER_BESIDE_TCP,
            _ => PEER,
        };
        let doing = match scenario.messages {
            // Without messages, the source never begins.
            None => Doing::one_way(Source::scheduled(peer, Vec::new(), std::iter::empty()), None),
            Some(messages) => {
                let options = messages.classes.first().map(|class| class.options);
                let greedy =
                    |len| Source::greedy(peer, options.unwrap_or_default(), len).until(scenario.counts.1);
                let answer = match messages.demand {
                    Demand::GreedyBothWays(len) => Some((greedy(len), None)),
                    Demand::Scheduled(_) | Demand::Greedy(_) => None,
                };
                let source = match messages.demand {
                    Demand::Scheduled(schedule) => {
                        Source::scheduled(peer, messages.classes, schedule).until(scenario.counts.1)
                    }
                    Demand::Greedy(len) | Demand::GreedyBothWays(len) => greedy(len),
                };
                Doing {
                    source,
                    start: Some(messages.connect),
                    answer,
                }
            }
        };
        let mut pair = match &scenario.tcp {
            Some(flows) if paths.len() == 1 => {
                let bottleneck = paths.swap_remove(0);
                Self::at_bottleneck(trial, &scenario.config, bottleneck, flows, doing)
            }
            // The flows share the first path.
            Some(flows) => {
                let bottleneck = paths.remove(0);
                let access = (flows.access.clone(), flows.access.clone());
                let mut all = vec![(access, Some(0))];
                all.extend(paths.into_iter().map(|path| (path, None)));
                Self::on_paths(
                    trial,
                    &scenario.config,
                    (all, vec![bottleneck]),
                    Some((0, flows)),
                    doing,
                )
            }
            None => Self::between(trial, &scenario.config, paths, doing),
        };
        if scenario.measures.packets {
            let receiver = pair.destinations.clone();
            pair.sender_mut().keep_log(receiver.clone());
            pair.receiver_mut().keep_log(receiver);
        }
        if scenario.measures.digest {
            pair.sender_mut().keep_digest();
        }
        pair
    }

    /// Both hosts and those of the TCP flows, at the ends of a bottleneck.
    fn at_bottleneck(
        trial: &Trial<'_>,
        config: &Config,
        (there, back): (LinkConfig, LinkConfig),
        flows: &TcpFlows,
        doing: Doing,
    ) -> Self {
        let mut network = Network::new(trial.seed);
        let [sender, receiver] = hosts(&network, config, &[vec![], vec![]], doing);
        let mut dumbbell = Dumbbell::new(&mut network, there, back).with_access(flows.access.clone());
        let pair = dumbbell.add_pair(&mut network, "messages", sender, receiver);
        let tcp = flows.starts.iter().enumerate().map(|(flow, start)| {
            let name = format!("tcp {flow}");
            dumbbell.add_tcp(&mut network, &name, &flows.config, Traffic::Greedy, *start)
        });
        let tcp = tcp.collect();
        trial.observe(&mut network);
        let pair = Self {
            network,
            data_links: vec![dumbbell.forward],
            return_links: vec![dumbbell.backward],
            shared_links: Vec::new(),
            tcp,
            destinations: vec![PEER_BESIDE_TCP.0.ip()],
            sender: pair.left,
            receiver: pair.right,
            tracing: None,
        };
        pair.traced(trial)
    }

    /// The same hosts with a trace, if the trial wants one.
    fn traced(mut self, trial: &Trial<'_>) -> Self {
        self.tracing = trial.tracing().cloned();
        if self.tracing.is_some() {
            self.sender_mut().keep_series();
        }
        self
    }

    /// Runs until this many messages are delivered, at most until `limit`; returns whether they are. The time is then that of the last
    /// delivery.
    pub(crate) fn run_until_delivered(&mut self, messages: usize, limit: Timestamp) -> bool {
        let receiver = self.receiver;
        self.network.run_while(limit, |network| {
            let sink: Option<&Sink> = network.node::<Tap>(receiver).host().application();
            sink.is_some_and(|sink| sink.deliveries().len() < messages)
        });
        self.sink().deliveries().len() >= messages
    }

    pub(crate) fn sender(&self) -> &Tap {
        self.network.node(self.sender)
    }

    pub(crate) fn sender_mut(&mut self) -> &mut Tap {
        self.network.node_mut(self.sender)
    }

    pub(crate) fn receiver(&self) -> &Tap {
        self.network.node(self.receiver)
    }

    pub(crate) fn receiver_mut(&mut self) -> &mut Tap {
        self.network.node_mut(self.receiver)
    }

    pub(crate) fn source(&self) -> &Source {
        let host = self.sender().host();
        let both_ways = || host.application().map(|both: &BothWays| &both.source);
        let source = host.application().or_else(both_ways);
        source.expect("the sender runs a source")
    }

    pub(crate) fn sink(&self) -> &Sink {
        let host = self.receiver().host();
        let both_ways = || host.application().map(|both: &BothWays| &both.sink);
        let sink = host.application().or_else(both_ways);
        sink.expect("the receiver runs a sink")
    }

    /// The source on the receiving host, and the sink on the sending host.
    pub(crate) fn answer(&self) -> (&Source, &Sink) {
        let [receiver, sender] = [self.receiver(), self.sender()].map(|tap| {
            let both: Option<&BothWays> = tap.host().application();
            both.expect("data flows both ways")
        });
        (&receiver.source, &sender.sink)
    }

    /// The sender's association, once it exists.
    pub(crate) fn association(&self) -> Option<&Association> {
        let host = self.sender().host();
        host.association(host.association_ids().next()?)
    }

    /// The sender's counters; all 0 before there is an association.
    pub(crate) fn counters(&self) -> Counters {
        let association = self.association();
        association
            .map(|association| *association.counters())
            .unwrap_or_default()
    }

    /// The sender's congestion windows in bytes, path by path, once the sender has all paths.
    pub(crate) fn windows(&self) -> Option<Vec<usize>> {
        windows(&self.association()?.stats().paths, &self.destinations)
    }
}

/// Both hosts, with a source on the sender and a sink on the receiver. If a host has several addresses, its settings list them.
fn hosts(network: &Network, config: &Config, addresses: &[Vec<IpAddr>; 2], doing: Doing) -> [Tap; 2] {
    let host = |label: &str, addresses: &[IpAddr]| {
        let seed = network.generator(label).bytes();
        let mut config = config.clone();
        if addresses.len() > 1 {
            config.local_addresses = addresses.to_vec();
        }
        Host::new(config, 0, seed).expect("the settings are in range")
    };
    let (mut sender, mut receiver) = (host("sender", &addresses[0]), host("receiver", &addresses[1]));
    match doing.answer {
        None => {
            sender.run(doing.source, doing.start);
            receiver.run(Sink::default(), None);
        }
        Some((answer, start)) => {
            sender.run(BothWays::new(doing.source), doing.start);
            receiver.run(BothWays::new(answer), start);
        }
    }
    receiver
        .endpoint_mut()
        .listen(PORT)
        .expect("nothing else listens");
    [sender, receiver].map(Tap::new)
}

/// A random start time within the first second.
pub(crate) fn begin(seed: u64, what: &str) -> Timestamp {
    Timestamp::from_millis(Generator::of_process(seed, what).below(1000))
}

/// The address of a host on a path.
fn on_path(path: u8, first: IpAddr) -> IpAddr {
    match first {
        IpAddr::V4(first) => {
            let [net, _, sub, host] = first.octets();
            IpAddr::from([net, path, sub, host])
        }
        IpAddr::V6(_) => first,
    }
}
