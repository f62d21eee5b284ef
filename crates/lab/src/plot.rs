//! Charts of results: curves with confidence intervals, as SVG that follows the reader's light or dark theme.
//!
//! The plotting crate knows only fixed colours. The chart is therefore drawn in placeholder colours, and each placeholder is then replaced
//! by a CSS class. The style sheet gives each class a light and a dark colour.

use core::fmt::{self, Write};

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::series::DashedLineSeries;
use plotters::style::Color;

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

/// An axis.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Scale {
    /// The label, with the unit.
    pub label: String,
    /// Whether equal distances are equal ratios. If so, only numbers above 0 are drawn.
    pub logarithmic: bool,
    /// The names of the positions 0, 1, 2, …; empty if the axis has numbers.
    pub places: Vec<String>,
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
/// The height of a legend line. The legend has two columns.
const LEGEND_LINE: u32 = 24;

/// The placeholder colour that is later replaced by a class.
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

/// The position of a number on an axis that may be logarithmic; `None` if it has no position.
fn placed(value: f64, scale: &Scale) -> Option<f64> {
    let place = if scale.logarithmic { value.log10() } else { value };
    Some(place).filter(|place| place.is_finite())
}

/// A number with the digits that people usually write.
fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

impl Scale {
    /// A linear axis of numbers.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    fn tick(&self, place: f64) -> String {
        if self.logarithmic {
            // Half a decade is labelled 3; other positions are labelled with two digits.
            let value = 10_f64.powf(place);
            let is_half = (2.0 * place - (2.0 * place).round()).abs() < 1e-6;
            let digit = 10_f64.powf(place.floor()) / if is_half { 1.0 } else { 10.0 };
            return number((value / digit).round() * digit);
        }
        if self.places.is_empty() {
            return number(place);
        }
        let nearest = place.round();
        let is_place = (place - nearest).abs() < 1e-6 && nearest >= 0.0;
        let name = is_place.then(|| self.places.get(nearest as usize)).flatten();
        name.cloned().unwrap_or_default()
    }

    /// The ends of the axis, such that all these numbers lie on it.
    fn range(&self, values: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
        if !self.places.is_empty() {
            return (-0.5, self.places.len() as f64 - 0.5);
        }
        let on_it = values.filter_map(|value| placed(value, self));
        let (mut low, mut high) = on_it.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if from_zero && !self.logarithmic {
            low = low.min(0.0);
        }
        let margin = if high > low { (high - low) * 0.05 } else { 0.5 };
        (
            if low == 0.0 && from_zero {
                low
            } else {
                low - margin
            },
            high + margin,
        )
    }
}

