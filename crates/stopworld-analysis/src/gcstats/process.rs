//! A process in a trace: its identity and its collections.

use std::io;

use super::Rules;
use super::collection::Collection;
use super::figures::{Figures, Walk, peaks};
use super::machine::{Machine, Started, Stop};
use super::rollup::Rollup;
use super::store::{self, Shared, Store};
use super::worlds::ByWorld;
use nettrace::clr::gc::{
    AllocationTick, CommittedUsage, Dynamic, End, EndV0, PinObject, Start, StartV0, SuspendBegin, SuspendBeginV0,
};
use nettrace::clr::history::{FitBucketInfo, GlobalHeapHistory, LohCompact, MarkWithType, PerHeapHistory};
use nettrace::clr::runtime::{GcSettings, ProcessInfo, RuntimeStart};
use nettrace::clr::{MarkRoot, Mechanisms, Payload, Z16};
use nettrace::clr::{gc, private};

use super::collection::{GlobalHistory, HeapHistory, HeapStats, Kind, MOST_ROWS, Phases, Reason};

/// The maximum number of generations that are kept for a heap.
const MOST_GENERATIONS: usize = 64;
/// Maximum length of a text, in characters.
const LONGEST_TEXT: usize = 64 << 10;

/// The state of a process while its events are read.
pub(super) struct Traced {
    pub(super) identity: Identity,
    /// Whether the runtime itself has fired events, and not only the event pipe.
    managed: bool,
    rules: Rules,
    shared: Shared,
    /// The machine of each world.
    machines: ByWorld<Machine>,
    /// The number of collections that have begun, in all worlds.
    begun: u64,
}

/// The identity of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub process: u64,
    /// Its command line, from the event pipe.
    pub command_line: Option<String>,
    /// The command line in the runtime's own event; usually empty.
    pub runtime_command_line: String,
    /// The runtime's version; four zeros if unknown.
    pub version: [u16; 4],
    /// The startup flags of the runtime.
    pub startup_flags: i32,
    /// The collector's settings.
    pub settings: Option<Settings>,
    /// The number of heaps.
    pub heaps: Option<i32>,
}

/// The settings of a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the settings'")]
pub struct Settings {
    pub hard_limit: i64,
    pub loh_threshold: i64,
    pub physical_memory: i64,
    pub gen0_min: i64,
    pub gen0_max: i64,
    pub high_memory_percent: i32,
    pub bits: u32,
}

impl Identity {
    /// Returns the name of the program: the first word of the command line without its directories, and without `.exe` or `.dll`. PerfView
    /// does not support spaces in a quoted first word, and leaves a quote at the end.
    pub fn name(&self, rules: Rules) -> String {
        let nobody = || format!("Process({})", self.process);
        let Some(line) = self.command_line.as_deref().filter(|line| !line.is_empty()) else { return nobody() };
        let quoted = line.strip_prefix('"').filter(|_| rules == Rules::Ours);
        let image = match (quoted, line.find(' ')) {
            (Some(rest), _) => rest.split('"').next().unwrap_or(rest),
            (None, None | Some(0)) => line,
            (None, Some(end)) => &line[..end],
        };
        let file = image.rsplit(['\\', '/']).next().unwrap_or(image);
        let extension = file
            .rfind('.')
            .filter(|&dot| dot > 0 && [".dll", ".exe"].iter().any(|known| file[dot..].eq_ignore_ascii_case(known)));
        let name = &file[..extension.unwrap_or(file.len())];
        if name.is_empty() { nobody() } else { name.to_owned() }
    }

    /// Returns the runtime's version, formatted for reports.
    pub fn version_text(&self) -> String {
        let [major, minor, build, revision] = self.version;
        format!("V {major}.{minor}.{build}.{revision}")
    }
}

