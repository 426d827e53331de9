//! From the .NET format to a timeline.
//!
//! Every event is a row with its fields. Most are instants; events that begin or end a pause, a phase, or a batch of finalizers are
//! slices ([`phases`]); heap sizes are also counters. A background collection runs concurrently with the threads, so it is on no
//! thread's track. Events are sorted by time.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read, Write};

use super::decoded::{self, DecodedFields, EventMeaning};
use super::pages::{self, Page};
use super::{Conversion, ConvertError, LeftOut};
use nettrace::clr::runtime::ProcessInfo;
use nettrace::clr::{CollectionType, Provider};
use nettrace::shown::{self, Shown};
use nettrace::{EventType, Interest, NetEvent, Reader, ThreadInfo, TraceInfo, Visitor};
use stopworld::events::EventId;
use stopworld_trace::perfetto::phases::{self, CollectorTimeline, Moment, Slice};
use trace_event::{Args, Output};
use trace_event::{Name, Track};

const NO_PLACE: &str = "a timeline has no place for it";
/// The maximum number of background collections in progress at once, in all processes together.
const MOST_BACKGROUND: usize = 1 << 10;
/// The maximum number of threads whose names from heap dumps are written once only.
const MOST_NAMED: usize = 1 << 16;
/// The maximum number of event types that are known at once.
const MOST_TYPES: usize = 1 << 17;

pub(super) fn convert<R: Read, W: Write>(input: R, output: W, to: &mut Conversion) -> Result<(), ConvertError> {
    let mut drawing = Drawing {
        output: Some(output),
        timeline: None,
        left_out: &mut to.left_out,
        pointer_bytes: 8,
        types: HashMap::new(),
        background: BTreeSet::new(),
        named: BTreeSet::new(),
        last: 0,
        carried: 0,
        failed: None,
    };
    let summary = Reader::new(input).with_stacks().read(&mut drawing);
    let Drawing { timeline, last, carried, failed, .. } = drawing;
    if let Some(error) = failed {
        return Err(ConvertError::Output(error));
    }
    let has_trace = timeline.is_some();
    to.carried = carried;
    to.left_out.add("lost events, by gaps in the sequence numbers", NO_PLACE, summary.lost);
    if let Some(timeline) = timeline {
        pages::end(timeline, last).map_err(ConvertError::Output)?;
    }
    to.take_summary(&summary, has_trace)
}

struct Drawing<'l, W: Write> {
    output: Option<W>,
    timeline: Option<CollectorTimeline<Page<W>>>,
    left_out: &'l mut LeftOut,
    pointer_bytes: u8,
    types: HashMap<u32, (EventMeaning, String)>,
    /// Background collections in progress: process and number.
    background: BTreeSet<(u64, u64)>,
    /// Threads that a heap dump has named: process and thread. Each dump names them again.
    named: BTreeSet<(u64, u64)>,
    last: i64,
    carried: u64,
    failed: Option<io::Error>,
}

/// An event to draw.
struct Drawn<'a> {
    track: Track,
    ticks: i64,
    title: &'a str,
    provider: &'a str,
    fields: &'a DecodedFields,
    shown: &'a Shown<'a>,
}

impl Drawn<'_> {
    fn fill<S: Output>(&self, args: &mut Args<'_, S>) {
        self.shown.members(|name, value| args.json(name, value));
    }

    fn word(&self, name: &str) -> u64 {
        self.fields.number(name).unwrap_or(0)
    }

    fn instant<W: Write>(&self, timeline: &mut CollectorTimeline<Page<W>>) -> io::Result<()> {
        let called = (self.provider, self.title.into());
        timeline.instant(self.track, self.ticks, called, |args| self.fill(args))
    }
}

impl<W: Write> Drawing<'_, W> {
    fn draw(&mut self, event: &NetEvent<'_>) -> io::Result<()> {
        let Some(timeline) = &mut self.timeline else { return Ok(()) };
        let (meaning, title) = match self.types.get(&event.kind.index) {
            Some((meaning, title)) => (*meaning, title.as_str()),
            None => (EventMeaning::Unknown, "event"),
        };
        let shown = shown::shown(event, self.pointer_bytes);
        let fields = if meaning == EventMeaning::Unknown {
            DecodedFields::default()
        } else {
            decoded::fields(event, self.pointer_bytes)
        };
        let drawn = Drawn {
            track: Track { process: event.process, thread: event.thread },
            ticks: event.time,
            title,
            provider: &event.kind.provider,
            fields: &fields,
            shown: &shown,
        };
        self.last = self.last.max(event.time);
        if event.kind.provider == Provider::EventPipe.name() && event.kind.event == ProcessInfo::EVENT {
            let fields = decoded::fields(event, self.pointer_bytes);
            if let Some(command) = fields.text("CommandLine") {
                timeline.name_process(event.process, command)?;
            }
        }
        let id = decoded::id_of(meaning, event.kind, &fields);
        if let Some(id @ (EventId::DumpStack | EventId::ThreadAttached)) = id
            && let Some(name) = drawn.fields.text("label").filter(|name| !name.is_empty())
        {
            let track = Track { thread: drawn.word("tid"), ..drawn.track };
            let is_new = self.named.len() >= MOST_NAMED || self.named.insert((track.process, track.thread));
            // A thread that attaches may have the id of an earlier one.
            if is_new || id == EventId::ThreadAttached {
                timeline.name_thread(track, name)?;
            }
        }
        match (meaning, id) {
            (EventMeaning::Own(_), Some(id)) => of_ours(timeline, id, &drawn),
            (EventMeaning::Net(_), Some(id)) => of_the_runtime(timeline, &mut self.background, id, &drawn),
            _ => drawn.instant(timeline),
        }
    }
}

