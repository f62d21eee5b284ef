//! The paths and rules of clients at one time: as a table, as JSON, and for [`super::metrics`] and [`super::page`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anabranch::{AssociationStats, PathState, PathStats};
use anabranch_forward::{Client, RuleStats, Server};
use serde_json::{Value, json};

use super::messages::Messages;
use super::totals::{Counts, Network, Totals};
use crate::table::{Group, Table};
use crate::units;

/// A client, as it sees itself or as its server does.
#[derive(Clone, Debug)]
pub(super) struct ClientView {
    /// The client's address at the server; empty at the client.
    pub(super) remote: String,
    /// `None` while there is no association.
    pub(super) association: Option<AssociationStats>,
    /// The interface of each local address, if paths come from it.
    pub(super) interfaces: BTreeMap<IpAddr, String>,
    /// The networks of a client and their counters over the whole run; empty at the server.
    pub(super) networks: Vec<Network>,
    pub(super) rules: Vec<(String, RuleStats)>,
}

/// All clients.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) clients: Vec<ClientView>,
}

impl Status {
    pub(super) fn of_client(client: &Client, totals: &Totals) -> Self {
        Self {
            clients: vec![ClientView::of(client, totals)],
        }
    }

    pub(super) fn of_server(server: &Server) -> Self {
        let clients = server.clients().into_iter().map(|client| ClientView {
            remote: client.remote.to_string(),
            association: Some(client.association),
            interfaces: BTreeMap::new(),
            networks: Vec::new(),
            rules: client.rules,
        });
        Self {
            clients: clients.collect(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let clients: Vec<Value> = self.clients.iter().map(ClientView::to_json).collect();
        json!({ "event": "status", "clients": clients })
    }

    fn tables(&self) -> String {
        let tables: Vec<String> = self.clients.iter().map(ClientView::table).collect();
        if tables.is_empty() {
            return "no client".to_owned();
        }
        tables.join("\n\n")
    }
}

/// The local and the remote address of a path.
pub(super) fn addresses(path: &PathStats) -> String {
    let local = path
        .local
        .map_or_else(|| "any".to_owned(), |local| local.to_string());
    format!("{local} – {}", path.remote)
}

pub(super) fn state_name(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially failed",
        PathState::Inactive => "inactive",
        PathState::Unconfirmed => "unconfirmed",
    }
}

/// Why a server does not use an address that its client lists.
const BEHIND_TRANSLATOR: &str = "the client's private address: normal behind a translator";

/// Whether other networks have no route to this address: it is for private networks (RFC 1918, RFC 4193) or behind a translator (RFC 6598).
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            address.is_private() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// Why a path is not used, in words.
pub(super) fn remark(state: PathState) -> &'static str {
    match state {
        PathState::Active => "",
        PathState::PotentiallyFailed => "no answer, tested again",
        PathState::Inactive => "no answers",
        PathState::Unconfirmed => "no answer yet",
    }
}

pub(super) fn rule_record((name, stats): &(String, RuleStats)) -> Value {
    json!({
        "rule": name, "flows": stats.flows, "flows_opened": stats.flows_opened, "flows_refused": stats.flows_refused,
        "messages_sent": stats.messages_sent, "bytes_sent": stats.bytes_sent,
        "messages_received": stats.messages_received, "bytes_received": stats.bytes_received,
        "dropped": stats.dropped, "abandoned": stats.abandoned,
    })
}

/// A rule in the table: its protocol, and where it listens. No other rule listens there.
fn short_rule(name: &str) -> String {
    let (place, _) = name.split_once('=').unwrap_or((name, ""));
    place.replace(" 127.0.0.1:", " ")
}

impl ClientView {
    pub(super) fn of(client: &Client, totals: &Totals) -> Self {
        let names = client.rules().into_iter().map(|rule| rule.to_string());
        let association = client.association();
        let paths = association.iter().flat_map(|association| &association.paths);
        let interface = |local: IpAddr| Some((local, client.interface(local)?));
        let mut view = Self {
            remote: String::new(),
            interfaces: paths.filter_map(|path| interface(path.local?)).collect(),
            association,
            networks: Vec::new(),
            rules: names.zip(client.stats()).collect(),
        };
        let mut present = BTreeMap::<_, BTreeMap<_, _>>::new();
        for path in view.paths() {
            let of_network = present.entry(view.network(path)).or_default();
            of_network.insert((path.id, path.local), Counts::of(path));
        }
        view.networks = totals.take(present, view.association.is_some(), Instant::now());
        view
    }

    /// The name of a path's network: its interface, or its local address.
    pub(super) fn network(&self, path: &PathStats) -> String {
        let local = || {
            path.local
                .map_or_else(|| "any".to_owned(), |local| local.to_string())
        };
        self.interface(path).map_or_else(local, str::to_owned)
    }

