//! Charts of results: curves with confidence intervals, as SVG that follows the reader's light or dark theme.
//!
//! The plotting crate knows only fixed colours. The chart is therefore drawn in placeholder colours, and each placeholder is then replaced
//! by a CSS class. The style sheet gives each class a light and a dark colour.

mod scale;

use core::fmt::{self, Write};
use std::collections::BTreeSet;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::series::DashedLineSeries;
use plotters::style::Color;

pub use scale::Scale;
use scale::{Axis, placed};

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// The title, in a few words.
    pub title: String,
    /// The horizontal axis.
    pub x: Scale,
    /// The vertical axis.
    pub y: Scale,
    /// The curves, in drawing order.
    pub curves: Vec<Curve>,
}

/// Points in the order of the horizontal axis, joined by a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
    /// The number of the colour. Curves that belong together share it.
    pub colour: usize,
    /// Whether the numbers were not measured here but come from a paper or a formula. Such curves are dashed and without intervals.
    pub is_foreign: bool,
    /// How the points are drawn.
    pub drawing: Drawing,
}

/// How the points of a curve are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Drawing {
    /// As markers with intervals, joined by a line.
    #[default]
    Markers,
    /// As a line alone, for series of many points.
    Line,
    /// As small dots without intervals, for many single events.
    Dots,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// On the horizontal axis.
    pub x: f64,
    /// On the vertical axis.
    pub y: f64,
    /// The interval around `y`; without an interval the ends are `y` or infinite.
    pub interval: (f64, f64),
}

impl Point {
    /// A point without an interval.
    #[must_use]
    pub fn exact((x, y): (f64, f64)) -> Self {
        Self {
            x,
            y,
            interval: (y, y),
        }
    }
}

/// Light and dark colours: text and axes, the grid, then the curves in order. People with any kind of colour vision can tell the curves
/// apart.
const COLOURS: [(&str, &str); 8] = [
    ("#1f2328", "#e6edf3"),
    ("#d8dee4", "#30363d"),
    ("#0072b2", "#58a6ff"),
    ("#d55e00", "#ff8c42"),
    ("#009e73", "#3fd39c"),
    ("#aa4499", "#e58fd0"),
    ("#b58900", "#e3c04a"),
    ("#5c6f82", "#9fb3c8"),
];
const INK: usize = 0;
const GRID: usize = 1;
const FIRST_CURVE: usize = 2;

/// The chart without its legend.
const SIZE: (u32, u32) = (640, 400);
/// The numbers of characters for which the title and the vertical axis have space in their usual size.
const TITLE: usize = 58;
const VERTICAL_LABEL: usize = 38;
/// A curve below more curves than this does not become wider.
const MOST_COVERING: usize = 3;
/// The height of a legend line.
const LEGEND_LINE: u32 = 24;
/// The length of the longest name, in characters, with which the legend has two columns.
const LEGEND_COLUMN: usize = 34;
/// The placeholder colour that is later replaced by a class.
/// The width of the area left of the chart, in pixels, if its longest tick label has this many characters: the labels must not reach the
/// axis's name.
fn vertical_labels(longest: usize) -> u32 {
    64 + 9 * longest.saturating_sub(5) as u32
}

fn stand_in(colour: usize) -> RGBColor {
    RGBColor(1, 1, colour as u8)
}

fn curve_colour(colour: usize) -> RGBColor {
    stand_in(FIRST_CURVE + colour % (COLOURS.len() - FIRST_CURVE))
}

/// The style sheet for all charts of a page: once in the page's head, or in each chart that stands alone.
#[must_use]
pub fn style() -> String {
    let rules = |dark: bool| {
        COLOURS
            .iter()
            .enumerate()
            .fold(String::new(), |mut rules, (index, pair)| {
                let colour = if dark { pair.1 } else { pair.0 };
                let _ = write!(
                    rules,
                    ".plot-f{index}{{fill:{colour}}}.plot-s{index}{{stroke:{colour}}}"
                );
                rules
            })
    };
    format!(
        "{}@media (prefers-color-scheme:dark){{{}}}",
        rules(false),
        rules(true)
    )
}

impl Curve {
    /// How often the colours were used up before this curve's. Curves of the second cycle and later have long dashes and crosses.
    fn cycle(&self) -> usize {
        self.colour / (COLOURS.len() - FIRST_CURVE)
    }