impl Curve {
    /// The positions of the points that both axes can show.
    fn placed(&self, plot: &Plot) -> Vec<(f64, f64)> {
        let places = |point: &Point| Some((placed(point.x, &plot.x)?, placed(point.y, &plot.y)?));
        self.points.iter().filter_map(places).collect()
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
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
            LEGEND_LINE * self.curves.len().div_ceil(2) as u32 + LEGEND_LINE / 2
        } else {
            0
        }
    }

    /// The legend, below the chart so that it hides nothing.
    fn draw_legend(&self, area: &Area<'_>) -> Drawn {
        let text = ("sans-serif", 16).into_font().color(&stand_in(INK));
        for (index, curve) in self.curves.iter().enumerate() {
            let (column, line) = (index as i32 % 2, index as i32 / 2);
            let (x, y) = (
                72 + column * 290,
                LEGEND_LINE as i32 / 2 + line * LEGEND_LINE as i32,
            );
            area.draw(&marker((x, y), curve))?;
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
        let ink = stand_in(INK);
        let text = |size: u32| ("sans-serif", size).into_font().color(&ink);
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, text(20))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(left..right, low..high)?;
        let places = self.x.places.len();
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_labels(if places > 0 { 2 * places + 1 } else { 8 })
            .y_labels(6)
            .x_label_formatter(&|place| self.x.tick(*place))
            .y_label_formatter(&|place| self.y.tick(*place))
            .axis_style(ink)
            .light_line_style(TRANSPARENT)
            .bold_line_style(stand_in(GRID))
            .label_style(text(16))
            .axis_desc_style(text(17))
            .draw()?;
        for curve in &self.curves {
            self.draw_curve(&mut chart, curve)?;
        }
        area.present()?;
        Ok(())
    }

    fn draw_curve(&self, chart: &mut Chart<'_, '_>, curve: &Curve) -> Drawn {
        let colour = curve_colour(curve.colour);
        let line = colour.stroke_width(2);
        if curve.is_foreign {
            chart.draw_series(DashedLineSeries::new(curve.placed(self), 5, 5, line))?;
        } else {
            chart.draw_series(LineSeries::new(curve.placed(self), line))?;
        }
        chart.draw_series(curve.placed(self).into_iter().map(|place| marker(place, curve)))?;
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

/// The marker of a point: a disc, or a triangle if the number was not measured here.
fn marker<'a, Coord: Clone + 'static>(
    place: Coord,
    curve: &Curve,
) -> DynElement<'static, SVGBackend<'a>, Coord> {
    let style = curve_colour(curve.colour).filled();
    if curve.is_foreign {
        TriangleMarker::new(place, 7, style).into_dyn()
    } else {
        Circle::new(place, 3, style).into_dyn()
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
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            interval: (y * 0.9, y * 1.1),
        }
    }

    fn plot() -> Plot {
        let curve = |name: &str, colour, is_foreign| Curve {
            name: name.to_owned(),
            points: vec![point(1.0, 0.3), point(50.0, 0.8), point(100.0, 0.2)],
            colour,
            is_foreign,
        };
        Plot {
            title: "Delay & \"share\"".to_owned(),
            x: Scale::linear("important [%]"),
            y: Scale::linear("delay [s]"),
            curves: vec![
                curve("ours", 0, false),
                curve("paper", 0, true),
                curve("other", 1, false),
            ],
        }
    }

    #[test]
    fn colours_are_classes_and_no_attribute_occurs_twice() {
        let svg = plot().to_file();
        assert!(!svg.contains("#0101"), "a placeholder colour is left");
        for class in ["plot-f0", "plot-s0", "plot-s1", "plot-s2", "plot-s3"] {
            assert!(svg.contains(&format!("class=\"{class}\"")), "{class}");
        }
        for tag in svg.split('<') {
            assert!(tag.matches("class=").count() < 2, "{tag}");
        }
        assert!(svg.contains("Delay &amp; &quot;share&quot;") && svg.contains("prefers-color-scheme"));
    }

    #[test]
    fn numbers_without_a_place_are_left_out() {
        let mut odd = plot();
        odd.y.logarithmic = true;
        odd.curves[0].points.push(point(120.0, 0.0));
        odd.curves[0].points.push(point(f64::NAN, 1.0));
        odd.curves[0].points[0].interval = (f64::NEG_INFINITY, f64::INFINITY);
        assert!(!odd.to_svg().contains("NaN"));
        odd.curves.clear();
        assert!(
            odd.to_svg().ends_with("</svg>\n"),
            "a chart without points is still a chart"
        );
    }

    #[test]
    fn places_have_names() {
        let mut named = plot();
        named.x.places = vec!["off".to_owned(), "on".to_owned()];
        for curve in &mut named.curves {
            curve.points = vec![point(0.0, 0.3), point(1.0, 0.4)];
        }
        let svg = named.to_svg();
        assert!(svg.contains("\noff\n") && svg.contains("\non\n"), "{svg}");
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_are_where_they_say() {
        let axis = Scale {
            logarithmic: true,
            ..Scale::default()
        };
        for (place, text) in [
            (-1.0, "0.1"),
            (0.5, "3"),
            (-1.6, "0.025"),
            (1.2, "16"),
            (2.0, "100"),
        ] {
            assert_eq!(axis.tick(place), text);
        }
    }

    #[test]
    fn numbers_as_people_write_them() {
        let texts = [
            (0.1, "0.1"),
            (0.25, "0.25"),
            (2.0, "2"),
            (1500.0, "1500"),
            (0.0, "0"),
        ];
        for (value, text) in texts {
            assert_eq!(number(value), text);
        }
    }
}
