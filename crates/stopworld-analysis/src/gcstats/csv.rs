//! The CSV export of PerfView: one line per collection.

use std::io::{self, Write};

use super::collection::{Collection, LARGE};
use super::number::Fixed;
use super::{Figures, Process, Rules};
use nettrace::clr::{Enumeration, label};

const COLUMNS: &str = "Num,PauseStart,Reason,Gen,PauseMSec,Time In GC,AllocMB,Alloc MB/sec,PeakMB,AfterMB,\
    Peak/After Ratio,PromotedMB,Gen0 Size,Gen0 Surv%,Gen0 Frag%,Gen1 Size,Gen1 Surv%,Gen1 Frag%,\
    Gen2 Size,Gen2 Surv%,Gen2 Frag%,LOH Size,LOH Surv%,LOH Frag%,FinalizeSurviveMB,Pinned Object,\
    % Pause Time,Suspend Msec";

impl Process {
    /// Writes one line for each collection.
    ///
    /// # Errors
    /// Writing to `to` failed.
    pub fn write_csv(&self, to: &mut dyn Write) -> io::Result<()> {
        writeln!(to, "{COLUMNS}")?;
        self.for_each(
            |collection, figures| {
                if collection.complete { line(to, collection, figures, self.rules()) } else { Ok(()) }
            },
        )
    }
}

fn line(to: &mut dyn Write, collection: &Collection, figures: &Figures, rules: Rules) -> io::Result<()> {
    let Collection { number, pause_start, pause, suspend, since_last, .. } = collection;
    let reason = label(Enumeration::Reason, collection.reason.0);
    write!(to, "{number},{},{reason},{},", Fixed(*pause_start, 3), collection.generation_name())?;
    // A .nettrace file does not contain the processor time of a collection.
    write!(to, "{},{},", Fixed(*pause, 3), Fixed(f64::NAN, 1))?;
    let young = figures.allocated_young;
    write!(to, "{},{},", Fixed(young, 3), Fixed(young * 1000.0 / since_last, 2))?;
    write!(to, "{},{},", Fixed(figures.peak, 3), Fixed(collection.after_mb(), 3))?;
    write!(to, "{},{}", ratio(figures.peak / collection.after_mb(), rules), Fixed(collection.promoted_mb(), 3))?;
    for generation in 0..=LARGE {
        write!(to, ",{}", Fixed(collection.size_after_mb(generation), 3))?;
        write!(to, ",{}", Fixed(collection.survival_percent(generation), 0))?;
        write!(to, ",{}", Fixed(collection.fragmentation_percent(generation), 2))?;
    }
    let (finalization, pinned) =
        collection.stats.as_ref().map_or((0, 0), |stats| (stats.finalization_promoted, stats.pinned_objects));
    write!(to, ",{},{pinned}", Fixed(finalization as f64 / 1_000_000.0, 2))?;
    writeln!(to, ",{},{}", Fixed(figures.pause_percent, 1), Fixed(*suspend, 3))
}

/// Formats the ratio. PerfView shows every ratio as 2, because it passes the number of decimals as the format.
fn ratio(ratio: f64, rules: Rules) -> String {
    match rules {
        Rules::LikePerfView if ratio.is_finite() => if ratio < 0.0 { "-2" } else { "2" }.to_owned(),
        _ => Fixed(ratio, 2).to_string(),
    }
}
