//! Runtime events, made by hand, for tests of the collections' statistics.

use nettrace::{Container, EventType, InFile, Labels, NetEvent, Stack, TraceInfo, Utc, Visitor};
use stopworld_analysis::gcstats::{Analysis, Collection, Figures, Process, Rules};

/// The process of all events.
pub const PID: u32 = 7;
/// Events are given in microseconds.
const TICKS_PER_SECOND: i64 = 1_000_000;
const START: i64 = 1_000;

/// Reasons for stopping the world.
pub const FOR_GC: u32 = 1;
pub const FOR_PREPARATION: u32 = 6;
pub const FOR_OTHER: u32 = 0;
/// Kinds of collections.
pub const BLOCKING: u32 = 0;
pub const BACKGROUND: u32 = 1;
pub const FOREGROUND: u32 = 2;
/// Reasons for collecting.
pub const SMALL: u32 = 0;
pub const PROVISIONAL: u32 = 12;

pub const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";
pub const PRIVATE: &str = "Microsoft-Windows-DotNETRuntimePrivate";
pub const RUNDOWN: &str = "Microsoft-Windows-DotNETRuntimeRundown";
pub const PIPE: &str = "Microsoft-DotNETCore-EventPipe";

/// A payload, built field by field.
#[derive(Clone, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn u8(self, value: u8) -> Bytes {
        self.all(&[value])
    }
    pub fn u16(self, value: u16) -> Bytes {
        self.all(&value.to_le_bytes())
    }
    pub fn u32(self, value: u32) -> Bytes {
        self.all(&value.to_le_bytes())
    }
    pub fn u64(self, value: u64) -> Bytes {
        self.all(&value.to_le_bytes())
    }
    pub fn z16(self, text: &str) -> Bytes {
        text.encode_utf16().chain([0]).fold(self, Bytes::u16)
    }
    pub fn all(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend(bytes);
        self
    }
}

pub fn bytes() -> Bytes {
    Bytes::default()
}

/// The fields of one generation of a heap, in the order of the event.
pub type Generation = [u64; 10];

/// An analysis that gets events one by one.
pub struct AnalysisFeed {
    analysis: Analysis,
    types: Vec<EventType>,
    /// The clock, in µs since the trace began.
    pub now: i64,
    pub thread: u64,
    /// The world of the events that the methods make.
    pub world: u16,
    /// The number of the latest collection.
    pub number: u32,
}

impl AnalysisFeed {
    pub fn new(rules: Rules) -> AnalysisFeed {
        AnalysisFeed::with_pointers(rules, 8)
    }

    pub fn with_pointers(rules: Rules, pointer_bytes: u8) -> AnalysisFeed {
        let mut analysis = Analysis::new(rules);
        analysis.trace(&TraceInfo {
            container: Container::V4,
            start: Utc::default(),
            start_ticks: START,
            ticks_per_second: TICKS_PER_SECOND,
            pointer_bytes,
            process_id: PID,
            processors: 1,
            sampling_period_ns: 0,
            pairs: Vec::new(),
        });
        AnalysisFeed { analysis, types: Vec::new(), now: 0, thread: 100, world: 0, number: 0 }
    }

    /// Adds an event of the runtime provider at the current time.
    pub fn event(&mut self, event: u32, version: u32, payload: &Bytes) -> &mut AnalysisFeed {
        self.event_of(RUNTIME, event, version, payload)
    }

    pub fn event_of(&mut self, provider: &str, event: u32, version: u32, payload: &Bytes) -> &mut AnalysisFeed {
        let is_it = |kind: &EventType| kind.provider == provider && kind.event == event && kind.version == version;
        let index = self.types.iter().position(is_it).unwrap_or_else(|| {
            let index = self.types.len();
            let kind =
                EventType { index: index as u32, provider: provider.into(), event, version, ..EventType::default() };
            self.analysis.event_type(&kind);
            self.types.push(kind);
            index
        });
        self.analysis.event(&NetEvent {
            kind: &self.types[index],
            time: START + self.now,
            thread: self.thread,
            capture_thread: self.thread,
            process: PID.into(),
            processor: None,
            sequence: 0,
            stack: Stack::default(),
            activity: [0; 16],
            related: [0; 16],
            labels: Labels::default(),
            payload: &payload.0,
            offset: 0,
            in_file: InFile::default(),
        });
        self
    }

