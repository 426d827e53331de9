//! Calls that act on a world, with handles that are checked: an invalid or stale handle is an error.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stopworld::events::host::{Host, HostOptions, Stamp};
use stopworld::events::{Categories, Keywords, Level, Provider, Selection};
use stopworld::{Paranoid, Stopper, World};

use crate::abi::{self, Header, Opaque};
use crate::failure::{Code, Failure, failure, guarded, place};
use crate::handles::{self, Hosted, world_of};
use crate::{threads, versions};

/// The host's table, as passed at initialization.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callbacks(pub(crate) abi::Host);

// SAFETY: the context is only passed back; the interface requires that the host's functions can be called on another thread.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

pub(crate) static HOST: OnceLock<Callbacks> = OnceLock::new();

impl Host for Callbacks {
    fn fire_event(&self, _: u32, _: &[u8]) {}

    fn fire_stamped_event(&self, event_id: u32, payload: &[u8], stamp: &Stamp) {
        let stamp = abi::Stamp {
            ns: stamp.ns,
            tid: stamp.thread.tid,
            thread_index: stamp.thread.index,
            world: stamp.world.0,
            version: stamp.version,
            reserved: [0; 5],
        };
        if let Some(fire_event) = self.0.fire_event {
            // SAFETY: the host's own function and context; the payload and the stamp outlive the call.
            unsafe { fire_event(self.0.context, event_id, payload.as_ptr().cast::<c_void>(), payload.len(), &stamp) };
        }
    }

    fn events_lost(&self, count: u64) {
        if let Some(events_lost) = self.0.events_lost {
            // SAFETY: as above.
            unsafe { events_lost(self.0.context, count) };
        }
    }
}

pub(crate) unsafe extern "C" fn world_create(options: *const abi::Options, world: *mut *mut Opaque) -> abi::Code {
    guarded(|| {
        // SAFETY: the host's promise.
        let place = unsafe { place(world, "the output pointer for the world") }?;
        let host = *HOST
            .get()
            .ok_or_else(|| failure(Code::Argument, "the collector has no host: call stopworld_initialize first"))?;
        let mut builder = World::builder();
        if !options.is_null() {
            // SAFETY: the host's promise.
            let options = unsafe { versions::read(options) }?;
            if options.heap_limit != 0 {
                builder = builder.heap_limit(options.heap_limit as usize);
            }
            if options.initial_heap != 0 {
                builder = builder.initial_heap(options.initial_heap as usize);
            }
            if options.markers != 0 {
                builder = builder.markers(options.markers as usize);
            }
            if options.safepoints != 0 {
                builder = builder.stopper(Stopper::Safepoints);
            }
            if options.paranoid != 0 {
                builder = builder.paranoid(Paranoid::On);
            }
        }
        let built = builder.build()?;
        let connection = built.events().serve(Arc::new(host), Selection::nothing(), HostOptions::default())?;
        *place = handles::open(Hosted { world: built, connection });
        Ok(())
    })
}

pub(crate) extern "C" fn world_close(world: *mut Opaque, timeout_ms: u64) -> abi::Code {
    guarded(|| {
        threads::must_not_be_attached()?;
        let hosted = world_of(world)?;
        if !handles::close(world) {
            return Err(failure(Code::Argument, "another thread has closed this world"));
        }
        let within = Duration::from_millis(timeout_ms);
        let closed = hosted.world.close(within);
        // Also after a timeout, the events recorded so far are delivered.
        hosted.connection.end(hosted.world.events(), within)?;
        Ok(closed?)
    })
}

