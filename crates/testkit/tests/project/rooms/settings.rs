//! The settings of `Config`: how many an application has, and that there is one way to set each.

use super::source::{groups, method_names};
use super::{Source, of_the_product, proto};

/// The most settings without the feature `experiments`. A new setting for applications needs a reason, in the issue that adds it.
const MOST: usize = 36;

/// The settings without the feature `experiments`, in the order of the source. An enum counts as one setting, whatever its variants have.
const OF_APPLICATIONS: [&str; 36] = [
    "rto.initial",
    "rto.min",
    "rto.max",
    "retransmissions.association_max_retrans",
    "retransmissions.path_max_retrans",
    "retransmissions.failover",
    "retransmissions.max_init_retransmits",
    "heartbeat.interval",
    "sack.delay",
    "streams.outbound",
    "streams.max_inbound",
    "buffers.receive",
    "buffers.send",
    "buffers.growth",
    "buffers.max_message",
    "congestion_control",
    "initial_window",
    "path_mtu_limit",
    "lower_layer",
    "no_delay",
    "scheduler",
    "low_priority_delay",
    "late_per_million",
    "local_addresses",
    "path_pairs",
    "multipath.mode",
    "multipath.congestion",
    "shutdown_guard",
    "idle_timeout",
    "interleaving.offer",
    "ecn",
    "dscp",
    "authentication.keys",
    "authentication.chunks",
    "dynamic_addresses.form",
    "adaptation_layer",
];

/// The fields of `Config` and of its groups, with the names of the groups before them: those of applications, and those for
/// experiments.
fn settings(sources: &[Source]) -> [Vec<String>; 2] {
    let files = of_the_product(sources).filter(|(file, _)| file.starts_with("config"));
    let groups: Vec<_> = files.flat_map(|(_, text)| groups(text)).collect();
    let mut found = [Vec::new(), Vec::new()];
    let mut waiting = vec![("Config", String::new(), false)];
    while let Some((name, before, hidden)) = waiting.pop() {
        let group = groups.iter().find(|group| group.name == name);
        let group = group.unwrap_or_else(|| panic!("no file of config defines the group {name}"));
        let mut inner = Vec::new();
        for field in &group.fields {
            let (path, hidden) = (format!("{before}{}", field.name), hidden || field.for_experiments);
            match field.types.iter().find(|word| word.ends_with("Config")) {
                Some(group) => inner.push((*group, format!("{path}."), hidden)),
                None => found[usize::from(hidden)].push(path),
            }
        }
        waiting.extend(inner);
    }
    found
}

#[test]
fn applications_have_few_settings() {
    let [mut ours, experiments] = settings(&proto());
    let (count, hidden) = (ours.len(), experiments.len());
    println!("{count} settings: {ours:#?}\n{hidden} for experiments: {experiments:#?}");
    assert!(
        count <= MOST,
        "{count} settings without `experiments`, {MOST} are allowed"
    );
    ours.sort();
    let mut listed = OF_APPLICATIONS.map(str::to_owned);
    listed.sort();
    assert_eq!(ours, listed, "the source, and the list of this test");
}

#[test]
fn a_field_is_the_one_way_to_set_something() {
    let sources = proto();
    let files: Vec<_> = of_the_product(&sources)
        .filter(|(file, _)| file.starts_with("config"))
        .collect();
    let groups: Vec<_> = files.iter().flat_map(|(_, text)| groups(text)).collect();
    let configs = groups.iter().filter(|group| group.name.ends_with("Config"));
    for group in configs {
        for (file, text) in &files {
            let methods = method_names(group.name, text);
            let both = group.fields.iter().find(|field| methods.contains(&field.name));
            let both = both.map(|field| field.name);
            assert_eq!(both, None, "{file}: a field of {} and a method", group.name);
        }
    }
}