/// A handler for an event of a process.
pub(super) type Handler = fn(&mut Traced, &Event<'_>);

/// An event, with the data that the handlers need.
pub(super) struct Event<'a> {
    /// Milliseconds since the start of the trace.
    pub(super) now: f64,
    pub(super) thread: u64,
    pub(super) version: u32,
    pub(super) payload: Payload<'a>,
}

impl Traced {
    pub(super) fn new(process: u64, rules: Rules, shared: &Shared) -> Traced {
        Traced {
            identity: Identity { process, ..Identity::default() },
            managed: false,
            rules,
            shared: shared.clone(),
            machines: ByWorld::default(),
            begun: 0,
        }
    }

    /// Returns the machine of a world. An event without the number of its world is of the same world as the event before.
    fn machine(&mut self, world: Option<u16>) -> &mut Machine {
        self.machine_and_count(world).0
    }

    /// Like [`machine`](Self::machine), with the number of collections that have begun.
    fn machine_and_count(&mut self, world: Option<u16>) -> (&mut Machine, &mut u64) {
        let world = match self.rules {
            Rules::Ours => world.or(self.machines.latest()).unwrap_or(0),
            Rules::LikePerfView => 0,
        };
        let machine = self.machines.get(world, Machine::is_idle, |replaced| {
            let store = replaced.map_or_else(|| Store::new(&self.shared), Machine::retire);
            Machine::new(self.rules, world, store)
        });
        (machine, &mut self.begun)
    }

    /// Records that the process has a .NET runtime.
    pub(super) fn is_managed(&mut self) {
        self.managed = true;
    }

    /// Returns the process with its collections; `None` if no runtime was found in it.
    pub(super) fn finish(self) -> io::Result<Option<Process>> {
        if !self.managed {
            return Ok(None);
        }
        let rules = self.rules;
        let mut last_stats = 0.0;
        let finish = |machine: Machine| {
            last_stats = f64::max(last_stats, machine.last_stats);
            machine.finish()
        };
        let stores: Vec<Store> = self.machines.into_states().map(finish).collect();
        let peaks = peaks(&stores, rules)?;
        let mut process = Process {
            identity: self.identity,
            all: Rollup::default(),
            generations: Default::default(),
            detailed: false,
            duration: 0.0,
            rules,
            stores,
            peaks,
        };
        process.roll_up(last_stats)?;
        Ok(Some(process))
    }
}

/// A process of a trace with its collections.
#[derive(Debug)]
pub struct Process {
    /// Its identity.
    pub identity: Identity,
    /// Sums and extremes over all collections.
    pub all: Rollup,
    /// Sums and extremes over the collections of generations 0, 1 and 2.
    pub generations: [Rollup; 3],
    /// Whether any collection has histories of its heaps.
    pub detailed: bool,
    /// The time from the first pause to the statistics of the last collection, in milliseconds.
    pub duration: f64,
    rules: Rules,
    /// The collections, by world.
    stores: Vec<Store>,
    peaks: Vec<f64>,
}

impl Process {
    /// Returns the number of collections that began, including those that never ended.
    pub fn begun(&self) -> u64 {
        self.stores.iter().map(|store| store.count).sum()
    }

    /// Returns the rules by which the figures are computed.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Calls `each` with all collections in order, including those that never ended.
    ///
    /// # Errors
    ///
    /// The error of `each`, or an error reading back the temporary file for many collections.
    pub fn for_each<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(&Collection, &Figures) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut walk = Walk::new(self.rules, &self.peaks);
        store::for_each(&self.stores, |collection| each(collection, &walk.figures(collection)))
    }

    /// Returns the pauses as a percentage of the process's duration.
    pub fn pause_percent(&self) -> f64 {
        if self.duration == 0.0 { 0.0 } else { self.all.total_pause * 100.0 / self.duration }
    }

    fn roll_up(&mut self, last_stats: f64) -> io::Result<()> {
        let (mut all, mut generations) = (Rollup::default(), <[Rollup; 3]>::default());
        let (mut detailed, mut first) = (false, 0.0);
        self.for_each(|collection, figures| {
            if collection.complete {
                if all.count == 0 {
                    first = collection.pause_start;
                }
                detailed |= !collection.heaps.is_empty();
                all.add(collection, figures);
                let generation = usize::try_from(collection.generation).ok();
                if let Some(rollup) = generation.and_then(|generation| generations.get_mut(generation)) {
                    rollup.add(collection, figures);
                }
            }
            Ok::<_, io::Error>(())
        })?;
        self.duration = if first == 0.0 { 0.0 } else { last_stats - first };
        (self.all, self.generations, self.detailed) = (all, generations, detailed);
        Ok(())
    }
}