pub(crate) unsafe extern "C" fn collect(world: *mut Opaque, report: *mut abi::Collection) -> abi::Code {
    guarded(|| {
        threads::must_not_block()?;
        let hosted = world_of(world)?;
        if report.is_null() {
            hosted.world.collect()?;
            return Ok(());
        }
        let make = |header: Header| {
            let done = hosted.world.collect()?;
            Ok(abi::Collection {
                header,
                number: done.number,
                threads_stopped: done.threads_stopped,
                pause_ns: done.pause_ns,
                live_objects: done.live_objects,
                live_bytes: done.live.total(),
                freed_bytes: done.freed_bytes,
                allocated_bytes: done.allocated_bytes,
            })
        };
        // SAFETY: the host's promise.
        unsafe { versions::write(report, make) }
    })
}

pub(crate) unsafe extern "C" fn statistics(world: *mut Opaque, statistics: *mut abi::Statistics) -> abi::Code {
    guarded(|| {
        let hosted = world_of(world)?;
        let make = |header: Header| {
            let (totals, events) = (hosted.world.totals(), hosted.connection.totals());
            Ok(abi::Statistics {
                header,
                collections: totals.collections,
                threads: hosted.world.threads().len() as u32,
                allocated_bytes: totals.allocated_bytes,
                live_bytes: totals.live_bytes,
                committed_bytes: totals.committed_bytes,
                events_delivered: events.delivered,
                events_lost: events.lost,
            })
        };
        // SAFETY: the host's promise.
        unsafe { versions::write(statistics, make) }
    })
}

fn provider_of(number: u32) -> Result<Provider, Failure> {
    match number {
        0 => Ok(Provider::Default),
        1 => Ok(Provider::Private),
        _ => Err(failure(
            Code::Argument,
            format!("there is no provider {number}: 0 is the default provider, 1 the private one"),
        )),
    }
}

fn level_of(number: u32) -> Result<Level, Failure> {
    let level = Level::ALL.into_iter().find(|level| *level as u32 == number);
    level.ok_or_else(|| {
        failure(Code::Argument, format!("there is no level {number}: levels are 1 (fatal) to 5 (verbose)"))
    })
}

pub(crate) extern "C" fn set_event_keyword_state(
    world: *mut Opaque,
    provider: u32,
    keywords: u64,
    enabled: u32,
) -> abi::Code {
    guarded(|| {
        let hosted = world_of(world)?;
        let (events, provider) = (hosted.world.events(), provider_of(provider)?);
        Ok(hosted.connection.set_event_keyword_state(events, provider, Keywords(keywords), enabled != 0)?)
    })
}

pub(crate) extern "C" fn set_event_level_state(
    world: *mut Opaque,
    provider: u32,
    level: u32,
    enabled: u32,
) -> abi::Code {
    guarded(|| {
        let hosted = world_of(world)?;
        let (events, provider) = (hosted.world.events(), provider_of(provider)?);
        Ok(hosted.connection.set_event_level_state(events, provider, level_of(level)?, enabled != 0)?)
    })
}

pub(crate) extern "C" fn set_events(world: *mut Opaque, provider: u32, keywords: u64, level: u32) -> abi::Code {
    guarded(|| {
        let hosted = world_of(world)?;
        let up_to = if level == 0 { None } else { Some(level_of(level)?) };
        let provider = provider_of(provider)?;
        Ok(hosted.connection.set(hosted.world.events(), provider, Keywords(keywords), up_to)?)
    })
}

pub(crate) unsafe extern "C" fn telemetry_control(
    world: *mut Opaque,
    reset: u64,
    flip: u64,
    old: *mut u64,
) -> abi::Code {
    guarded(|| {
        let hosted = world_of(world)?;
        let events = hosted.world.events();
        let before = hosted.connection.telemetry_control(events, Categories(reset), Categories(flip))?;
        // SAFETY: the host's promise: null, or a valid pointer.
        if let Some(old) = unsafe { old.as_mut() } {
            *old = before.0;
        }
        Ok(())
    })
}

pub(crate) extern "C" fn telemetry_flush(world: *mut Opaque, timeout_ms: u64) -> abi::Code {
    guarded(|| Ok(world_of(world)?.connection.flush(Duration::from_millis(timeout_ms))?))
}
