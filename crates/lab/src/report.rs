//! The report: one self-contained HTML page with the question, the paper's results and the results here for each experiment.

use core::fmt::Write;

use crate::claim::{Judgement, Tally, Verdict};
use crate::experiment::{Experiment, Metric};
use crate::plot::{self, Escaped, Plot};
use crate::results::{CellResults, Results};
use crate::stage::{business, side_by_side};
use crate::statistics::number;
use crate::timeline::Picture;

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1f2328;--dim:#59636e;--paper:#fff;--line:#d8dee4;--good:#1a7f37;--bad:#cf222e;--open:#9a6700}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#9198a1;--paper:#0d1117;--line:#30363d;--good:#3fb950;--bad:#ff7b72;--open:#d29922}}
body{margin:0 auto;max-width:60rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{font-size:1.6rem}h2{margin-top:3rem;border-top:1px solid var(--line);padding-top:1.5rem;font-size:1.3rem}h3{font-size:1.05rem}
p.question{font-size:1.15rem}.dim{color:var(--dim)}figure{margin:1.5rem 0}figure svg{width:100%;height:auto}
figcaption{color:var(--dim);font-size:.9rem}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.875rem}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}td.number{text-align:right;white-space:nowrap}
.holds{color:var(--good)}.fails{color:var(--bad)}.open,.not-run,.not-judged{color:var(--open)}.verdict{font-weight:600;white-space:nowrap}
@media (max-width:40rem){.claims thead{display:none}.claims tr{display:block;border-bottom:1px solid var(--line);padding:.5rem 0}
.claims td.paper:not(:empty)::before{content:'The paper: ';color:var(--dim)}
.claims td,.claims td.number{display:block;border:0;padding:.1rem 0;text-align:left;white-space:normal}}
nav dt{font-weight:600}nav dt span{font-weight:400}nav dd{margin:0 0 .75rem}details{margin:1rem 0}a{color:inherit}
";

/// An experiment and its results.
#[derive(Clone, Copy, Debug)]
pub struct Finding<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The numbers.
    pub results: &'a Results,
    /// The judged claims.
    pub judgements: &'a [Judgement<'a>],
    /// The drawn timelines.
    pub timelines: &'a [Picture],
}

/// The page.
#[must_use]
pub fn report(findings: &[Finding<'_>]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>Anabranch: the laboratory</title><style>{STYLE}{}</style></head>\
         <body>\n<h1>Anabranch: the laboratory</h1>\n<p>Experiments of published papers, run in virtual time with the \
         protocol's real code. A claim is an inequality: it <span class=\"holds\">holds</span> if the whole \
         95 % interval over independent seeds lies within its bound, <span class=\"fails\">fails</span> if the whole interval lies \
         outside, and is otherwise <span class=\"open\">open</span>: it is not shown. A claim that is known to fail has a \
         reason. A claim that holds by construction tests the code and shows nothing about the paper; such claims are counted apart. In the charts, bars are the intervals; triangles and dashed lines are numbers of a paper or of a formula.</p>\n",
        plot::style()
    );
    page.push_str("<nav><dl>");
    for finding in findings {
        let _ = write!(
            page,
            "<dt><a href=\"#{0}\">{0}</a> <span class=\"dim\">{1}</span><dd>{2}",
            finding.experiment.name,
            verdicts(finding.judgements),
            Escaped(finding.experiment.question)
        );
    }
    page.push_str("</dl>");
    let all = findings
        .iter()
        .map(|finding| Tally::of_halves(finding.judgements)[0])
        .fold(Tally::default(), Tally::plus);
    if all != Tally::default() {
        let _ = write!(page, "<p>All experiments: {all}.</p>");
    }
    page.push_str("</nav>\n");
    for finding in findings {
        write_finding(&mut page, finding);
    }
    page.push_str("</body></html>\n");
    page
}

