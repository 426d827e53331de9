//! Requests about the heap, which the target's own collector answers.
//!
//! Each request calls one of the collector's functions in a stopped thread (`debugger/inspect.rs`) and reads the reply from
//! the target's scratch memory. All threads are stopped for the duration of a request.

use anyhow::{anyhow, bail};

use super::answer::{Facts, Field, PathStep, Referrer, refused};
use super::render;
use super::session::Session;
use stopworld::debugger::inspect::{self, FREE_BLOCK, FREE_CELL, HALF_BUILT, StepKind};
use stopworld_ptrace::{Address, Inspect, WorldState};

/// The largest number of rows in a table: further rows are only counted.
const MOST_ROWS: usize = 64;
/// The largest number of bytes that are read of a type's name.
const MOST_NAME: u64 = 512;

/// Splits a reply into words.
fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

impl Session {
    /// Calls a function of the collector that writes to the scratch memory. Returns the number of items that it found, and
    /// the items that it wrote.
    fn query(&mut self, which: Inspect, about: u64, item: usize) -> anyhow::Result<(u64, Vec<Vec<u64>>)> {
        let (scratch, room) =
            self.debugger.scratch().ok_or_else(|| anyhow!("the process has no stopworld collector"))?;
        let capacity = room / item;
        let count = refused(self.debugger.library_call(None, which, &[about, scratch.0, capacity as u64])?)?;
        let written = capacity.min(if which == Inspect::Describe { 1 } else { count as usize });
        let mut bytes = vec![0; written * item];
        self.debugger.read(scratch, &mut bytes)?;
        Ok((count, bytes.chunks_exact(item).map(words).collect()))
    }

    fn text(&self, at: u64, bytes: u64) -> String {
        let mut text = vec![0; bytes.min(MOST_NAME) as usize];
        let known = self.debugger.read_some(Address(at), &mut text);
        String::from_utf8_lossy(&text[..known]).into_owned()
    }

    fn describe(&mut self, address: Address) -> anyhow::Result<Facts> {
        let (found, facts) = self.query(Inspect::Describe, address.0, size_of::<inspect::ObjectFacts>())?;
        let facts = facts.into_iter().next().ok_or_else(|| anyhow!("can't read the collector's reply"))?;
        Ok(Facts {
            is_object: found == 1,
            base: Address(facts[0]),
            bytes: facts[1],
            cell_bytes: facts[2],
            name: self.text(facts[5], facts[6]),
            rust_name: self.text(facts[7], facts[8]),
            fields: facts[9],
            length: facts[10],
            world: Address(facts[11]),
            space: facts[12] as u32,
            flags: (facts[12] >> 32) as u32,
            marked: facts[13] as u32 == 1,
        })
    }

    fn type_of(&mut self, address: Address) -> String {
        match self.describe(address) {
            Ok(facts) if facts.is_object => render::type_name(&facts),
            _ => "?".to_owned(),
        }
    }

    fn fields_of(&mut self, address: Address, most: usize) -> anyhow::Result<(u64, Vec<Field>)> {
        let (count, found) = self.query(Inspect::Fields, address.0, size_of::<inspect::FieldFacts>())?;
        let mut fields = Vec::new();
        for field in found.iter().take(most) {
            let target = Address(field[2]);
            let target_type = if target.is_null() { String::new() } else { self.type_of(target) };
            fields.push(Field { offset: field[0], value: field[1], target, target_type });
        }
        Ok((count, fields))
    }

    /// Returns the number of the world that is published at this address.
    fn world_at(&mut self, address: Address) -> anyhow::Result<u64> {
        let worlds = self.debugger.worlds()?;
        Ok(worlds.iter().find(|world| world.address == address).map_or(0, |world| world.number))
    }

    pub(super) fn object(&mut self, address: Address) -> anyhow::Result<()> {
        let text = self.with_all_stopped(|session| {
            let facts = session.describe(address)?;
            if !facts.is_object {
                let what = match facts.flags {
                    flags if flags & HALF_BUILT != 0 => "a thread is constructing an object there",
                    flags if flags & FREE_CELL != 0 => "the address is in a free cell",
                    flags if flags & FREE_BLOCK != 0 => "the address is in a block without objects",
                    _ => "the address is between objects",
                };
                bail!("no object is at {address}: {what}");
            }
            let world = session.world_at(facts.world)?;
            let (count, fields) = session.fields_of(facts.base, MOST_ROWS)?;
            let shown = if fields.is_empty() { String::new() } else { format!("\n{}", render::fields(count, &fields)) };
            Ok(format!("{}{shown}", render::object(&facts, address, world)))
        });
        let text = text?;
        self.say(text);
        Ok(())
    }

