//! The collector for hosts that load it: a shared library, and a C header, `include/stopworld.h`.
//!
//! A standalone collector in .NET is a library that the runtime finds, loads, and asks whether they understand each other; then
//! the two exchange tables of functions and never look each other's symbols up again. This is that interface, for this
//! collector: [`stopworld_initialize`] takes the host's table and gives the collector's.
//!
//! ```text
//!   host                                          libstopworld_host.so
//!   stopworld_host { fire_event, events_lost } ──► stopworld_initialize ──► stopworld_collector { allocate, collect, … }
//! ```
//!
//! What this crate adds to the library is only what a language border needs:
//!
//! - **Versions** (`versions.rs`, `.host.version`): each structure says its size and its version, and nobody reads beyond.
//! - **Errors** (`failure.rs`, `.host.no-unwind`): codes and a text; a panic becomes a code.
//! - **Handles** (`worlds.rs`, `threads.rs`): a world's is looked up, so that a stale one is an error; each thread keeps its own mutator;
//!   types are [described](stopworld::DescribedType) at run time.
//! - **It stays** (`.host.resident`): the library has threads and a signal handler, so it is linked with `-z nodelete`.
//!
//! Events come to the host as to any [`Host`](stopworld::events::host::Host) in Rust.

pub mod abi;
mod events;
mod failure;
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

/// Takes the host's table, and gives the collector's. See the header.
///
/// # Safety
/// `host` is null or points to as many bytes as its header says; its functions may be called on any thread, with its context, as long as
/// the process lives. `collector` is null, or a pointer may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stopworld_initialize(host: *const abi::Host, collector: *mut *const Collector) -> abi::Code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let place = unsafe { place(collector, "the place for the collector's table") }?;
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
            let text = "this process has initialized the collector with another table: a process has one host";
            return Err(failure(Code::Initialized, text));
        }
        *place = &COLLECTOR;
        Ok(())
    })
}

/// What the last function of this thread that failed had to say; empty if none did.
#[unsafe(no_mangle)]
pub extern "C" fn stopworld_last_error() -> *const c_char {
    failure::last_error()
}
