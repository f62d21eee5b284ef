//! The paths and rules of clients at one time: as a table, as JSON, and for [`super::metrics`] and [`super::page`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anabranch::{AssociationStats, PathState, PathStats};
use anabranch_forward::{Client, RuleStats, Server};
use serde_json::{Value, json};

use super::totals::{Counts, Key, Network, Sums, Totals};
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
    /// The sum over all paths, those included that have ended: of the whole run, at the server since the client connected.
    pub(super) sum: Counts,
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

    pub(super) fn of_server(server: &Server, sums: &Sums) -> Self {
        let clients = server.clients().into_iter().map(|client| ClientView {
            remote: client.remote.to_string(),
            association: Some(client.association),
            interfaces: BTreeMap::new(),
            networks: Vec::new(),
            sum: Counts::default(),
            rules: client.rules,
        });
        let mut clients: Vec<ClientView> = clients.collect();
        let present = clients.iter().map(|client| {
            let paths = client.paths().iter().map(keyed_counts);
            (client.remote.clone(), paths.collect())
        });
        let sums = sums.take(present.collect());
        for client in &mut clients {
            client.sum = sums.get(&client.remote).copied().unwrap_or_default();
        }
        Self { clients }
    }

    pub(super) fn to_json(&self) -> Value {
        let clients: Vec<Value> = self.clients.iter().map(ClientView::to_json).collect();
        json!({ "event": "status", "clients": clients })
    }

    /// The tables of all clients, within this number of columns.
    pub(super) fn tables(&self, columns: usize) -> String {
        let tables: Vec<String> = self.clients.iter().map(|client| client.table(columns)).collect();
        if tables.is_empty() {
            return "no client".to_owned();
        }
        tables.join("\n\n")
    }
}

fn keyed_counts(path: &PathStats) -> (Key, Counts) {
    ((path.id, path.local), Counts::of(path))
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

/// The name of a state in the table, where the longest one has no room.
fn short_state_name(state: PathState) -> &'static str {
    match state {
        PathState::PotentiallyFailed => "pot. failed",
        state => state_name(state),
    }
}

