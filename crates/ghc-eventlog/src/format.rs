//! The layout of an eventlog as data: the markers of its parts and the table of event types.
//!
//! ```text
//!   hdrb
//!     hetb  (etb id, size, description, extra ete)…  hete        the types that the file uses
//!   hdre
//!   datb
//!     id, time, [length,] payload                                an event; the length if the type has no fixed size
//!     …
//!     block: size, end time, capability                          an event that assigns the following events, `size` bytes with itself, to a capability
//!     …
//!   ffff                                                         the end
//! ```
//!
//! Everything is big-endian and unpadded; times are nanoseconds since the program began. A file declares its
//! types with their sizes, so that a reader can skip types that it does not know. The table below has the types
//! that GHC's runtimes of the last years write, with the descriptions that GHC's own tools print.

/// Begins the header.
pub const HEADER_BEGIN: [u8; 4] = *b"hdrb";
/// Ends the header.
pub const HEADER_END: [u8; 4] = *b"hdre";
/// Begins the list of types.
pub const TYPES_BEGIN: [u8; 4] = *b"hetb";
/// Ends the list of types.
pub const TYPES_END: [u8; 4] = *b"hete";
/// Begins the declaration of a type.
pub const TYPE_BEGIN: [u8; 4] = *b"etb\0";
/// Ends the declaration of a type.
pub const TYPE_END: [u8; 4] = *b"ete\0";
/// Begins the events.
pub const DATA_BEGIN: [u8; 4] = *b"datb";
/// Ends the events: stands in place of an event's id.
pub const DATA_END: u16 = 0xffff;
/// The declared size of a type whose events each store their own length.
pub const VARIABLE: u16 = 0xffff;
/// The capability of a block that belongs to no capability.
pub const NO_CAPABILITY: u16 = 0xffff;

/// Bytes before the payload of an event of fixed size: id and time.
pub const FIXED_HEAD: usize = 2 + 8;
/// Bytes before the payload of an event of variable size: id, time and length.
pub const VARIABLE_HEAD: usize = FIXED_HEAD + 2;
/// Bytes of a block marker, which counts in the size of its block.
pub const BLOCK_HEAD: usize = FIXED_HEAD + 14;
/// The longest payload, in bytes.
pub const MOST_PAYLOAD: usize = 0xffff;
/// The deepest stack of cost centres: its depth is a byte.
pub const MOST_CENTRES: usize = 0xff;
/// The number of restrictions of a heap profile.
pub const FILTERS: usize = 7;

/// The size of a type's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Always this many bytes.
    Fixed(u16),
    /// Each event stores its own size.
    Variable,
}

/// A type of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Its number.
    pub id: u16,
    /// The payload.
    pub size: Size,
    /// The name that tools print.
    pub description: &'static str,
}

impl EventType {
    /// Returns the type with this number, if GHC has one.
    pub fn of(id: u16) -> Option<&'static EventType> {
        let place = EVENT_TYPES.binary_search_by_key(&id, |known| known.id).ok()?;
        Some(&EVENT_TYPES[place])
    }
}

macro_rules! size {
    (variable) => {
        Size::Variable
    };
    ($bytes:literal) => {
        Size::Fixed($bytes)
    };
}

macro_rules! event_types {
    ($($name:ident = $id:literal, $size:tt, $description:literal;)+) => {
        /// The numbers of the event types.
        pub mod id {
            $(
                #[doc = $description]
                pub const $name: u16 = $id;
            )+
        }

        /// All types, by number.
        pub static EVENT_TYPES: [EventType; [$($id),+].len()] = [
            $(EventType { id: id::$name, size: size!($size), description: $description }),+
        ];
    };
}

