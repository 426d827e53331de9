//! Cores that are damaged, cut off, or made to do harm.

mod support;

use std::hint::black_box;
use std::mem::offset_of;
use std::sync::{Mutex, OnceLock};

use heap_snapshot::Heap as _;
use proptest::prelude::*;
use rstest::rstest;
use stopworld::debugger::contract::{Descriptor, MAGIC, VERSION};
use stopworld::debugger::heap_layout::{CacheOffsets, HeapLayout};
use stopworld::{Gc, GcCell, Mutator, World, traced};
use stopworld_postmortem::{CoreFile, Damage, Process};

/// A test at a time: a core has the memory of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

traced! {
    struct Node {
        next: GcCell<Option<Gc<Node>>>,
        value: u64,
    }
}

fn list(m: &Mutator) -> Gc<Node> {
    (0..100).fold(None, |next, _| Some(m.alloc(Node { next: GcCell::new(next), value: 7 }).unwrap())).unwrap()
}

/// A core of a process with a world.
fn a_core() -> &'static [u8] {
    static CORE: OnceLock<Vec<u8>> = OnceLock::new();
    CORE.get_or_init(|| {
        let _alone = ALONE.lock();
        let world = World::builder().heap_limit(8 << 20).markers(1).build().unwrap();
        // SAFETY: this thread keeps its references on its stack.
        let m = unsafe { world.attach("reader") }.unwrap();
        let list = list(&m);
        let core = support::core();
        black_box(list);
        assert_eq!(everything(&CoreFile::parse(Box::new(core.clone())).unwrap()), Some(100));
        core
    })
}

/// Everything that a core says; must end, whatever is in it.
fn everything(core: &CoreFile) -> Option<u32> {
    let process = Process::of_core(core).ok()?;
    let mut objects = 0;
    for world in process.worlds().0.into_iter().take(4) {
        let Ok(heap) = process.heap(&world) else { continue };
        heap.verify(&process.mutators(&world).0);
        objects += process.graph(&world, &heap).map_or(0, |(graph, _)| graph.objects());
        heap.facts(0, 100);
        heap.referrers(0, 4);
    }
    Some(objects)
}

#[test]
fn damage_is_found_at_its_address_and_the_rest_is_read() {
    let _alone = ALONE.lock();
    let world = World::builder().heap_limit(8 << 20).markers(1).build().unwrap();
    // SAFETY: this thread keeps its references on its stack.
    let m = unsafe { world.attach("reader") }.unwrap();
    let list = list(&m);
    let (broken, dangling) = (list.next.get().unwrap(), list.next.get().unwrap().next.get().unwrap());
    let number = |core: &CoreFile| {
        let process = Process::of_core(core).unwrap();
        let world = process
            .worlds()
            .0
            .into_iter()
            .find(|world| process.heap(world).unwrap().has(Gc::addr(list) as u64))
            .unwrap();
        let heap = process.heap(&world).unwrap();
        (heap.objects(), heap.verify(&process.mutators(&world).0))
    };
    let whole = support::core();
    let (objects, damages) = number(&CoreFile::parse(Box::new(whole.clone())).unwrap());
    assert_eq!((objects, damages.count), (100, 0));
    // The addresses are looked up in the core itself, in which other copies of the words may be.
    let segments: Vec<(u64, u64, u64)> = (0..u16::from_le_bytes([whole[56], whole[57]]))
        .map(|index| {
            let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
            let at = 64 + 56 * usize::from(index);
            (word(at + 16), word(at + 32), word(at + 8))
        })
        .collect();
    let place = |address: usize| {
        let (start, _, offset) =
            segments.iter().find(|(start, bytes, _)| (*start..start + bytes).contains(&(address as u64))).unwrap();
        (offset + address as u64 - start) as usize
    };
    let mut core = whole.clone();
    let header = place(Gc::addr(broken) - 8);
    core[header..header + 8].copy_from_slice(&0x1234_5678_u64.to_le_bytes());
    let next = place(Gc::addr(dangling) + std::mem::offset_of!(Node, next));
    let wrong = Gc::addr(list) as u64 + 16;
    core[next..next + 8].copy_from_slice(&wrong.to_le_bytes());
    let (objects, damages) = number(&CoreFile::parse(Box::new(core)).unwrap());
    assert_eq!(objects, 99);
    let offset = std::mem::offset_of!(Node, next) as u64;
    let dangles_at = |offset, target| Damage::Dangling { type_name: String::new(), offset, target };
    let dangles = |target| dangles_at(offset, target);
    let mut expected = vec![
        (Gc::addr(broken) as u64, Damage::Header(0x1234_5678)),
        (Gc::addr(list) as u64, dangles(Gc::addr(broken) as u64)),
        (Gc::addr(dangling) as u64, dangles(wrong)),
    ];
    expected.sort_by_key(|(address, _)| *address);
    // The names of types are in read-only memory, which the core does not have.
    let unnamed = |damage| match damage {
        Damage::Dangling { type_name, offset, target } if type_name.starts_with("(type 0x") => {
            dangles_at(offset, target)
        }
        damage => damage,
    };
    let found: Vec<_> = damages.places.into_iter().map(|(address, damage)| (address, unnamed(damage))).collect();
    assert_eq!((found, damages.count), (expected, 3));
}

/// `.format.hostile`
#[rstest]
#[case::cursors(offset_of!(CacheOffsets, cursor_stride))]
#[case::blocks(offset_of!(CacheOffsets, block_stride))]
fn a_distance_between_bins_that_wraps_is_harmless(#[case] member: usize) {
    let mut core = a_core().to_vec();
    let member = offset_of!(Descriptor, heap) + offset_of!(HeapLayout, cache) + member;
    let version = [&VERSION.to_le_bytes()[..], &(size_of::<Descriptor>() as u32).to_le_bytes()].concat();
    let magic = [&MAGIC[..], &version].concat();
    let found: Vec<usize> = (0..core.len() - 4096).step_by(8).filter(|at| core[*at..].starts_with(&magic)).collect();
    assert!(!found.is_empty());
    for at in found {
        core[at + member..at + member + 8].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
    }
    assert_eq!(everything(&CoreFile::parse(Box::new(core)).unwrap()), Some(100));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 50, ..ProptestConfig::default() })]

    /// `.format.hostile`
    #[test]
    fn a_damaged_core_is_read_to_an_end(
        wrong in proptest::collection::vec((any::<u64>(), any::<u8>()), 0..40),
        words in proptest::collection::vec((any::<u64>(), prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 47), 0_u64..9]), 0..40),
        end in prop_oneof![Just(u64::MAX), any::<u64>()],
    ) {
        let mut core = a_core().to_vec();
        let length = core.len() as u64;
        for (at, byte) in wrong {
            core[(at % length) as usize] = byte;
        }
        // Half of them are in the table of segments.
        for (at, word) in words {
            let room = if at % 2 == 0 { 4096 } else { length - 8 };
            let at = (at / 2 % room) as usize & !7;
            core[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        if end < u64::MAX {
            core.truncate((end % length) as usize);
        }
        if let Ok(core) = CoreFile::parse(Box::new(core)) {
            everything(&core);
        }
    }
}
