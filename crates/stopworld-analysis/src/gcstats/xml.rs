//! The XML export of PerfView: all data of a process and its collections.

use std::fmt::Display;
use std::io::{self, Write};

use super::collection::{Collection, GlobalHistory, HeapHistory, HeapStats, Marks};
use super::number::{Fixed, Grouped, GroupedInteger};
use super::{Figures, Identity, Process, Rollup, Rules, Settings};
use nettrace::clr::gc::CommittedUsage;
use nettrace::clr::history::{FitBucket, GenerationData, LohCompaction};
use nettrace::clr::{Enumeration, MarkRoot, label};
use quick_xml::escape::escape;

impl Process {
    /// Writes the process and its collections.
    ///
    /// # Errors
    /// Writing to `to` failed.
    pub fn write_xml(&self, to: &mut dyn Write) -> io::Result<()> {
        let Process { identity, all, .. } = self;
        write!(to, "<GCProcess")?;
        head(to, identity, all, self.rules())?;
        writeln!(to, ">")?;
        let generations = &self.generations;
        write!(to, "  <Generations Count=\"{}\" TotalGCCount=\"{}\"", generations.len(), all.count)?;
        write!(to, " TotalAllocatedMB=\"{}\" TotalGCCpuMSec=\"0.000\"", Grouped(all.total_allocated, 3))?;
        writeln!(to, " MSecPerMBAllocated=\"{}\">", Fixed(0.0 / all.total_allocated, 3))?;
        for (number, generation) in generations.iter().enumerate() {
            write!(to, "   <Generation Gen=\"{number}\"")?;
            rollup(to, generation)?;
            writeln!(to, "/>")?;
        }
        writeln!(to, "  </Generations>")?;
        writeln!(to, "  <GCEvents Count=\"{}\">", self.begun())?;
        self.for_each(|collection, figures| event(to, collection, figures))?;
        writeln!(to, "  </GCEvents>")?;
        writeln!(to, " </GCProcess>")
    }
}

/// Formats a quoted value, padded with spaces at the left to this width.
fn padded(value: impl Display, width: usize) -> String {
    let value = format!("\"{value}\"");
    format!("{value:>width$}")
}

/// Formats a quoted number with commas and this number of decimals.
fn number(value: f64, decimals: usize, width: usize) -> String {
    padded(Grouped(value, decimals), width)
}

fn head(to: &mut dyn Write, identity: &Identity, all: &Rollup, rules: Rules) -> io::Result<()> {
    let name = identity.name(rules);
    let name = if rules == Rules::Ours { escape(name) } else { name.into() };
    write!(to, " Process={} ProcessID={}", padded(name, 10), padded(identity.process, 5))?;
    if let Some(settings) = &identity.settings {
        self::settings(to, settings)?;
    }
    rollup(to, all)?;
    write!(to, " RuntimeVersion={}", padded(identity.version_text(), 8))?;
    write!(to, " StartupFlags={}", padded(label(Enumeration::StartupFlags, identity.startup_flags), 10))?;
    write!(to, " CommandLine=\"{}\"", escape(&identity.runtime_command_line))
}

fn settings(to: &mut dyn Write, settings: &Settings) -> io::Result<()> {
    let Settings { hard_limit, loh_threshold, physical_memory, gen0_min, gen0_max, high_memory_percent, bits } =
        settings;
    write!(to, " HardLimit=\"{hard_limit}\" LOHThreshold=\"{loh_threshold}\"")?;
    write!(to, " PhysicalMemoryConfig=\"{physical_memory}\"")?;
    write!(to, " Gen0MinBudgetConfig=\"{gen0_min}\" Gen0MaxBudgetConfig=\"{gen0_max}\"")?;
    write!(to, " HighMemPercentConfig=\"{high_memory_percent}\"")?;
    let names = ["Concurrent", "LargePages", "FrozenSegs", "HardLimitConfig", "NoAffinitize"];
    names.iter().enumerate().try_for_each(|(bit, name)| {
        let is_set = if bits >> bit & 1 == 1 { "True" } else { "False" };
        write!(to, " GCSettings{name}=\"{is_set}\"")
    })
}