/// The event handlers. A handler uses the fields that the payload contains. It ignores an event whose payload lacks the fields that
/// identify the collection.
impl Traced {
    pub(super) fn start(&mut self, event: &Event<'_>) {
        let view = Start::new(event.version, event.payload);
        let (number, reason) = match event.version {
            0 => {
                let view = StartV0::new(0, event.payload);
                (view.count(), view.reason())
            }
            _ => (view.count(), view.reason()),
        };
        let (Some(number), Some(reason)) = (number, reason) else { return };
        let generation = view.depth().unwrap_or(0) as i32;
        let kind = Kind(view.kind().unwrap_or(0) as i32);
        let started = Started { number, generation, reason: Reason(reason as i32), kind };
        let (machine, begun) = self.machine_and_count(view.clr_instance_id());
        machine.start(event.now, begun, started);
    }

    pub(super) fn end(&mut self, event: &Event<'_>) {
        let view = End::new(event.version, event.payload);
        let number = match event.version {
            0 => EndV0::new(0, event.payload).count(),
            _ => view.count(),
        };
        if number.is_some() {
            self.machine(view.clr_instance_id()).end(event.now);
        }
    }

    pub(super) fn suspend_begin(&mut self, event: &Event<'_>) {
        let view = SuspendBegin::new(event.version, event.payload);
        let reason = match event.version {
            0 => SuspendBeginV0::new(0, event.payload).reason().map(u32::from),
            _ => view.reason(),
        };
        if let Some(reason) = reason {
            self.machine(view.clr_instance_id()).suspend_begin(event.now, event.thread, Stop::of(reason));
        }
    }

    pub(super) fn suspend_end(&mut self, event: &Event<'_>) {
        let world = gc::SuspendEnd::new(event.version, event.payload).clr_instance_id();
        self.machine(world).suspend_end(event.now, event.thread);
    }

    pub(super) fn restart_end(&mut self, event: &Event<'_>) {
        let world = gc::RestartEnd::new(event.version, event.payload).clr_instance_id();
        self.machine(world).restart_end(event.now, event.thread);
    }

    pub(super) fn heap_stats(&mut self, event: &Event<'_>) {
        let view = gc::HeapStats::new(event.version, event.payload);
        if let Some(stats) = heap_stats(&view) {
            self.machine(view.clr_instance_id()).heap_stats(event.now, stats);
        }
    }

    pub(super) fn allocation(&mut self, event: &Event<'_>) {
        let tick = AllocationTick::new(event.version, event.payload);
        if let (Some(bytes), Some(kind)) = (tick.bytes(), tick.kind()) {
            self.machine(tick.clr_instance_id()).allocation(kind, bytes);
        }
    }

    pub(super) fn mark(&mut self, event: &Event<'_>) {
        let mark = MarkWithType::new(event.version, event.payload);
        if let (Some(heap), Some(sort), Some(bytes)) = (mark.heap_num(), mark.kind(), mark.promoted()) {
            self.machine(mark.clr_instance_id()).mark(event.now, event.thread, heap, sort, Some(bytes));
        }
    }

    pub(super) fn mark_stack(&mut self, event: &Event<'_>) {
        self.private_mark(event, MarkRoot::MarkStack);
    }

