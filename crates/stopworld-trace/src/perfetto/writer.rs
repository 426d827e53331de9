//! Draws a timeline while a world runs: the consumer of its records.
//!
//! The writer runs in the drain, so it does not allocate, takes no lock, and writes only to memory allocated in advance. The texts of
//! labels and types are never freed.

use std::io;
use std::sync::Arc;

use super::phases::{self, CollectorTimeline, Moment, category};
use crate::nettrace::types::Names;
use crate::progress::Progress;
use crate::trace_output::TraceOutput;
use stopworld::events::clock::Relation;
use stopworld::events::record::{Consumer, Lost, MAX_WORLDS, Policy, Recorded};
use stopworld::events::table::Unit;
use stopworld::events::{EventId, EventSet, Group, Label, Labels};
use trace_event::{Args, Output};
use trace_event::{END, Name, Timeline, Track};

/// The settings of a writer.
#[derive(Clone, Debug)]
pub(super) struct WriterSettings {
    pub(super) asked: EventSet,
    pub(super) policy: Policy,
    pub(super) ticks: u64,
    pub(super) hz: u64,
    pub(super) process: u32,
    pub(super) name: Arc<str>,
}

/// Writes rows to the output. A full buffer is written to the file, always after a whole row.
#[derive(Debug)]
struct RowOutput(TraceOutput);

impl Output for RowOutput {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.bytes().put(bytes);
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
        if self.0.is_full() { self.0.write_out(END, false) } else { Ok(()) }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Writer {
    timeline: CollectorTimeline<RowOutput>,
    settings: WriterSettings,
    progress: Arc<Progress>,
    names: Names,
    /// For each world number: the position of the world among those of the trace, in the order of their first records.
    ordinals: Box<[Option<u16>]>,
    met: u16,
    /// The latest time seen, in ticks.
    reached: u64,
}

impl Writer {
    /// Allocates everything that the writer will need, so this must not be called in a drain.
    pub(super) fn new(
        settings: WriterSettings,
        progress: Arc<Progress>,
        trace_output: TraceOutput,
    ) -> io::Result<Writer> {
        let mut timeline = Timeline::new(RowOutput(trace_output), settings.ticks as i64, settings.hz);
        timeline.begin_file()?;
        timeline.name_process(settings.process.into(), &settings.name)?;
        Ok(Writer {
            timeline,
            reached: settings.ticks,
            settings,
            progress,
            names: Names::new(),
            ordinals: vec![None; MAX_WORLDS].into(),
            met: 0,
        })
    }

    fn track(&self, thread: u32) -> Track {
        Track { process: self.settings.process.into(), thread: thread.into() }
    }

    /// Returns the position of a world in the trace, from 0.
    fn ordinal(&mut self, number: usize) -> u16 {
        *self.ordinals[number].get_or_insert_with(|| {
            self.met = self.met.wrapping_add(1);
            self.met - 1
        })
    }

    fn draw(&mut self, record: &Recorded, world: u16) -> io::Result<()> {
        let (track, ticks) = (self.track(record.thread.tid), record.ticks as i64);
        let names = &mut self.names;
        let [first, second] = [record.field::<0>(), record.field::<1>()];
        let moment = Moment { id: record.id, track, ticks, first, second };
        if phases::slice(&mut self.timeline, moment, |args| fields(args, record, world, names))? {
            return Ok(());
        }
        match record.id {
            EventId::HeapBefore => {
                let [_, small, large, pinned, new, budget] = six(record);
                self.heap(record, world, [small, large, pinned, new])?;
                self.count(record, world, "may be allocated", &[("bytes", budget)])
            }
            EventId::HeapStats => {
                let [_, small, large, pinned, committed, objects] = six(record);
                self.heap(record, world, [small, large, pinned, 0])?;
                self.count(record, world, "memory of the heap", &[("bytes", committed)])?;
                self.count(record, world, "objects", &[("live", objects)])
            }
            id => {
                let row = id.descriptor();
                let called = (category(row.group), Name(row.name, None));
                self.timeline.instant(track, ticks, called, |args| fields(args, record, world, names))
            }
        }
    }