/// The state of a network without a path.
fn down(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..600 => format!("down {seconds} s"),
        600..36_000 => format!("down {} min", seconds / 60),
        _ => format!("down {} h", seconds / 3600),
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
            sum: Counts::default(),
            rules: names.zip(client.stats()).collect(),
        };
        let mut present = BTreeMap::<_, BTreeMap<_, _>>::new();
        for path in view.paths() {
            let of_network = present.entry(view.network(path)).or_default();
            of_network.extend([keyed_counts(path)]);
        }
        view.networks = totals.take(present, view.association.is_some(), Instant::now());
        view.networks
            .iter()
            .for_each(|network| view.sum.add(network.counts));
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
        let is_reached = self
            .paths()
            .iter()
            .any(|path| path.state != PathState::Unconfirmed);
        if is_of_server && is_reached && path.state == PathState::Unconfirmed && is_private(path.remote.ip())
        {
            return BEHIND_TRANSLATOR;
        }
        remark(path.state)
    }

    fn to_json(&self) -> Value {
        let path = |path: &PathStats| {
            json!({
                "interface": self.interface(path), "local": path.local.map(|local| local.to_string()), "remote": path.remote.to_string(),
                "state": state_name(path.state), "remark": Some(self.remark(path)).filter(|remark| !remark.is_empty()), "srtt_ms": path.srtt.map(|rtt| rtt.as_secs_f64() * 1e3),
                "rate_bits_per_second": path.known_rate.map(|rate| rate.saturating_mul(8)),
                "bytes_sent": Counts::of(path).bytes_sent, "bytes_received": path.data_bytes_received, "chunks_sent": path.data_chunks_sent,
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
        let sum = &self.sum;
        json!({
            "bytes_sent": sum.bytes_sent, "bytes_received": sum.bytes_received,
            "remote": Some(&self.remote).filter(|remote| !remote.is_empty()), "connected": self.association.is_some(),
            "paths": self.paths().iter().map(path).collect::<Vec<_>>(),
            "networks": self.networks.iter().map(network).collect::<Vec<_>>(),
            "rules": self.rules.iter().map(rule_record).collect::<Vec<_>>(),
        })
    }

    /// A table of paths and one of rules.
    fn table(&self, columns: usize) -> String {
        let head = match (self.remote.as_str(), &self.association) {
            ("", None) => "not connected\n".to_owned(),
            ("", Some(_)) => String::new(),
            (remote, _) => format!("{remote}\n"),
        };
        let paths = match (self.paths(), self.networks.as_slice()) {
            ([], []) => String::new(),
            _ => format!("{}\n{}\n", self.path_table(columns), self.legend()),
        };
        format!("{head}{paths}{}", self.rule_table(columns))
    }

    fn path_table(&self, columns: usize) -> String {
        let heads = ["state", "RTT", "rate", "sent", "received", "loss"];
        let mut paths = Table::new("path", vec![group(&heads)]);
        self.path_rows().into_iter().for_each(|row| paths.row(row));
        paths.render_within(columns)
    }

    fn rule_table(&self, columns: usize) -> String {
        let heads = [
            "flows", "sent", "bytes", "received", "bytes", "dropped", "late", "refused",
        ];
        let mut rules = Table::new("rule", vec![group(&heads)]);
        for (name, stats) in &self.rules {
            rules.row(vec![
                short_rule(name),
                stats.flows.to_string(),
                units::short_count(stats.messages_sent),
                units::short_size(stats.bytes_sent),
                units::short_count(stats.messages_received),
                units::short_size(stats.bytes_received),
                units::short_count(stats.dropped),
                units::short_count(stats.abandoned),
                units::short_count(stats.flows_refused),
            ]);
        }
        rules.render_within(columns)
    }

    /// The meaning of the states of the table other than active, a line each.
    fn legend(&self) -> String {
        let mut states: Vec<PathState> = Vec::new();
        for path in self.shown_paths() {
            if path.state != PathState::Active && !states.contains(&path.state) {
                states.push(path.state);
            }
        }
        let line = |&state: &PathState| match (short_state_name(state), state_name(state)) {
            (short, name) if short == name => format!("{name}: {}\n", remark(state)),
            (short, name) => format!("{short}: {name}, {}\n", remark(state)),
        };
        states.iter().map(line).collect()
    }

    /// The name of a path in the table. A client's network has one path as a rule, and each path of a server leads to another address.
    pub(super) fn short_name(&self, path: &PathStats) -> String {
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

    /// The paths of the table: all, except from addresses that only the client's own network knows, and from which nothing comes. Such rows
    /// say nothing to the operator.
    pub(super) fn shown_paths(&self) -> impl Iterator<Item = &PathStats> {
        let is_behind_translator = |path: &&PathStats| self.remark(path) == BEHIND_TRANSLATOR;
        self.paths()
            .iter()
            .filter(move |path| !is_behind_translator(path))
    }

    /// The paths, and the networks without a path. At a client, the first path of a network has the counters of the network.
    fn path_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut rest: Vec<&Network> = self.networks.iter().collect();
        for path in self.shown_paths() {
            let name = self.network(path);
            let network = rest.iter().position(|network| network.name == name);
            let counts = match network {
                Some(index) => Some(rest.remove(index).counts),
                None if self.networks.is_empty() => Some(Counts::of(path)),
                None => None,
            };
            let now = [
                path.srtt.map_or_else(String::new, units::duration),
                path.known_rate.map_or_else(|| "–".to_owned(), units::short_rate),
            ];
            let state = short_state_name(path.state).to_owned();
            rows.push(row(self.short_name(path), state, now, counts.as_ref()));
        }
        for network in rest {
            let state = network.down_for.map_or_else(String::new, down);
            let now = [String::new(), String::new()];
            rows.push(row(network.name.clone(), state, now, Some(&network.counts)));
        }
        let is_only_path = |path| Counts::of(path) == self.sum;
        if !self.remote.is_empty() && !matches!(self.paths(), [path] if is_only_path(path)) {
            let now = [String::new(), String::new()];
            rows.push(row("sum".to_owned(), String::new(), now, Some(&self.sum)));
        }
        rows
    }
}

fn group(columns: &[&str]) -> Group {
    Group {
        title: String::new(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
    }
}

/// A row of the table of paths: `now` are the RTT and the rate.
fn row(name: String, state: String, now: [String; 2], counts: Option<&Counts>) -> Vec<String> {
    let counted = counts.map(|counts| {
        [
            units::short_size(counts.bytes_sent),
            units::short_size(counts.bytes_received),
            units::short_share(counts.loss()),
        ]
    });
    let mut row = vec![name, state];
    row.extend(now);
    row.extend(counted.unwrap_or_default());
    row
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::SocketAddr;

    use anabranch::Endpoint;

    use super::*;

    /// The statistics of an association between two endpoints here.
    pub(in super::super) async fn association() -> AssociationStats {
        let bind = || async {
            Endpoint::builder()
                .bind("127.0.0.1:0")
                .await
                .expect("a free port")
        };
        let (server, client) = (bind().await, bind().await);
        let port = anabranch_forward::PORT;
        server.listen_on_port(port).expect("a port");
        let association = client.connect_to_port(server.local_addr(), port).await;
        association.expect("it answers").stats()
    }

    /// A server's view of a client with the widest values that its tables allow for.
    pub(in super::super) fn widest(association: &AssociationStats, remotes: &[&str]) -> ClientView {
        let widest = |remote: &&str| {
            let mut path = association.paths[0].clone();
            path.remote = remote.parse::<SocketAddr>().expect("an address");
            path.state = PathState::PotentiallyFailed;
            path.srtt = Some(Duration::from_micros(9_999));
            path.known_rate = Some(124_900_000);
            path.data_bytes_sent = 1_073_741_823;
            path.data_bytes_received = 1_073_741_823;
            (path.data_chunks_sent, path.chunks_lost) = (1000, 1000);
            path
        };
        let mut stats = RuleStats::default();
        stats.flows = 16_384;
        for bytes in [&mut stats.bytes_sent, &mut stats.bytes_received] {
            *bytes = 1_048_575;
        }
        for count in [
            &mut stats.messages_sent,
            &mut stats.messages_received,
            &mut stats.dropped,
            &mut stats.abandoned,
            &mut stats.flows_refused,
        ] {
            *count = 999_999;
        }
        let mut association = association.clone();
        association.paths = remotes.iter().map(widest).collect();
        let mut sum = Counts::default();
        association
            .paths
            .iter()
            .for_each(|path| sum.add(Counts::of(path)));
        let names = ["udp 127.0.0.1:9", "reverse-tcp [2001:db8:ffff::1]:65535"];
        ClientView {
            remote: remotes[0].to_owned(),
            association: Some(association),
            interfaces: BTreeMap::new(),
            networks: Vec::new(),
            sum,
            rules: names.map(|name| (name.to_owned(), stats)).into(),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_widest_rows_fit_eighty_columns() {
        let association = association().await;
        let remotes = [
            "203.0.113.7:54321",
            "255.255.255.255:65535",
            "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535",
        ];
        let view = widest(&association, &remotes);
        let table = view.table(80);
        for line in table.lines() {
            assert!(line.chars().count() <= 80, "{line}\n{table}");
        }
        assert!(!table.contains('–'), "{table}");
        // All values are there.
        let row = table.lines().find(|line| line.starts_with(remotes[0])).unwrap();
        assert!(table.lines().any(|line| line == remotes[2]), "{table}");
        for cell in ["pot. failed", "999 Mbit/s", "1024 MiB", "1024 KiB", "100 %"] {
            assert!(table.contains(cell), "{cell}: {row}\n{table}");
        }
        let sum = table.lines().find(|line| line.starts_with("sum"));
        let cells: Vec<&str> = sum.unwrap().split_whitespace().collect();
        assert_eq!(cells, ["sum", "3.00", "GiB", "3.00", "GiB", "100", "%"]);
        assert_eq!(view.to_json()["bytes_sent"], 3 * 1_073_741_823_u64);
        let legend = "\npot. failed: potentially failed, no answer, tested again\n\nrule ";
        assert!(table.contains(legend), "{table}");
        // Without a terminal, each path has one line.
        let wide = view.table(usize::MAX);
        assert!(
            wide.lines()
                .any(|line| line.starts_with(remotes[2]) && line.ends_with("100 %")),
            "{wide}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_rate_is_shown_once_it_is_known() {
        let mut view = widest(&association().await, &["203.0.113.7:54321"]);
        for (rate, cell, bits) in [
            (None, "–", Value::Null),
            (Some(1_000_000), "8.00 Mbit/s", 8_000_000.into()),
        ] {
            let paths = view
                .association
                .as_mut()
                .map(|association| &mut association.paths);
            let path = &mut paths.unwrap()[0];
            path.known_rate = rate;
            assert_eq!(view.path_rows()[0][3], cell);
            assert_eq!(view.to_json()["paths"][0]["rate_bits_per_second"], bits);
        }
    }

    #[test]
    fn a_client_without_association_has_its_rules() {
        let network = Network {
            name: "wifi".to_owned(),
            counts: Counts {
                bytes_sent: 2048,
                bytes_received: 3072,
                chunks_sent: 4,
                chunks_lost: 1,
                ..Counts::default()
            },
            down_for: Some(Duration::from_secs(7)),
        };
        let status = Status {
            clients: vec![ClientView {
                remote: String::new(),
                association: None,
                interfaces: BTreeMap::new(),
                sum: network.counts,
                networks: vec![network],
                rules: vec![("udp 127.0.0.1:5000=h:1".to_owned(), RuleStats::default())],
            }],
        };
        let drawn = status.tables(80);
        assert!(drawn.starts_with("not connected\npath"), "{drawn}");
        let row = drawn.lines().find(|line| line.starts_with("wifi")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let expected = ["wifi", "down", "7", "s", "2.00", "KiB", "3.00", "KiB", "25", "%"];
        assert_eq!(cells, expected, "{drawn}");
        let times = [599, 600, 36_000].map(|seconds| down(Duration::from_secs(seconds)));
        assert_eq!(times, ["down 599 s", "down 10 min", "down 10 h"]);
        assert_eq!(status.to_json()["clients"][0]["networks"][0]["bytes_sent"], 2048);
        assert!(drawn.contains("\nudp 5000  "), "{drawn}");
        assert_eq!(
            short_rule("tcp unix:/run/a.sock=h:1,class=1"),
            "tcp unix:/run/a.sock"
        );
        assert_eq!(status.to_json()["clients"][0]["connected"], false);
        let none = Status { clients: Vec::new() };
        assert_eq!(none.tables(80), "no client");
    }
}