    pub(super) fn mark_finalize_queue(&mut self, event: &Event<'_>) {
        self.private_mark(event, MarkRoot::MarkFQ);
    }

    pub(super) fn mark_handles(&mut self, event: &Event<'_>) {
        self.private_mark(event, MarkRoot::MarkHandles);
    }

    pub(super) fn mark_cards(&mut self, event: &Event<'_>) {
        self.private_mark(event, MarkRoot::MarkOlder);
    }

    fn private_mark(&mut self, event: &Event<'_>, sort: MarkRoot) {
        // The four events have the same layout.
        let mark = private::PrivateMarkStackRoots::new(event.version, event.payload);
        if let Some(heap) = mark.heap_num() {
            self.machine(mark.clr_instance_id()).mark(event.now, event.thread, heap, sort.code(), None);
        }
    }

    pub(super) fn global_history(&mut self, event: &Event<'_>) {
        let view = GlobalHeapHistory::new(event.version, event.payload);
        let Some(history) = global_history(&view) else { return };
        self.identity.heaps.get_or_insert(history.heaps);
        if let Some(current) = self.machine(view.clr_instance_id()).described() {
            current.global = Some(history);
        }
    }

    pub(super) fn heap_history(&mut self, event: &Event<'_>) {
        let view = PerHeapHistory::new(event.version, event.payload);
        // Events of older versions have another layout, and an event with fewer than four generations is damaged: every runtime has at
        // least four.
        if event.version < 3 || view.most_generations() < 4 {
            return;
        }
        if let Some(current) = self.machine(view.clr_instance_id()).described()
            && current.heaps.len() < MOST_ROWS
        {
            current.heaps.push(HeapHistory { generations: view.generations().take(MOST_GENERATIONS).collect() });
        }
    }

    pub(super) fn pinned(&mut self, event: &Event<'_>) {
        let pin = PinObject::new(event.version, event.payload);
        if let (Some(object), Some(bytes)) = (pin.object_id(), pin.object_size()) {
            self.machine(pin.clr_instance_id()).pinned(object, bytes as i64);
        }
    }

    pub(super) fn plug(&mut self, event: &Event<'_>) {
        let plug = private::PinPlug::new(event.version, event.payload);
        let current = self.machine(plug.clr_instance_id()).current();
        if let (Some(current), Some(start), Some(end)) = (current, plug.start(), plug.end()) {
            current.plug_bytes = current.plug_bytes.wrapping_add(end.wrapping_sub(start) as i64);
        }
    }

    pub(super) fn dynamic(&mut self, event: &Event<'_>) {
        let view = Dynamic::new(event.version, event.payload);
        if let Some(usage) = CommittedUsage::of(&view)
            && let Some(current) = self.machine(view.clr_instance_id()).described()
        {
            match current.committed_before {
                None => current.committed_before = Some(usage),
                Some(_) => current.committed_after = Some(usage),
            }
        }
    }

    pub(super) fn loh_compact(&mut self, event: &Event<'_>) {
        let view = LohCompact::new(event.version, event.payload);
        if let Some(current) = self.machine(view.clr_instance_id()).current() {
            let room = MOST_ROWS - current.loh.len();
            current.loh.extend(view.heaps().take(room));
        }
    }

    pub(super) fn fit_buckets(&mut self, event: &Event<'_>) {
        let view = FitBucketInfo::new(event.version, event.payload);
        if let Some(current) = self.machine(view.clr_instance_id()).current() {
            let rows = match view.bucket_kind() {
                Some(0) => &mut current.free_buckets,
                Some(1) => &mut current.plug_buckets,
                _ => return,
            };
            let room = MOST_ROWS - rows.len();
            rows.extend(view.buckets().take(room));
        }
    }