/// How many claims are shown, also on real packets; empty if there are no claims.
fn verdicts(judgements: &[Judgement<'_>]) -> String {
    let [tally, on_bed] = Tally::of_halves(judgements);
    match judgements {
        [] => String::new(),
        _ if on_bed == Tally::default() => tally.to_string(),
        _ => format!("{tally}; on the testbed, {on_bed}"),
    }
}

fn write_finding(page: &mut String, finding: &Finding<'_>) {
    let Finding {
        experiment, results, ..
    } = finding;
    let _ = writeln!(
        page,
        "<h2 id=\"{0}\">{0}</h2>\n<p class=\"question\">{1}</p>\n<p class=\"dim\">After: {2}. Run in the {3} setting, \
         with {4} seeds, by version {5}.</p>",
        experiment.name,
        Escaped(experiment.question),
        Escaped(experiment.source),
        results.conditions.extent.name(),
        results.seeds.len(),
        Escaped(&results.conditions.version),
    );
    for figure in (experiment.figures)() {
        if let Some(plot) = figure.plot(results) {
            write_figure(page, experiment, figure.name, figure.paper, &plot);
            if figure.curves.iter().any(|curve| curve.at.is_empty()) {
                write_points(page, &plot);
            }
        }
    }
    for picture in finding.timelines {
        write_figure(page, experiment, picture.name, picture.paper, &picture.plot);
    }
    write_side_by_side(page, results);
    write_claims(page, experiment, finding.judgements);
    write_parameters(page, experiment);
    write_numbers(page, experiment, results);
}

fn write_figure(page: &mut String, experiment: &Experiment, name: &str, paper: &str, plot: &Plot) {
    let caption = match paper {
        "" => String::new(),
        paper => format!("<figcaption>The paper: {}</figcaption>", Escaped(paper)),
    };
    let _ = writeln!(
        page,
        "<figure id=\"{}-{name}\">{}{caption}</figure>",
        experiment.name,
        plot.to_svg(),
    );
}

/// The points of a chart as a table, for charts that show formulas next to measured numbers.
fn write_points(page: &mut String, plot: &Plot) {
    let points = || plot.curves.iter().flat_map(|curve| &curve.points);
    let mut places: Vec<f64> = points().map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let _ = write!(
        page,
        "<details><summary>The chart's numbers: {}</summary><div class=\"wide\"><table><thead><tr><th>{}",
        Escaped(&plot.y.label),
        Escaped(&plot.x.label)
    );
    for curve in &plot.curves {
        let _ = write!(page, "<th>{}", Escaped(&curve.name));
    }
    page.push_str("</tr></thead><tbody>\n");
    for place in places {
        let _ = write!(page, "<tr><td class=\"number\">{place}");
        for curve in &plot.curves {
            let point = curve.points.iter().find(|point| point.x == place);
            let text = point.map_or_else(String::new, |point| number(point.y));
            let _ = write!(page, "<td class=\"number\">{text}");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div></details>\n");
}

/// The comparison of both halves, for an experiment that was also run on real packets.
fn write_side_by_side(page: &mut String, results: &Results) {
    let pairs = side_by_side(results);
    if pairs.is_empty() {
        return;
    }
    let apart = pairs.iter().filter(|pair| !pair.meet()).count();
    let _ = writeln!(
        page,
        "<p>Simulated and on real packets: {apart} of {} numbers differ, that is, the 95 % intervals of their means do not overlap \
         (marked ≠).</p>\n<div class=\"wide\"><table><thead><tr><th>Cell<th>Metric<th>Simulated<th>On the bed<th>Ratio<th></tr>\
         </thead><tbody>",
        pairs.len()
    );
    for pair in &pairs {
        let places: Vec<String> = pair
            .place
            .iter()
            .map(|(axis, place)| format!("{axis} {place}"))
            .collect();
        let ratio = Some(pair.ratio())
            .filter(|ratio| ratio.is_finite())
            .map_or_else(String::new, number);
        let (class, mark) = if pair.meet() { ("", "") } else { ("fails", "≠") };
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{}<td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{ratio}<td class=\"{class}\">{mark}</tr>",
            Escaped(&places.join(", ")),
            pair.metric,
            pair.simulated,
            pair.real
        );
    }
    page.push_str("</tbody></table></div>\n");
    if let Some(business) = business(results) {
        let _ = writeln!(page, "<p class=\"dim\">{business}.</p>");
    }
}

fn write_claims(page: &mut String, experiment: &Experiment, judgements: &[Judgement<'_>]) {
    if judgements.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<p>{}.</p>\n<div class=\"wide\"><table class=\"claims\"><thead><tr><th>Verdict<th>Claim<th>Measured\
         <th>The paper</tr></thead><tbody>",
        verdicts(judgements)
    );
    for judgement in judgements {
        let claim = judgement.claim;
        let verdict = judgement.verdict.name();
        let measured = judgement
            .measured
            .map_or_else(|| "no number".to_owned(), |measured| measured.with_interval());
        let must = match (claim.is_on_bed(), claim.must) {
            (true, _) => " <b>On the testbed.</b>",
            (false, true) => " (must hold)",
            (false, false) => "",
        };
        let because = claim.because.filter(|_| judgement.verdict != Verdict::Holds);
        let because = judgement.why_not_judged().or(because);
        let because = because.map_or_else(String::new, |reason| {
            format!("<br><span class=\"dim\">because {}</span>", Escaped(reason))
        });
        let more = judgement.seeds_to_decide().map_or_else(String::new, |seeds| {
            format!("<br><span class=\"dim\">about {seeds} seeds would decide</span>")
        });
        let built = claim.by_construction.map_or_else(String::new, |reason| {
            format!(
                "<br><span class=\"dim\">by construction: {}</span>",
                Escaped(reason)
            )
        });
        let drawn = claim.figure.map_or_else(String::new, |figure| {
            format!(" <a href=\"#{}-{figure}\">{figure}</a>", experiment.name)
        });
        let _ = writeln!(
            page,
            "<tr><td class=\"verdict {}\">{verdict}<td>{}{must}{drawn}{because}{built}{more}<td class=\"number\">{measured}<br><span \
             class=\"dim\">bound {}</span><td class=\"paper\">{}</tr>",
            verdict.replace(' ', "-"),
            Escaped(claim.says),
            Escaped(&claim.bound.to_string()),
            Escaped(claim.paper)
        );
    }
    page.push_str("</tbody></table></div>\n");
}

fn write_parameters(page: &mut String, experiment: &Experiment) {
    page.push_str(
        "<details><summary>Settings and their sources</summary><div class=\"wide\"><table><tbody>\n",
    );
    for parameter in experiment.parameters {
        let source = if parameter.from_paper {
            "the paper"
        } else {
            "our choice"
        };
        let _ = writeln!(
            page,
            "<tr><th>{}<td>{}<td class=\"dim\">{source}</tr>",
            Escaped(parameter.name),
            Escaped(parameter.value)
        );
    }
    page.push_str("</tbody></table></div></details>\n");
}

fn write_numbers(page: &mut String, experiment: &Experiment, results: &Results) {
    let shown: Vec<&Metric> = experiment
        .metrics
        .iter()
        .filter(|metric| metric.is_shown)
        .collect();
    let axes = results.cells.first().map_or(&[][..], |cell| &cell.coordinates);
    page.push_str(
        "<details><summary>All metrics: means over the seeds</summary><div class=\"wide\"><table><thead><tr>",
    );
    for (axis, _) in axes {
        let _ = write!(page, "<th>{axis}");
    }
    for metric in &shown {
        let unit = if metric.unit.is_empty() {
            String::new()
        } else {
            format!(" [{}]", Escaped(metric.unit))
        };
        let _ = write!(
            page,
            "<th title=\"{}\">{}{unit}",
            Escaped(metric.about),
            metric.name
        );
    }
    page.push_str("</tr></thead><tbody>\n");
    for cell in &results.cells {
        write_row(page, &shown, cell, results);
    }
    page.push_str("</tbody></table></div></details>\n");
}

fn write_row(page: &mut String, shown: &[&Metric], cell: &CellResults, results: &Results) {
    page.push_str("<tr>");
    for (_, place) in &cell.coordinates {
        let _ = write!(page, "<td>{}", Escaped(place));
    }
    for metric in shown {
        let estimate = results.estimate(cell, metric.name);
        let text = estimate.map_or_else(String::new, |estimate| estimate.to_string());
        let _ = write!(page, "<td class=\"number\">{text}");
    }
    page.push_str("</tr>\n");
}
