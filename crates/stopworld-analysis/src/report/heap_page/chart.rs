//! The chart: stacked bands over time, with collections, markers and heap figures.

use super::band::{SHOWN, class};
use crate::profstats::heap::{Figure, Row};
use crate::profstats::{Profiles, Sample};
use crate::report::chart::{Chart, Kind, Line, Series, Unit};

/// The number of positions on the time axis: more than the pixels of a window, so that the reader can zoom in.
const PLACES: usize = 2000;

pub(super) fn chart(profiles: &Profiles, rows: &[Row]) -> Chart {
    let heap = &profiles.heap;
    let end = profiles.end_ns.max(heap.samples.kept().last().map_or(0, |sample| sample.time_ns)).max(1);
    let samples = largest(heap.samples.kept(), end);
    let figures = Figure::ALL.into_iter().enumerate().filter(|(index, _)| !heap.figures[*index].kept().is_empty());
    let lines = figures.map(|(index, figure)| Line {
        name: figure.name().to_owned(),
        class: format!("f{index}"),
        points: line(heap.figures[index].kept(), end),
    });
    let marks = heap.marks.kept().iter().take(PLACES).map(|mark| (seconds(mark.time_ns), mark.text.clone()));
    let mut about = "Bytes of each band over time".to_owned();
    if !heap.collections.kept().is_empty() {
        about += "; collections are shown below the axis";
    }
    Chart {
        to: seconds(end),
        places: samples.iter().map(|sample| seconds(sample.time_ns)).collect(),
        series: bands(profiles, rows, &samples),
        lines: lines.collect(),
        collections: collections(heap.collections.kept(), end),
        marks: marks.collect(),
        ..Chart::new("chart", about, Kind::Areas, Unit::Bytes)
    }
}

/// Returns the largest bands, and the sum of all others.
fn bands(profiles: &Profiles, rows: &[Row], samples: &[&Sample]) -> Vec<Series> {
    let heap = &profiles.heap;
    let mut place_of = vec![SHOWN; heap.bands.len()];
    rows.iter().take(SHOWN).enumerate().for_each(|(place, row)| place_of[row.band as usize] = place);
    let mut names: Vec<(String, String)> = rows
        .iter()
        .take(SHOWN)
        .enumerate()
        .map(|(place, row)| {
            let name = heap.name(row.band, &profiles.stacks, &profiles.centres);
            let class = class(&name, heap.breakdown, place);
            (name, class)
        })
        .collect();
    if rows.len() > SHOWN {
        names.push((format!("{} others", rows.len() - SHOWN), class("", heap.breakdown, SHOWN)));
    }
    let mut values = vec![vec![0u64; samples.len()]; names.len()];
    for (index, sample) in samples.iter().enumerate() {
        for &(band, bytes) in &sample.values {
            let value = &mut values[place_of[band as usize]][index];
            *value = value.saturating_add(bytes);
        }
    }
    let series = names.into_iter().zip(values).map(|((name, class), values)| Series {
        name,
        class,
        values: values.into_iter().map(|bytes| Some(bytes as f64)).collect(),
    });
    series.collect()
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

/// Returns the collections. If there are many, collections with a short time between them are merged into one.
fn collections(collections: &[(u64, u64)], to: u64) -> Vec<(f64, f64)> {
    let most = 4 * PLACES;
    let gap = if collections.len() > most { to / most as u64 + 1 } else { 0 };
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for &(begin, end) in collections {
        match merged.last_mut() {
            Some(last) if begin.saturating_sub(last.0) < gap => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged.into_iter().map(|(begin, end)| (seconds(begin), seconds(end))).collect()
}

/// Returns the points of a heap figure; one for each position is enough.
fn line(points: &[(u64, u64)], to: u64) -> Vec<(f64, f64)> {
    let width = to / PLACES as u64 + 1;
    let mut place = u64::MAX;
    let firsts = points.iter().filter(|(time, _)| std::mem::replace(&mut place, time / width) != time / width);
    firsts.map(|&(time, value)| (seconds(time), value as f64)).collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_collections_are_merged_and_none_is_lost() {
        let few = [(1, 2), (2, 3), (9, 12)];
        assert_eq!(collections(&few, 12).len(), 3);
        let many: Vec<(u64, u64)> = (0..100_000).map(|number| (number * 10_000, number * 10_000 + 9)).collect();
        let to = 1_000_000_000;
        let merged = collections(&many, to);
        assert!(merged.len() <= 4 * PLACES + 1, "{}", merged.len());
        for &(begin, end) in &many {
            let part = merged[merged.partition_point(|part| part.0 <= seconds(begin)) - 1];
            assert!(seconds(end) <= part.1, "{begin} to {end} is not in {part:?}");
        }
    }

    #[test]
    fn a_line_has_one_point_for_each_position() {
        let points: Vec<(u64, u64)> = (0..10 * PLACES as u64).map(|time| (time, time)).collect();
        let thinned = line(&points, points.len() as u64);
        assert!((PLACES / 2..=PLACES).contains(&thinned.len()), "{}", thinned.len());
        assert_eq!(line(&[(5, 7), (6, 8)], 1_000_000_000), [(5e-9, 7.0)]);
    }
}