/// Writes sums and extremes. Figures of processor time are never known.
fn rollup(to: &mut dyn Write, rollup: &Rollup) -> io::Result<()> {
    write!(to, " GCCount={}", padded(rollup.count, 6))?;
    write!(to, " MaxPauseDurationMSec={}", number(rollup.max_pause, 3, 10))?;
    write!(to, " MeanPauseDurationMSec={}", number(rollup.mean_pause(), 3, 10))?;
    write!(to, " MeanSizePeakMB={}", padded(Fixed(rollup.mean_peak(), 1), 10))?;
    write!(to, " MeanSizeAfterMB={}", padded(Fixed(rollup.mean_after(), 1), 10))?;
    write!(to, " TotalAllocatedMB={}", padded(Fixed(rollup.total_allocated, 1), 10))?;
    write!(to, " TotalGCDurationMSec={}", number(0.0, 3, 10))?;
    write!(to, " MSecPerMBAllocated={}", number(0.0 / rollup.total_allocated, 3, 10))?;
    write!(to, " TotalPauseTimeMSec={}", number(rollup.total_pause, 3, 10))?;
    write!(to, " MaxAllocRateMBSec={}", number(rollup.max_rate, 3, 10))?;
    write!(to, " MeanGCCpuMSec={}", number(0.0 / rollup.count as f64, 3, 10))?;
    write!(to, " MaxSuspendDurationMSec={}", number(rollup.max_suspend, 3, 10))?;
    write!(to, " MaxSizePeakMB={}", number(rollup.max_peak, 3, 10))
}

fn event(to: &mut dyn Write, collection: &Collection, figures: &Figures) -> io::Result<()> {
    attributes(to, collection, figures)?;
    if collection.committed_before.is_some() || collection.committed_after.is_some() {
        write!(to, "\n      <CommittedData")?;
        committed(to, "Before", collection.committed_before.as_ref())?;
        committed(to, "After", collection.committed_after.as_ref())?;
        writeln!(to, "/>")?;
    }
    if let Some(stats) = &collection.stats {
        heap_stats(to, stats)?;
    }
    if let Some(global) = &collection.global {
        global_history(to, global)?;
        if !collection.heaps.is_empty() {
            heaps(to, collection, global)?;
        }
    }
    buckets(to, "LargestFreeListItemsBuckets", &collection.free_buckets)?;
    buckets(to, "PlugsInCondemnedBuckets", &collection.plug_buckets)?;
    writeln!(to, "   </GCEvent>")
}

fn attributes(to: &mut dyn Write, collection: &Collection, figures: &Figures) -> io::Result<()> {
    write!(to, "   <GCEvent GCNumber={}", padded(collection.number, 10))?;
    write!(to, " GCGeneration={}", padded(collection.generation, 3))?;
    write!(to, " GCCpuMSec={} ProcessCpuMSec={}", number(0.0, 0, 10), number(0.0, 0, 10))?;
    write!(to, " PercentTimeInGC={}", number(f64::NAN, 2, 10))?;
    write!(to, " PauseStartRelativeMSec={}", number(collection.pause_start, 3, 10))?;
    write!(to, " PauseDurationMSec={}", number(collection.pause, 3, 10))?;
    write!(to, " PercentPauseTime={}", number(figures.pause_percent, 2, 10))?;
    write!(to, " SizePeakMB={}", number(figures.peak, 3, 10))?;
    write!(to, " SizeAfterMB={}", number(collection.after_mb(), 3, 10))?;
    write!(to, " RatioPeakAfter={}", number(figures.peak_by_after, 3, 5))?;
    write!(to, " AllocRateMBSec={}", number(figures.rate, 3, 5))?;
    write!(to, " GCDurationMSec={}", number(collection.duration, 3, 10))?;
    write!(to, " SuspendDurationMSec={}", number(collection.suspend, 3, 10))?;
    write!(to, " GCStartRelativeMSec={}", number(collection.start, 3, 10))?;
    write!(to, " DurationSinceLastRestartMSec={}", number(collection.since_last, 3, 5))?;
    write!(to, " AllocedSinceLastGC={}", number(figures.allocated, 3, 5))?;
    write!(to, " Type={}", padded(label(Enumeration::CollectionType, collection.kind.0), 18))?;
    write!(to, " Reason={}>", padded(label(Enumeration::Reason, collection.reason.0), 27))
}