event_types! {
    CREATE_THREAD = 0, 4, "Create thread";
    RUN_THREAD = 1, 4, "Run thread";
    STOP_THREAD = 2, 10, "Stop thread";
    THREAD_RUNNABLE = 3, 4, "Thread runnable";
    MIGRATE_THREAD = 4, 6, "Migrate thread";
    THREAD_WAKEUP = 8, 6, "Wakeup thread";
    GC_START = 9, 0, "Starting GC";
    GC_END = 10, 0, "Finished GC";
    REQUEST_SEQ_GC = 11, 0, "Request sequential GC";
    REQUEST_PAR_GC = 12, 0, "Request parallel GC";
    CREATE_SPARK_THREAD = 15, 4, "Create spark thread";
    LOG_MSG = 16, variable, "Log message";
    BLOCK_MARKER = 18, 14, "Block marker";
    USER_MSG = 19, variable, "User message";
    GC_IDLE = 20, 0, "GC idle";
    GC_WORK = 21, 0, "GC working";
    GC_DONE = 22, 0, "GC done";
    CAPSET_CREATE = 25, 6, "Create capability set";
    CAPSET_DELETE = 26, 4, "Delete capability set";
    CAPSET_ASSIGN_CAP = 27, 6, "Add capability to capability set";
    CAPSET_REMOVE_CAP = 28, 6, "Remove capability from capability set";
    RTS_IDENTIFIER = 29, variable, "RTS name and version";
    PROGRAM_ARGS = 30, variable, "Program arguments";
    PROGRAM_ENV = 31, variable, "Program environment variables";
    OSPROCESS_PID = 32, 8, "Process ID";
    OSPROCESS_PPID = 33, 8, "Parent process ID";
    SPARK_COUNTERS = 34, 56, "Spark counters";
    SPARK_CREATE = 35, 0, "Spark create";
    SPARK_DUD = 36, 0, "Spark dud";
    SPARK_OVERFLOW = 37, 0, "Spark overflow";
    SPARK_RUN = 38, 0, "Spark run";
    SPARK_STEAL = 39, 2, "Spark steal";
    SPARK_FIZZLE = 40, 0, "Spark fizzle";
    SPARK_GC = 41, 0, "Spark GC";
    INTERN_STRING = 42, variable, "Intern string";
    WALL_CLOCK_TIME = 43, 16, "Wall clock time";
    THREAD_LABEL = 44, variable, "Thread label";
    CAP_CREATE = 45, 2, "Create capability";
    CAP_DELETE = 46, 2, "Delete capability";
    CAP_DISABLE = 47, 2, "Disable capability";
    CAP_ENABLE = 48, 2, "Enable capability";
    HEAP_ALLOCATED = 49, 12, "Total heap memory ever allocated";
    HEAP_SIZE = 50, 12, "Current heap size";
    HEAP_LIVE = 51, 12, "Current heap live data";
    HEAP_INFO_GHC = 52, 38, "Heap static parameters";
    GC_STATS_GHC = 53, 58, "GC statistics";
    GC_GLOBAL_SYNC = 54, 0, "Synchronise stop-the-world GC";
    TASK_CREATE = 55, 18, "Task create";
    TASK_MIGRATE = 56, 12, "Task migrate";
    TASK_DELETE = 57, 8, "Task delete";
    USER_MARKER = 58, variable, "User marker";
    HACK_BUG_T9003 = 59, 0, "Empty event for bug #9003";
    MEM_RETURN = 90, 16, "Memory return statistics";
    BLOCKS_SIZE = 91, 12, "Report the size of the heap in blocks";
    HEAP_PROF_BEGIN = 160, variable, "Start of heap profile";
    HEAP_PROF_COST_CENTRE = 161, variable, "Cost-centre definition";
    HEAP_PROF_SAMPLE_BEGIN = 162, 8, "Start of heap profile sample";
    HEAP_PROF_SAMPLE_COST_CENTRE = 163, variable, "Heap profile cost-centre sample";
    HEAP_PROF_SAMPLE_STRING = 164, variable, "Heap profile string sample";
    HEAP_PROF_SAMPLE_END = 165, 8, "End of heap profile sample";
    HEAP_BIO_PROF_SAMPLE_BEGIN = 166, 16, "Start of heap profile (biographical) sample";
    PROF_SAMPLE_COST_CENTRE = 167, variable, "Time profile cost-centre stack";
    PROF_BEGIN = 168, 8, "Start of a time profile";
    IPE = 169, variable, "An IPE entry";
    USER_BINARY_MSG = 181, variable, "User binary message";
    CONC_MARK_BEGIN = 200, 0, "Begin concurrent mark phase";
    CONC_MARK_END = 201, 4, "End concurrent mark phase";
    CONC_SYNC_BEGIN = 202, 0, "Begin concurrent GC synchronisation";
    CONC_SYNC_END = 203, 0, "End concurrent GC synchronisation";
    CONC_SWEEP_BEGIN = 204, 0, "Begin concurrent sweep";
    CONC_SWEEP_END = 205, 0, "End concurrent sweep";
    CONC_UPD_REM_SET_FLUSH = 206, 2, "Update remembered set flushed";
    NONMOVING_HEAP_CENSUS = 207, 13, "Nonmoving heap census";
    NONMOVING_PRUNED_SEGMENTS = 208, 8, "Nonmoving pruned segments";
    TICKY_COUNTER_DEF = 210, variable, "Ticky-ticky entry counter definition";
    TICKY_COUNTER_SAMPLE = 211, 32, "Ticky-ticky entry counter sample";
    TICKY_COUNTER_BEGIN_SAMPLE = 212, 0, "Ticky-ticky entry counter begin sample";
}

/// Payload sizes that other versions of GHC declare: type number and bytes.
pub const OTHER_SIZES: [(u16, u16); 6] = [
    (id::STOP_THREAD, 6),
    (id::GC_STATS_GHC, 50),
    (id::TASK_CREATE, 14),
    (id::CONC_MARK_END, 0),
    (id::NONMOVING_HEAP_CENSUS, 14),
    (id::TICKY_COUNTER_BEGIN_SAMPLE, 32),
];

/// The kinds of capability sets.
pub mod capset {
    /// Defined by the program.
    pub const CUSTOM: u16 = 1;
    /// The threads of a process.
    pub const OS_PROCESS: u16 = 2;
    /// Capabilities whose times come from one clock.
    pub const CLOCK_DOMAIN: u16 = 3;
}

/// Why a thread stopped.
pub mod stop {
    /// The thread needs more heap.
    pub const HEAP_OVERFLOW: u16 = 1;
    /// The thread yields to others.
    pub const YIELDING: u16 = 3;
    /// The thread has ended.
    pub const FINISHED: u16 = 5;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_stand_by_their_numbers() {
        assert!(EVENT_TYPES.is_sorted_by(|one, next| one.id < next.id));
        for known in &EVENT_TYPES {
            assert_eq!(EventType::of(known.id), Some(known));
        }
        assert_eq!((EventType::of(17), EventType::of(DATA_END)), (None, None));
    }
}
