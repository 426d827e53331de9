//! What is reported, compared with a naive oracle: the objects with a word in a block that no root reaches.

use std::collections::BTreeSet;

use proptest::prelude::*;
use stopworld::check::{CheckPromise, HiddenReference};
use stopworld::{Gc, Leaf, Root};

use super::hazard::{By, build, builder};
use super::{Node, Reports, Skipping, Wrapped, attached, node};

/// Where an object is referred to, besides by other objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nowhere,
    ByRoot,
    ByBox,
    /// By the middle of a block, at this distance from its beginning.
    InBlock(usize),
    /// By a live object that is not scanned.
    InLeaf,
    /// By a skipped field of a live object.
    InField,
    /// By a leaf that no root reaches.
    InDeadLeaf,
}

fn held() -> impl Strategy<Value = Held> {
    prop_oneof![
        3 => Just(Held::Nowhere),
        1 => Just(Held::ByRoot),
        1 => Just(Held::ByBox),
        1 => (0..100_000_usize).prop_map(Held::InBlock),
        1 => Just(Held::InLeaf),
        1 => Just(Held::InField),
        1 => Just(Held::InDeadLeaf),
    ]
}

/// What is reachable along `next` from the objects that `start` accepts.
fn reached(objects: &[(Held, usize)], start: impl Fn(Held) -> bool) -> BTreeSet<usize> {
    let mut found: BTreeSet<usize> = (0..objects.len()).filter(|&object| start(objects[object].0)).collect();
    loop {
        let next: BTreeSet<usize> = found.iter().map(|&object| objects[object].1).collect();
        let before = found.len();
        found.extend(next);
        if found.len() == before {
            return found;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_unreached_objects_with_a_word_are_reported(
        objects in proptest::collection::vec((held(), any::<prop::sample::Index>()), 1..60),
        keeps: bool,
    ) {
        let count = objects.len();
        let objects: Vec<(Held, usize)> = objects.iter().map(|(held, next)| (*held, next.index(count))).collect();
        let reports = Reports::default();
        let check = if keeps { CheckPromise::keep() } else { CheckPromise::report() };
        let world = build(builder().check_promise(reports.of(check)), By::Signals);
        let (roots, leaves, hidden, inverted) = attached(&world, |m| {
            let nodes: Vec<_> = (0..count as u64).map(|number| node(m, number, None)).collect();
            let (mut roots, mut hidden): (Vec<Root<Node>>, Vec<Box<[usize]>>) = (Vec::new(), Vec::new());
            let (mut leaves, mut skipping): (Vec<Root<Leaf<Wrapped>>>, Vec<Root<Skipping>>) = (Vec::new(), Vec::new());
            for (object, (held, next)) in nodes.iter().zip(&objects) {
                object.next.set(Some(nodes[*next]));
                match held {
                    Held::Nowhere => {}
                    Held::ByRoot => roots.push(m.root(*object)),
                    Held::ByBox => hidden.push(Box::from([Gc::addr(*object)])),
                    Held::InBlock(at) => {
                        let mut block = vec![0; at + 50].into_boxed_slice();
                        block[*at] = Gc::addr(*object);
                        hidden.push(block);
                    }
                    Held::InLeaf => leaves.push(m.root(m.alloc(Leaf(Wrapped(*object))).unwrap())),
                    Held::InField => skipping.push(m.root(m.alloc(Skipping { hidden: Wrapped(*object), seen: None }).unwrap())),
                    Held::InDeadLeaf => _ = m.alloc(Leaf(Wrapped(*object))).unwrap(),
                }
            }
            (roots, (leaves, skipping), hidden, nodes.iter().map(|object| !Gc::addr(*object)).collect::<Vec<_>>())
        });
        let collected = world.collect().unwrap();

        let is_hidden = |held| matches!(held, Held::ByBox | Held::InBlock(_) | Held::InLeaf | Held::InField);
        let others = leaves.0.len() + leaves.1.len();
        let seen = reached(&objects, |held| held == Held::ByRoot);
        let expected: BTreeSet<usize> = (0..count).filter(|object| is_hidden(objects[*object].0) && !seen.contains(object)).collect();
        let number_of = |report: &HiddenReference| inverted.iter().position(|word| !word == report.object_address()).unwrap();
        let reported: BTreeSet<usize> = reports.take().iter().map(number_of).collect();
        prop_assert_eq!(reported, expected);
        let alive = if keeps { reached(&objects, |held| held == Held::ByRoot || is_hidden(held)) } else { seen };
        prop_assert_eq!(collected.live_objects, (alive.len() + others) as u64);
        drop((roots, leaves, hidden));
    }
}
