//! The tables of the page: bands, cost centres, retainers.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::band::{class, seconds};
use crate::gcstats::number::Grouped;
use crate::profstats::heap::Row;
use crate::profstats::{Band, Profiles, StackId};
use crate::report::Bytes;
use crate::report::document::table;

/// Maximum number of rows of a table.
const MOST_ROWS: usize = 1000;
/// The tree omits stacks with less than 1/`LEAST_SHARE` of all bytes.
const LEAST_SHARE: u128 = 1000;

fn share(part: u128, whole: u128) -> String {
    format!("{:.1}", if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 })
}

fn titled(about: &str, heads: &[&str], rows: &Markup) -> Markup {
    table(about, &html! { tr { @for head in heads { th scope="col" { (head) } } } }, rows)
}

/// Returns the table of bands with their figures, largest first.
pub(super) fn bands(profiles: &Profiles, rows: &[Row]) -> Markup {
    let heap = &profiles.heap;
    let all: u128 = rows.iter().map(|row| row.sum).sum();
    let body = html! {
        @for (place, row) in rows.iter().take(MOST_ROWS).enumerate() {
            @let name = heap.name(row.band, &profiles.stacks, &profiles.centres);
            tr {
                th.name scope="row" { i class={ "swatch " (class(&name, heap.breakdown, place)) } {} (name) }
                td { (Bytes(row.mean)) } td { (Bytes(row.peak)) } td { (seconds(row.peak_ns)) } td { (Bytes(row.last)) }
                @if heap.has_objects { td { (Grouped(row.last_objects as f64, 0)) } }
                td { (share(row.sum, all)) }
            }
        }
    };
    let caption = match rows.len().checked_sub(MOST_ROWS) {
        Some(left) if left > 0 => format!("The {MOST_ROWS} largest bands; {left} are not shown"),
        _ => "Bands, largest first".to_owned(),
    };
    let mut heads = vec![heap.breakdown.name(), "mean", "peak", "at, s", "last"];
    heads.extend(heap.has_objects.then_some("objects, last"));
    heads.push("share, %");
    titled(&caption, &heads, &body)
}

/// Returns the tree of cost centres: the live bytes allocated under each, as a mean over the samples.
pub(super) fn tree(profiles: &Profiles, rows: &[Row]) -> Markup {
    let Profiles { heap, stacks, .. } = profiles;
    let mut sums = vec![0u128; stacks.len()];
    let mut own = vec![0u64; stacks.len()];
    for row in rows {
        if let Band::Stack(stack) = heap.bands[row.band as usize] {
            sums[stack.index()] += row.sum;
            own[stack.index()] = own[stack.index()].saturating_add(row.mean);
        }
    }
    // A stack comes after its outer stack.
    for stack in stacks.iter().collect::<Vec<_>>().into_iter().rev() {
        if let Some((_, around)) = stacks.top(stack) {
            sums[around.index()] += sums[stack.index()];
        }
    }
    let mut inside: Vec<Vec<StackId>> = vec![Vec::new(); stacks.len()];
    for stack in stacks.iter() {
        if let Some((_, around)) = stacks.top(stack)
            && sums[stack.index()] * LEAST_SHARE >= sums[0].max(1)
        {
            inside[around.index()].push(stack);
        }
    }
    inside.iter_mut().for_each(|stacks| stacks.sort_by_key(|stack| std::cmp::Reverse(sums[stack.index()])));
    let mut body = Vec::new();
    let mut open = vec![(StackId::MAIN, 0usize)];
    while let Some((stack, depth)) = open.pop()
        && body.len() < MOST_ROWS
    {
        body.push((stack, depth));
        open.extend(inside[stack.index()].iter().rev().map(|&stack| (stack, depth + 1)));
    }
    let count = heap.samples.kept().len().max(1) as u128;
    let body = html! {
        @for (stack, depth) in body {
            @let centre = stacks.top(stack).map(|(centre, _)| centre);
            @let known = centre.and_then(|centre| profiles.centres.get(centre));
            tr {
                th.name scope="row" style={ "padding-left:calc(.4rem + " (depth.min(40)) "em)" } {
                    (centre.map_or_else(|| "MAIN".to_owned(), |centre| profiles.centres.name(centre)))
                }
                td.name { (known.map_or("", |known| &known.module)) } td.name { (known.map_or("", |known| &known.place)) }
                td { (Bytes(own[stack.index()])) } td { (Bytes(u64::try_from(sums[stack.index()] / count).unwrap_or(u64::MAX))) }
                td { (share(sums[stack.index()], sums[0])) }
            }
        }
    };
    let heads = ["cost centre", "module", "place", "own, mean", "inherited, mean", "share, %"];
    titled("Cost centres by stack", &heads, &body)
}

/// Returns the table of retainers: the bytes that each keeps alive alone, and together with others.
pub(super) fn retainers(profiles: &Profiles, rows: &[Row]) -> Markup {
    let heap = &profiles.heap;
    let mut all: BTreeMap<String, (u64, u64, usize)> = BTreeMap::new();
    for row in rows {
        let Band::Label(label) = &heap.bands[row.band as usize] else { continue };
        let names = retainers_of(label);
        for name in &names {
            let entry = all.entry(name.clone()).or_default();
            let kept = if names.len() == 1 { &mut entry.0 } else { &mut entry.1 };
            *kept = kept.saturating_add(row.mean);
            entry.2 += 1;
        }
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(_, (alone, shared, _))| std::cmp::Reverse((*alone, *shared)));
    let body = html! {
        @for (name, (alone, shared, sets)) in all.iter().take(MOST_ROWS) {
            tr {
                th.name scope="row" { (name) } td { (Bytes(*alone)) } td { (Bytes(*shared)) } td { (sets) }
            }
        }
    };
    let heads = ["retainer", "kept alone, mean", "kept with others, mean", "sets"];
    titled("Retainers, by the bytes that each keeps alone", &heads, &body)
}

/// Returns the retainers in the label of a set, `(number)one,another`, without duplicates.
fn retainers_of(label: &str) -> Vec<String> {
    let numbered = label.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let names =
        numbered.filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit())).map_or(label, |(_, rest)| rest);
    let mut names: Vec<String> = names.split(',').map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}
