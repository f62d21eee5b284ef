//! Valid files run, and the errors of invalid files name key and line.

use super::*;
use crate::trial::{Knobs, Trial};

const EXAMPLES: [&str; 4] = [
    include_str!("../../../../examples/lab/voice-uplink.toml"),
    include_str!("../../../../examples/lab/two-paths.toml"),
    include_str!("../../../../examples/lab/shared-access.toml"),
    include_str!("../../../../examples/lab/mobile-and-wifi.toml"),
];

/// The directory of the examples' traces.
fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lab"))
}

fn read(text: &str) -> Result<Experiment, FileError> {
    experiment_from_toml(text, directory())
}

fn number(experiment: &Experiment, numbers: &[f64], metric: &str) -> f64 {
    let place = experiment.metrics.iter().position(|known| known.name == metric);
    numbers[place.unwrap_or_else(|| panic!("no metric {metric}"))]
}

/// The numbers of a run of one cell.
fn run(experiment: &Experiment, places: &[(&str, &str)], seed: u64) -> Vec<f64> {
    let cells = (experiment.cells)(Extent::Quick);
    let cell = cells.iter().find(|cell| cell.lies_at(places));
    cell.unwrap().run(&Trial::new(seed, &Knobs::default())).unwrap()
}

#[test]
fn the_examples_run() {
    let page = include_str!("../../../../docs/how-to/your-own-experiment.md");
    let in_page = page
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    for text in EXAMPLES.into_iter().chain([in_page.unwrap()]) {
        let experiment = read(text).unwrap();
        let cells = (experiment.cells)(Extent::Quick);
        assert!(cells.len() >= 2, "{}", experiment.name);
        let names: Vec<&str> = experiment.metrics.iter().map(|metric| metric.name).collect();
        let coordinates: Vec<_> = cells.iter().map(Cell::coordinates).collect();
        for figure in (experiment.figures)() {
            assert_eq!(figure.fault(&coordinates, &names), None, "{}", experiment.name);
        }
        let numbers = run(&experiment, &[], 1);
        assert_eq!(numbers.len(), names.len());
        for delivered in names.iter().filter(|name| name.ends_with("_delivered")) {
            let share = number(&experiment, &numbers, delivered);
            assert!(share > 0.5, "{}: {delivered} {share}", experiment.name);
        }
    }
}

/// Each flow has a picture of the distribution of its delay, with rising percentiles.
#[test]
fn the_distribution_of_the_delay_is_drawn() {
    let experiment = read(EXAMPLES[0]).unwrap();
    let numbers = run(&experiment, &[("variant", "plain"), ("loss", "3%")], 1);
    let names = crate::figure::PERCENTILES.map(|p| crate::figure::percentile_metric("voice_delay", p));
    let percentiles = names.map(|name| number(&experiment, &numbers, &name));
    assert!(
        percentiles.is_sorted() && percentiles[0] < percentiles[10],
        "{percentiles:?}"
    );
    assert_eq!(percentiles[9], number(&experiment, &numbers, "voice_delay_95"));
    let figures = (experiment.figures)();
    let ecdf = figures
        .iter()
        .find(|figure| figure.name == "voice_delay_ecdf")
        .unwrap();
    assert_eq!(ecdf.curves.len(), 4 * 3);
}

/// TCP fills the bottleneck, the trace gives the frames' bytes, and each sweep reaches the runs.
#[test]
fn tcp_a_trace_a_poisson_process_and_reverse_traffic_reach_the_run() {
    let experiment = read(EXAMPLES[2]).unwrap();
    assert_eq!((experiment.cells)(Extent::Quick).len(), 2 * 2 * 2);
    let at = |queue: &str, loss: &str| {
        let places = [("variant", "plain"), ("queue", queue), ("loss", loss)];
        run(&experiment, &places, 1)
    };
    let (short, long, lossy) = (at("32kib", "0%"), at("128kib", "0%"), at("32kib", "1%"));
    let of = |numbers: &[f64], metric: &str| number(&experiment, numbers, metric);
    assert!(of(&short, "tcp_goodput") > 6.0, "{short:?}");
    assert!(
        of(&lossy, "tcp_goodput") < 0.9 * of(&short, "tcp_goodput"),
        "{lossy:?}"
    );
    assert!(of(&long, "frames_delay") > of(&short, "frames_delay"), "{long:?}");
    // 25 frames a second of about 1,200 bytes; a Poisson process of 20 messages of 100 bytes; 50 replies of 160 bytes.
    assert!((0.2..0.3).contains(&of(&short, "frames_goodput")), "{short:?}");
    assert!((0.012..0.020).contains(&of(&short, "meter_goodput")), "{short:?}");
    assert!((0.062..0.066).contains(&of(&short, "reply_goodput")), "{short:?}");
    let again = at("32kib", "0%");
    assert_eq!(short, again, "equal seeds give equal numbers");
}

