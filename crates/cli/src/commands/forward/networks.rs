//! Lines about networks that come and go: the paths of the client's association, compared from time to time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anabranch::{PathSource, PathState, PathStats};
use serde_json::{Value, json};

use super::messages::Messages;
use super::status::{ClientView, Status, remark, state_name};

/// The time between two looks at the paths.
const LOOK: Duration = Duration::from_millis(250);

/// The same at a server, for all its clients.
const LOOK_AT_CLIENTS: Duration = Duration::from_secs(1);

/// The time for the system to add routes after an interface has an address.
const ROUTES: Duration = Duration::from_secs(2);

/// The time in which a path from an interface begins, if the server answers there: the request for it is retransmitted twice.
const BEGINS: Duration = Duration::from_secs(5);

/// The states of the paths by their names.
type Paths = BTreeMap<String, PathState>;

/// Prints a line for each path that comes or goes, and for each of these interfaces that is up, but has no route to the server or no answer from
/// it. `server` is its address before the first association, once its name was resolved. Without an association, calls `on_return` when a
/// network comes back.
pub(super) async fn tell(
    messages: &Messages,
    sources: impl Fn() -> Vec<PathSource>,
    server: impl Fn() -> Option<IpAddr>,
    view: impl Fn() -> ClientView,
    on_return: impl Fn(),
) {
    let mut before = Paths::new();
    let mut routes = Routes::default();
    let mut silent = Silent::default();
    let mut returning = Returning::default();
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        let (view, sources) = (view(), sources());
        let interfaces = interfaces(&sources);
        for (text, record) in routes.missing(&interfaces, server(), &view) {
            messages.fact(text, &record);
        }
        for (text, record) in silent.found(&interfaces, &view, |interface, server| {
            has_route(interface, server) == Some(true)
        }) {
            messages.fact(text, &record);
        }
        if view.association.is_none() {
            // The end of the association has a line of its own.
            before.clear();
            if returning.is_more(places(&sources)) {
                on_return();
            }
            continue;
        }
        returning = Returning::default();
        let paths = view.paths().iter().filter(|path| is_there(path));
        let now = paths.map(|path| (view.path_name(path), path.state)).collect();
        for (text, record) in changes(&before, &now) {
            messages.fact(text, &record);
        }
        before = now;
    }
}

/// Prints a line for each path of a server's clients that comes or goes. The path with which a client connected has the line about that.
pub(super) async fn tell_of_clients(messages: &Messages, status: impl Fn() -> Status) {
    let mut before = BTreeMap::<String, Paths>::new();
    let mut looks = tokio::time::interval(LOOK_AT_CLIENTS);
    loop {
        looks.tick().await;
        let mut present = BTreeMap::new();
        for view in status().clients {
            let paths = view.paths().iter();
            let now: Paths = paths.map(|path| (view.short_name(path), path.state)).collect();
            let first = || Paths::from([(view.remote.clone(), PathState::Active)]);
            let known = before.remove(&view.remote).unwrap_or_else(first);
            for (text, mut record) in changes(&known, &now) {
                record["remote"] = json!(view.remote);
                messages.fact(format!("{}: {text}", view.remote), &record);
            }
            present.insert(view.remote, now);
        }
        before = present;
    }
}

/// The interfaces among these sources.
pub(super) fn interfaces(sources: &[PathSource]) -> Vec<String> {
    let name = |source: &PathSource| match source {
        PathSource::Interface(name) => Some(name.clone()),
        _ => None,
    };
    sources.iter().filter_map(name).collect()
}

/// The addresses of this host from which packets may reach the server: those of the sources, and those with a default route.
fn places(sources: &[PathSource]) -> BTreeSet<IpAddr> {
    let routed = [PathSource::DefaultRoutes];
    let addresses = |source: &PathSource| source.addresses().unwrap_or_default();
    sources.iter().chain(&routed).flat_map(addresses).collect()
}

/// Finds networks that come back.
#[derive(Debug, Default)]
struct Returning {
    /// The addresses at the last look.
    before: Option<BTreeSet<IpAddr>>,
}

impl Returning {
    /// Whether there is an address that was not there at the last look.
    fn is_more(&mut self, now: BTreeSet<IpAddr>) -> bool {
        let is_more = self.before.as_ref().is_some_and(|before| !now.is_subset(before));
        self.before = Some(now);
        is_more
    }
}

/// Interfaces with a problem: when each was seen first with it. `None` if the user was told.
#[derive(Debug, Default)]
struct Lasting(BTreeMap<String, Option<Instant>>);

