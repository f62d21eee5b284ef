//! Experiments that users define in a TOML file: paths, traffic, variants, sweeps and metrics. The command runs them like the built-in
//! experiments.

mod definition;
mod file;
mod place;
mod simulation;
mod source;

use std::path::Path;
use std::sync::Arc;

use definition::{Changed, Definition, Flow};
pub use place::FileError;
use source::Pace;

use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter};
use crate::figure::{ECDF, Figure, FigureCurve};

/// The axis of an experiment without a sweep.
const NOTHING: &str = "sweep";

/// Keeps texts of a file until the program ends. An experiment needs them that long, and a command reads few files.
pub(crate) fn kept<T: ?Sized>(value: Box<T>) -> &'static T {
    Box::leak(value)
}

pub(crate) fn word(text: impl Into<String>) -> &'static str {
    kept(text.into().into_boxed_str())
}

/// The most curves of a figure.
const MOST_CURVES: usize = 12;

/// The experiment that a file describes. Files that it names are relative to `directory`. Its texts stay in memory until the program ends.
///
/// # Errors
/// The text is not TOML, or a key is missing, unknown or has an invalid value: the error names key and line.
pub fn experiment_from_toml(text: &str, directory: &Path) -> Result<Experiment, FileError> {
    let definition = Arc::new(Definition::read(text, directory)?);
    let (of_seeds, of_cells, of_figures) = (definition.clone(), definition.clone(), definition.clone());
    let axes: Arc<[&'static str]> = match definition.sweeps.as_slice() {
        [] => [NOTHING].into(),
        sweeps => sweeps.iter().map(|sweep| word(sweep.axis.clone())).collect(),
    };
    let axes_of_figures = axes.clone();
    let metrics: Vec<Metric> = metrics(&definition);
    let drawn: Vec<Metric> = metrics.iter().copied().filter(|metric| metric.is_shown).collect();
    Ok(Experiment {
        name: word(definition.name.clone()),
        question: word(definition.question.clone()),
        source: "a user's file",
        parameters: kept(parameters(&definition).into()),
        knobs: &[],
        metrics: kept(metrics.into()),
        seeds: kept(Box::new(move |extent| match extent {
            Extent::Quick | Extent::Short => of_seeds.seeds.min(3),
            Extent::Full => of_seeds.seeds,
        })),
        cells: kept(Box::new(move |extent| cells(&of_cells, &axes, extent))),
        claims: &Vec::new,
        figures: kept(Box::new(move || figures(&of_figures, &axes_of_figures, &drawn))),
        timelines: &Vec::new,
    })
}

fn metrics(definition: &Definition) -> Vec<Metric> {
    let metrics = definition.all_metrics().into_iter();
    let metric = |(name, unit, about): (String, &'static str, String)| Metric {
        is_shown: match &definition.metrics {
            Some(shown) => shown.contains(&name),
            None => !definition.is_percentile(&name),
        },
        name: word(name),
        unit,
        about: word(about),
    };
    metrics.map(metric).collect()
}

fn parameters(definition: &Definition) -> Vec<Parameter> {
    let parameter = |name: String, value: String| Parameter {
        name: word(name),
        value: word(value),
        from_paper: false,
    };
    let paths = definition.paths.iter().enumerate().map(|(number, path)| {
        let through = path.through.map(|place| &definition.bottlenecks[place].name);
        let through = through.map_or_else(String::new, |name| format!("; through {name}"));
        parameter(
            format!("path {}", number + 1),
            format!(
                "data {}; acknowledgements {}{through}",
                path.links.there, path.links.back
            ),
        )
    });
    let shared = definition.bottlenecks.iter().map(|shared| {
        let value = format!(
            "data {}; acknowledgements {}",
            shared.links.there, shared.links.back
        );
        parameter(format!("bottleneck {}", shared.name), value)
    });
    let changes = definition.changes.iter().map(|change| {
        let of = match change.of {
            Changed::Path(path) => format!("path {}", path + 1),
            Changed::Bottleneck(place) => format!("bottleneck {}", definition.bottlenecks[place].name),
        };
        let side =
            |name: &str, settings: &Option<String>| settings.as_ref().map(|link| format!("{name} {link}"));
        let sides = [
            side("data", &change.there),
            side("acknowledgements", &change.back),
        ];
        let sides: Vec<String> = sides.into_iter().flatten().collect();
        parameter(
            format!("from {} s on", change.at.as_secs_f64()),
            format!("{of}: {}", sides.join("; ")),
        )
    });
    let traffic = definition.traffic.iter().enumerate();
    let traffic = traffic.map(|(stream, flow)| parameter(flow.name.clone(), told(stream, flow)));
    let tcp = definition.tcp.map(|tcp| {
        let congestion = if tcp.is_cubic { "CUBIC" } else { "Reno" };
        let value = format!(
            "{} greedy flows in the direction of the data, {congestion}",
            tcp.flows
        );
        parameter("TCP cross traffic".to_owned(), value)
    });
    paths
        .chain(shared)
        .chain(changes)
        .chain(traffic)
        .chain(tcp)
        .collect()
}

