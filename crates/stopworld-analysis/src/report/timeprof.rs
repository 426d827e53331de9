//! A time profile as tables for a terminal: general facts, the cost centres by their own time, and the tree of their stacks, as in
//! GHC's `.prof` files.
//!
//! Percentages refer to the ticks of the program itself; ticks of the runtime are in a line of their own. The tree shows the
//! stacks with at least a thousandth of the ticks.

use comfy_table::Table;

use super::heapprof::cut;
use super::layout::{align_right, empty};
use crate::profstats::{Profiles, StackId, TimeProfile};
use ghc_eventlog::format::NO_CAPABILITY;

/// Maximum number of cost centres and of stacks shown.
const MOST_ROWS: usize = 200;

/// Formats the tables for printing; no newline at the end.
pub fn render(profiles: &Profiles) -> String {
    let all = profiles.time.program_ticks(&profiles.stacks, &profiles.centres);
    format!("{}\n{}\n{}", figures(profiles, all), centres(profiles, all), tree(profiles, all))
}

fn figures(profiles: &Profiles, all: u64) -> Table {
    let Profiles { time, heap, stacks, centres, .. } = profiles;
    let mut table = empty();
    let seconds = |ticks: u64| (u128::from(ticks) * u128::from(time.interval_ns)) as f64 / 1e9;
    if !heap.program.is_empty() {
        table.add_row(["program", &heap.program]);
    }
    if !profiles.runtime.is_empty() {
        table.add_row(["written by", &profiles.runtime]);
    }
    table.add_row(["tick interval", &format!("{:.3} ms", time.interval_ns as f64 / 1e6)]);
    let capabilities = time.runs.keys().filter(|cap| **cap != u32::from(NO_CAPABILITY));
    table.add_row(["capabilities", &capabilities.count().to_string()]);
    table.add_row(["program time", &format!("{all} ticks, {:.3} s", seconds(all))]);
    let outside_activities = time.outside_activities(stacks, centres);
    if !outside_activities.is_empty() {
        let outside_activities: Vec<String> = outside_activities
            .iter()
            .map(|(name, ticks)| format!("{name} {ticks} ticks, {:.3} s", seconds(*ticks)))
            .collect();
        table.add_row(["outside the program", &outside_activities.join("; ")]);
    }
    table
}

fn percent(ticks: u64, all: u64) -> String {
    format!("{:.1}", if all > 0 { 100.0 * ticks as f64 / all as f64 } else { 0.0 })
}

fn centres(profiles: &Profiles, all: u64) -> Table {
    let Profiles { time, stacks, centres, .. } = profiles;
    let mut table = empty();
    table.set_header(["cost centre", "module", "place", "ticks", "own, %", "inherited, %"]);
    for row in time.centres(stacks, centres).iter().take(MOST_ROWS) {
        let known = row.centre.and_then(|centre| centres.get(centre));
        let name = row.centre.map_or_else(|| "MAIN".to_owned(), |centre| centres.name(centre));
        let (module, place) = known.map_or(("", ""), |known| (known.module.as_str(), known.place.as_str()));
        let [own, inherited] = [row.own, row.inherited].map(|ticks| percent(ticks, all));
        table.add_row([cut(&name), cut(module), cut(place), row.own.to_string(), own, inherited]);
    }
    align_right(&mut table, 3..usize::MAX);
    table
}

fn tree(profiles: &Profiles, all: u64) -> Table {
    let Profiles { time, stacks, centres, .. } = profiles;
    let sums = time.inherited(stacks);
    let mut inside: Vec<Vec<StackId>> = vec![Vec::new(); stacks.len()];
    for stack in stacks.iter() {
        let is_shown = sums[stack.index()] * 1000 >= all.max(1);
        if let Some((_, around)) = stacks.top(stack)
            && is_shown
            && TimeProfile::outside_activity(stack, stacks, centres).is_none()
        {
            inside[around.index()].push(stack);
        }
    }
    inside.iter_mut().for_each(|stacks| stacks.sort_by_key(|stack| std::cmp::Reverse(sums[stack.index()])));
    let mut table = empty();
    table.set_header(["stack", "ticks", "own, %", "inherited, %"]);
    // Depth first, without recursion: a stack has up to 255 frames.
    let mut open = vec![(StackId::MAIN, 0)];
    let mut shown = 0;
    while let Some((stack, depth)) = open.pop() {
        if shown == MOST_ROWS {
            table.add_row(["…"]);
            break;
        }
        shown += 1;
        let name = stacks.top(stack).map_or_else(|| "MAIN".to_owned(), |(centre, _)| centres.name(centre));
        let own = time.ticks.get(stack.index()).copied().unwrap_or(0);
        // The sum of MAIN is not used, because it includes the ticks outside the program.
        let inherited = if stack == StackId::MAIN { all } else { sums[stack.index()] };
        let row = [percent(own, all), percent(inherited, all)];
        let name = format!("{}{}", "  ".repeat(depth), cut(&name));
        table.add_row([name, own.to_string(), row[0].clone(), row[1].clone()]);
        open.extend(inside[stack.index()].iter().rev().map(|&stack| (stack, depth + 1)));
    }
    align_right(&mut table, 1..usize::MAX);
    table
}
