//! Allocation profiles: the sampled allocations of a running world, with the names of their call stacks.
//!
//! [`Allocations::of`] names the functions of an [`AllocationProfile`]; the debugging information of the program and its libraries is read from their
//! files. The collector's own functions, and those of the standard library that called them, are left out in front of each stack, and what called
//! `main` or a thread's closure at its end.
//!
//! | format | values |
//! |---|---|
//! | [pprof](crate::pprof::allocations) | `alloc_objects`, `alloc_space`, `inuse_objects`, `inuse_space` |
//! | [folded](Allocations::folded) | allocated bytes |
//! | [speedscope](Allocations::speedscope) | two profiles: allocated bytes, and bytes in use |
//! | [text](Allocations::text) | all four, by function, by cost centre stack, and by call stack |

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use stopworld::profile::allocations::{AllocationProfile, AllocationSite, ProgramModule};
use stopworld::profile::{CentreId, StackId};
use stopworld_platform::symbols::{CodePlace, Symbols};

use crate::json::Items;
use crate::profstats::folded;
use crate::profstats::speedscope::{self, Frame as SpeedscopeFrame, Profile};

/// The name of a stack that is not known.
const UNKNOWN: &str = "(unknown)";

/// The number of rows of each table of the text.
const MOST_ROWS: usize = 30;

/// Estimated numbers of objects and of bytes. The bytes of a sample are rounded when it is taken, and the objects of a site here, so the sums of
/// sites are equal in all formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimates {
    /// Objects that were allocated.
    pub alloc_objects: u64,
    /// Their bytes.
    pub alloc_space: u64,
    /// Objects that were alive after the last collection, or were allocated since.
    pub inuse_objects: u64,
    /// Their bytes.
    pub inuse_space: u64,
}

impl Estimates {
    fn of(site: &AllocationSite) -> Self {
        Self {
            alloc_objects: site.allocated_objects().round() as u64,
            alloc_space: site.allocated_bytes() as u64,
            inuse_objects: site.objects_in_use().round() as u64,
            inuse_space: site.bytes_in_use() as u64,
        }
    }

    fn add(&mut self, other: &Self) {
        self.alloc_objects += other.alloc_objects;
        self.alloc_space += other.alloc_space;
        self.inuse_objects += other.inuse_objects;
        self.inuse_space += other.inuse_space;
    }

    /// Returns the four numbers, in the order of the fields.
    pub fn values(&self) -> [u64; 4] {
        [self.alloc_objects, self.alloc_space, self.inuse_objects, self.inuse_space]
    }
}

/// A frame of a call stack.
#[derive(Clone, Debug)]
pub struct CallFrame {
    /// The address of the call in memory.
    pub address: u64,
    /// The calls, innermost first: those after the first are of functions into which the ones before were inlined.
    pub calls: Vec<CodePlace>,
}

/// The cost centres that a thread was in, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostCentres {
    /// The innermost centre, with its module.
    pub innermost: String,
    /// The labels of all centres, innermost first, separated by `/`, as the bands of a [census](stopworld::profile::census::Band) have them.
    pub path: String,
}

impl CostCentres {
    fn of(stack: StackId) -> Self {
        let centre = stack.centre();
        let innermost = match (centre.is_built_in(), centre.module()) {
            (true, _) | (_, "") => centre.label().to_owned(),
            (_, module) => format!("{module}.{}", centre.label()),
        };
        let labels: Vec<&str> = stack.centres().map(CentreId::label).collect();
        let path = if labels.is_empty() { innermost.clone() } else { labels.join("/") };
        Self { innermost, path }
    }
}

/// The allocations of one call stack, cost centre stack, type and size.
#[derive(Clone, Debug)]
pub struct NamedSite {
    /// The program's own frames, innermost first. Empty if the stack is not known. Sites with one call stack share them.
    pub frames: Arc<[CallFrame]>,
    /// The cost centres of the thread. Sites with one stack of centres share them.
    pub cost_centres: Arc<CostCentres>,
    /// The type of the objects.
    pub type_name: &'static str,
    /// The bytes that each object takes.
    pub object_bytes: u64,
    /// The estimates.
    pub estimates: Estimates,
}

