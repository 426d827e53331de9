//! The shipped table of live blocks, and its models.
//!
//! Threads list and remove blocks, as an allocator does, and a collector reads the table meanwhile: threads that are not attached to the
//! world run while the others are stopped, and a stopped thread is stopped at any step. Only the orderings in the shipped file synchronize
//! these threads.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/check/blocks.rs"]
mod blocks;
#[path = "../../crates/stopworld-platform/src/sync/trace_store.rs"]
mod trace_store;

use std::sync::Arc;

use self::blocks::{About, Block, Blocks, SlotId};
use self::trace_store::TraceStore;
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::Kernel;
use crate::sabotage::Guard;

/// A block whose size shows its address.
fn about(address: u64) -> About {
    About { bytes: address * 10, trace: address as u32 }
}

fn joined<T>(thread: loom::thread::JoinHandle<T>) -> T {
    thread.join().expect("loom reports what fails")
}

fn look<const SLOTS: usize>(blocks: &Blocks<SLOTS>) -> Vec<u64> {
    let mut addresses = Vec::new();
    blocks.for_each(|Block { address, about: found, .. }| {
        assert_eq!(found, about(address), "a block is seen with the size of another block");
        addresses.push(address);
    });
    addresses
}

/// `.promise.whole`: a slot is given back and taken again for another block, twice, while the collector reads it. What it sees of a block is
/// the size of that block, and a block that was there all the time is seen.
#[test]
fn a_collector_sees_whole_blocks() {
    explore("blocks, a thread that reuses a slot and a collector", AtMost(3), || {
        let kernel = Kernel::boot(4);
        let blocks: Arc<Blocks<3>> = Arc::new(Blocks::new());
        assert!(blocks.list(7, about(7)).is_some());
        let first = blocks.list(1, about(1)).expect("there is room");
        let changing = Arc::clone(&blocks);
        let thread = kernel.spawn(2, move || {
            changing.remove(first, 1);
            let second = changing.list(2, about(2)).expect("there is room");
            changing.remove(second, 2);
            assert!(changing.list(3, about(3)).is_some());
        });
        let reading = Arc::clone(&blocks);
        let collector = kernel.spawn(3, move || {
            let seen = look(&reading);
            assert!(seen.contains(&7), "a listed block was not seen: {seen:?}");
            assert!(seen.len() <= 2, "the slots have more blocks than there are: {seen:?}");
        });
        joined(thread);
        joined(collector);
        assert_eq!(look(&blocks), [7, 3]);
    });
}

#[test]
fn an_address_that_is_published_before_the_size_is_caught() {
    let claim = Fault::Claim("a block is seen with the size of another block");
    must_fail_without(Guard::PromiseWhole, "promise::a_collector_sees_whole_blocks", claim);
}

/// `.promise.whole`: a block is removed, and another one is listed in the same slot with the same address. The link that is in the slot meanwhile
/// is not the size of a block.
#[test]
fn a_collector_takes_no_link_for_a_size() {
    explore("blocks, a thread that lists an address again and a collector", AtMost(3), || {
        let kernel = Kernel::boot(4);
        let blocks: Arc<Blocks<3>> = Arc::new(Blocks::new());
        let [free, first] = [7, 1].map(|address| blocks.list(address, about(address)).expect("there is room"));
        // The link is not 0.
        blocks.remove(free, 7);
        let changing = Arc::clone(&blocks);
        let thread = kernel.spawn(2, move || {
            changing.remove(first, 1);
            assert_eq!(changing.list(1, about(1)), Some(first));
        });
        let reading = Arc::clone(&blocks);
        let collector = kernel.spawn(3, move || assert!(look(&reading).len() <= 1));
        joined(thread);
        joined(collector);
        assert_eq!(look(&blocks), [1]);
    });
}

#[test]
fn a_link_that_is_taken_for_a_size_is_caught() {
    let claim = Fault::Claim("a block is seen with the size of another block");
    must_fail_without(Guard::PromiseWhole, "promise::a_collector_takes_no_link_for_a_size", claim);
}

/// `.promise.slot`: one thread takes the first free slot, and the other takes both free slots, and gives the first one back, while the first
/// thread is between two steps.
#[test]
fn each_block_has_a_slot_of_its_own() {
    explore("blocks, 2 threads that list and remove", AtMost(3), || {
        let kernel = Kernel::boot(4);
        let blocks: Arc<Blocks<4>> = Arc::new(Blocks::new());
        let slots = [1, 2].map(|address| blocks.list(address, about(address)).expect("there is room"));
        blocks.remove(slots[0], 1);
        blocks.remove(slots[1], 2);
        let other = Arc::clone(&blocks);
        let thread = kernel.spawn(2, move || {
            let [first, _] = [3, 4].map(|address| other.list(address, about(address)).expect("there is room"));
            other.remove(first, 3);
        });
        let mine: Vec<Option<SlotId>> = [5, 6].map(|address| blocks.list(address, about(address))).into();
        joined(thread);
        assert!(mine.iter().all(Option::is_some), "no room for three blocks in four slots");
        let mut seen = look(&blocks);
        seen.sort_unstable();
        assert_eq!(seen, [4, 5, 6], "two blocks had one slot");
    });
}

#[test]
fn a_slot_that_two_threads_take_is_caught() {
    let claim = Fault::Claim("two blocks had one slot");
    must_fail_without(Guard::PromiseSlot, "promise::each_block_has_a_slot_of_its_own", claim);
}

/// `.promise.trace`: two threads add the same backtrace, and another one each, to a table that makes them meet. A number that a thread gets is that of
/// its own backtrace, also if the other thread wrote it.
#[test]
fn a_backtrace_whose_number_a_thread_has_is_whole() {
    explore("backtraces, 2 threads that add", AtMost(3), || {
        let kernel = Kernel::boot(4);
        let store: Arc<TraceStore<6, 24>> = Arc::new(TraceStore::new());
        let add = |store: &TraceStore<6, 24>, frames: &[usize]| {
            let number = store.number_of(frames).expect("there is room");
            let read: Vec<usize> = store.frames(number).collect();
            assert_eq!(read, frames, "a backtrace is not whole");
            number
        };
        let other = Arc::clone(&store);
        let thread = kernel.spawn(2, move || {
            add(&other, &[1, 2]);
            add(&other, &[3]);
        });
        let mine = [add(&store, &[1, 2]), add(&store, &[4])];
        joined(thread);
        assert_eq!([add(&store, &[1, 2]), add(&store, &[4])], mine, "a backtrace has another number than before");
        assert!(!mine.contains(&add(&store, &[3])), "two backtraces have one number");
    });
}

#[test]
fn a_backtrace_that_is_published_before_it_is_written_is_caught() {
    // A thread that does not see the words takes the backtrace for another one, and adds its own again.
    let claim = Fault::Claim("a backtrace has another number than before");
    must_fail_without(Guard::PromiseTrace, "promise::a_backtrace_whose_number_a_thread_has_is_whole", claim);
}
