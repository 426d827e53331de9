//! Tests of the table of live blocks, which is model-checked and so has no tests in its own file.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::blocks::*;

fn listed<const SLOTS: usize>(blocks: &Blocks<SLOTS>) -> BTreeMap<u64, About> {
    let mut found = BTreeMap::new();
    blocks.for_each(|block| assert!(found.insert(block.address, block.about).is_none(), "listed twice"));
    found
}

proptest! {
    #[test]
    fn the_table_lists_what_a_map_would(steps in proptest::collection::vec((1..9_u64, any::<u32>(), any::<u32>()), 0..200)) {
        let blocks = Blocks::<6>::new();
        let (mut naive, mut slots, mut unlisted) = (BTreeMap::new(), BTreeMap::new(), 0);
        for (address, bytes, trace) in steps {
            let about = About { bytes: bytes.into(), trace: trace >> 8 };
            if let Some(slot) = slots.remove(&address) {
                blocks.remove(slot, address);
                naive.remove(&address);
            } else if let Some(slot) = blocks.list(address, about) {
                slots.insert(address, slot);
                naive.insert(address, about);
            } else {
                unlisted += 1;
                prop_assert_eq!(naive.len(), 6);
            }
            prop_assert_eq!(&listed(&blocks), &naive);
            prop_assert_eq!(blocks.unlisted(), unlisted);
        }
    }
}

#[test]
fn a_block_that_was_removed_is_not_in_its_slot() {
    let blocks = Blocks::<4>::new();
    let about = About { bytes: 8, trace: 1 };
    let slot = blocks.list(16, about).unwrap();
    let block = Block { slot, address: 16, about };
    assert!(blocks.has(&block));
    blocks.remove(slot, 16);
    assert!(!blocks.has(&block));
    assert_eq!(blocks.list(32, about), Some(slot));
    assert!(!blocks.has(&block), "another block is in the slot");
}

#[test]
fn a_slot_whose_number_was_damaged_frees_no_other_block() {
    let blocks = Blocks::<4>::new();
    let about = About { bytes: u64::MAX, trace: u32::MAX };
    let slot = blocks.list(16, about).unwrap();
    blocks.remove(slot, 32);
    blocks.remove(SlotId(u32::MAX), 16);
    let most = About { bytes: (1 << 40) - 1, trace: (1 << 24) - 1 };
    assert_eq!(listed(&blocks), BTreeMap::from([(16, most)]));
}
