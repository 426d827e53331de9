//! Random .nettrace files of any form: threads that alternate, blocks, flags, sequence points, losses.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use proptest::sample::Index;

use crate::nettrace_support::{Block, Event, FORMS, Form, Type, file, index_of};

pub fn kind(id: u32) -> Type {
    Type {
        id,
        provider: format!("Provider{}", id % 2),
        event: 10 * id,
        name: format!("N\u{e4}me {id}"),
        version: id % 4,
        level: id % 6,
        keywords: 1 << id,
        opcode: id.is_multiple_of(3).then_some(id as u8),
        fields: vec![("first".into(), 10), ("second".into(), 18)],
    }
}

pub fn event(thread: u64, sequence: u32, time: i64) -> Event {
    Event { kind: 1, sequence, thread, capture: thread, time, sorted: true, ..Event::default() }
}

pub fn introduced(threads: &[u64]) -> Block {
    let row = |&thread: &u64| (index_of(thread), format!("thread {thread}"), 1000 + thread, thread);
    Block::Threads(threads.iter().map(row).collect())
}

/// A trace of several threads: what each writes, how it is divided into sections, blocks and flags, and what is lost.
#[derive(Clone, Debug)]
pub struct TracePlan {
    pub form: Form,
    /// For each section: thread, time step, payload size, whether it is lost.
    sections: Vec<Vec<(u8, u8, u8, bool)>>,
    /// Whether each of the events that may be flagged is flagged.
    flags: Vec<bool>,
    /// The number of events in each block.
    pub blocks: Vec<u8>,
    order: Vec<Index>,
}

pub fn plan() -> impl Strategy<Value = TracePlan> {
    let step = (0..4u8, 0..5u8, prop_oneof![Just(3u8), 0..40u8], prop::bool::weighted(0.1));
    let sections = prop::collection::vec(prop::collection::vec(step, 0..40), 1..4);
    let flags = prop::collection::vec(any::<bool>(), 20);
    (0..4usize, sections, flags, prop::collection::vec(1..12u8, 1..10), prop::collection::vec(any::<Index>(), 20))
        .prop_map(|(form, sections, flags, blocks, order)| TracePlan {
            form: FORMS[form],
            sections,
            flags,
            blocks,
            order,
        })
}

/// Returns the file, its events in file order, and the losses that its numbers imply.
pub fn written(plan: &TracePlan) -> (Vec<u8>, Vec<Event>, u64) {
    let mut blocks = vec![Block::Types(vec![kind(1), kind(2), kind(3)])];
    if plan.form.is_v6() {
        blocks.insert(0, introduced(&[0, 2, 4, 6]));
    }
    let (mut all, mut lost, mut now) = (Vec::new(), 0, 0i64);
    let mut sequences = HashMap::new();
    // The last number of each thread that the reader knows.
    let mut known: HashMap<u64, u32> =
        if plan.form.is_v6() { (0..4).map(|n| (n * 2, 0)).collect() } else { HashMap::new() };
    let mut picks = plan.order.iter().cycle();
    let mut sizes = plan.blocks.iter().cycle();
    for section in &plan.sections {
        // The events of each thread are written in the order of time; the threads alternate in turns of any length.
        let mut queues: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
        let mut newest = now;
        for &(thread, step, size, is_lost) in section {
            let thread = u64::from(thread) * 2;
            let queue = queues.entry(thread).or_default();
            let time = queue.last().map_or(now, |last| last.time) + i64::from(step);
            let sequence = sequences.entry(thread).or_insert(0u32);
            *sequence += 1;
            newest = newest.max(time);
            let number = (all.len() + queue.len()) as u8;
            let mut event = Event { kind: 1 + u32::from(size % 3), ..self::event(thread, *sequence, time) };
            event.processor = u32::from(step);
            event.payload = vec![number; usize::from(size)];
            event.activity = if plan.form.is_v6() { [0; 16] } else { [step; 16] };
            if !is_lost {
                queue.push(event);
            }
        }
        let mut events = Vec::new();
        while let Some(pick) = {
            queues.retain(|_, queue| !queue.is_empty());
            (!queues.is_empty()).then(|| picks.next().unwrap().index(queues.len()))
        } {
            let queue = queues.values_mut().nth(pick).unwrap();
            let turn = 1 + picks.next().unwrap().index(queue.len());
            events.extend(queue.drain(..turn));
        }
        let mut oldest = i64::MAX;
        for (index, event) in events.iter_mut().enumerate().rev() {
            event.sorted = event.time <= oldest && plan.flags[index % plan.flags.len()];
            oldest = oldest.min(event.time);
        }
        for event in &events {
            let before = known.insert(event.capture, event.sequence).unwrap_or(event.sequence - 1);
            lost += u64::from(event.sequence - 1 - before);
        }
        let mut rest = &events[..];
        while !rest.is_empty() {
            let (block, after) = rest.split_at(rest.len().min(usize::from(*sizes.next().unwrap())));
            blocks.push(Block::Events(block.to_vec()));
            rest = after;
        }
        now = newest + 1;
        let point: Vec<(u64, u32)> = sequences.iter().map(|(&thread, &sequence)| (thread, sequence)).collect();
        for &(thread, sequence) in &point {
            let before = known.insert(thread, sequence).unwrap_or(sequence);
            lost += u64::from(sequence - before);
        }
        blocks.push(Block::Point(now, 0, point));
        all.extend(events);
    }
    (file(plan.form, 8, &blocks), all, lost)
}
