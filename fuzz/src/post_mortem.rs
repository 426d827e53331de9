//! Core files.

use std::io::Cursor;

use heap_snapshot::{Graph, Heap as _, hprof, v8};
use stopworld_cli::fuzzing as command;
use stopworld_postmortem::{CoreFile, Process, World};

use super::core_seed::{OBJECTS, core_seed};
use super::is_one_line;
use super::memory::limited;
use super::snapshots::same;

const MIB: usize = 1 << 20;
/// The number of worlds that are looked at in full.
const WORLDS: usize = 4;

/// Reads a core as `stopworld core` does with each of its options, and writes its heap as a snapshot in both formats, which must be read back with the
/// same objects.
pub fn core_file(file: &[u8]) {
    limited(256 * MIB, || {
        read(file);
    });
}

/// Returns the seed, after a check that it is read as what it is: it would be rejected after a change of the layout.
pub fn checked_core_seed() -> Vec<u8> {
    let seed = core_seed();
    let core = CoreFile::parse(Box::new(seed.clone())).expect("a core");
    let report = printed(&core, &[]);
    assert!(report.contains("[Pair]") && report.contains("no damage was found"), "{report}");
    assert_eq!(read(&seed), (OBJECTS, 0, 0), "objects, damaged places and gaps of the seed");
    seed
}

/// Returns the number of objects, of damaged places, and of gaps.
fn read(file: &[u8]) -> (u32, u64, usize) {
    let core = match CoreFile::parse(Box::new(file.to_vec())) {
        Ok(core) => core,
        Err(error) => {
            is_one_line(&error.to_string());
            return (0, 0, 0);
        }
    };
    let process = match Process::of_core(&core) {
        Ok(process) => process,
        Err(error) => {
            is_one_line(&error.to_string());
            return (0, 0, 0);
        }
    };
    printed(&core, &[]);
    let (mut objects, mut damages, mut gaps) = (0, 0, core.complaints().len());
    for world in process.worlds().0.iter().take(WORLDS) {
        let Ok(heap) = process.heap(world) else { continue };
        let (records, _) = process.mutators(world);
        damages += heap.verify(&records).count;
        gaps += heap.gaps().len();
        objects += heap.objects();
        assert_eq!(heap.histogram().iter().map(|(_, count, _)| count).sum::<u64>(), u64::from(heap.objects()));
        let (graph, missing) = process.graph(world, &heap).expect("an input has few objects");
        gaps += missing.len();
        assert_eq!(graph.objects(), heap.objects());
        round_trip(&graph);
        for number in [0, heap.objects() / 2, heap.objects().saturating_sub(1)] {
            let Some(facts) = heap.facts(number, 8) else { continue };
            about(&core, &process, world, facts.address);
        }
    }
    (objects, damages, gaps)
}

/// Asks the command for an object, and reads the part of the heap around it.
fn about(core: &CoreFile, process: &Process<'_>, world: &World, object: u64) {
    for option in ["--object", "--referrers", "--why"] {
        printed(core, &[option, &object.to_string()]);
    }
    let near = process.heap_near(world, &[object]).expect("the heap was read before");
    assert!(near.find(object).is_some(), "the object at {object:#x} is in the whole heap only");
}

/// Returns what `stopworld core` prints. It must not have control characters, which could control the terminal.
fn printed(core: &CoreFile, options: &[&str]) -> String {
    let printed = command::core(core, options);
    assert!(!printed.contains(|char: char| char.is_control() && char != '\n'), "{printed:?}");
    printed
}

fn round_trip(graph: &Graph) {
    let mut written = Vec::new();
    v8::write(graph, &mut written).expect("a graph of this size can be written");
    same(graph, &v8::read(written.as_slice()).expect("what was written can be read"));
    let mut written = Vec::new();
    hprof::write(graph, &mut written).expect("a graph of this size can be written");
    let read = hprof::read(Cursor::new(&written)).expect("what was written can be read");
    assert_eq!((graph.objects(), graph.references()), (read.objects(), read.references()));
}
