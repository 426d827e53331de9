//! The collector as a shared library for hosts that load it at run time, with a C header, `include/stopworld.h`.
//!
//! The design follows the standalone collector of .NET: the runtime loads the library and checks that the versions of both are compatible.
//! Then the two exchange tables of functions, and neither looks up any more symbols of the other. Here
//! [`stopworld_initialize`] takes the host's table and returns the collector's table.
//!
//! ```text
//!   host                                          libstopworld_host.so
//!   stopworld_host { fire_event, events_lost } ──► stopworld_initialize ──► stopworld_collector { allocate, collect, … }
//! ```
//!
//! This crate adds to the `stopworld` library only what a language boundary needs:
//!
//! - **Versions** (`versions.rs`, `.host.version`): each structure contains its size and version, and no code reads or writes past that
//!   size.
//! - **Errors** (`failure.rs`, `.host.no-unwind`): calls return a code and store a text; a panic becomes a code.
//! - **Handles** (`handles.rs`, `threads.rs`): world handles are looked up, so that a stale one is an error; each thread stores its own
//!   mutator; types are [described](stopworld::DescribedType) at run time.
//! - **No unloading** (`.host.resident`): the library has threads and a signal handler, so it is linked with `-z nodelete`.
//!
//! Events are delivered to the host in the same way as to any [`Host`](stopworld::events::host::Host) in Rust.

pub mod abi;
mod events;
mod failure;
mod handles;
mod threads;
mod versions;
mod worlds;

use std::ffi::c_char;

use abi::{Collector, Header};
use failure::{Code, failure, guarded, is_null, place};
use worlds::{Callbacks, HOST};

static COLLECTOR: Collector = Collector {
    header: Header::of::<Collector>(),
    last_error: failure::last_error,
    world_create: worlds::world_create,
    world_close: worlds::world_close,
    thread_attach: threads::thread_attach,
    thread_detach: threads::thread_detach,
    type_describe: threads::type_describe,
    allocate: threads::allocate,
    allocate_array: threads::allocate_array,
    allocate_bytes: threads::allocate_bytes,
    root_create: threads::root_create,
    root_get: threads::root_get,
    root_drop: threads::root_drop,
    range_register: threads::range_register,
    range_drop: threads::range_drop,
    safepoint: threads::safepoint,
    blocking: threads::blocking,
    collect: worlds::collect,
    statistics: worlds::statistics,
    set_event_keyword_state: worlds::set_event_keyword_state,
    set_event_level_state: worlds::set_event_level_state,
    set_events: worlds::set_events,
    telemetry_control: worlds::telemetry_control,
    telemetry_flush: worlds::telemetry_flush,
    telemetry_intern: events::telemetry_intern,
    telemetry_label: events::telemetry_label,
    telemetry_text: events::telemetry_text,
    event_count: events::event_count,
    event_by_name: events::event_by_name,
    event_describe: events::event_describe,
};

/// Takes the host's table and returns the collector's table in `collector`. See the header.
///
/// # Safety
/// `host` is null or points to the number of bytes that its header gives. Its functions may be called on any thread, with its context,
/// until the process ends. `collector` is null, or a pointer may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_initialize(host: *const abi::Host, collector: *mut *const Collector) -> abi::Code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { place(collector, "the output pointer for the collector's table") }?;
        // SAFETY: as above.
        let host = unsafe { versions::read(host) }?;
        if host.fire_event.is_none() {
            return Err(is_null("the host's fire_event"));
        }
        let Callbacks(first) = *HOST.get_or_init(|| Callbacks(host));
        let key = |host: &abi::Host| {
            let lost = host.events_lost.map_or(0, |function| function as usize);
            (host.context, host.fire_event.map_or(0, |function| function as usize), lost)
        };
        if key(&first) != key(&host) {
            let text =
                "the collector was already initialized with another host table: a process can have only one host";
            return Err(failure(Code::Initialized, text));
        }
        *place = &COLLECTOR;
        Ok(())
    })
}

/// Returns the error text of the last call that failed on this thread; empty if no call failed.
#[unsafe(no_mangle)]
pub extern "C" fn stopworld_last_error() -> *const c_char {
    failure::last_error()
}
