//! The chart: stacked bands over time, with collections, markers and heap figures.

use std::fmt::Write;

use maud::{Markup, html};

use super::band::{SHOWN, class, seconds};
use crate::profstats::heap::{Figure, Row};
use crate::profstats::{Profiles, Sample};
use crate::report::Bytes;

/// Positions on the time axis.
const PLACES: usize = 600;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
/// Margins: for the numbers at the left, and for the times and collections below the axis.
const LEFT: f64 = 72.0;
const BELOW: f64 = 40.0;
const ABOVE: f64 = 8.0;

/// A band of the chart.
struct Layer {
    name: String,
    class: String,
    values: Vec<u64>,
}

/// The data of the chart.
pub(super) struct Chart<'a> {
    profiles: &'a Profiles,
    times: Vec<u64>,
    layers: Vec<Layer>,
    from: u64,
    to: u64,
    top: u64,
}

impl<'a> Chart<'a> {
    pub(super) fn of(profiles: &'a Profiles, rows: &[Row]) -> Chart<'a> {
        let heap = &profiles.heap;
        let (from, to) = (0, profiles.end_ns.max(heap.samples.kept().last().map_or(0, |sample| sample.time_ns)).max(1));
        let samples = largest(heap.samples.kept(), to);
        let mut place_of = vec![SHOWN; heap.bands.len()];
        rows.iter().take(SHOWN).enumerate().for_each(|(place, row)| place_of[row.band as usize] = place);
        let mut layers: Vec<Layer> = rows
            .iter()
            .take(SHOWN)
            .enumerate()
            .map(|(place, row)| {
                let name = heap.name(row.band, &profiles.stacks, &profiles.centres);
                Layer { class: class(&name, heap.breakdown, place), name, values: vec![0; samples.len()] }
            })
            .collect();
        if rows.len() > SHOWN {
            let name = format!("{} others", rows.len() - SHOWN);
            layers.push(Layer { name, class: class("", heap.breakdown, SHOWN), values: vec![0; samples.len()] });
        }
        for (index, sample) in samples.iter().enumerate() {
            for &(band, bytes) in &sample.values {
                let value = &mut layers[place_of[band as usize]].values[index];
                *value = value.saturating_add(bytes);
            }
        }
        let figures = heap.figures.iter().flat_map(|figure| figure.kept()).map(|point| point.1);
        let top = samples.iter().map(|sample| sample.total()).chain(figures).max().unwrap_or(0);
        let times = samples.iter().map(|sample| sample.time_ns).collect();
        Chart { profiles, times, layers, from, to, top: nice(top) }
    }

    pub(super) fn markup(&self) -> Markup {
        let heap = &self.profiles.heap;
        html! {
            figure {
                svg #picture viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="group" aria-label="Bytes of each band over time"
                    tabindex="0" data-points="" {
                    (self.axes())
                    g id="areas" {
                        @for (index, layer) in self.layers.iter().enumerate() {
                            path class={ "area " (layer.class) } d=(self.area(index)) {}
                        }
                    }
                    @for (index, figure) in Figure::ALL.into_iter().enumerate() {
                        @if !heap.figures[index].kept().is_empty() {
                            path class={ "figure f" (index) } data-figure=(figure.name()) d=(self.line(heap.figures[index].kept())) {}
                        }
                    }
                    (self.collections())
                    (self.marks())
                    @for index in 0..self.times.len() { (self.point(index)) }
                }
                figcaption {
                    "Bytes of each band over time, in seconds. Use the arrow keys to move between samples. Collections are shown below the axis."
                    @for (index, figure) in Figure::ALL.into_iter().enumerate() {
                        @if !heap.figures[index].kept().is_empty() {
                            span.key { i class={ "swatch f" (index) } {} (figure.name()) }
                        }
                    }
                }
            }
            (self.filter())
        }
    }

    fn axes(&self) -> Markup {
        html! {
            @for part in 0..=4u32 {
                @let share = f64::from(part) / 4.0;
                path.grid d={ "M" (LEFT) "," (at(y(share))) "H" (WIDTH) } {}
                text.number data-share=(share) x=(LEFT - 6.0) y=(at(y(share) + 4.0)) { (Bytes((self.top as f64 * share) as u64)) }
                @let time = self.from + ((self.to - self.from) as f64 * share) as u64;
                @let place = if part == 4 { "number" } else { "tick" };
                text class=(place) x=(at(x(share))) y=(HEIGHT - 6.0) { (seconds(time)) " s" }
            }
        }
    }

    /// The form that selects the bands to draw, by name or one by one.
    fn filter(&self) -> Markup {
        html! {
            form.filter id="filter" onsubmit="return false" {
                label { "Bands named " input type="search" id="words" autocomplete="off" placeholder="part of a name"; }
                label { input type="checkbox" id="figures" checked; " heap figures" }
                fieldset {
                    legend { "Bands" }
                    @for (index, layer) in self.layers.iter().enumerate() {
                        label.band {
                            input type="checkbox" data-band=(index) checked;
                            i class={ "swatch " (layer.class) } {}
                            (layer.name)
                        }
                    }
                }
            }
        }
    }

    /// A sample, with its values as text.
    fn point(&self, index: usize) -> Markup {
        let mut bands: Vec<_> = self.layers.iter().map(|layer| (layer.values[index], &layer.name)).collect();
        let total = bands.iter().fold(0, |sum: u64, band| sum.saturating_add(band.0));
        bands.sort_by_key(|band| std::cmp::Reverse(band.0));
        html! {
            g.point tabindex="-1" {
                title {
                    "at " (seconds(self.times[index])) " s: " (Bytes(total))
                    @for (bytes, name) in bands.iter().take(5).filter(|band| band.0 > 0) { "; " (name) " " (Bytes(*bytes)) }
                }
                path.cursor d={ "M" (at(self.x_of(self.times[index]))) "," (ABOVE) "V" (at(y(0.0))) } {}
            }
        }
    }

    fn collections(&self) -> Markup {
        let mut path = String::new();
        for &(begin, end) in self.profiles.heap.collections.kept() {
            let from = self.x_of(begin);
            let width = (self.x_of(end) - from).max(0.5);
            let _ = write!(path, "M{},{}h{}v8h-{}Z", at(from), at(y(0.0) + 4.0), at(width), at(width));
        }
        let count = self.profiles.heap.collections.seen();
        html! {
            @if !path.is_empty() {
                g.gc { title { (count) " collections" } path d=(path) {} }
            }
        }
    }

    fn marks(&self) -> Markup {
        html! {
            @for mark in self.profiles.heap.marks.kept().iter().take(PLACES) {
                g.mark {
                    title { "marker at " (seconds(mark.time_ns)) " s: " (mark.text) }
                    path d={ "M" (at(self.x_of(mark.time_ns))) "," (ABOVE) "V" (at(y(0.0) + 12.0)) } {}
                }
            }
        }
    }

    /// The outline of a band, stacked on the bands before it.
    fn area(&self, layer: usize) -> String {
        let below = &self.layers[..layer];
        let ground = |index: usize| below.iter().fold(0, |sum: u64, below| sum.saturating_add(below.values[index]));
        let count = self.times.len();
        let mut path = String::new();
        for index in 0..count {
            let height = ground(index).saturating_add(self.layers[layer].values[index]);
            self.step(&mut path, index, height);
        }
        for index in (0..count).rev() {
            self.step(&mut path, index, ground(index));
        }
        if !path.is_empty() {
            path.push('Z');
        }
        path
    }

    fn step(&self, path: &mut String, index: usize, height: u64) {
        let letter = if path.is_empty() { 'M' } else { 'L' };
        let height = y(height as f64 / self.top as f64);
        let _ = write!(path, "{letter}{},{}", at(self.x_of(self.times[index])), at(height));
    }

    /// The line of a heap figure. A value holds until the next one.
    fn line(&self, points: &[(u64, u64)]) -> String {
        let mut path = String::new();
        let width = (self.to - self.from) / PLACES as u64 + 1;
        let mut place = u64::MAX;
        for &(time, value) in points {
            // One value for each position is enough.
            if time / width == place {
                continue;
            }
            place = time / width;
            let (x, y) = (at(self.x_of(time)), at(y(value as f64 / self.top as f64)));
            let _ = if path.is_empty() { write!(path, "M{x},{y}") } else { write!(path, "H{x}V{y}") };
        }
        path
    }

    fn x_of(&self, time: u64) -> f64 {
        x((time.saturating_sub(self.from)) as f64 / (self.to - self.from) as f64)
    }

    /// The data of the chart, from which the script redraws it.
    pub(super) fn json(&self) -> String {
        let numbers = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let places: Vec<String> = self.times.iter().map(|&time| at(self.x_of(time))).collect();
        let layers: Vec<String> = self.layers.iter().map(|layer| format!("[{}]", numbers(&layer.values))).collect();
        format!(
            "{{\"x\":[{}],\"bands\":[{}],\"top\":{},\"above\":{ABOVE},\"zero\":{}}}",
            places.join(","),
            layers.join(","),
            self.top,
            at(y(0.0))
        )
    }
}

/// Returns the largest sample of each position, in the order of time.
fn largest(samples: &[Sample], to: u64) -> Vec<&Sample> {
    if samples.len() <= PLACES {
        return samples.iter().collect();
    }
    let width = to / PLACES as u64 + 1;
    let mut largest: Vec<&Sample> = Vec::with_capacity(PLACES);
    for sample in samples {
        match largest.last_mut() {
            Some(last) if last.time_ns / width == sample.time_ns / width => {
                if sample.total() > last.total() {
                    *last = sample;
                }
            }
            _ => largest.push(sample),
        }
    }
    largest
}

fn x(share: f64) -> f64 {
    LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - 2.0)
}

fn y(share: f64) -> f64 {
    ABOVE + (1.0 - share.clamp(0.0, 1.0)) * (HEIGHT - ABOVE - BELOW)
}

/// Formats a coordinate with one decimal.
fn at(coordinate: f64) -> String {
    format!("{coordinate:.1}")
}

/// The next round number of bytes in its unit that is not smaller. Never 0.
fn nice(bytes: u64) -> u64 {
    let mut unit = 1u64;
    while bytes / unit >= 1024 && unit < 1 << 50 {
        unit <<= 10;
    }
    let steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
    steps.into_iter().map(|step| unit * step).find(|round| *round >= bytes).unwrap_or(bytes).max(4)
}
