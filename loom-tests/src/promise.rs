//! The shipped table of live blocks, and its models.
//!
//! Threads list and remove blocks, as an allocator does, and a collector reads the table meanwhile: threads that are not attached to the
//! world run while the others are stopped, and a stopped thread is stopped at any step. Only the orderings in the shipped file synchronize
//! these threads.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/check/blocks.rs"]
mod blocks;

use std::sync::Arc;

use self::blocks::{About, Block, Blocks, SlotId};
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
    blocks.for_each(|Block { address, about: found }| {
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