fn committed(to: &mut dyn Write, when: &str, usage: Option<&CommittedUsage>) -> io::Result<()> {
    let Some(usage) = usage else { return Ok(()) };
    let figures = [
        ("TotalCommittedInUse", usage.in_use),
        ("TotalCommittedInGlobalDecommit", usage.in_global_decommit),
        ("TotalCommittedInFree", usage.in_free),
        ("TotalCommittedInGlobalFree", usage.in_global_free),
        ("TotalBookkeepingCommitted", usage.bookkeeping),
    ];
    figures.iter().try_for_each(|(name, bytes)| write!(to, " {when}{name}={}", padded(GroupedInteger(*bytes), 10)))
}

fn heap_stats(to: &mut dyn Write, stats: &HeapStats) -> io::Result<()> {
    write!(to, "      <HeapStats")?;
    for (generation, (size, promoted)) in stats.sizes.iter().zip(&stats.promoted).enumerate() {
        write!(to, " GenerationSize{generation}=\"{}\"", GroupedInteger(*size))?;
        write!(to, " TotalPromotedSize{generation}=\"{}\"", GroupedInteger(*promoted))?;
    }
    write!(to, " FinalizationPromotedSize=\"{}\"", GroupedInteger(stats.finalization_promoted))?;
    write!(to, " FinalizationPromotedCount=\"{}\"", GroupedInteger(stats.finalization_count))?;
    write!(to, " PinnedObjectCount=\"{}\"", GroupedInteger(stats.pinned_objects.into()))?;
    write!(to, " SinkBlockCount=\"{}\"", GroupedInteger(stats.sink_blocks.into()))?;
    writeln!(to, " GCHandleCount=\"{}\"/>", GroupedInteger(stats.handles.into()))
}

fn global_history(to: &mut dyn Write, global: &GlobalHistory) -> io::Result<()> {
    write!(to, "      <GlobalHeapHistory")?;
    write!(to, " FinalYoungestDesired=\"{}\"", GroupedInteger(global.final_youngest_desired))?;
    write!(to, " NumHeaps=\"{}\" CondemnedGeneration=\"{}\"", global.heaps, global.condemned_generation)?;
    write!(to, " Gen0ReductionCount=\"{}\"", GroupedInteger(global.gen0_reductions.into()))?;
    write!(to, " Reason=\"{}\"", label(Enumeration::Reason, global.reason.0))?;
    write!(to, " GlobalMechanisms=\"{}\"", label(Enumeration::Mechanisms, global.mechanisms))?;
    if let Some(phases) = &global.phases {
        let all = [
            ("MarkRoot", Some(phases.roots)),
            ("MarkScanFinalization", Some(phases.finalization)),
            ("MarkShortWeak", Some(phases.short_weak)),
            ("MarkLongWeak", Some(phases.long_weak)),
            ("Plan", phases.plan),
            ("Relocate", phases.relocate),
            ("Compact", phases.compact),
            ("Sweep", phases.sweep),
        ];
        all.iter().try_for_each(|(name, time)| time.map_or(Ok(()), |time| write!(to, " {name}=\"{time}\"")))?;
    }
    writeln!(to, "/>")
}

