//! The output of the laboratory: experiments, numbers and verdicts, as text or as JSON.

use std::path::{Path, PathBuf};

use anabranch_lab::stage::{SideBySide, business, side_by_side};
use anabranch_lab::{Experiment, Extent, Judgement, Metric, Results, Tally, Verdict};
use serde_json::{Map, Value, json};

use crate::output::Output;
use crate::table::{Group, Table};

/// Number of metrics in one table, so that the table fits a terminal.
const COLUMNS: usize = 5;

/// Lists the experiments.
pub(super) fn list(output: Output, experiments: &[Experiment]) {
    for experiment in experiments {
        let text = format!(
            "{}\n  {}\n  after {}\n",
            experiment.name, experiment.question, experiment.source
        );
        let mut text = text;
        for knob in experiment.knobs {
            let unit = if knob.unit.is_empty() {
                String::new()
            } else {
                format!(" [{}]", knob.unit)
            };
            text.push_str(&format!(
                "  --set {}={}{unit}: {}\n",
                knob.name, knob.usual, knob.about
            ));
        }
        let knobs: Vec<Value> = experiment
            .knobs
            .iter()
            .map(|knob| {
                json!({
                    "name": knob.name, "unit": knob.unit, "about": knob.about, "usual": knob.usual,
                    "least": knob.range.0, "most": knob.range.1,
                    // The standard terms; the names above are kept for programs that read them.
                    "default": knob.usual, "min": knob.range.0, "max": knob.range.1,
                })
            })
            .collect();
        let parameters: Vec<Value> = experiment
            .parameters
            .iter()
            .map(|parameter| {
                json!({ "name": parameter.name, "value": parameter.value, "from_paper": parameter.from_paper })
            })
            .collect();
        let record = json!({
            "event": "experiment", "name": experiment.name, "question": experiment.question,
            "source": experiment.source, "parameters": parameters, "settings": knobs,
            "cells": (experiment.cells)(Extent::Full).len(), "seeds": (experiment.seeds)(Extent::Full),
        });
        output.fact(text.trim_end(), &record);
    }
}

/// The question and the conditions.
fn heading(experiment: &Experiment, results: &Results) -> String {
    let mut text = format!(
        "\n{}: {}\nafter {}; {} setting, {} seeds, version {}\n",
        experiment.name,
        experiment.question,
        experiment.source,
        results.conditions.extent.name(),
        results.seeds.len(),
        results.conditions.version,
    );
    if !results.conditions.knobs.is_empty() {
        text.push_str(&format!("  changed settings: {}\n", results.conditions.knobs));
    }
    for parameter in experiment.parameters {
        let source = if parameter.from_paper {
            ""
        } else {
            " (our choice: the paper does not say)"
        };
        text.push_str(&format!("  {}: {}{source}\n", parameter.name, parameter.value));
    }
    text
}

/// The numbers: tables with a row for each cell.
pub(super) fn results(output: Output, experiment: &Experiment, results: &Results) {
    let mut text = heading(experiment, results);
    let shown: Vec<&Metric> = experiment
        .metrics
        .iter()
        .filter(|metric| metric.is_shown)
        .collect();
    for metrics in shown.chunks(COLUMNS) {
        text.push('\n');
        for metric in metrics {
            let unit = if metric.unit.is_empty() {
                String::new()
            } else {
                format!(" [{}]", metric.unit)
            };
            text.push_str(&format!("  {}{unit}: {}\n", metric.name, metric.about));
        }
        text.push_str(&format!("\n{}\n", table(metrics, results).render()));
    }
    let compared = side_by_side(results);
    if !compared.is_empty() {
        let business = business(results).unwrap_or_default();
        text.push_str(&format!("\n{}\n\n{business}\n", comparison(&compared)));
    }
    let mut record = results.to_json();
    record["event"] = json!("results");
    if !compared.is_empty() {
        record["side_by_side"] = compared.iter().map(SideBySide::to_json).collect();
        let parameters = experiment.parameters.iter();
        record["parameters"] = parameters
            .map(|one| (one.name.to_owned(), json!(one.value)))
            .collect();
    }
    output.fact(text.trim_end(), &record);
}

fn table(metrics: &[&Metric], results: &Results) -> Table {
    let axes = results.cells.first().map(|cell| &cell.coordinates[..]);
    let axes: Vec<&str> = axes.unwrap_or_default().iter().map(|(axis, _)| *axis).collect();
    let group = Group {
        title: String::new(),
        columns: metrics.iter().map(|metric| metric.name.to_owned()).collect(),
    };
    let mut table = Table::new(&axes.join(", "), vec![group]);
    for cell in &results.cells {
        let places: Vec<&str> = cell.coordinates.iter().map(|(_, place)| place.as_str()).collect();
        let estimates = metrics.iter().map(|metric| results.estimate(cell, metric.name));
        let mut row = vec![places.join(", ")];
        row.extend(estimates.map(|found| found.map_or_else(String::new, |found| found.to_string())));
        table.row(row);
    }
    table
}

/// The simulated and the measured value of each number.
fn comparison(compared: &[SideBySide]) -> String {
    let columns = ["simulated", "on the testbed", "ratio", "intervals"];
    let group = Group {
        title: String::new(),
        columns: columns.map(str::to_owned).into(),
    };
    let mut table = Table::new("side by side", vec![group]);
    for pair in compared {
        let places: Vec<String> = pair
            .place
            .iter()
            .map(|(axis, place)| format!("{axis} {place}"))
            .collect();
        let ratio = match pair.ratio() {
            ratio if ratio.is_finite() => format!("{ratio:.2}"),
            _ => String::new(),
        };
        table.row(vec![
            format!("{}: {}", places.join(", "), pair.metric),
            pair.simulated.to_string(),
            pair.real.to_string(),
            ratio,
            if pair.meet() { "overlap" } else { "do not overlap" }.to_owned(),
        ]);
    }
    table.render()
}