    pub(super) fn process_info(&mut self, event: &Event<'_>) {
        if let Some(line) = ProcessInfo::new(event.version, event.payload).command_line()
            && !line.bytes().is_empty()
        {
            self.identity.command_line = Some(text(line));
        }
    }

    pub(super) fn runtime_start(&mut self, event: &Event<'_>) {
        let view = RuntimeStart::new(event.version, event.payload);
        let version = (view.vm_major(), view.vm_minor(), view.vm_build(), view.vm_qfe());
        let (Some(major), Some(minor), Some(build), Some(qfe)) = version else { return };
        let identity = &mut self.identity;
        if identity.version[0] == 0 || qfe > 0 {
            identity.version = [major, minor, build, qfe];
        }
        identity.startup_flags = view.startup_flags().unwrap_or(0) as i32;
        if identity.runtime_command_line.is_empty() {
            identity.runtime_command_line = view.command_line().map(text).unwrap_or_default();
        }
    }

    pub(super) fn settings(&mut self, event: &Event<'_>) {
        if let Some(settings) = settings(&GcSettings::new(event.version, event.payload)) {
            self.identity.settings = Some(settings);
        }
    }
}

fn text(text: Z16<'_>) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

fn heap_stats(view: &gc::HeapStats<'_>) -> Option<HeapStats> {
    let sizes = [
        view.generation_size0()?,
        view.generation_size1()?,
        view.generation_size2()?,
        view.generation_size3()?,
        // Before version 2 there was no heap for pinned objects.
        view.generation_size4().unwrap_or(0),
    ];
    let promoted = [
        view.total_promoted_size0()?,
        view.total_promoted_size1()?,
        view.total_promoted_size2()?,
        view.total_promoted_size3()?,
        view.total_promoted_size4().unwrap_or(0),
    ];
    Some(HeapStats {
        sizes: sizes.map(|size| size as i64),
        promoted: promoted.map(|size| size as i64),
        finalization_promoted: view.finalization_promoted_size()? as i64,
        finalization_count: view.finalization_promoted_count()? as i64,
        pinned_objects: view.pinned_object_count()? as i32,
        sink_blocks: view.sink_block_count()? as i32,
        handles: view.gc_handle_count()? as i32,
    })
}

fn global_history(view: &GlobalHeapHistory<'_>) -> Option<GlobalHistory> {
    let mechanisms = view.global_mechanisms()? as i32;
    Some(GlobalHistory {
        final_youngest_desired: view.final_youngest_desired()? as i64,
        heaps: view.num_heaps()?,
        condemned_generation: view.condemned_generation()?,
        gen0_reductions: view.gen0_reduction_count()?,
        reason: Reason(view.reason()? as i32),
        mechanisms,
        memory_pressure: view.memory_pressure(),
        phases: phases(view, mechanisms),
    })
}

/// Returns the times of the phases, if the event has them. Background collections have only the first five (the very first is unused).
fn phases(view: &GlobalHeapHistory<'_>, mechanisms: i32) -> Option<Phases> {
    let time = |phase| view.time(phase).map(|time| time as i32);
    let compacts = Mechanisms(mechanisms as u32).contains(Mechanisms::COMPACTION);
    Some(Phases {
        roots: time(1)?,
        short_weak: time(2)?,
        finalization: time(3)?,
        long_weak: time(4)?,
        plan: time(5),
        relocate: time(6).filter(|_| compacts),
        compact: time(7).filter(|_| compacts),
        sweep: time(6).filter(|_| !compacts),
    })
}

fn settings(view: &GcSettings<'_>) -> Option<Settings> {
    Some(Settings {
        hard_limit: view.hard_limit()?,
        loh_threshold: view.loh_threshold()?,
        physical_memory: view.physical_memory()?,
        gen0_min: view.gen0_min()?,
        gen0_max: view.gen0_max()?,
        high_memory_percent: view.high_memory_percent()?,
        bits: view.bits()?,
    })
}