fn heaps(to: &mut dyn Write, collection: &Collection, global: &GlobalHistory) -> io::Result<()> {
    let load = global.memory_pressure.unwrap_or(-1);
    writeln!(to, "      <PerHeapHistories Count=\"{}\" MemoryLoad=\"{load}\">", collection.heaps.len())?;
    for (index, heap) in collection.heaps.iter().enumerate() {
        write!(to, "      <PerHeapHistory")?;
        match collection.marks.iter().find(|marks| usize::try_from(marks.heap) == Ok(index)) {
            Some(marks) => {
                self::marks(to, marks)?;
                collection.loh.get(index).map_or(Ok(()), |loh| loh_compaction(to, loh))?;
            }
            None => write!(to, " DataUnavailable=\"true\"")?,
        }
        writeln!(to, ">")?;
        self::heap(to, heap)?;
        writeln!(to, "      </PerHeapHistory>")?;
    }
    writeln!(to, "      </PerHeapHistories>")
}

fn marks(to: &mut dyn Write, marks: &Marks) -> io::Result<()> {
    for (sort, (name, time)) in MarkRoot::NAMES.iter().zip(&marks.times).enumerate() {
        let Some(time) = time else { continue };
        write!(to, " {name} =\"{}", Grouped(*time, 3))?;
        if let Some(promoted) = &marks.promoted {
            write!(to, "({})", promoted[sort])?;
        }
        write!(to, "\"")?;
    }
    Ok(())
}

fn loh_compaction(to: &mut dyn Write, loh: &LohCompaction) -> io::Result<()> {
    let time = |time: i32| Grouped(time.into(), 3);
    write!(to, " LOHTimePlan =\"{}\" ", time(loh.plan))?;
    write!(to, " LOHTimeCompact =\"{}\" ", time(loh.compact))?;
    write!(to, " LOHTimeRelocate =\"{}\" ", time(loh.relocate))?;
    write!(to, " LOHTotalRefs =\"{}\" ", loh.references)?;
    write!(to, " LOHZeroRefs =\"{}\" ", loh.nulls)
}

fn heap(to: &mut dyn Write, heap: &HeapHistory) -> io::Result<()> {
    const NAMES: [&str; 6] = ["Gen0", "Gen1", "Gen2", "GenLargeObj", "GenPinObj", "MaxGenCount"];
    for (index, data) in heap.generations.iter().enumerate() {
        let number = index.to_string();
        generation(to, NAMES.get(index).unwrap_or(&number.as_str()), data)?;
    }
    Ok(())
}

fn generation(to: &mut dyn Write, name: &str, data: &GenerationData) -> io::Result<()> {
    write!(to, "         <GenData Name=\"{name}\"")?;
    let figures = [
        ("SizeBefore", data.size_before),
        ("SizeAfter", data.size_after),
        ("ObjSpaceBefore", data.objects_before()),
        ("Fragmentation", data.fragmentation()),
        ("ObjSizeAfter", data.objects_after()),
        ("FreeListSpaceBefore", data.free_list_before),
        ("FreeObjSpaceBefore", data.free_objects_before),
        ("FreeListSpaceAfter", data.free_list_after),
        ("FreeObjSpaceAfter", data.free_objects_after),
        ("In", data.into),
        ("Out", data.out()),
        ("NewAllocation", data.budget),
        ("SurvRate", data.survival()),
        ("PinnedSurv", data.pinned_survivors),
        ("NonePinnedSurv", data.other_survivors),
    ];
    figures.iter().try_for_each(|(name, value)| write!(to, " {name}=\"{}\"", GroupedInteger(*value)))?;
    writeln!(to, "/>")
}

fn buckets(to: &mut dyn Write, name: &str, buckets: &[FitBucket]) -> io::Result<()> {
    if buckets.is_empty() {
        return Ok(());
    }
    writeln!(to, "      <{name}>")?;
    for FitBucket { index, count, size } in buckets {
        writeln!(to, "        <Bucket Index=\"{index}\" Count=\"{count}\" Size=\"{size}\" />")?;
    }
    writeln!(to, "      </{name}>")
}