/// The verdicts, each with the measured value, the bound and the paper's value.
pub(super) fn judgements(
    output: Output,
    experiment: &Experiment,
    results: &Results,
    judgements: &[Judgement<'_>],
) {
    let mut text = heading(experiment, results);
    for judgement in judgements {
        text.push_str(&match judgement.claim.is_on_bed() {
            false => verdict(judgement),
            true => verdict_on_bed(judgement),
        });
    }
    let [tally, on_bed] = Tally::of_halves(judgements);
    if !judgements.is_empty() {
        text.push_str(&format!("\n{tally}\n"));
    }
    if on_bed != Tally::default() {
        let business = business(results).unwrap_or_default();
        text.push_str(&format!("on the testbed: {on_bed}\n{business}\n"));
    }
    let mut record = Map::new();
    record.insert("event".to_owned(), json!("claims"));
    record.insert("experiment".to_owned(), json!(experiment.name));
    record.insert("version".to_owned(), json!(results.conditions.version));
    record.insert("extent".to_owned(), json!(results.conditions.extent.name()));
    record.insert("seeds".to_owned(), json!(results.seeds.len()));
    let claims = judgements.iter().map(Judgement::to_json).collect();
    record.insert("claims".to_owned(), Value::Array(claims));
    record.insert("tally".to_owned(), tally_of(tally));
    record.insert("tally_on_bed".to_owned(), tally_of(on_bed));
    output.fact(text.trim_end(), &Value::Object(record));
}

/// The verdict of a claim, with the measured value, the bound and the paper's value.
fn verdict(judgement: &Judgement<'_>) -> String {
    let claim = judgement.claim;
    let must = if claim.must { ", must hold" } else { "" };
    let mut text = format!("\n{:<8}{}{must}\n", judgement.verdict.name(), claim.says);
    let paper = match claim.paper {
        "" => String::new(),
        paper => format!("; the paper: {paper}"),
    };
    let measured = measured(judgement);
    text.push_str(&format!(
        "        measured {measured}; bound {}{paper}\n",
        claim.bound
    ));
    if let Some(figure) = claim.figure {
        text.push_str(&format!("        drawn in the figure {figure}\n"));
    }
    if let (Verdict::Fails | Verdict::Open, Some(reason)) = (judgement.verdict, claim.because) {
        text.push_str(&format!("        because {reason}\n"));
    }
    if let Some(seeds) = judgement.seeds_to_decide() {
        text.push_str(&format!("        not shown: about {seeds} seeds would decide\n"));
    }
    if let Some(reason) = claim.by_construction {
        text.push_str(&format!("        by construction: {reason}\n"));
    }
    text
}

/// The verdict of the same claim by real packets: a line below the simulated half's.
fn verdict_on_bed(judgement: &Judgement<'_>) -> String {
    let mut text = format!("        on the testbed: {}", judgement.verdict.name());
    if judgement.measured.is_some() {
        text.push_str(&format!(", measured {}", measured(judgement)));
    }
    if let Some(reason) = judgement.why_not_judged() {
        text.push_str(&format!(", because {reason}"));
    }
    if let Some(seeds) = judgement.seeds_to_decide() {
        text.push_str(&format!("; about {seeds} seeds would decide"));
    }
    if judgement.busy_runs > 0 {
        text.push_str(&format!(
            "; the machine was too busy in {} runs",
            judgement.busy_runs
        ));
    }
    text + "\n"
}

fn measured(judgement: &Judgement<'_>) -> String {
    let measured = judgement.measured;
    measured.map_or_else(|| "nothing".to_owned(), |measured| measured.with_interval())
}

/// The claims of several experiments.
pub(super) fn summary(output: Output, tally: Tally, on_bed: Tally) {
    let record = json!({ "event": "summary", "tally": tally_of(tally), "tally_on_bed": tally_of(on_bed) });
    let mut text = format!("all experiments: {tally}");
    if on_bed != Tally::default() {
        text.push_str(&format!("\non the testbed: {on_bed}"));
    }
    output.fact(text, &record);
}

fn tally_of(tally: Tally) -> Value {
    json!({
        "hold": tally.hold, "by_construction": tally.by_construction, "fail": tally.fail, "open": tally.open,
        "not_run": tally.not_run, "not_judged": tally.not_judged,
    })
}

/// Prints the file of a capture.
pub(super) fn capture(output: Output, file: &Path, place: &str, seed: u64) {
    let text = format!(
        "the packets of {place} with seed {seed} are in {}",
        file.display()
    );
    let record = json!({ "event": "capture", "file": file.display().to_string(), "at": place, "seed": seed });
    output.fact(text, &record);
}

/// Prints the file of the page, and the files of its pictures.
pub(super) fn report(output: Output, page: &Path, pictures: &[PathBuf]) {
    let mut text = format!("the page is {}", page.display());
    if !pictures.is_empty() {
        text.push_str(&format!("; {} pictures", pictures.len()));
    }
    let pictures: Vec<String> = pictures.iter().map(|path| path.display().to_string()).collect();
    let record = json!({ "event": "report", "page": page.display().to_string(), "pictures": pictures });
    output.fact(text, &record);
}