/// The runs of the variants with CMT and with ECA differ.
#[test]
fn a_variant_chooses_between_cmt_and_eca() {
    let text = EXAMPLES[1].replacen("multipath = true", "multipath = \"eca\"", 1);
    let retransmissions = |text: &str| {
        let experiment = read(text).unwrap();
        let numbers = run(&experiment, &[("variant", "both"), ("delay", "100ms")], 1);
        number(&experiment, &numbers, "frames_delay")
    };
    assert_ne!(retransmissions(&text), retransmissions(EXAMPLES[1]));
    assert_eq!(
        retransmissions(EXAMPLES[1]),
        retransmissions(&EXAMPLES[1].replace("multipath = true", "multipath = \"cmt\""))
    );
}

/// The sweep and the variants' settings reach the runs.
#[test]
fn variants_and_the_sweep_differ() {
    let experiment = read(EXAMPLES[0]).unwrap();
    let run = |variant: &str, loss: &str, metric: &str| {
        let numbers = run(&experiment, &[("variant", variant), ("loss", loss)], 1);
        number(&experiment, &numbers, metric)
    };
    assert!(run("plain", "0%", "upload_goodput") > 1.1 * run("plain", "3%", "upload_goodput"));
    assert!(run("urgent", "3%", "voice_in_time") > run("plain", "3%", "voice_in_time") + 0.5);
}

/// A bottleneck that two paths share carries what it can, whatever the paths could, and a trace sets the rate of a link.
#[test]
fn bottlenecks_traces_and_changes_reach_the_run() {
    let file = std::env::temp_dir().join(format!("anabranch-rate-{}", std::process::id()));
    // 1,500 bytes each 6 ms: 2 Mbit/s.
    std::fs::write(&file, "6\n").unwrap();
    let links = |first: &str, more: &str| {
        let text = format!(
            "name = \"mine\"\nseconds = 20\n[[paths]]\n{first}\n{more}\n[[traffic]]\nname = \"file\"\nbytes = 16384\nbacklog = \"64kib\"\n\
             [[traffic]]\nname = \"voice\"\nbytes = 160\nevery = \"20ms\"\n[[variants]]\nname = \"plain\"\nmultipath = true\n"
        );
        let experiment = read(&text).unwrap();
        let numbers = run(&experiment, &[], 1);
        number(&experiment, &numbers, "file_goodput")
    };
    let queue = "delay=10ms,queue=50p";
    let own = |rate: &str| format!("there = \"{rate},{queue}\"");
    let apart = links(&own("rate=2mbit"), &format!("[[paths]]\n{}", own("rate=2mbit")));
    let shared = format!("[[bottlenecks]]\nname = \"one\"\nthere = \"rate=2mbit,{queue}\"");
    let through = |rate: &str| format!("{}\nthrough = \"one\"", own(rate));
    let together = links(
        &through("rate=10mbit"),
        &format!("[[paths]]\n{}\n{shared}", through("rate=10mbit")),
    );
    assert!((3.2..3.9).contains(&apart), "{apart}");
    assert!((1.5..1.9).contains(&together), "{together}");
    let traced = links(&own(&format!("trace={}", file.display())), "");
    assert!((1.5..1.9).contains(&traced), "{traced}");
    std::fs::remove_file(file).unwrap();
    let slower = "[[changes]]\nat = \"10s\"\nthere = \"rate=1mbit\"";
    let changed = links(&own("rate=2mbit"), slower);
    assert!((1.2..1.45).contains(&changed), "{changed}: three quarters");
    let other = "[[changes]]\nat = \"10s\"\nbottleneck = \"one\"\nthere = \"rate=1mbit\"";
    let changed = links(&through("rate=10mbit"), &format!("{shared}\n{other}"));
    let tcp = "[tcp]\nflows = 1\nthrough = \"one\"";
    let beside = links(&through("rate=10mbit"), &format!("{shared}\n{tcp}"));
    assert!((0.3..1.4).contains(&beside), "{beside}: TCP has its share");
    assert!(
        (1.2..1.45).contains(&changed),
        "{changed}: three quarters of the bottleneck"
    );
}