impl Lasting {
    /// Of these interfaces, which have the problem now, those that have had it for this time; once until they have it no longer.
    fn due<'a>(&mut self, now: Vec<&'a String>, time: Duration) -> impl Iterator<Item = &'a String> {
        self.0.retain(|interface, _| now.contains(&interface));
        now.into_iter().filter(move |interface| {
            let seen = self
                .0
                .entry((*interface).clone())
                .or_insert_with(|| Some(Instant::now()));
            seen.take_if(|seen| seen.elapsed() >= time).is_some()
        })
    }
}

/// The interfaces without a route to the server.
#[derive(Debug, Default)]
struct Routes {
    /// The server's address in the last association.
    server: Option<IpAddr>,
    without: Lasting,
}

impl Routes {
    /// A line and its record for each interface that has had an address, but no route, for a while; once until this changes.
    fn missing(
        &mut self,
        interfaces: &[String],
        server: Option<IpAddr>,
        view: &ClientView,
    ) -> Vec<(String, Value)> {
        let first = view.paths().first();
        self.server = first.map(|path| path.remote.ip()).or(self.server).or(server);
        let Some(server) = self.server else {
            return Vec::new();
        };
        let works = |interface: &str| {
            let mut active = view.paths().iter().filter(|path| path.state == PathState::Active);
            active.any(|path| view.interface(path) == Some(interface))
        };
        let lacks = |interface: &&String| !works(interface) && has_route(interface, server) == Some(false);
        let without = interfaces.iter().filter(lacks).collect();
        let due = self.without.due(without, ROUTES);
        due.map(|interface| no_route(interface, server)).collect()
    }
}

/// Whether the host still has the address at which a path begins: an association keeps the last one of its addresses.
fn is_there(path: &PathStats) -> bool {
    let lost = |local: IpAddr| {
        PathSource::from(local)
            .addresses()
            .is_ok_and(|own| own.is_empty())
    };
    path.state == PathState::Active || !path.local.is_some_and(lost)
}

/// The interfaces that could reach the server, and from which no path has begun.
#[derive(Debug, Default)]
struct Silent {
    without: Lasting,
}

impl Silent {
    /// A line and its record for each interface that `may_reach` the server, although no path from it has been confirmed for a while beside the
    /// others; once until there is one.
    fn found(
        &mut self,
        interfaces: &[String],
        view: &ClientView,
        may_reach: impl Fn(&str, IpAddr) -> bool,
    ) -> Vec<(String, Value)> {
        let Some(server) = view.paths().first().map(|path| path.remote) else {
            self.without = Lasting::default();
            return Vec::new();
        };
        let is_known = |interface: &str| {
            let mut known = view
                .paths()
                .iter()
                .filter(|path| path.state != PathState::Unconfirmed);
            known.any(|path| view.interface(path) == Some(interface))
        };
        let is_silent = |interface: &&String| !is_known(interface) && may_reach(interface, server.ip());
        let without = interfaces.iter().filter(is_silent).collect();
        let due = self.without.due(without, BEGINS);
        due.map(|interface| no_answer(interface, server)).collect()
    }
}

fn no_answer(interface: &str, server: SocketAddr) -> (String, Value) {
    let text = format!(
        "{interface} is up, but {server} does not answer through it: a firewall or a translator may keep UDP from it; tried again and again"
    );
    let record = json!({ "event": "no-answer", "interface": interface, "server": server.to_string() });
    (text, record)
}

/// Whether an interface has a default route for the server's IP version. `None` if it has no address of this version. If the system does not
/// tell, it may have one. Asking for the route of one address would not do: Linux takes each address for a neighbour if the packet is bound to an
/// interface without routes.
fn has_route(interface: &str, server: IpAddr) -> Option<bool> {
    let own = PathSource::from(interface).addresses().ok()?;
    let own: Vec<IpAddr> = own
        .into_iter()
        .filter(|own| own.is_ipv4() == server.is_ipv4())
        .collect();
    let routed = PathSource::DefaultRoutes.addresses();
    (!own.is_empty()).then(|| routed.map_or(true, |routed| own.iter().any(|own| routed.contains(own))))
}

fn no_route(interface: &str, server: IpAddr) -> (String, Value) {
    let version = if server.is_ipv6() { "-6 " } else { "" };
    let text = format!(
        "{interface} is up, but does not reach {server}, and has no default route: unless the server is in the same network, add one, as with \
         `ip {version}route add default via GATEWAY dev {interface} metric 100`"
    );
    let record = json!({ "event": "no-route", "interface": interface, "server": server.to_string() });
    (text, record)
}