    /// The positions of the points that both axes can show.
    fn placed(&self, plot: &Plot) -> Vec<(f64, f64)> {
        let places = |point: &Point| Some((placed(point.x, &plot.x)?, placed(point.y, &plot.y)?));
        self.points.iter().filter_map(places).collect()
    }

    /// The same positions without those that would lie on the same pixel as an earlier one.
    fn thinned(&self, plot: &Plot) -> Vec<(f64, f64)> {
        let placed = self.placed(plot);
        let ends = |of: fn(&(f64, f64)) -> f64| {
            let values = placed.iter().map(of);
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let (x, y) = (ends(|place| place.0), ends(|place| place.1));
        let pixel = |value: f64, (low, high): (f64, f64), size: u32| {
            ((value - low) / (high - low).max(f64::MIN_POSITIVE) * f64::from(size)) as u32
        };
        let mut taken = BTreeSet::new();
        let is_new =
            |place: &(f64, f64)| taken.insert((pixel(place.0, x, SIZE.0), pixel(place.1, y, SIZE.1)));
        placed.iter().copied().filter(is_new).collect()
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Plot {
    /// The chart, with classes for colours: [`style`] defines them.
    ///
    /// # Panics
    /// Never: writing to a `String` cannot fail.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut drawn = String::new();
        let size = (SIZE.0, SIZE.1 + self.legend_height());
        let area = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        self.draw(&area).expect("writing to a String cannot fail");
        drop(area);
        let classes = (0..COLOURS.len()).fold(drawn, |svg, colour| {
            let stand_in = format!("#0101{colour:02X}");
            svg.replace(
                &format!("fill=\"{stand_in}\""),
                &format!("class=\"plot-f{colour}\""),
            )
            .replace(
                &format!("stroke=\"{stand_in}\""),
                &format!("class=\"plot-s{colour}\""),
            )
        });
        // The chart takes the page's width, and screen readers read its title.
        let sized = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
        let named = format!("role=\"img\" aria-label=\"{}\"", Escaped(&self.title));
        classes.replacen(&sized, &named, 1)
    }

    /// The chart as a file of its own.
    #[must_use]
    pub fn to_file(&self) -> String {
        let svg = self.to_svg();
        let end = svg.find('>').map_or(0, |end| end + 1);
        let (head, rest) = svg.split_at(end);
        format!("{head}<style>{}</style>{rest}", style())
    }

    /// A single curve needs no legend if its numbers were measured here.
    fn legend_height(&self) -> u32 {
        let needed = self.curves.len() > 1 || self.curves.iter().any(|curve| curve.is_foreign);
        if needed {
            LEGEND_LINE * self.curves.len().div_ceil(self.legend_columns()) as u32 + LEGEND_LINE / 2
        } else {
            0
        }
    }

    /// Two columns, or one if a name is too long for half of the width.
    fn legend_columns(&self) -> usize {
        let is_long = |curve: &Curve| curve.name.chars().count() > LEGEND_COLUMN;
        if self.curves.iter().any(is_long) { 1 } else { 2 }
    }

    /// The legend, below the chart so that it hides nothing.
    fn draw_legend(&self, area: &Area<'_>) -> Drawn {
        let text = ("sans-serif", 16).into_font().color(&stand_in(INK));
        let columns = self.legend_columns() as i32;
        for (index, curve) in self.curves.iter().enumerate() {
            let (column, line) = (index as i32 % columns, index as i32 / columns);
            let (x, y) = (
                72 + column * 290,
                LEGEND_LINE as i32 / 2 + line * LEGEND_LINE as i32,
            );
            area.draw(&marker((x, y), curve, 0))?;
            area.draw(&Text::new(curve.name.clone(), (x + 14, y - 6), text.clone()))?;
        }
        Ok(())
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let (area, legend) = area.split_vertically(SIZE.1);
        if self.legend_height() > 0 {
            self.draw_legend(&legend)?;
        }
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let (left, right) = self.x.range(points().map(|point| point.x), false);
        let ends = points().flat_map(|point| [point.y, point.interval.0.max(0.0), point.interval.1]);
        let (low, high) = self.y.range(ends, true);
        let ticks = self.y.ticks((low, high), 6);
        let tick_length = ticks.iter().map(|tick| self.y.tick(*tick).chars().count());
        let ink = stand_in(INK);
        let text = |size: u32| ("sans-serif", size).into_font().color(&ink);
        let fitting = |usual: u32, text: &str, space: usize| {
            let length = text.chars().count().max(space);
            (usual as usize * space / length) as u32
        };
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, text(fitting(20, &self.title, TITLE)))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(vertical_labels(tick_length.max().unwrap_or(0)))
            .build_cartesian_2d(self.x.axis((left, right), 8), self.y.axis((low, high), 6))?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|place| self.x.tick(*place))
            .y_label_formatter(&|place| self.y.tick(*place))
            .axis_style(ink)
            .light_line_style(TRANSPARENT)
            .bold_line_style(stand_in(GRID))
            .label_style(text(16))
            .axis_desc_style(text(fitting(17, &self.y.label, VERTICAL_LABEL)))
            .draw()?;
        for (index, curve) in self.curves.iter().enumerate() {
            self.draw_curve(&mut chart, curve, self.covering(index, (low, high)))?;
        }
        area.present()?;
        Ok(())
    }