/// A flow in one sentence.
fn told(stream: usize, flow: &Flow) -> String {
    let millis = |time: &std::time::Duration| time.as_secs_f64() * 1e3;
    let messages = match &flow.pace {
        Pace::Every(every) => format!("{} B every {} ms", flow.bytes, millis(every)),
        Pace::Poisson(mean) => format!("{} B, Poisson, every {} ms on average", flow.bytes, millis(mean)),
        Pace::Trace(messages) => format!("a trace of {} messages", messages.len()),
        Pace::Backlog(bytes) => format!("{} B while less than {bytes} B wait", flow.bytes),
    };
    let direction = if flow.reverse { ", reverse" } else { "" };
    format!("stream {stream}{direction}: {messages}, {:?}", flow.reliability)
}

/// All combinations of the sweeps' values, the last sweep changing fastest.
fn combinations(definition: &Definition) -> Vec<Vec<String>> {
    let longer = |all: Vec<Vec<String>>, values: &[String]| -> Vec<Vec<String>> {
        let with = |head: &Vec<String>, value: &String| {
            let head = head.iter().cloned();
            head.chain([value.clone()]).collect()
        };
        all.iter()
            .flat_map(|head| values.iter().map(move |value| with(head, value)))
            .collect()
    };
    definition
        .sweeps
        .iter()
        .fold(vec![Vec::new()], |all, sweep| longer(all, &sweep.values))
}

fn cells(definition: &Arc<Definition>, axes: &[&'static str], extent: Extent) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (variant, about) in definition.variants.iter().enumerate() {
        for values in combinations(definition) {
            let places = match values.as_slice() {
                [] => vec!["none".to_owned()],
                values => values.to_vec(),
            };
            let swept = axes.iter().copied().zip(places);
            let coordinates = std::iter::once(("variant", about.name.clone())).chain(swept);
            let definition = definition.clone();
            cells.push(Cell::new(coordinates.collect(), move |trial| {
                simulation::simulate(&definition, variant, &values, extent, trial)
            }));
        }
    }
    cells
}

/// A figure for each metric: over the first sweep, with a curve for each variant and each combination of the other sweeps' values; without a
/// sweep over the variants.
fn figures(definition: &Definition, axes: &[&'static str], metrics: &[Metric]) -> Vec<Figure> {
    let x = if definition.sweeps.is_empty() {
        "variant"
    } else {
        axes[0]
    };
    let figure = |metric: &Metric| Figure {
        name: metric.name,
        title: metric.about,
        paper: "",
        x: (x, x),
        y: match metric.unit {
            "" => (metric.name, metric.name),
            unit => (metric.name, word(format!("{} [{unit}]", metric.name))),
        },
        logarithmic: false,
        curves: curves(definition, axes),
    };
    let of_metrics = metrics.iter().map(figure);
    of_metrics.chain(distributions(definition, axes)).collect()
}

/// For each flow the distribution of the delay, with a curve for each cell.
fn distributions(definition: &Definition, axes: &[&'static str]) -> Vec<Figure> {
    let cells = definition.variants.iter().flat_map(|variant| {
        combinations(definition).into_iter().map(|values| {
            let mut name = variant.name.clone();
            let mut at = vec![("variant", word(variant.name.clone()))];
            for (axis, value) in axes.iter().copied().zip(values) {
                name = format!("{name}, {axis} {value}");
                at.push((axis, word(value)));
            }
            FigureCurve {
                name: word(name),
                at,
                paper: &[],
            }
        })
    });
    let curves: Vec<FigureCurve> = cells.take(MOST_CURVES).collect();
    let figure = |flow: &Flow| Figure {
        name: word(format!("{}_delay_ecdf", flow.name)),
        title: word(format!(
            "{}: distribution of the delay of delivered messages",
            flow.name
        )),
        paper: "",
        x: (ECDF, "delay [s]"),
        y: (word(definition::delay_of(&flow.name)), "share of the messages"),
        logarithmic: false,
        curves: curves.clone(),
    };
    definition.traffic.iter().map(figure).collect()
}

fn curves(definition: &Definition, axes: &[&'static str]) -> Vec<FigureCurve> {
    let Some((_, others)) = axes.split_first().filter(|_| !definition.sweeps.is_empty()) else {
        return vec![FigureCurve {
            name: "all",
            at: vec![(NOTHING, "none")],
            paper: &[],
        }];
    };
    let mut rest: Vec<Vec<String>> = combinations(definition);
    rest.iter_mut().for_each(|values| drop(values.remove(0)));
    rest.truncate(rest.len() / definition.sweeps[0].values.len());
    let curve = |variant: &definition::Variant, values: &Vec<String>| {
        let mut name = variant.name.clone();
        let mut at = vec![("variant", word(variant.name.clone()))];
        for (axis, value) in others.iter().zip(values) {
            name = format!("{name}, {axis} {value}");
            at.push((axis, word(value.clone())));
        }
        FigureCurve {
            name: word(name),
            at,
            paper: &[],
        }
    };
    let curves = definition
        .variants
        .iter()
        .flat_map(|variant| rest.iter().map(move |values| curve(variant, values)));
    curves.take(MOST_CURVES).collect()
}

#[cfg(test)]
mod tests;
