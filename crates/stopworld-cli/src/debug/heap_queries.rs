//! Requests about the heap: its objects are read from outside, so the target executes no code for them.
//!
//! All threads are stopped for the duration of a request.

use anyhow::{anyhow, bail};

use super::answer::PathStep;
use super::render;
use super::session::Session;
use crate::stopped_process::{StoppedMemory, process, stopped_threads};
use heap_snapshot::{Heap as _, RootGroup, RootKind, paths};
use stopworld_postmortem::{Heap, ObjectFacts, Process, StoppedThread, World};
use stopworld_ptrace::{Address, WorldState};

/// The largest number of rows in a table: further rows are only counted.
const MOST_ROWS: usize = 64;

impl Session {
    /// Calls `request` with the stopped process.
    fn with_process<R>(
        &mut self,
        request: impl FnOnce(&Process<'_>, &[World]) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        self.with_all_stopped(|session| session.look(Vec::new(), request))
    }

    /// Calls `request` with the process whose threads are these. All of them are stopped.
    fn look<R>(
        &self,
        threads: Vec<StoppedThread>,
        request: impl FnOnce(&Process<'_>, &[World]) -> anyhow::Result<R>,
    ) -> anyhow::Result<R> {
        if self.debugger.libraries().is_empty() {
            bail!("the process has no stopworld collector");
        }
        let memory = StoppedMemory(&self.debugger);
        let process = process(&self.debugger, &memory, threads)?;
        let (worlds, wrong) = process.worlds();
        match wrong.into_iter().next() {
            Some(error) if worlds.is_empty() => Err(error.into()),
            _ => request(&process, &worlds),
        }
    }

    pub(super) fn object(&mut self, address: Address) -> anyhow::Result<()> {
        let text = self.with_process(|process, worlds| {
            let (world, heap) = heap_near(process, worlds, address)?;
            let is_half_built = heap.is_half_built(address.0, &process.mutators(world).0);
            let facts = facts_of(process, world, &heap, address).map_err(|error| match is_half_built {
                true => anyhow!("no object is at {address}: a thread is constructing an object there"),
                false => error,
            })?;
            let table = render::object(&facts, is_half_built, address, world.number);
            let fields = if facts.fields.is_empty() { String::new() } else { format!("\n{}", render::fields(&facts)) };
            Ok(format!("{table}{fields}"))
        })?;
        self.say(text);
        Ok(())
    }

    pub(super) fn fields(&mut self, address: Address) -> anyhow::Result<()> {
        let facts = self.with_process(|process, worlds| {
            let (world, heap) = heap_near(process, worlds, address)?;
            facts_of(process, world, &heap, address)
        })?;
        match facts.field_count {
            0 => self.say("the object has no fields that can hold references"),
            _ => self.say(render::fields(&facts)),
        }
        Ok(())
    }

    pub(super) fn referrers(&mut self, address: Address) -> anyhow::Result<()> {
        let (referrers, count) = self.with_process(|process, worlds| {
            let heap = process.heap(world_of(worlds, process, address)?)?;
            Ok(heap.referrers(number_in(&heap, address)?, MOST_ROWS))
        })?;
        match count {
            0 => self.say("no object references it; `path` also searches the roots"),
            _ => self.say(render::referrers(count, &referrers)),
        }
        Ok(())
    }

    pub(super) fn path(&mut self, address: Address) -> anyhow::Result<()> {
        let (steps, gaps) = self.with_all_stopped(|session| {
            let threads = stopped_threads(&session.debugger)?;
            session.look(threads, |process, worlds| {
                let world = world_of(worlds, process, address)?;
                let heap = process.heap(world)?;
                let number = number_in(&heap, address)?;
                let (graph, gaps) = process.graph(world, &heap)?;
                let Some(path) = paths::shortest(&graph, number) else { return Ok((Vec::new(), gaps)) };
                let mut place = root_place(&graph.groups()[path.root.group as usize], path.root.address);
                let mut steps = Vec::new();
                for (object, label) in path.steps {
                    let next = label.map_or(String::new(), |label| format!("field at {}", label.text(graph.names())));
                    steps.push(PathStep {
                        place: std::mem::replace(&mut place, next),
                        object: Address(graph.address(object)),
                        name: graph.type_name(object).to_owned(),
                    });
                }
                Ok((steps, gaps))
            })
        })?;
        for gap in gaps {
            self.say(gap);
        }
        match steps.as_slice() {
            [] => self.say("not reachable from any root: it is garbage, which the next collection frees"),
            steps => self.say(render::path(steps)),
        }
        Ok(())
    }

    pub(super) fn heap(&mut self, number: Option<u64>) -> anyhow::Result<()> {
        let worlds = self.debugger.worlds()?;
        let number = choose_world(&worlds, number)?.number;
        let rows = self.with_process(|process, worlds| {
            let world = worlds.iter().find(|world| world.number == number);
            Ok(process.heap(world.ok_or_else(|| anyhow!("world {number} has ended"))?)?.histogram())
        })?;
        self.say(render::census(number, rows));
        Ok(())
    }
}

/// Returns the world whose heap has an address.
fn world_of<'w>(worlds: &'w [World], process: &Process<'_>, address: Address) -> anyhow::Result<&'w World> {
    Ok(heap_near(process, worlds, address)?.0)
}

/// Returns the world whose heap has an address, and the part of its heap around it.
fn heap_near<'w, 'm>(
    process: &Process<'m>,
    worlds: &'w [World],
    address: Address,
) -> anyhow::Result<(&'w World, Heap<'m>)> {
    for world in worlds {
        let heap = process.heap_near(world, &[address.0])?;
        if heap.has(address.0) {
            return Ok((world, heap));
        }
    }
    bail!("the address is not in the heap of a world: `status` lists the worlds")
}

fn number_in(heap: &Heap<'_>, address: Address) -> anyhow::Result<u32> {
    let reason = || anyhow!("no object is at {address}: {}", heap.why_no_object(address.0));
    heap.find(address.0).ok_or_else(reason)
}

/// Describes an object, and the objects that its fields refer to.
fn facts_of(process: &Process<'_>, world: &World, heap: &Heap<'_>, address: Address) -> anyhow::Result<ObjectFacts> {
    let gone = || anyhow!("no object is at {address}: the heap changes");
    let facts = heap.facts(number_in(heap, address)?, MOST_ROWS).ok_or_else(gone)?;
    let around: Vec<u64> = facts.fields.iter().map(|field| field.value).chain([address.0]).collect();
    let heap = process.heap_near(world, &around)?;
    heap.facts(number_in(&heap, address)?, MOST_ROWS).ok_or_else(gone)
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

/// Describes where the word of a root is.
fn root_place(group: &RootGroup, slot: u64) -> String {
    let of_thread = group.thread.as_deref().map_or(String::new(), |thread| format!(" of {thread}"));
    match group.kind {
        RootKind::Stack if slot == 0 => format!("registers{of_thread}"),
        RootKind::Stack => format!("stack{of_thread} at {slot:#x}"),
        RootKind::Handle => format!("root handle at {slot:#x}"),
        RootKind::Static => format!("registered range at {slot:#x}"),
        RootKind::Finalizer => "queue of the finalizer thread".to_owned(),
        RootKind::Other => format!("root{of_thread}, at {slot:#x}"),
    }
}