    /// The number of later curves that would hide half of a curve's points or more. `range` has the ends of the vertical axis.
    fn covering(&self, index: usize, range: (f64, f64)) -> u32 {
        let Some((curve, later)) = self.curves.get(index..).and_then(<[Curve]>::split_first) else {
            return 0;
        };
        if curve.drawing != Drawing::Markers {
            return 0;
        }
        let points = curve.placed(self);
        let near = (range.1 - range.0) / 100.0;
        let hides = |other: &&Curve| {
            let others = other.placed(self);
            let is_hidden = |(x, y): &&(f64, f64)| {
                others
                    .iter()
                    .any(|(at, height)| at == x && (height - y).abs() < near)
            };
            2 * points.iter().filter(is_hidden).count() >= points.len().max(1)
        };
        later.iter().filter(hides).count().min(MOST_COVERING) as u32
    }

    /// Draws a curve. Its line and its markers are wider by the number of later curves that cover it, so that it can be seen below them.
    fn draw_curve(&self, chart: &mut Chart<'_, '_>, curve: &Curve, covering: u32) -> Drawn {
        let colour = curve_colour(curve.colour);
        match curve.drawing {
            Drawing::Markers => {}
            Drawing::Line => {
                chart.draw_series(LineSeries::new(curve.thinned(self), colour.stroke_width(1)))?;
                return Ok(());
            }
            Drawing::Dots => {
                let dot = |place| Circle::new(place, 2, colour.filled());
                chart.draw_series(curve.thinned(self).into_iter().map(dot))?;
                return Ok(());
            }
        }
        let line = colour.stroke_width(2 + 2 * covering);
        match (curve.is_foreign, curve.cycle()) {
            (true, _) => chart.draw_series(DashedLineSeries::new(curve.placed(self), 5, 5, line))?,
            (false, 0) => chart.draw_series(LineSeries::new(curve.placed(self), line))?,
            (false, _) => chart.draw_series(DashedLineSeries::new(curve.placed(self), 14, 4, line))?,
        };
        let markers = curve.placed(self).into_iter();
        chart.draw_series(markers.map(|place| marker(place, curve, covering)))?;
        if !curve.is_foreign {
            let bottom = chart.y_range().start;
            let bars = curve.points.iter().filter_map(|point| {
                let (x, middle) = (placed(point.x, &self.x)?, placed(point.y, &self.y)?);
                // An end without a position, such as 0 on a logarithmic axis, lies outside the chart.
                let low = placed(point.interval.0, &self.y).unwrap_or(bottom).max(bottom);
                let high = placed(point.interval.1, &self.y)?;
                (low < high).then(|| ErrorBar::new_vertical(x, low, middle, high, colour.stroke_width(1), 8))
            });
            chart.draw_series(bars)?;
        }
        Ok(())
    }
}

/// The marker of a point: a disc, a cross from the second cycle of colours on, or a triangle if the number was not measured here.
fn marker<'a, Coord: Clone + 'static>(
    place: Coord,
    curve: &Curve,
    covering: u32,
) -> DynElement<'static, SVGBackend<'a>, Coord> {
    let style = curve_colour(curve.colour).filled();
    let radius = 3 + 2 * covering as i32;
    if curve.is_foreign {
        TriangleMarker::new(place, radius + 4, style).into_dyn()
    } else if curve.cycle() > 0 {
        Cross::new(place, radius + 1, style.stroke_width(2)).into_dyn()
    } else {
        Circle::new(place, radius, style).into_dyn()
    }
}

/// Text with XML escapes.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
