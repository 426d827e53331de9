//! Decides how an event appears on a timeline: as the beginning or end of a slice, or as an instant.
//!
//! ```text
//!   SuspendBegin ─────────────────────────────── collection N ──────────────────────────────── RestartEnd
//!   SuspendBegin ─ suspend ─ SuspendEnd
//!                        RootsBegin ─ roots ─ RootsEnd
//!                                   MarkBegin ─ mark ─ MarkEnd ─ weak ─ WeakEnd
//!                                                           SweepBegin ─ sweep ─ SweepEnd
//!                                                                   RestartBegin ─ restart ─ RestartEnd
//! ```
//!
//! The beginning of a phase ends the previous one, so a trace with only some of these events still shows their phases. An end
//! without a beginning (the collection was running when the trace began) becomes an instant.
//!
//! The events are those of the event table. They come from the recorder, or from the reader of another format, which maps its
//! events to these. The recorder or reader passes a function `fill` that writes the fields of an event.

use std::io;

use stopworld::events::{EventId, Group};
use trace_event::{Args, Output};
use trace_event::{Name, Timeline, Track};

/// The kinds of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// A pause: from the request to stop the world until the world runs again.
    Pause,
    /// A phase of the pause.
    Phase,
    /// A collection in a trace without phases, which has only the beginning and the end.
    Work,
    /// A batch of finalizers.
    Finalizers,
    /// One of several markers at work.
    Marker,
}

/// A timeline of collector events.
pub type CollectorTimeline<S> = Timeline<S, Slice>;

/// Returns the name of a group's events on the timeline.
pub fn category(group: Group) -> &'static str {
    match group {
        Group::World => "world",
        Group::Collection => "collection",
        Group::Memory => "memory",
        Group::Object => "object",
        Group::Block => "block",
        Group::User => "user",
        Group::Profile => "profile",
    }
}

/// An event on a track, with its first two fields. For the events of a collection the first field is the collection's number.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The event's id.
    pub id: EventId,
    /// The track on which it happened.
    pub track: Track,
    /// The time at which it happened, in ticks of the timeline's clock.
    pub ticks: i64,
    /// Its first field.
    pub first: u64,
    /// Its second field.
    pub second: u64,
}

/// Draws an event that begins or ends a slice, with the fields that `fill` adds. Returns false if the event does neither; it is then an
/// instant.
pub fn slice<S: Output>(
    timeline: &mut CollectorTimeline<S>,
    moment: Moment,
    fill: impl FnOnce(&mut Args<'_, S>),
) -> io::Result<bool> {
    let Moment { id, track, ticks, first, second } = moment;
    let gc = category(Group::Collection);
    let is_paused = timeline.is_open(track, Slice::Pause);
    match id {
        EventId::SuspendBegin => {
            // The end of the previous pause was lost, so that pause is ended here.
            timeline.end(track, Slice::Pause, ticks, |_| {})?;
            timeline.begin(track, Slice::Pause, ticks, (gc, Name("collection", Some(first))), fill)?;
            phase(timeline, track, ticks, "suspend")?;
        }
        EventId::RootsBegin if is_paused => phase(timeline, track, ticks, "roots")?,
        EventId::MarkBegin if is_paused => phase(timeline, track, ticks, "mark")?,
        EventId::SweepBegin if is_paused => phase(timeline, track, ticks, "sweep")?,
        EventId::RestartBegin if is_paused => phase(timeline, track, ticks, "restart")?,
        EventId::SuspendEnd | EventId::RootsEnd | EventId::WeakEnd | EventId::SweepEnd if is_paused => {
            timeline.end(track, Slice::Phase, ticks, fill)?;
        }
        EventId::MarkEnd if is_paused => {
            timeline.end(track, Slice::Phase, ticks, fill)?;
            phase(timeline, track, ticks, "weak")?;
        }
        EventId::RestartEnd | EventId::StopAbandoned if is_paused => {
            timeline.end(track, Slice::Pause, ticks, fill)?;
        }
        EventId::FinalizerBegin => {
            timeline.end(track, Slice::Finalizers, ticks, |_| {})?;
            let memory = category(Group::Memory);
            timeline.begin(track, Slice::Finalizers, ticks, (memory, "finalizers".into()), fill)?;
        }
        EventId::FinalizerEnd if timeline.is_open(track, Slice::Finalizers) => {
            timeline.end(track, Slice::Finalizers, ticks, fill)?;
        }
        // `first` is the marker, `second` is 0 when it begins and 1 when it ends.
        EventId::MarkerJoined if second == 0 && !timeline.is_open(track, Slice::Marker) => {
            timeline.begin(track, Slice::Marker, ticks, (gc, Name("marker", Some(first))), fill)?;
        }
        EventId::MarkerJoined if second == 1 && timeline.is_open(track, Slice::Marker) => {
            timeline.end(track, Slice::Marker, ticks, fill)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Begins a phase of the pause, and ends the previous phase.
pub fn phase<S: Output>(
    timeline: &mut CollectorTimeline<S>,
    track: Track,
    ticks: i64,
    name: &'static str,
) -> io::Result<()> {
    timeline.end(track, Slice::Phase, ticks, |_| {})?;
    timeline.begin(track, Slice::Phase, ticks, (category(Group::Collection), name.into()), |_| {})
}
