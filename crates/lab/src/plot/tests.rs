use super::scale::number;
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
        drawing: Drawing::Markers,
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
fn ticks_of_a_logarithmic_axis_are_numbers_that_people_know() {
    let axis = Scale {
        logarithmic: true,
        ..Scale::default()
    };
    for (ends, texts) in [
        ((0.05_f64, 60.0_f64), vec!["0.1", "0.3", "1", "3", "10", "30"]),
        ((0.9, 2100.0), vec!["1", "10", "100", "1000"]),
        ((1.2, 25.0), vec!["2", "5", "10", "20"]),
        ((1.0, 4.0), vec!["1", "1.5", "2", "3"]),
        ((0.91, 1.13), vec!["0.95", "1", "1.05", "1.1"]),
    ] {
        let ticks = axis.ticks((ends.0.log10(), ends.1.log10()), 6);
        let labels: Vec<String> = ticks.iter().map(|place| axis.tick(*place)).collect();
        assert_eq!(labels, texts, "{ends:?}");
    }
}

#[test]
fn a_curve_below_another_is_wider() {
    let mut plot = plot();
    plot.curves[2].points = plot.curves[0].points.clone();
    plot.curves.remove(1);
    assert_eq!(
        (plot.covering(0, (0.0, 1.0)), plot.covering(1, (0.0, 1.0))),
        (1, 0)
    );
    plot.curves[1].points[0].y += 0.1;
    assert_eq!(plot.covering(0, (0.0, 1.0)), 1, "two of three points are hidden");
    plot.curves[1].points[1].y += 0.1;
    assert_eq!(plot.covering(0, (0.0, 1.0)), 0);
}

#[test]
fn a_long_name_has_the_width_of_the_legend() {
    let mut plot = plot();
    assert_eq!(plot.legend_columns(), 2);
    plot.curves[0].name = "x".repeat(LEGEND_COLUMN + 1);
    assert_eq!(plot.legend_columns(), 1);
}

/// The seventh curve has the colour of the first, but no disc and no solid line.
#[test]
fn curves_of_one_colour_differ() {
    let [first, seventh] = [0, 6].map(|colour| {
        let mut plot = plot();
        plot.curves.truncate(1);
        plot.curves[0].colour = colour;
        plot.to_svg()
    });
    assert!(seventh.matches("<circle").count() < first.matches("<circle").count());
    assert!(seventh.matches("<line").count() > first.matches("<line").count());
}

#[test]
fn numbers_as_people_write_them() {
    let texts = [
        (0.1, "0.1"),
        (0.25, "0.25"),
        (2.0, "2"),
        (1500.0, "1500"),
        (0.0, "0"),
        (0.00003, "0.00003"),
        (0.0015, "0.0015"),
    ];
    for (value, text) in texts {
        assert_eq!(number(value), text);
    }
}

/// The labels of the ticks end at the axis, and the axis's name stands at the left edge: longer labels move the axis to the right.
#[test]
fn long_ticks_do_not_reach_the_name_of_the_axis() {
    let ends_of_ticks = |scale: f64| {
        let mut plot = plot();
        plot.y.logarithmic = true;
        for point in plot.curves.iter_mut().flat_map(|curve| &mut curve.points) {
            *point = self::point(point.x, point.y * scale);
        }
        let svg = plot.to_svg();
        let ticks = svg
            .split("<text ")
            .filter(|text| text.contains("text-anchor=\"end\""));
        let x = |text: &str| text.split("x=\"").nth(1)?.split('"').next()?.parse::<i32>().ok();
        ticks.filter_map(x).max().expect("the labels of the ticks")
    };
    assert_eq!(ends_of_ticks(1.0), ends_of_ticks(0.1));
    // 0.0003 has six characters.
    assert!(ends_of_ticks(0.001) >= ends_of_ticks(1.0) + 9);
}