    /// Writes the counter of live bytes by space, with the bytes allocated since the live bytes were counted.
    fn heap(&mut self, record: &Recorded, world: u16, [small, large, pinned, new]: [u64; 4]) -> io::Result<()> {
        self.count(record, world, "heap", &[("small", small), ("large", large), ("pinned", pinned), ("new", new)])
    }

    fn count(&mut self, record: &Recorded, world: u16, name: &str, values: &[(&str, u64)]) -> io::Result<()> {
        let track = self.track(record.thread.tid);
        // Usually there is only one world, so the first has no number in its counters' names.
        let name = Name(name, (world > 0).then_some(world.into()));
        self.timeline.counter(track, record.ticks as i64, (category(Group::Collection), name), |args| {
            values.iter().for_each(|(name, value)| args.count(name, *value));
        })
    }

    /// Writes the name of an attached thread.
    fn name(&mut self, record: &Recorded) -> io::Result<()> {
        let name = Label::from_raw(record.field::<2>()).and_then(|label| Labels::of_the_process().text(label));
        match name {
            Some(name) => self.timeline.name_thread(self.track(record.field::<0>() as u32), name),
            None => Ok(()),
        }
    }

    fn publish_progress(&self) {
        self.progress.publish(self.timeline.rows, self.timeline.output().0.written);
    }
}

fn six(record: &Recorded) -> [u64; 6] {
    [
        record.field::<0>(),
        record.field::<1>(),
        record.field::<2>(),
        record.field::<3>(),
        record.field::<4>(),
        record.field::<5>(),
    ]
}

/// Writes the fields of an event, each in the notation of its unit.
fn fields<S: Output>(args: &mut Args<'_, S>, record: &Recorded, world: u16, names: &mut Names) {
    if world > 0 {
        args.number("world", world.into());
    }
    for (field, value) in record.id.descriptor().fields.iter().zip(record.fields()) {
        match field.unit {
            Unit::Label => {
                let text = Label::from_raw(*value).and_then(|label| Labels::of_the_process().text(label));
                args.text(field.name, text.unwrap_or_default());
            }
            Unit::Address if field.name == "type_addr" && !names.of(*value).is_empty() => {
                args.text("type", names.of(*value));
            }
            Unit::Address => args.address(field.name, *value),
            _ => args.number(field.name, *value),
        }
    }
}

impl Consumer for Writer {
    fn record(&mut self, record: &Recorded) -> io::Result<()> {
        self.reached = self.reached.max(record.ticks);
        let number = usize::from(record.world.0) % MAX_WORLDS;
        let world = self.ordinal(number);
        if record.id == EventId::ThreadAttached {
            self.name(record)?;
        }
        if self.settings.asked.contains(record.id) {
            self.draw(record, world)?;
        }
        if record.id == EventId::WorldClosed {
            self.ordinals[number] = None;
            self.progress.count_ended_world();
        }
        self.timeline.output_mut().0.count_records(1);
        Ok(())
    }

    fn lost(&mut self, lost: &Lost) -> io::Result<()> {
        let track = self.track(lost.thread.tid);
        self.timeline.instant(track, lost.ticks as i64, ("world", "records lost".into()), |args| {
            args.number("count", lost.count);
        })
    }

    fn drained(&mut self, now: &Relation) -> io::Result<()> {
        self.reached = self.reached.max(now.ticks);
        Ok(())
    }

    /// `.event.crash`: after each flush, the file is valid JSON.
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.timeline.output_mut().0.write_out(END, false);
        self.publish_progress();
        flushed
    }

    fn close(&mut self, now: &Relation) -> io::Result<()> {
        self.timeline.end_all(self.reached.max(now.ticks) as i64)?;
        let closed = self.timeline.output_mut().0.write_out(END, true);
        self.publish_progress();
        closed
    }

    fn unwritten(&self) -> u64 {
        self.publish_progress();
        self.timeline.output().0.lost()
    }

    fn policy(&self) -> Policy {
        self.settings.policy
    }
}
