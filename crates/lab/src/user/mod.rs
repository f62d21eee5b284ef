//! Experiments that users define in a TOML file: paths, traffic, variants, a sweep and metrics. The command runs them like the built-in
//! experiments.

mod definition;
mod section;
mod simulation;

use std::sync::Arc;

use definition::Definition;
pub use section::FileError;

use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter};
use crate::figure::{Figure, FigureCurve};

/// The axis of an experiment without a sweep.
const NOTHING: &str = "sweep";

/// Keeps texts of a file until the program ends. An experiment needs them that long, and a command reads few files.
pub(crate) fn kept<T: ?Sized>(value: Box<T>) -> &'static T {
    Box::leak(value)
}

pub(crate) fn word(text: impl Into<String>) -> &'static str {
    kept(text.into().into_boxed_str())
}

/// The experiment that a file describes. Its texts stay in memory until the program ends.
///
/// # Errors
/// The text is not TOML, or a key is missing, unknown or has an invalid value: the error names key and line.
pub fn experiment_from_toml(text: &str) -> Result<Experiment, FileError> {
    let definition = Arc::new(Definition::read(text)?);
    let (of_seeds, of_cells, of_figures) = (definition.clone(), definition.clone(), definition.clone());
    let axis = word(definition.sweep.as_ref().map_or(NOTHING, |sweep| &sweep.key));
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
        cells: kept(Box::new(move |extent| cells(&of_cells, axis, extent))),
        claims: &Vec::new,
        figures: kept(Box::new(move || figures(&of_figures, axis, &drawn))),
    })
}

fn metrics(definition: &Definition) -> Vec<Metric> {
    let metrics = definition.all_metrics().into_iter();
    let metric = |(name, unit, about): (String, &'static str, String)| Metric {
        is_shown: definition
            .metrics
            .as_ref()
            .is_none_or(|shown| shown.contains(&name)),
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
    let paths = definition
        .paths
        .iter()
        .enumerate()
        .map(|(number, (there, back))| {
            parameter(
                format!("path {}", number + 1),
                format!("data {there}; acknowledgements {back}"),
            )
        });
    let traffic = definition.traffic.iter().enumerate().map(|(stream, flow)| {
        let pace = match flow.every {
            Ok(every) => format!("every {} ms", every.as_secs_f64() * 1e3),
            Err(backlog) => format!("while less than {backlog} B wait"),
        };
        let value = format!("stream {stream}: {} B {pace}, {:?}", flow.bytes, flow.reliability);
        parameter(flow.name.clone(), value)
    });
    paths.chain(traffic).collect()
}

fn cells(definition: &Arc<Definition>, axis: &'static str, extent: Extent) -> Vec<Cell> {
    let values: Vec<Option<String>> = match &definition.sweep {
        Some(sweep) => sweep.values.iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    let mut cells = Vec::new();
    for (variant, about) in definition.variants.iter().enumerate() {
        for value in &values {
            let place = value.as_deref().unwrap_or("none");
            let coordinates = vec![("variant", about.name.clone()), (axis, place.to_owned())];
            let (definition, value) = (definition.clone(), value.clone());
            cells.push(Cell::new(coordinates, move |trial| {
                simulation::simulate(&definition, variant, value.as_deref(), extent, trial)
            }));
        }
    }
    cells
}

/// A figure for each metric: over the sweep with a curve for each variant, or else over the variants.
fn figures(definition: &Definition, axis: &'static str, metrics: &[Metric]) -> Vec<Figure> {
    let curves = || match definition.sweep {
        None => vec![FigureCurve {
            name: "all",
            at: vec![(axis, "none")],
            paper: &[],
        }],
        Some(_) => definition
            .variants
            .iter()
            .map(|variant| {
                let name = word(variant.name.clone());
                FigureCurve {
                    name,
                    at: vec![("variant", name)],
                    paper: &[],
                }
            })
            .collect(),
    };
    let x = if definition.sweep.is_some() {
        axis
    } else {
        "variant"
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
        curves: curves(),
    };
    metrics.iter().map(figure).collect()
}

#[cfg(test)]
mod tests;