    pub(super) fn fields(&mut self, address: Address) -> anyhow::Result<()> {
        let (count, fields) = self.with_all_stopped(|session| session.fields_of(address, MOST_ROWS))?;
        match count {
            0 => self.say("the object has no fields that can hold references"),
            _ => self.say(render::fields(count, &fields)),
        }
        Ok(())
    }

    pub(super) fn referrers(&mut self, address: Address) -> anyhow::Result<()> {
        let (count, referrers) = self.with_all_stopped(|session| {
            let base = session.describe(address)?.base;
            let (count, found) = session.query(Inspect::Referrers, address.0, size_of::<usize>())?;
            let mut referrers = Vec::new();
            for referrer in found.iter().take(MOST_ROWS).map(|words| Address(words[0])) {
                let (_, fields) = session.query(Inspect::Fields, referrer.0, size_of::<inspect::FieldFacts>())?;
                let offset = fields.iter().find(|field| field[2] == base.0).map(|field| field[0]);
                referrers.push(Referrer { address: referrer, offset, name: session.type_of(referrer) });
            }
            Ok((count, referrers))
        })?;
        match count {
            0 => self.say("no object references it; `path` also searches the roots"),
            _ => self.say(render::referrers(count, &referrers)),
        }
        Ok(())
    }

    pub(super) fn path(&mut self, address: Address) -> anyhow::Result<()> {
        let steps = self.with_all_stopped(|session| {
            session.debugger.show_stacks()?;
            let (count, found) = session.query(Inspect::Path, address.0, size_of::<inspect::Step>())?;
            let names: Vec<(i32, String)> = session
                .debugger
                .threads()?
                .into_iter()
                .filter_map(|thread| Some((thread.tid.0, thread.managed?.record.name)))
                .collect();
            let mut steps = Vec::new();
            for step in &found {
                let tid = (step[0] >> 32) as i32;
                let name = names.iter().find(|(known, _)| *known == tid).map_or("", |(_, name)| name.as_str());
                let place = place_of(step[0] as u32, tid, name, step[1], step[4]);
                let object = Address(step[3]);
                steps.push(PathStep { place, object, name: session.type_of(object) });
            }
            Ok((count, steps))
        })?;
        match steps {
            (0, _) => self.say("not reachable from any root: it is garbage, which the next collection frees"),
            (count, steps) => self.say(render::path(count, &steps)),
        }
        Ok(())
    }

    pub(super) fn heap(&mut self, number: Option<u64>) -> anyhow::Result<()> {
        let worlds = self.debugger.worlds()?;
        let world = choose_world(&worlds, number)?;
        let (at, number) = (world.address, world.number);
        let rows = self.with_all_stopped(|session| {
            let (_, rows) = session.query(Inspect::Census, at.0, size_of::<inspect::CensusRow>())?;
            Ok(rows.iter().map(|row| (session.text(row[1], row[2]), row[3], row[4])).collect::<Vec<_>>())
        })?;
        self.say(render::census(number, rows));
        Ok(())
    }
}

fn choose_world(worlds: &[WorldState], number: Option<u64>) -> anyhow::Result<&WorldState> {
    match (worlds, number) {
        ([], _) => bail!("the process has no world yet; `wait 0.1` lets it run until it has one"),
        ([one], None) => Ok(one),
        (several, None) => {
            let numbers: Vec<_> = several.iter().map(|world| world.number.to_string()).collect();
            bail!("the process has several worlds: name one of {}", numbers.join(", "))
        }
        (worlds, Some(number)) => worlds
            .iter()
            .find(|world| world.number == number)
            .ok_or_else(|| anyhow!("there is no world {number}: `status` lists them")),
    }
}

/// Describes where the word of a step is.
fn place_of(kind: u32, tid: i32, name: &str, slot: u64, offset: u64) -> String {
    let kinds = [
        StepKind::Field,
        StepKind::Stack,
        StepKind::Registers,
        StepKind::HalfBuilt,
        StepKind::RegisteredStack,
        StepKind::Range,
        StepKind::Handle,
        StepKind::Finalizer,
    ];
    let thread = if name.is_empty() { format!("thread {tid}") } else { format!("thread {tid} \"{name}\"") };
    match kinds.into_iter().find(|known| *known as u32 == kind) {
        Some(StepKind::Field) => format!("field at +{offset}"),
        Some(StepKind::Stack) => format!("stack of {thread} at {slot:#x}"),
        Some(StepKind::Registers) => format!("registers of {thread}"),
        Some(StepKind::HalfBuilt) => format!("object that {thread} is constructing, at {slot:#x}"),
        Some(StepKind::RegisteredStack) => format!("registered stack at {slot:#x}"),
        Some(StepKind::Range) => format!("registered range at {slot:#x}"),
        Some(StepKind::Handle) => format!("root handle at {slot:#x}"),
        Some(StepKind::Finalizer) => "queue of the finalizer thread".to_owned(),
        Some(_) | None => format!("root of kind {kind} at {slot:#x}"),
    }
}
