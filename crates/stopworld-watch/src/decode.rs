//! From the events of a stream to the [`Observation`]s that they report: those of the runtime's provider, the provider `stopworld`, and the counters.

use nettrace::NetEvent;
use nettrace::clr::{CollectionType, Payload, Provider, Reason, SuspendReason, gc, history};
use nettrace::fields::{self, Value};

use super::model::{Observation, Purpose};
use stopworld_diagnostics::watched;

/// The name of this project's own provider.
pub(crate) const OWN: &str = "stopworld";

/// Returns what an event reports, and the world of the process in which it happened.
pub(crate) fn decode(event: &NetEvent<'_>, pointer_bytes: u8) -> (u16, Observation) {
    if event.kind.name == "EventCounters" {
        return (0, watched::read(event).map_or(Observation::Other, Observation::Counter));
    }
    if event.kind.provider == OWN {
        return (0, own(event).unwrap_or(Observation::Other));
    }
    if Provider::named(&event.kind.provider) != Some(Provider::Runtime) {
        return (0, Observation::Other);
    }
    let payload = Payload::new(event.payload, pointer_bytes);
    let (world, what) = runtime(event.kind.event, event.version(), payload);
    (world.unwrap_or_default(), what)
}

/// Decodes an event of the runtime's provider. A field that the payload is too short for has the value 0.
fn runtime(event: u32, version: u32, payload: Payload<'_>) -> (Option<u16>, Observation) {
    match event {
        gc::SuspendBegin::EVENT => {
            let begin = gc::SuspendBegin::new(version, payload);
            let reason = match version {
                0 => gc::SuspendBeginV0::new(version, payload).reason().map(u32::from),
                _ => begin.reason(),
            };
            let purpose = match reason.and_then(SuspendReason::of) {
                Some(SuspendReason::SuspendForGC) => Purpose::Collection,
                Some(SuspendReason::SuspendForGCPrep) => Purpose::Preparation,
                _ => Purpose::Other,
            };
            (begin.clr_instance_id(), Observation::SuspendBegin(purpose))
        }
        gc::SuspendEnd::EVENT => (gc::SuspendEnd::new(version, payload).clr_instance_id(), Observation::SuspendEnd),
        gc::Start::EVENT => start(version, payload),
        gc::HeapStats::EVENT => {
            let stats = gc::HeapStats::new(version, payload);
            let sizes = [
                stats.generation_size0(),
                stats.generation_size1(),
                stats.generation_size2(),
                stats.generation_size3(),
                stats.generation_size4(),
            ];
            (stats.clr_instance_id(), Observation::Stats(sizes.map(Option::unwrap_or_default)))
        }
        gc::RestartBegin::EVENT => {
            (gc::RestartBegin::new(version, payload).clr_instance_id(), Observation::RestartBegin)
        }
        gc::RestartEnd::EVENT => (gc::RestartEnd::new(version, payload).clr_instance_id(), Observation::RestartEnd),
        gc::Dynamic::EVENT => {
            let dynamic = gc::Dynamic::new(version, payload);
            let name = dynamic.name().map(|name| name.to_string());
            let what = match name.as_deref() {
                Some("StopAbandoned") => Observation::Abandoned,
                Some("CollectionDiscarded") => Observation::Discarded,
                _ => Observation::Other,
            };
            (dynamic.clr_instance_id(), what)
        }
        history::GlobalHeapHistory::EVENT => {
            let history = history::GlobalHeapHistory::new(version, payload);
            let what = match history.time(0) {
                Some(_) => {
                    Observation::Times(std::array::from_fn(|phase| history.time(phase as u32).unwrap_or_default()))
                }
                // A version without times.
                None => Observation::Other,
            };
            (history.clr_instance_id(), what)
        }
        _ => (None, Observation::Other),
    }
}

fn start(version: u32, payload: Payload<'_>) -> (Option<u16>, Observation) {
    if version == 0 {
        let start = gc::StartV0::new(version, payload);
        let reason = reason(start.reason().unwrap_or(u32::MAX));
        let number = start.count().unwrap_or_default();
        return (None, Observation::Start { number, generation: 0, reason, is_background: false });
    }
    let start = gc::Start::new(version, payload);
    let what = Observation::Start {
        number: start.count().unwrap_or_default(),
        generation: start.depth().unwrap_or_default(),
        reason: reason(start.reason().unwrap_or(u32::MAX)),
        is_background: start.kind().and_then(CollectionType::of) == Some(CollectionType::BackgroundGC),
    };
    (start.clr_instance_id(), what)
}

/// Returns the reason of a collection, in words.
fn reason(code: u32) -> &'static str {
    match Reason::of(code) {
        Some(Reason::AllocSmall) => "allocation budget",
        Some(Reason::AllocLarge) => "budget of large objects",
        Some(Reason::Induced | Reason::InducedNotForced | Reason::InducedCompacting) => "requested",
        Some(Reason::LowMemory | Reason::LowMemoryHost | Reason::InducedLowMemory) => "low memory",
        Some(Reason::OutOfSpaceSOH | Reason::OutOfSpaceLOH) => "no room",
        Some(Reason::Internal) => "the runtime",
        Some(Reason::PMFullGC) => "provisional mode",
        _ => "other",
    }
}

/// Decodes an event of this project's own provider, by the fields that the stream declares.
fn own(event: &NetEvent<'_>) -> Option<Observation> {
    let fields = fields::decode(&event.kind.fields, event.payload).fields;
    let value = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value);
    let number = |name: &str| match value(name)? {
        Value::Unsigned(number) => Some(*number),
        Value::Signed(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let thread = number("tid")?;
    Some(match event.kind.name.as_str() {
        // Activities 0 and 1: the thread ran, and the stop waited for it.
        "ThreadStopped" => Observation::ThreadStopped { thread, ns: number("ns")?, waited: number("activity")? <= 1 },
        "ThreadAttached" => match value("label")? {
            Value::Text(name) => Observation::ThreadNamed { thread, name: name.to_string() },
            _ => return None,
        },
        "ThreadDetached" => Observation::ThreadLeft { thread },
        _ => return None,
    })
}
