//! The per-generation CSV export of PerfView: one line per collection.

use std::io::{self, Write};

use super::collection::{Collection, LARGE};
use super::number::Fixed;
use super::{Figures, Process};

const FIGURES: [&str; 6] = ["Before", "After", "Surv", "In", "Out", "Frag"];
const BUDGET: &str = "Budget";

impl Process {
    /// Writes one line for each collection, with the figures of each generation.
    ///
    /// # Errors
    /// Writing to `to` failed.
    pub fn write_per_generation_csv(&self, to: &mut dyn Write) -> io::Result<()> {
        write!(to, "PauseStart,Num,Gen,GCStop,TickMB")?;
        for figure in FIGURES.iter().chain(self.detailed.then_some(&BUDGET)) {
            (0..=LARGE).try_for_each(|generation| write!(to, ",{figure}{generation}"))?;
        }
        writeln!(to)?;
        self.for_each(
            |collection, figures| {
                if collection.complete { line(to, collection, figures, self.detailed) } else { Ok(()) }
            },
        )
    }
}

fn line(to: &mut dyn Write, collection: &Collection, figures: &Figures, detailed: bool) -> io::Result<()> {
    write!(to, "{},{}", Fixed(collection.pause_start, 3), collection.number)?;
    write!(to, ",{},{}", collection.generation_name(), Fixed(collection.duration + collection.start, 3))?;
    write!(to, ",{}", Fixed(collection.ticked[0] + collection.ticked[1], 3))?;
    let mut four = |figure: &dyn Fn(usize) -> f64| {
        (0..=LARGE).try_for_each(|generation| write!(to, ",{}", Fixed(figure(generation), 3)))
    };
    four(&|generation| figures.before[generation])?;
    four(&|generation| collection.size_after_mb(generation))?;
    four(&|generation| collection.generation_promoted_mb(generation))?;
    four(&|generation| collection.in_mb(generation))?;
    four(&|generation| collection.out_mb(generation))?;
    four(&|generation| collection.fragmentation_mb(generation))?;
    if detailed {
        four(&|generation| collection.budget_mb(generation))?;
    }
    writeln!(to)
}
