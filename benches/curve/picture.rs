//! Draws the curves as an SVG: time and worst pause over peak memory, on logarithmic axes.

use std::fmt::Write;

use crate::points::Kind;
use crate::run::Measured;
use crate::table::pause_ms;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 340.0;
const MARGIN: f64 = 60.0;
const LEGEND: f64 = 220.0;

/// The points of a collector in one panel, as memory and time.
struct Series<'a> {
    collector: &'a str,
    kind: Kind,
    points: Vec<(f64, f64)>,
}

/// A logarithmic axis, on which the numbers `low` to `high` become `from` to `to`.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let low = values.clone().fold(f64::INFINITY, f64::min) / 1.1;
        let high = values.fold(0.0, f64::max) * 1.1;
        Axis { low, high, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value / self.low).ln() / (self.high / self.low).ln()
    }

    /// The numbers 1, 2, 3 and 5 times a power of ten that are on the axis.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let steps =
            (-3..7).flat_map(|power| [1.0, 2.0, 3.0, 5.0].map(|digit| (digit * 10_f64.powi(power + 3)).round() / 1e3));
        steps.filter(|tick| (self.low..=self.high).contains(tick))
    }
}

pub fn draw(program: &str, results: &[Measured]) -> String {
    let mut names: Vec<&str> = results.iter().map(|result| result.point.collector).collect();
    names.dedup();
    let (width, height) = (2.0 * (WIDTH + MARGIN) + LEGEND, HEIGHT + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let time: fn(&Measured) -> Option<f64> = |result| result.median("wall_ms");
    for (left, title, value) in [(MARGIN, "time, ms", time), (WIDTH + 2.0 * MARGIN, "worst pause, ms", pause_ms)] {
        let all: Vec<Series> = names.iter().filter_map(|name| series(name, results, value)).collect();
        panel(&mut svg, left, &format!("{program}: {title}"), &all, &names);
    }
    for (index, name) in names.iter().enumerate() {
        let (x, y) = (width - LEGEND + 20.0, MARGIN + 20.0 * index as f64);
        line(&mut svg, &format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"5\" fill=\"{}\"/>", color(name, &names)));
        line(&mut svg, &format!("<text x=\"{}\" y=\"{}\">{name}</text>", x + 12.0, y + 4.0));
    }
    svg + "</svg>\n"
}

fn series<'a>(name: &'a str, results: &[Measured], value: fn(&Measured) -> Option<f64>) -> Option<Series<'a>> {
    let of_name: Vec<&Measured> = results.iter().filter(|result| result.point.collector == name).collect();
    let points: Vec<(f64, f64)> =
        of_name.iter().filter_map(|result| Some((result.median("peak_rss_mb")?, value(result)?))).collect();
    (!points.is_empty()).then(|| Series { collector: name, kind: of_name[0].point.kind, points })
}

fn panel(svg: &mut String, left: f64, title: &str, all: &[Series], names: &[&str]) {
    let points = all.iter().flat_map(|series| &series.points);
    let (right, bottom) = (left + WIDTH, MARGIN + HEIGHT);
    let x = Axis::new(points.clone().map(|point| point.0), left, right);
    let y = Axis::new(points.map(|point| point.1), bottom, MARGIN);
    line(svg, &format!("<text x=\"{left}\" y=\"{}\" font-size=\"15\">{title}</text>", MARGIN - 20.0));
    let middle = left + WIDTH / 2.0;
    line(svg, &format!("<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">peak memory, MiB</text>", bottom + 40.0));
    for tick in x.ticks() {
        let at = x.place(tick);
        line(svg, &format!("<path d=\"M{at:.1} {MARGIN}V{bottom}\" stroke=\"#ddd\"/>"));
        line(svg, &format!("<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>", bottom + 18.0));
    }
    for tick in y.ticks() {
        let at = y.place(tick);
        line(svg, &format!("<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
        line(svg, &format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>", left - 6.0, at + 4.0));
    }
    line(
        svg,
        &format!(
            "<rect x=\"{left}\" y=\"{MARGIN}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#888\"/>"
        ),
    );
    for series in all {
        let color = color(series.collector, names);
        let places: Vec<(f64, f64)> = series.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let thick = if series.kind == Kind::Ours { 3 } else { 1 };
        line(
            svg,
            &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{thick}\"/>",
                path.join(" ")
            ),
        );
        for (x, y) in places {
            line(svg, &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\"/>"));
        }
    }
}

/// Our collector is the first one, and black.
fn color(name: &str, names: &[&str]) -> String {
    match names.iter().position(|other| *other == name) {
        None | Some(0) => "black".into(),
        Some(index) => format!("hsl({}, 70%, {}%)", index * 360 / names.len(), 40 + index % 2 * 15),
    }
}

fn line(svg: &mut String, text: &str) {
    // Writing to a string does not fail.
    _ = writeln!(svg, "{text}");
}
