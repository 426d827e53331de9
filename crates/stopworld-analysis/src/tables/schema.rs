//! The tables and their columns.

/// A table of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// One row for each process of a trace.
    Traces,
    /// One row for each event, with its fields.
    Events,
    /// One row for each collection.
    Collections,
    /// One row for each phase of a collection.
    Phases,
    /// One row for each time that threads were stopped.
    Stops,
    /// One row for each thread.
    Threads,
    /// One row for each measured size of the heap, or of a part of it.
    HeapSamples,
    /// One row for each band of each sample of a heap profile.
    Bands,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A signed 64-bit number.
    Int,
    /// UTF-8 text.
    Text,
    /// A time in UTC, in microseconds since 1970.
    Time,
    /// True or false.
    Bool,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name, with the unit as its ending.
    pub name: &'static str,
    /// The type.
    pub kind: ColumnType,
    /// The meaning.
    pub doc: &'static str,
    /// Whether its values may be null: a trace may lack the fact.
    pub is_nullable: bool,
}

impl Column {
    const fn required(self) -> Column {
        Column { is_nullable: false, ..self }
    }
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// The trace does not have this fact.
    Null,
    /// A number.
    Int(i64),
    /// A text.
    Text(&'a str),
    /// A time in UTC, in microseconds since 1970.
    Time(i64),
    /// True or false.
    Bool(bool),
}

impl From<Option<i64>> for Cell<'_> {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Cell::Null, Cell::Int)
    }
}

impl<'a> From<Option<&'a str>> for Cell<'a> {
    fn from(value: Option<&'a str>) -> Self {
        value.map_or(Cell::Null, Cell::Text)
    }
}

const fn int(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnType::Int, doc, is_nullable: true }
}

const fn text(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnType::Text, doc, is_nullable: true }
}

const fn time(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnType::Time, doc, is_nullable: true }
}

const fn boolean(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: ColumnType::Bool, doc, is_nullable: true }
}

const TRACES: &[Column] = &[
    text("format", "nettrace, eventlog or mps").required(),
    time("start_time", "when the trace began"),
    text("program", "the name of the program, without its folders"),
    text("command_line", "the command line"),
    text("runtime", "the runtime that wrote the trace, or its version"),
    int("events", "the number of events that could be read, of all processes").required(),
    int("lost_events", "events that are missing, according to the sequence numbers"),
    text("damage", "what is wrong with the file, and where"),
];

const EVENTS: &[Column] = &[
    int("at_ns", "when it happened, since the start of the trace").required(),
    time("at_time", "when it happened"),
    int("thread_id", "its thread: of the operating system (nettrace)"),
    int("processor", "its processor (nettrace) or capability (eventlog)"),
    text("provider", "its provider (nettrace) or category (mps)"),
    text("event", "its name").required(),
    int("event_id", "its number in the format").required(),
    text("fields", "its fields: a JSON object; for an eventlog, the text that ghc-events prints"),
];

/// Each world numbers its own collections.
const WORLD: &str = "the number of the world in the process, from 0; in a trace of .NET that of the runtime (nettrace)";

const COLLECTIONS: &[Column] = &[
    int("number", "the number that the runtime gave it, otherwise counted from 1").required(),
    int("start_ns", "when the threads were asked to stop, since the start of the trace").required(),
    time("start_time", "when the threads were asked to stop"),
    int("pause_ns", "the time for which threads were stopped for it"),
    int("stop_ns", "the time until all threads had stopped, or (eventlog) until the collection began"),
    int("duration_ns", "the time from its beginning to its end"),
    int("generation", "the oldest generation that was collected"),
    text("kind", "blocking, background or foreground"),
    text("reason", "why it began"),
    int("heap_before_bytes", "the size of the heap when it began"),
    int("heap_after_bytes", "the size of the heap after it"),
    int("promoted_bytes", "the bytes that survived"),
    int("allocated_bytes", "the bytes that were allocated since the previous collection"),
    int("pinned_objects", "the pinned objects that it found"),
    boolean("is_complete", "whether the trace contains its end").required(),
    int("world", WORLD),
];

const PHASES: &[Column] = &[
    int("number", "the number of the collection").required(),
    text("phase", "the name of the phase").required(),
    int("heap", "the heap, if each has a time of its own"),
    int("start_ns", "when it began, since the start of the trace"),
    int("duration_ns", "how long it took").required(),
];

const STOPS: &[Column] = &[
    int("number", "the number of the collection for which threads were stopped"),
    text("reason", "why they were stopped"),
    int("thread_id", "the thread that stopped the others"),
    int("start_ns", "when they were asked to stop, since the start of the trace").required(),
    time("start_time", "when they were asked to stop"),
    int("stop_ns", "the time until all had stopped"),
    int("duration_ns", "the time until all ran again").required(),
    int("world", WORLD),
];

const THREADS: &[Column] = &[
    int("thread_id", "its id").required(),
    text("name", "its name"),
    int("first_ns", "its first event, since the start of the trace").required(),
    int("last_ns", "its last event, since the start of the trace").required(),
    int("events", "the number of its events").required(),
];

const HEAP_SAMPLES: &[Column] = &[
    int("at_ns", "when it was measured, since the start of the trace").required(),
    time("at_time", "when it was measured"),
    text("figure", "what was measured").required(),
    int("bytes", "its size").required(),
];

const BANDS: &[Column] = &[
    int("sample", "the number of the sample, from 1").required(),
    int("at_ns", "the time that the sample describes, since the start of the trace").required(),
    time("at_time", "the time that the sample describes"),
    text("breakdown", "the property by which objects are grouped"),
    text("band", "the group").required(),
    int("bytes", "the live bytes of the group").required(),
    int("objects", "the live objects of the group"),
];

/// The columns that each table has after its own.
pub const COMMON: &[Column] = &[
    int("process_id", "the process"),
    text("program_version", "the version of the program, otherwise of its runtime"),
    text("trace_file", "the path of the trace").required(),
];

impl Table {
    /// All tables.
    pub const ALL: [Table; 8] = [
        Table::Traces,
        Table::Events,
        Table::Collections,
        Table::Phases,
        Table::Stops,
        Table::Threads,
        Table::HeapSamples,
        Table::Bands,
    ];

    /// Returns the name: of the table's folder, and for options.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Traces => "traces",
            Table::Events => "events",
            Table::Collections => "collections",
            Table::Phases => "phases",
            Table::Stops => "stops",
            Table::Threads => "threads",
            Table::HeapSamples => "heap_samples",
            Table::Bands => "bands",
        }
    }

    /// Returns the table's own columns. The [common](COMMON) columns follow them.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Table::Traces => TRACES,
            Table::Events => EVENTS,
            Table::Collections => COLLECTIONS,
            Table::Phases => PHASES,
            Table::Stops => STOPS,
            Table::Threads => THREADS,
            Table::HeapSamples => HEAP_SAMPLES,
            Table::Bands => BANDS,
        }
    }
}