    pub(super) fn paths(&self) -> &[PathStats] {
        self.association
            .as_ref()
            .map_or(&[], |association| &association.paths)
    }

    pub(super) fn interface(&self, path: &PathStats) -> Option<&str> {
        self.interfaces.get(&path.local?).map(String::as_str)
    }

    /// The interface of a path, if it has one, and its addresses.
    pub(super) fn path_name(&self, path: &PathStats) -> String {
        match self.interface(path) {
            Some(interface) => format!("{interface} {}", addresses(path)),
            None => addresses(path),
        }
    }

    /// Why a path is not used, in words. The client's own address means nothing to a server if a translator is between them.
    fn remark(&self, path: &PathStats) -> &'static str {
        let is_of_server = !self.remote.is_empty();
        let works = self.paths().iter().any(|path| path.state == PathState::Active);
        if is_of_server && works && path.state == PathState::Unconfirmed && is_private(path.remote.ip()) {
            return BEHIND_TRANSLATOR;
        }
        remark(path.state)
    }

    fn to_json(&self) -> Value {
        let path = |path: &PathStats| {
            json!({
                "interface": self.interface(path), "local": path.local.map(|local| local.to_string()), "remote": path.remote.to_string(),
                "state": state_name(path.state), "remark": Some(self.remark(path)).filter(|remark| !remark.is_empty()), "srtt_ms": path.srtt.map(|rtt| rtt.as_secs_f64() * 1e3),
                "rate_bits_per_second": path.pacing_rate.map(|rate| rate * 8),
                "bytes_sent": path.data_bytes_sent, "bytes_received": path.data_bytes_received, "chunks_sent": path.data_chunks_sent,
                "chunks_lost": path.chunks_lost, "chunks_retransmitted": path.chunks_retransmitted,
            })
        };
        let network = |network: &Network| {
            let counts = &network.counts;
            json!({
                "network": network.name, "down_seconds": network.down_for.map(|time| time.as_secs_f64()),
                "bytes_sent": counts.bytes_sent, "bytes_received": counts.bytes_received, "chunks_sent": counts.chunks_sent,
                "chunks_lost": counts.chunks_lost, "chunks_retransmitted": counts.chunks_retransmitted,
            })
        };
        json!({
            "remote": Some(&self.remote).filter(|remote| !remote.is_empty()), "connected": self.association.is_some(),
            "paths": self.paths().iter().map(path).collect::<Vec<_>>(),
            "networks": self.networks.iter().map(network).collect::<Vec<_>>(),
            "rules": self.rules.iter().map(rule_record).collect::<Vec<_>>(),
        })
    }

    /// A table of paths and one of rules.
    fn table(&self) -> String {
        let group = |title: &str, columns: &[&str]| Group {
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
        };
        let head = match (self.remote.as_str(), &self.association) {
            ("", None) => "not connected\n".to_owned(),
            ("", Some(_)) => String::new(),
            (remote, _) => format!("{remote}\n"),
        };
        let columns = ["state", "RTT", "rate", "sent", "received", "loss", "remark"];
        let mut paths = Table::new("path", vec![group("", &columns)]);
        self.path_rows().into_iter().for_each(|row| paths.row(row));
        let columns = [
            "flows", "sent", "bytes", "received", "bytes", "dropped", "late", "refused",
        ];
        let mut rules = Table::new("rule", vec![group("", &columns)]);
        for (name, stats) in &self.rules {
            rules.row(vec![
                short_rule(name),
                stats.flows.to_string(),
                stats.messages_sent.to_string(),
                units::size(stats.bytes_sent),
                stats.messages_received.to_string(),
                units::size(stats.bytes_received),
                stats.dropped.to_string(),
                stats.abandoned.to_string(),
                stats.flows_refused.to_string(),
            ]);
        }
        let paths = match (self.paths(), self.networks.as_slice()) {
            ([], []) => String::new(),
            _ => format!("{}\n\n", paths.render()),
        };
        format!("{head}{paths}{}", rules.render())
    }

    /// The name of a path in the table. A client's network has one path as a rule, and each path of a server leads to another address.
    fn short_name(&self, path: &PathStats) -> String {
        let short = |path: &PathStats| match self.remote.is_empty() {
            true => self.network(path),
            false => path.remote.to_string(),
        };
        let name = short(path);
        match self.paths().iter().filter(|other| short(other) == name).count() {
            1 => name,
            _ => self.path_name(path),
        }
    }

    /// Whether this is an address that only the client's own network knows, and from which nothing comes. Such rows say nothing to the operator.
    fn is_behind_translator(&self, path: &PathStats) -> bool {
        self.remark(path) == BEHIND_TRANSLATOR
    }

    /// The paths, and the networks without a path. At a client, the first path of a network has the counters of the network.
    fn path_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut rest: Vec<&Network> = self.networks.iter().collect();
        for path in self
            .paths()
            .iter()
            .filter(|path| !self.is_behind_translator(path))
        {
            let name = self.network(path);
            let network = rest.iter().position(|network| network.name == name);
            let counts = match network {
                Some(index) => Some(rest.remove(index).counts),
                None if self.networks.is_empty() => Some(Counts::of(path)),
                None => None,
            };
            let rate = path
                .pacing_rate
                .map(|rate| units::rate(rate, Duration::from_secs(1)));
            rows.push(row(
                self.short_name(path),
                state_name(path.state),
                [
                    path.srtt.map_or_else(String::new, units::duration),
                    rate.unwrap_or_default(),
                ],
                counts.as_ref(),
                self.remark(path).to_owned(),
            ));
        }
        for network in rest {
            let (state, remark) = match network.down_for {
                Some(time) => ("down", format!("for {:.0} s", time.as_secs_f64())),
                None => ("", String::new()),
            };
            let none = [String::new(), String::new()];
            rows.push(row(
                network.name.clone(),
                state,
                none,
                Some(&network.counts),
                remark,
            ));
        }
        rows
    }
}

