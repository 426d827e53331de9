//! The structures of `include/stopworld.h`, in the same order. A test compares every size and offset with those that a C compiler
//! computes from the header.

use std::ffi::{c_char, c_void};

/// The major version of the interface. Different major versions are incompatible.
pub const MAJOR: u16 = 1;
/// The minor version, incremented when members are added.
pub const MINOR: u16 = 0;

/// The first member of every structure that may grow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The size of the whole structure in bytes, including this header.
    pub size: u32,
    /// The major version of the interface, [`MAJOR`], with which the structure was made.
    pub major: u16,
    /// The minor version of the interface, [`MINOR`], with which the structure was made.
    pub minor: u16,
}

impl Header {
    /// Returns the header of a `T` in this version.
    pub const fn of<T>() -> Header {
        Header { size: size_of::<T>() as u32, major: MAJOR, minor: MINOR }
    }
}

/// `stopworld_stamp`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct Stamp {
    pub ns: u64,
    pub tid: u32,
    pub thread_index: u32,
    pub world: u16,
    pub version: u8,
    pub reserved: [u8; 5],
}

/// The host's `fire_event`.
pub type FireEvent = unsafe extern "C" fn(*mut c_void, u32, *const c_void, usize, *const Stamp);
/// The host's `events_lost`.
pub type EventsLost = unsafe extern "C" fn(*mut c_void, u64);

/// `stopworld_host`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct Host {
    pub header: Header,
    pub context: *mut c_void,
    pub fire_event: Option<FireEvent>,
    pub events_lost: Option<EventsLost>,
}

/// `stopworld_options`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct Options {
    pub header: Header,
    pub heap_limit: u64,
    pub initial_heap: u64,
    pub markers: u32,
    pub safepoints: u32,
    pub paranoid: u32,
    pub reserved: u32,
}

/// `stopworld_type_description`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct TypeDescription {
    pub header: Header,
    pub name: *const c_char,
    pub bytes: usize,
    pub references: *const u64,
    pub reference_words: usize,
}

/// `stopworld_collection`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct Collection {
    pub header: Header,
    pub number: u32,
    pub threads_stopped: u32,
    pub pause_ns: u64,
    pub live_objects: u64,
    pub live_bytes: u64,
    pub freed_bytes: u64,
    pub allocated_bytes: u64,
}

/// `stopworld_statistics`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct Statistics {
    pub header: Header,
    pub collections: u32,
    pub threads: u32,
    pub allocated_bytes: u64,
    pub live_bytes: u64,
    pub committed_bytes: u64,
    pub events_delivered: u64,
    pub events_lost: u64,
}

/// `STOPWORLD_MAX_FIELDS`
pub const MAX_FIELDS: usize = stopworld::events::table::PAYLOAD_WORDS;

/// `stopworld_field`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct Field {
    pub name: *const c_char,
    pub unit: *const c_char,
    pub offset: u32,
    pub kind: u32,
    pub since: u32,
    pub reserved: u32,
}

/// `stopworld_event`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "documented in the C header")]
pub struct EventDescription {
    pub header: Header,
    pub name: *const c_char,
    pub summary: *const c_char,
    pub event_id: u32,
    pub version: u32,
    pub net_id: u32,
    pub field_count: u32,
    pub fields: [Field; MAX_FIELDS],
}

/// `stopworld_code`
pub type Code = i32;

/// The target of a handle, which is opaque to the host.
#[repr(C)]
#[derive(Debug)]
pub struct Opaque(());

macro_rules! collector {
    ($($name:ident: $type:ty,)+) => {
        /// `stopworld_collector`: see the header.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "documented in the C header")]
        pub struct Collector {
            pub header: Header,
            $(pub $name: $type,)+
        }

        /// The name of each member, and its offset.
        pub const COLLECTOR_MEMBERS: &[(&str, usize)] = &[$((stringify!($name), std::mem::offset_of!(Collector, $name)),)+];
    };
}

collector! {
    last_error: extern "C" fn() -> *const c_char,
    world_create: unsafe extern "C" fn(*const Options, *mut *mut Opaque) -> Code,
    world_close: extern "C" fn(*mut Opaque, u64) -> Code,
    thread_attach: unsafe extern "C" fn(*mut Opaque, *const c_char) -> Code,
    thread_detach: extern "C" fn() -> Code,
    type_describe: unsafe extern "C" fn(*const TypeDescription, *mut *const Opaque) -> Code,
    allocate: unsafe extern "C" fn(*const Opaque, *mut *mut c_void) -> Code,
    allocate_array: unsafe extern "C" fn(*const Opaque, usize, *mut *mut c_void) -> Code,
    allocate_bytes: unsafe extern "C" fn(usize, *mut *mut c_void) -> Code,
    root_create: unsafe extern "C" fn(*mut c_void, *mut *mut Opaque) -> Code,
    root_get: unsafe extern "C" fn(*const Opaque, *mut *mut c_void) -> Code,
    root_drop: unsafe extern "C" fn(*mut Opaque) -> Code,
    range_register: unsafe extern "C" fn(*mut Opaque, *const c_void, usize, *mut *mut Opaque) -> Code,
    range_drop: unsafe extern "C" fn(*mut Opaque) -> Code,
    safepoint: extern "C" fn() -> Code,
    blocking: unsafe extern "C" fn(Option<unsafe extern "C-unwind" fn(*mut c_void)>, *mut c_void) -> Code,
    collect: unsafe extern "C" fn(*mut Opaque, *mut Collection) -> Code,
    statistics: unsafe extern "C" fn(*mut Opaque, *mut Statistics) -> Code,
    set_event_keyword_state: extern "C" fn(*mut Opaque, u32, u64, u32) -> Code,
    set_event_level_state: extern "C" fn(*mut Opaque, u32, u32, u32) -> Code,
    set_events: extern "C" fn(*mut Opaque, u32, u64, u32) -> Code,
    telemetry_control: unsafe extern "C" fn(*mut Opaque, u64, u64, *mut u64) -> Code,
    telemetry_flush: extern "C" fn(*mut Opaque, u64) -> Code,
    telemetry_intern: unsafe extern "C" fn(*mut Opaque, *const c_char, *mut u64) -> Code,
    telemetry_label: extern "C" fn(*mut Opaque, *const c_void, u64) -> Code,
    telemetry_text: unsafe extern "C" fn(u64, *mut c_char, usize, *mut usize) -> Code,
    event_count: unsafe extern "C" fn(*mut u32) -> Code,
    event_by_name: unsafe extern "C" fn(*const c_char, *mut u32) -> Code,
    event_describe: unsafe extern "C" fn(u32, *mut EventDescription) -> Code,
}