impl NamedSite {
    fn calls(&self) -> impl DoubleEndedIterator<Item = &CodePlace> {
        self.frames.iter().flat_map(|frame| &frame.calls)
    }
}

/// An allocation profile with the names of its functions. See the module's text.
#[derive(Clone, Debug)]
pub struct Allocations {
    /// The mean number of bytes between two samples.
    pub interval_bytes: u64,
    /// The number of samples for which there was no room.
    pub dropped: u64,
    /// The number of samples whose objects are not followed: they are allocated, but not in use.
    pub untracked: u64,
    /// The sites, in the order of their first samples.
    pub sites: Vec<NamedSite>,
    /// The program and its libraries.
    pub modules: Vec<ProgramModule>,
}

impl Allocations {
    /// Names the functions of a profile of this process.
    pub fn of(profile: &AllocationProfile) -> Allocations {
        let mut symbols = Symbols::new();
        let mut known: HashMap<_, Arc<[CallFrame]>> = HashMap::new();
        let mut centres: HashMap<StackId, Arc<CostCentres>> = HashMap::new();
        let sites = profile.sites.iter().map(|site| NamedSite {
            frames: Arc::clone(known.entry(site.call_stack).or_insert_with(|| {
                let stack: Vec<usize> = site.call_stack.iter().flat_map(|stack| stack.return_addresses()).collect();
                let own = symbols.own_frames(&stack);
                own.into_iter().map(|(index, calls)| CallFrame { address: stack[index] as u64 - 1, calls }).collect()
            })),
            cost_centres: Arc::clone(
                centres.entry(site.cost_stack).or_insert_with(|| Arc::new(CostCentres::of(site.cost_stack))),
            ),
            type_name: site.type_info.name(),
            object_bytes: site.object_bytes,
            estimates: Estimates::of(site),
        });
        let sites = sites.collect();
        let AllocationProfile { interval_bytes, dropped, untracked, ref modules, .. } = *profile;
        Allocations { interval_bytes, dropped, untracked, sites, modules: modules.clone() }
    }

    /// Returns the sum of all sites.
    pub fn total(&self) -> Estimates {
        let mut total = Estimates::default();
        self.sites.iter().for_each(|site| total.add(&site.estimates));
        total
    }

    /// Returns the call stacks, functions outermost first, with their estimates.
    fn by_stack(&self) -> BTreeMap<Vec<&str>, Estimates> {
        let mut stacks: BTreeMap<Vec<&str>, Estimates> = BTreeMap::new();
        for site in &self.sites {
            let mut names: Vec<&str> = site.calls().rev().map(CodePlace::function).collect();
            if names.is_empty() {
                names.push(UNKNOWN);
            }
            stacks.entry(names).or_default().add(&site.estimates);
        }
        stacks
    }

    /// Returns the lines of folded stacks, with allocated bytes: the input of flame graph tools.
    pub fn folded_lines(&self) -> Vec<String> {
        let line = |(names, estimates): (Vec<&str>, Estimates)| {
            let names: Vec<String> = names.into_iter().map(folded::frame).collect();
            format!("{} {}", names.join(";"), estimates.values()[1])
        };
        self.by_stack().into_iter().map(line).collect()
    }