    /// Advances the clock by `us` µs.
    pub fn wait(&mut self, us: i64) -> &mut AnalysisFeed {
        self.now += us;
        self
    }

    pub fn on(&mut self, thread: u64) -> &mut AnalysisFeed {
        self.thread = thread;
        self
    }

    pub fn suspend_begin(&mut self, reason: u32) -> &mut AnalysisFeed {
        self.event(9, 1, &bytes().u32(reason).u32(self.number).u16(self.world))
    }

    pub fn suspend_end(&mut self) -> &mut AnalysisFeed {
        self.event(8, 1, &bytes().u16(self.world))
    }

    pub fn restart_end(&mut self) -> &mut AnalysisFeed {
        self.event(3, 1, &bytes().u16(self.world))
    }

    /// Begins the next collection.
    pub fn start(&mut self, generation: u32, reason: u32, kind: u32) -> &mut AnalysisFeed {
        self.number += 1;
        self.start_of(self.number, generation, reason, kind)
    }

    pub fn start_of(&mut self, number: u32, generation: u32, reason: u32, kind: u32) -> &mut AnalysisFeed {
        self.event(1, 2, &bytes().u32(number).u32(generation).u32(reason).u32(kind).u16(self.world).u64(0))
    }

    pub fn end(&mut self) -> &mut AnalysisFeed {
        self.event(2, 1, &bytes().u32(self.number).u32(0).u16(self.world))
    }

    /// Adds the statistics of the heap. `sizes` are the sizes of generations 0 to 4; a tenth of each is promoted.
    pub fn heap_stats(&mut self, sizes: [u64; 5]) -> &mut AnalysisFeed {
        let stats = sizes[..4].iter().fold(bytes(), |stats, size| stats.u64(*size).u64(size / 10));
        let stats = stats.u64(0).u64(0).u32(5).u32(0).u32(20).u16(self.world).u64(sizes[4]).u64(sizes[4] / 10);
        self.event(4, 2, &stats)
    }

    pub fn heap_history(&mut self, generations: &[Generation]) -> &mut AnalysisFeed {
        let head = (0..6).fold(bytes().u16(self.world), |head, _| head.u64(0));
        let head = (0..6).fold(head, |head, _| head.u32(0)).u64(0).u32(generations.len() as u32);
        let all = generations.iter().flatten().fold(head, |all, number| all.u64(*number));
        self.event(204, 3, &all)
    }

    pub fn allocation(&mut self, kind: u32, amount: u64) -> &mut AnalysisFeed {
        let tick = bytes().u32(amount as u32).u32(kind).u16(self.world).u64(amount).u64(1).z16("System.Byte[]").u32(0);
        self.event(10, 4, &tick.u64(2).u64(3))
    }

    /// Adds a complete blocking collection: 10 µs until all threads are stopped, 20 µs more until it begins, 100 µs of collecting, 30 µs
    /// until all threads run.
    pub fn collect(&mut self, generation: u32, sizes: [u64; 5]) -> &mut AnalysisFeed {
        self.suspend_begin(FOR_GC).wait(10).suspend_end().wait(20).start(generation, SMALL, BLOCKING);
        self.wait(100).end().wait(10).heap_stats(sizes).wait(20).restart_end()
    }

    pub fn process(self) -> Process {
        let mut processes = self.analysis.finish().expect("no temporary file is read");
        assert_eq!(processes.len(), 1, "processes");
        processes.pop().expect("there is a process")
    }

    /// The process and all its collections, including those that never ended.
    pub fn told(self) -> (Process, Vec<(Collection, Figures)>) {
        let process = self.process();
        let mut all = Vec::new();
        let result = process.for_each(|collection, figures| {
            all.push((collection.clone(), *figures));
            Ok::<_, std::io::Error>(())
        });
        result.expect("no temporary file is read");
        (process, all)
    }

    /// Returns the complete collections, which are the ones that are counted.
    pub fn collections(self) -> Vec<Collection> {
        let (_, all) = self.told();
        all.into_iter().map(|(collection, _)| collection).filter(|collection| collection.complete).collect()
    }
}
