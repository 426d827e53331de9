//! Roots that are so large that all markers scan them: what they keep alive, against the objects that they refer to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use crate::heap_support::*;
use rstest::rstest;
use stopworld::untyped::ObjectPointers;
use stopworld::{Gc, Mutator, Paranoid, Root, World, WorldBuilder};

/// The number of words of a large root: 2.4 MB.
const WORDS: usize = 300_007;

/// In a paranoid world all markers scan also small roots.
fn builder(markers: usize, paranoid: Paranoid) -> WorldBuilder {
    World::builder().markers(markers).paranoid(paranoid).initial_heap(512 << 20)
}

fn world(markers: usize, paranoid: Paranoid) -> World {
    builder(markers, paranoid).build().unwrap()
}

/// Whether a root refers to the object with this number: without a pattern that fits the size of a piece. The first and the last do.
fn is_kept(number: usize) -> bool {
    number == 0 || number == WORDS - 1 || number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 0
}

fn kept() -> u64 {
    (0..WORDS).filter(|&number| is_kept(number)).count() as u64
}

#[rstest]
fn handles_keep_their_objects(
    #[values(1, 2, 4)] markers: usize,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
) {
    let world = world(markers, paranoid);
    let mut handles: Vec<Option<Root<Node>>> =
        on_a_thread(&world, |m| (0..WORDS).map(|number| Some(m.root(node(m, number as u64).unwrap()))).collect());
    assert_eq!(world.collect().unwrap().live_objects, WORDS as u64);
    for (number, handle) in handles.iter_mut().enumerate().filter(|(number, _)| !is_kept(*number)) {
        drop((number, handle.take()));
    }
    assert_eq!(world.collect().unwrap().live_objects, kept());
    on_a_thread(&world, move |m| {
        for (number, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.map(|handle| handle.get(m).key as usize), is_kept(number).then_some(number));
        }
    });
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

/// Also with more ranges than can be noted, and with one that begins and ends within a word.
#[rstest]
fn ranges_keep_what_their_words_refer_to(
    #[values(1, 2, 4)] markers: usize,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
    #[values(1, 70)] ranges: usize,
    #[values(None, Some(ObjectPointers::Interior))] untyped: Option<ObjectPointers>,
) {
    let builder = builder(markers, paranoid);
    let world = untyped.into_iter().fold(builder, WorldBuilder::untyped).build().unwrap();
    let memory: Vec<AtomicUsize> = (0..ranges * WORDS + 2).map(|_| AtomicUsize::new(0)).collect();
    let memory = &memory[1..=ranges * WORDS];
    let guards: Vec<_> = memory
        .chunks(WORDS)
        // SAFETY: the memory has a word before and after these, outlives the guards, and its words are atomic.
        .map(|words| unsafe { world.register_range(words.as_ptr().cast::<u8>().sub(3), WORDS * 8 + 8) }.unwrap())
        .collect();
    let words = memory.chunks(WORDS).enumerate().flat_map(|(range, words)| {
        // Of further ranges, only the last word refers to an object.
        words
            .iter()
            .enumerate()
            .filter(move |(number, _)| if range == 0 { is_kept(*number) } else { *number == WORDS - 1 })
    });
    let words: Vec<&AtomicUsize> = words.map(|(_, word)| word).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the thread keeps references in the registered ranges only.
            let m = unsafe { world.attach("writer") }.unwrap();
            for (number, word) in words.iter().enumerate() {
                word.store(Gc::addr(node(&m, number as u64).unwrap()), Ordering::Relaxed);
            }
        });
    });
    assert_eq!(world.collect().unwrap().live_objects, words.len() as u64);
    words.iter().step_by(2).for_each(|word| word.store(0, Ordering::Relaxed));
    assert_eq!(world.collect().unwrap().live_objects, words.len() as u64 / 2);
    drop(guards);
    assert_eq!(world.collect().unwrap().live_objects, 0);
}

/// Calls `then` below frames that refer to an object each.
fn deep(m: &Mutator, frames: u64, then: &mut dyn FnMut()) {
    let object = node(m, frames).unwrap();
    let padding = std::hint::black_box([0_usize; 32]);
    if frames == 0 {
        then();
    } else {
        deep(m, frames - 1, then);
    }
    std::hint::black_box(&padding);
    assert_eq!(object.key, frames);
}

/// The stack of a thread that collects, and that of one that is stopped: in a channel, and so outside of a blocking region.
#[rstest]
fn a_deep_stack_keeps_what_its_frames_refer_to(
    #[values(1, 2, 4)] markers: usize,
    #[values(Paranoid::Off, Paranoid::On)] paranoid: Paranoid,
) {
    const FRAMES: u64 = 20_000;
    let world = world(markers, paranoid);
    let (reached, is_deep) = channel();
    let (go_on, may_return) = channel();
    let same = world.clone();
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(move || {
        // SAFETY: the thread keeps its references on its stack and in objects only.
        let m = unsafe { same.attach("deep") }.unwrap();
        deep(&m, FRAMES, &mut || {
            let report = same.collect().unwrap();
            assert!(report.stack_bytes > 4 << 20, "{} bytes of stacks", report.stack_bytes);
            assert!(report.live_objects > FRAMES, "{} live", report.live_objects);
            reached.send(()).unwrap();
            may_return.recv().unwrap();
        });
    });
    is_deep.recv().unwrap();
    let report = world.collect().unwrap();
    assert!(report.stack_bytes > 4 << 20 && report.live_objects > FRAMES, "{report:?}");
    go_on.send(()).unwrap();
    thread.unwrap().join().unwrap();
    assert!(world.collect().unwrap().live_objects < 10);
}