/// Losses cost less with RACK and BBR, and a small send buffer costs goodput.
#[test]
fn recovery_congestion_control_and_the_send_buffer_reach_the_run() {
    let goodput = |variant: &str| {
        let text = format!(
            "name = \"mine\"\nseconds = 20\n[[paths]]\nthere = \"rate=8mbit,delay=50ms,queue=100p,loss=1%\"\n[[traffic]]\nname = \"file\"\n\
             bytes = 16384\nbacklog = \"64kib\"\n[[traffic]]\nname = \"voice\"\nbytes = 160\nevery = \"20ms\"\n\
             [[variants]]\nname = \"one\"\n{variant}\n"
        );
        let experiment = read(&text).unwrap();
        number(&experiment, &run(&experiment, &[], 1), "file_goodput")
    };
    let usual = goodput("");
    let rack = "recovery = \"rack\"";
    let bbr = goodput(&format!("{rack}\ncongestion = \"bbr-tolerant\""));
    assert!(bbr > 1.5 * usual, "{bbr}, {usual}");
    let cubic = goodput(&format!("{rack}\ncongestion = \"cubic\""));
    assert_ne!(cubic, usual);
    let small = goodput(&format!(
        "{rack}\ncongestion = \"bbr-tolerant\"\nsend_buffer = \"16kib\""
    ));
    assert!(small < 0.8 * bbr, "{small}, {bbr}");
}

/// Copies arrive in time for messages whose retransmission would be late.
#[test]
fn early_copies_reach_the_run() {
    let in_time = |variant: &str| {
        let text = format!(
            "name = \"mine\"\nseconds = 20\n[[paths]]\nthere = \"rate=8mbit,delay=40ms,loss=5%\"\n[[traffic]]\nname = \"voice\"\nbytes = 160\n\
             every = \"20ms\"\nunordered = true\ndeadline = \"90ms\"\nearly_copies = 2\n[[variants]]\nname = \"one\"\nrecovery = \"rack\"\n{variant}\n"
        );
        let experiment = read(&text).unwrap();
        number(&experiment, &run(&experiment, &[], 1), "voice_in_time")
    };
    let (without, with) = (in_time(""), in_time("early_copies = true"));
    assert!(without < 0.97 && with > 0.99, "{without}, {with}");
}

const GOOD: &str = "name = \"mine\"\n[[paths]]\nthere = \"rate=1mbit\"\n[[traffic]]\nname = \"voice\"\nbytes = 160\nevery = \"20ms\"\n\
                    [[variants]]\nname = \"plain\"\n";