    /// Writes these lines.
    ///
    /// # Errors
    /// Writing failed.
    pub fn folded(&self, out: &mut dyn Write) -> io::Result<()> {
        self.folded_lines().iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Writes a file for speedscope. `name` is the title.
    ///
    /// # Errors
    /// Writing failed.
    pub fn speedscope(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        let stacks = self.by_stack();
        let mut names: Vec<&str> = stacks.keys().flatten().copied().collect();
        names.sort_unstable();
        names.dedup();
        let names = &names;
        let weights = |value: usize| move |estimates: &Estimates| estimates.values()[value];
        let profile = |name: &str, value: usize| {
            let weight = weights(value);
            let entries: Vec<_> =
                stacks.iter().map(|(stack, sum)| (stack, weight(sum))).filter(|(_, w)| *w > 0).collect();
            let number = |name: &&str| names.partition_point(|known| known < name);
            Profile {
                r#type: "sampled",
                name: name.to_owned(),
                unit: "bytes",
                start_value: 0,
                end_value: entries.iter().map(|(_, weight)| u128::from(*weight)).sum(),
                samples: entries
                    .iter()
                    .map(|(stack, _)| stack.iter().map(number).collect::<Vec<_>>())
                    .collect::<Vec<_>>(),
                weights: entries.iter().map(|(_, weight)| *weight).collect::<Vec<_>>(),
            }
        };
        let profiles = [profile("allocated bytes", 1), profile("bytes in use", 3)];
        let frames = Items(|| names.iter().map(|name| SpeedscopeFrame { name: (*name).to_owned(), file: "" }));
        speedscope::write_file(out, name, &profiles, frames)
    }

    /// Returns the report as text: the functions that allocate, the cost centre stacks if there are any, and the call stacks, those with the
    /// most allocated bytes first.
    pub fn text(&self) -> String {
        let total = self.total();
        let mut functions: BTreeMap<(&str, &str), Estimates> = BTreeMap::new();
        for site in &self.sites {
            let innermost = site.calls().next().map_or(UNKNOWN, CodePlace::function);
            functions.entry((innermost, site.type_name)).or_default().add(&site.estimates);
        }
        let functions = functions.into_iter().map(|((function, of), sum)| (format!("{function} ({of})"), sum));
        let mut centres: BTreeMap<(&str, &str), Estimates> = BTreeMap::new();
        for site in &self.sites {
            centres.entry((&site.cost_centres.path, site.type_name)).or_default().add(&site.estimates);
        }
        let has_centres = centres.keys().any(|(path, _)| *path != CentreId::MAIN.label());
        let centres = centres.into_iter().map(|((path, of), sum)| (format!("{path} ({of})"), sum));
        let stacks = self.by_stack().into_iter().map(|(mut names, sum)| {
            names.reverse();
            (names.join(" < "), sum)
        });
        let interval = self.interval_bytes;
        let mut text = format!("estimates from samples, one for each {interval} bytes on average\n");
        if self.dropped > 0 {
            text += &format!("{} samples are missing, because the table of samples was full\n", self.dropped);
        }
        if self.untracked > 0 {
            text += &format!(
                "{} samples count as allocated only, because the table of live objects was full\n",
                self.untracked
            );
        }
        let mut tables = vec![("by function (type)", rows(functions))];
        if has_centres {
            tables.push(("by cost centre stack, innermost first (type)", rows(centres)));
        }
        tables.push(("by call stack, innermost first", rows(stacks)));
        for (title, rows) in tables {
            let mut table = Table::new();
            table.load_preset(NOTHING);
            table.set_header(["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", title]);
            let row = |sum: &Estimates, name: &str| {
                sum.values().map(|value| value.to_string()).into_iter().chain([name.to_owned()]).collect::<Vec<_>>()
            };
            table.add_row(row(&total, "total"));
            rows.iter().take(MOST_ROWS).for_each(|(name, sum)| {
                table.add_row(row(sum, name));
            });
            table.column_iter_mut().take(4).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
            let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
            text += &format!("\n{}\n", lines.join("\n"));
            if rows.len() > MOST_ROWS {
                text += &format!("and {} more\n", rows.len() - MOST_ROWS);
            }
        }
        text
    }
}

/// The rows of a table, those with the most allocated bytes first.
fn rows(rows: impl Iterator<Item = (String, Estimates)>) -> Vec<(String, Estimates)> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|(a, sum), (b, other)| other.alloc_space.cmp(&sum.alloc_space).then_with(|| a.cmp(b)));
    rows
}