/// Draws an event of the stopworld provider.
fn of_ours<W: Write>(timeline: &mut CollectorTimeline<Page<W>>, id: EventId, drawn: &Drawn<'_>) -> io::Result<()> {
    let moment = Moment {
        id,
        track: drawn.track,
        ticks: drawn.ticks,
        first: drawn.word("number"),
        second: drawn.word("moment"),
    };
    if phases::slice(timeline, moment, |args| drawn.fill(args))? { Ok(()) } else { drawn.instant(timeline) }
}

fn is_background(kind: u64) -> bool {
    kind == u64::from(CollectionType::BackgroundGC.code())
}

/// Draws an event of the .NET runtime.
fn of_the_runtime<W: Write>(
    timeline: &mut CollectorTimeline<Page<W>>,
    background: &mut BTreeSet<(u64, u64)>,
    id: EventId,
    drawn: &Drawn<'_>,
) -> io::Result<()> {
    let &Drawn { track, ticks, .. } = drawn;
    let gc = phases::category(id.descriptor().group);
    let count = drawn.word("Count");
    let moment = |first| Moment { id, track, ticks, first, second: 0 };
    match id {
        EventId::SuspendBegin if decoded::is_for_collection(drawn.word("Reason")) => {
            // `count` is the number of collections before this one.
            let first = u64::from((count as u32).wrapping_add(1));
            phases::slice(timeline, moment(first), |args| drawn.fill(args)).map(drop)
        }
        EventId::SuspendBegin => {
            timeline.end(track, Slice::Pause, ticks, |_| {})?;
            timeline.begin(track, Slice::Pause, ticks, (gc, "suspension".into()), |args| drawn.fill(args))?;
            phases::phase(timeline, track, ticks, "suspend")
        }
        EventId::GcStart if is_background(drawn.word("Type")) && background.len() < MOST_BACKGROUND => {
            background.insert((track.process, count));
            let called = (gc, "background collection".into(), count);
            timeline.meanwhile(track, ticks, called, true, |args| drawn.fill(args))
        }
        EventId::GcEnd if background.remove(&(track.process, count)) => {
            let called = (gc, "background collection".into(), count);
            timeline.meanwhile(track, ticks, called, false, |args| drawn.fill(args))
        }
        EventId::GcStart if timeline.is_open(track, Slice::Pause) => {
            timeline.end(track, Slice::Phase, ticks, |_| {})?;
            timeline.begin(track, Slice::Work, ticks, (gc, Name("gc", Some(count))), |args| drawn.fill(args))
        }
        EventId::GcEnd if timeline.is_open(track, Slice::Work) => {
            timeline.end(track, Slice::Work, ticks, |args| drawn.fill(args))
        }
        EventId::RestartBegin
        | EventId::RestartEnd
        | EventId::SuspendEnd
        | EventId::FinalizerBegin
        | EventId::FinalizerEnd => {
            if id == EventId::RestartBegin {
                timeline.end(track, Slice::Work, ticks, |_| {})?;
            }
            let is_slice = phases::slice(timeline, moment(count), |args| drawn.fill(args))?;
            if is_slice { Ok(()) } else { drawn.instant(timeline) }
        }
        EventId::HeapStats => {
            timeline.counter(track, ticks, (gc, "heap".into()), |args| {
                let names = ["generation 0", "generation 1", "generation 2", "large objects", "pinned objects"];
                for (place, name) in names.into_iter().enumerate() {
                    if let Some(bytes) = drawn.fields.number(&format!("GenerationSize{place}")) {
                        args.count(name, bytes);
                    }
                }
            })?;
            drawn.instant(timeline)
        }
        _ => drawn.instant(timeline),
    }
}

impl<W: Write> Visitor for Drawing<'_, W> {
    fn trace(&mut self, trace: &TraceInfo) {
        self.pointer_bytes = trace.pointer_bytes;
        self.last = trace.start_ticks;
        let Some(output) = self.output.take() else { return };
        match pages::begin(output, trace.start_ticks, trace.ticks_per_second as u64) {
            Ok(timeline) => self.timeline = Some(timeline),
            Err(error) => self.failed = Some(error),
        }
    }

    fn event_type(&mut self, kind: &EventType) -> Interest {
        if self.types.len() >= MOST_TYPES {
            // The file describes too many types to keep all: its reader has forgotten the oldest as well.
            self.types.retain(|index, _| *index as usize + MOST_TYPES / 2 > kind.index as usize);
        }
        self.types.insert(kind.index, (decoded::meaning(kind), kind.title().into_owned()));
        Interest::Deliver
    }

    fn thread(&mut self, thread: &ThreadInfo<'_>) {
        if let Some(timeline) = &mut self.timeline
            && !thread.name.is_empty()
        {
            let track = Track { process: thread.process, thread: thread.thread };
            let named = timeline.name_thread(track, &thread.name);
            self.failed = self.failed.take().or(named.err());
        }
    }

    fn event(&mut self, event: &NetEvent<'_>) {
        if self.failed.is_some() {
            return;
        }
        self.left_out.add("stacks", NO_PLACE, u64::from(event.stack.addresses().next().is_some()));
        let belongs = event.activity != [0; 16] || event.related != [0; 16];
        self.left_out.add("activity ids", NO_PLACE, u64::from(belongs));
        self.left_out.add("labels of events", NO_PLACE, u64::from(event.in_file.labels != 0 && !belongs));
        match self.draw(event) {
            Ok(()) => self.carried += 1,
            Err(error) => self.failed = Some(error),
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}