#[test]
fn errors_name_key_and_line() {
    assert!(read(GOOD).is_ok());
    let told = |from: &str, to: &str| {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        read(&text).unwrap_err().to_string()
    };
    let mut others = Vec::new();
    for (from, to, expected) in [
        ("name = \"mine\"\n", "", "line 1: missing key `name`"),
        (
            "mine",
            "My own",
            "line 1: name: invalid value: string \"My own\", expected lower-case",
        ),
        ("rate=1mbit", "rate=fast", "line 3: paths.there: not a link: "),
        (
            "there =",
            "ther =",
            "line 3: paths.ther: unknown key `ther`; did you mean \"there\"? known keys: there, back, through",
        ),
        (
            "there = \"rate=1mbit\"\n",
            "",
            "line 2: paths: missing key `there`",
        ),
        (
            "bytes = 160",
            "bytes = 0",
            "line 6: traffic.bytes: invalid value: integer `0`, expected a whole number from 1 to 65536",
        ),
        (
            "every = \"20ms\"",
            "every = \"soon\"",
            "line 7: traffic.every: invalid value: string \"soon\", expected a time",
        ),
        (
            "every = \"20ms\"",
            "",
            "line 4: traffic: give exactly one of the keys `every`",
        ),
        (
            "every = \"20ms\"",
            "backlog = \"64kib\"",
            "line 1: traffic must have a flow with `every`",
        ),
        (
            "every =",
            "reverse = true\nevery =",
            "line 1: traffic must have a flow with `every`",
        ),
        (
            "every = \"20ms\"",
            "trace = \"missing.csv\"",
            "line 7: traffic.trace: cannot read ",
        ),
        (
            "every =",
            "colour = 1\nevery =",
            "line 7: traffic.colour: unknown key `colour`; known keys: name, bytes, every, poisson",
        ),
        (
            "[[variants]]\nname = \"plain\"\n",
            "",
            "line 1: missing key `variants`",
        ),
        (
            "\"plain\"",
            "\"plain\"\nexpiry = 1",
            "line 10: variants.expiry: invalid type: integer `1`, expected a boolean",
        ),
        (
            "\"plain\"",
            "\"plain\"\nmultipath = \"ecu\"",
            "line 10: variants.multipath: invalid value: string \"ecu\", expected true, false, \"cmt\" or \"eca\"",
        ),
        (
            "\"plain\"",
            "\"plain\"\nscheduler = \"fare\"",
            "line 10: variants.scheduler: unknown variant `fare`, expected one of `fcfs`",
        ),
        (
            "\"plain\"",
            "\"plain\"\nlow_priority_delay = \"9ms\"",
            "line 8: variants: \"plain\": low_priority_delay needs",
        ),
        (
            "[[paths]]",
            "metrics = [\"voice_dely\"]\n[[paths]]",
            "line 2: metrics: there is no metric \"voice_dely\"; did you mean \"voice_delay\"? there are: voice_delivered",
        ),
        (
            "[[paths]]",
            "[tcp]\nflows = 0\n[[paths]]",
            "line 3: tcp.flows: invalid value: integer `0`, expected a whole number from 1 to 64",
        ),
        (
            "[[paths]]",
            "[tcp]\nflows = 1\n[[paths]]\nthere = \"rate=1mbit\"\n[[paths]]",
            "line 2: tcp: TCP flows share one link",
        ),
        (
            "[[paths]]",
            "[sweep]\nlink = \"loss\"\nvalues = [\"lots\"]\n[[paths]]",
            "line 4: sweep.values: \"lots\" for \"loss\": ",
        ),
        (
            "[[paths]]",
            "[sweep]\nlink = \"loss\"\nvalues = []\n[[paths]]",
            "line 4: sweep.values: give at least one value",
        ),
        (
            "[[paths]]",
            "[[sweep]]\nlink = \"loss\"\nvalues = [\"1%\"]\n[[sweep]]\nlink = \"loss\"\nvalues = [\"2%\"]\n[[paths]]",
            "line 6: sweep.link: two sweeps of \"loss\" need different paths",
        ),
        (
            "[[paths]]",
            "[paths]",
            "line 2: paths: invalid type: map, expected a sequence",
        ),
        ("bytes = 160", "bytes = = 160", "line 6: "),
        (
            "rate=1mbit",
            "trace=missing.up",
            "line 3: paths.there: not a link: link: trace cannot be ",
        ),
        (
            "rate=1mbit\"",
            "rate=1mbit\"\nthrough = \"cell\"",
            "line 4: paths.through: there is no bottleneck \"cell\" in [[bottlenecks]]",
        ),
        (
            "[[traffic]]",
            "[[changes]]\nat = \"1s\"\n[[traffic]]",
            "line 4: changes: give the settings that change",
        ),
        (
            "[[traffic]]",
            "[[changes]]\nat = \"1s\"\npath = 2\nthere = \"loss=1%\"\n[[traffic]]",
            "line 6: changes.path: there are only 1 paths",
        ),
        (
            "\"plain\"",
            "\"plain\"\nearly_copies = true",
            "line 8: variants: \"plain\": early copies need recovery",
        ),
        (
            "\"plain\"",
            "\"plain\"\nmultipath = true\ncongestion = \"bbr\"\ncoupling = \"lia\"",
            "line 8: variants: \"plain\": multipath.congestion must be Grouped or Uncoupled",
        ),
    ] {
        let told = told(from, to);
        if !told.starts_with(expected) {
            others.push(format!("{told}\nexpected: {expected}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
}

#[test]
fn a_trace_has_rows_in_order_of_time() {
    let file = std::env::temp_dir().join(format!("anabranch-trace-{}.csv", std::process::id()));
    let trace = |text: &str| {
        std::fs::write(&file, text).unwrap();
        source::read_trace(&file)
    };
    let millis = std::time::Duration::from_millis;
    assert_eq!(
        trace("seconds,bytes\n0.5,10\n1,65536\n"),
        Ok(vec![(millis(500), 10), (millis(1000), 65_536)])
    );
    assert_eq!(
        trace("1e-3,10\n20ms, 1KiB\n1m30s,2"),
        Ok(vec![(millis(1), 10), (millis(20), 1024), (millis(90_000), 2)])
    );
    for (text, expected) in [
        ("", "has no messages"),
        ("1,10\n0.5,10\n", "line 2: the time is before"),
        ("0,0\n", "line 1: give SECONDS,BYTES"),
        ("20Ms,1k\n", "line 1: give SECONDS,BYTES"),
        ("-1,10\n", "line 1: give SECONDS,BYTES"),
        ("nan,10\n1;10\n", "line 2: give SECONDS,BYTES"),
    ] {
        let error = trace(text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    std::fs::remove_file(file).unwrap();
}