/// A row of the table of paths: `now` are the RTT and the rate.
fn row(name: String, state: &str, now: [String; 2], counts: Option<&Counts>, remark: String) -> Vec<String> {
    let counted = counts.map(|counts| {
        let loss = format!("{:.1} %", counts.loss() * 100.0);
        [
            units::size(counts.bytes_sent),
            units::size(counts.bytes_received),
            loss,
        ]
    });
    let mut row = vec![name, state.to_owned()];
    row.extend(now);
    row.extend(counted.unwrap_or_default());
    row.push(remark);
    row
}

/// Draws tables: on a terminal over the ones before, with the last messages, otherwise below them.
#[derive(Debug)]
pub(super) struct Screen<'a> {
    /// `None` without a terminal: there, nothing erases the messages.
    messages: Option<&'a Messages>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(messages: Option<&'a Messages>) -> Self {
        Self { messages }
    }

    pub(super) fn draw(&self, status: &Status) -> String {
        // The sequences of ECMA-48: the cursor to the first line, and erase what follows.
        const OVER: &str = "\x1b[H\x1b[J";
        let tables = status.tables();
        match self.messages {
            Some(messages) => format!("{OVER}{tables}\n{}", messages.last()),
            None => format!("{tables}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;

    #[test]
    fn a_client_without_association_has_its_rules() {
        let status = Status {
            clients: vec![ClientView {
                remote: String::new(),
                association: None,
                interfaces: BTreeMap::new(),
                networks: vec![Network {
                    name: "wifi".to_owned(),
                    counts: Counts {
                        bytes_sent: 2048,
                        bytes_received: 3072,
                        chunks_sent: 4,
                        chunks_lost: 1,
                        ..Counts::default()
                    },
                    down_for: Some(Duration::from_secs(7)),
                }],
                rules: vec![("udp 127.0.0.1:5000=h:1".to_owned(), RuleStats::default())],
            }],
        };
        let drawn = Screen::new(None).draw(&status);
        assert!(drawn.starts_with("not connected\npath"), "{drawn}");
        let down = drawn.lines().find(|line| line.starts_with("wifi")).unwrap();
        let cells: Vec<&str> = down.split_whitespace().collect();
        let expected = [
            "wifi", "down", "2.0", "KiB", "3.0", "KiB", "25.0", "%", "for", "7", "s",
        ];
        assert_eq!(cells, expected, "{drawn}");
        assert_eq!(status.to_json()["clients"][0]["networks"][0]["bytes_sent"], 2048);
        assert!(drawn.contains("\nudp 5000  "), "{drawn}");
        assert_eq!(
            short_rule("tcp unix:/run/a.sock=h:1,class=1"),
            "tcp unix:/run/a.sock"
        );
        let messages = Messages::new(Output::Text);
        let over = Screen::new(Some(&messages)).draw(&status);
        assert_eq!(over, format!("\x1b[H\x1b[J{drawn}"));
        messages.fact("page at http://127.0.0.1:1/", &json!({}));
        let over = Screen::new(Some(&messages)).draw(&status);
        assert!(
            over.contains(&drawn) && over.ends_with("page at http://127.0.0.1:1/\n"),
            "{over}"
        );
        assert_eq!(status.to_json()["clients"][0]["connected"], false);
        let none = Status { clients: Vec::new() };
        assert_eq!(Screen::new(None).draw(&none), "no client\n");
    }
}