/// A line and its record for each path that is active and was not, or was active and is not.
fn changes(before: &Paths, now: &Paths) -> Vec<(String, Value)> {
    let is_active = |paths: &Paths, name: &String| paths.get(name) == Some(&PathState::Active);
    let mut lines = Vec::new();
    for (name, state) in now {
        let text = match (is_active(before, name), is_active(now, name)) {
            (false, true) => format!("path {name}: works"),
            (true, false) => format!("path {name}: does not work: {}", remark(*state)),
            (true, true) | (false, false) => continue,
        };
        lines.push((text, record(name, state_name(*state))));
    }
    for name in before.keys() {
        if is_active(before, name) && !now.contains_key(name) {
            let text = format!("path {name}: does not work: its network went away");
            lines.push((text, record(name, "removed")));
        }
    }
    lines
}

fn record(path: &str, state: &str) -> Value {
    json!({ "event": "path", "path": path, "state": state })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::forward::status::tests::{association, widest};

    fn paths(states: &[(&str, PathState)]) -> Paths {
        states
            .iter()
            .map(|(name, state)| ((*name).to_owned(), *state))
            .collect()
    }

    fn texts(before: &Paths, now: &Paths) -> Vec<String> {
        changes(before, now).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn a_path_has_a_line_when_it_comes_and_when_it_goes() {
        let none = Paths::new();
        let unconfirmed = paths(&[("a", PathState::Active), ("b", PathState::Unconfirmed)]);
        let both = paths(&[("a", PathState::Active), ("b", PathState::Active)]);
        let failed = paths(&[("a", PathState::PotentiallyFailed), ("b", PathState::Active)]);
        let inactive = paths(&[("a", PathState::Inactive), ("b", PathState::Active)]);
        let one = paths(&[("a", PathState::Active)]);
        assert_eq!(texts(&none, &unconfirmed), ["path a: works"]);
        assert_eq!(texts(&unconfirmed, &both), ["path b: works"]);
        assert_eq!(texts(&both, &both), [""; 0]);
        assert_eq!(
            texts(&both, &failed),
            ["path a: does not work: no answer, tested again"]
        );
        assert_eq!(texts(&failed, &inactive), [""; 0]);
        assert_eq!(texts(&inactive, &both), ["path a: works"]);
        assert_eq!(
            texts(&both, &one),
            ["path b: does not work: its network went away"]
        );
        assert_eq!(texts(&unconfirmed, &one), [""; 0]);
        let (_, record) = changes(&both, &one).remove(0);
        assert_eq!(
            record,
            json!({ "event": "path", "path": "b", "state": "removed" })
        );
    }

    #[test]
    fn a_network_that_comes_back_is_found() {
        let mut returning = Returning::default();
        let mut look = |hosts: &[u8]| {
            let address = |host: &u8| IpAddr::from([192, 0, 2, *host]);
            returning.is_more(hosts.iter().map(address).collect())
        };
        assert!(!look(&[1]), "nothing is known of the time before");
        assert!(!look(&[1]));
        assert!(!look(&[]), "it went");
        assert!(look(&[1]), "it came back");
        assert!(look(&[1, 2]));
        assert!(!look(&[2]));
        assert!(look(&[3]), "another address in its place");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_interface_through_which_nothing_is_answered_has_a_line() {
        let mut view = widest(&association().await, &["192.0.2.9:9899"]);
        let local = IpAddr::from([192, 0, 2, 1]);
        let association = view.association.as_mut().expect("one");
        association.paths[0].local = Some(local);
        view.interfaces.insert(local, "wifi".to_owned());
        let names = ["wifi", "lte", "absent"].map(str::to_owned);
        let may_reach = |interface: &str, _| interface != "absent";
        let mut silent = Silent::default();
        let mut found = |view: &ClientView, later: bool| {
            if later {
                let seen = silent.without.0.values_mut().flatten();
                seen.for_each(|seen| *seen = seen.checked_sub(BEGINS).expect("a time"));
            }
            silent.found(&names, view, may_reach)
        };
        assert!(found(&view, false).is_empty(), "its path may begin");
        let (text, record) = found(&view, true).remove(0);
        assert!(
            text.starts_with("lte is up, but 192.0.2.9:9899 does not answer"),
            "{text}"
        );
        assert_eq!(record["interface"], "lte");
        assert!(found(&view, true).is_empty(), "once");
        let association = view.association.as_mut().expect("one");
        association.paths[0].state = PathState::Unconfirmed;
        assert!(found(&view, false).is_empty());
        assert_eq!(
            found(&view, true).len(),
            1,
            "a path that was never confirmed is none"
        );
    }
}
