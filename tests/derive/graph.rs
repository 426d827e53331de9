//! Random graphs of enums, generic types, tuples and large types against a naive reachability search.

use std::marker::PhantomData;

use proptest::prelude::*;
use rstest::rstest;
use stopworld::{Array, Gc, GcCell, Mutator, Paranoid, Root, Stopper, Trace, Weak, World};

#[derive(Trace)]
enum Node {
    Number(u64),
    Pair(Gc<Node>, Gc<Node>),
    Named { flag: bool, name: Option<Gc<Array<u8>>>, next: GcCell<Option<Gc<Node>>> },
    Tuple((u32, Option<(Gc<Node>, u64)>)),
    Several([Option<Gc<Node>>; 3]),
    Held(Gc<Holder<Gc<Node>>>),
    Listed(Gc<Array<Choice>>),
    Large(Gc<Large>),
}

/// The element of an array: two words, of which the second may be a reference or a number.
#[derive(Trace)]
enum Choice {
    Number(u64),
    Node(Gc<Node>),
}

#[derive(Trace)]
struct Holder<T> {
    before: u16,
    value: T,
    phantom: PhantomData<fn(T)>,
}

/// Larger than a layout's bits.
#[derive(Trace)]
#[repr(C)]
struct Large {
    before: [u64; 300],
    last: Option<Gc<Node>>,
}

/// How to build one node: its variant, and the nodes before it to which it refers.
type Planned = (u8, [usize; 3]);

/// Returns the nodes to which a node of this plan refers, by their numbers.
fn targets(index: usize, (variant, numbers): Planned) -> Vec<usize> {
    if index == 0 {
        return Vec::new();
    }
    let [first, second, third] = numbers.map(|number| number % index);
    match variant % 8 {
        0 => vec![],
        1 => vec![first, second],
        4 => vec![first, second, third],
        6 => vec![first, second],
        _ => vec![first],
    }
}

fn build(m: &Mutator, nodes: &[Gc<Node>], plan: Planned) -> Gc<Node> {
    let index = nodes.len();
    let target: Vec<Gc<Node>> = targets(index, plan).into_iter().map(|number| nodes[number]).collect();
    let node = match (plan.0 % 8, &target[..]) {
        (1, &[a, b]) => Node::Pair(a, b),
        (2, &[a]) => {
            let name = m.alloc_array(index % 40, |at| at as u8).unwrap();
            Node::Named { flag: true, name: Some(name), next: GcCell::new(Some(a)) }
        }
        (3, &[a]) => Node::Tuple((7, Some((a, index as u64)))),
        (4, &[a, b, c]) => Node::Several([Some(a), Some(b), Some(c)]),
        (5, &[a]) => Node::Held(m.alloc(Holder { before: 1, value: a, phantom: PhantomData }).unwrap()),
        (6, &[a, b]) => {
            let choice = |at| match at {
                1 => Choice::Node(a),
                3 => Choice::Node(b),
                _ => Choice::Number(at as u64),
            };
            Node::Listed(m.alloc_array(5, choice).unwrap())
        }
        (7, &[a]) => Node::Large(m.alloc(Large { before: [index as u64; 300], last: Some(a) }).unwrap()),
        _ => Node::Number(index as u64),
    };
    m.alloc(node).unwrap()
}

/// Checks that what a node refers to is as `build` made it, and returns those nodes.
fn look(node: &Node) -> Vec<Gc<Node>> {
    match node {
        Node::Number(_) => vec![],
        Node::Pair(a, b) => vec![*a, *b],
        Node::Named { flag, name, next } => {
            assert!(*flag && name.unwrap().iter().enumerate().all(|(at, byte)| *byte == at as u8));
            vec![next.get().unwrap()]
        }
        Node::Tuple((seven, inner)) => {
            assert_eq!(*seven, 7);
            vec![inner.unwrap().0]
        }
        Node::Several(all) => all.iter().map(|one| one.unwrap()).collect(),
        Node::Held(holder) => {
            assert_eq!((holder.before, holder.phantom), (1, PhantomData));
            vec![holder.value]
        }
        Node::Listed(list) => list
            .iter()
            .enumerate()
            .filter_map(|(at, choice)| match choice {
                Choice::Node(node) => Some(*node),
                Choice::Number(number) => {
                    assert_eq!(*number, at as u64);
                    None
                }
            })
            .collect(),
        Node::Large(large) => {
            assert!(large.before.iter().all(|word| *word == large.before[0]));
            vec![large.last.unwrap()]
        }
    }
}

/// Overwrites what the stack below the caller has held.
#[inline(never)]
fn scrub() {
    std::hint::black_box([0_usize; 4096]);
}

type Made = (Vec<Root<Weak2>>, Vec<(usize, Root<Node>)>);
type Weak2 = stopworld::WeakCell<Node>;

/// Makes the graph on a thread that then ends, so that no stack keeps its nodes.
fn make(world: &World, plan: Vec<Planned>, kept: Vec<usize>) -> Made {
    let build_all = move |m: &Mutator| {
        let mut nodes: Vec<Root<Node>> = Vec::new();
        for planned in plan {
            let before: Vec<Gc<Node>> = nodes.iter().map(|node| node.get(m)).collect();
            nodes.push(m.root(build(m, &before, planned)));
        }
        let weak = |node: &Root<Node>| -> Weak<Node> { m.alloc_weak(node.get(m)).unwrap() };
        let all = nodes.iter().map(|node| m.root(weak(node))).collect();
        (all, kept.into_iter().map(|index| (index, nodes[index].clone())).collect())
    };
    // SAFETY: each node has a root until the thread ends. The vector of references is used before the next allocation of `build`, which
    // needs only those that it has copied to its stack: `targets` are in a vector, and rooted by `nodes`.
    unsafe { world.spawn("maker", build_all) }.unwrap().join().unwrap()
}

fn check(stopper: Stopper, plan: &[Planned], kept: &[usize]) {
    let world = World::builder().heap_limit(64 << 20).paranoid(Paranoid::On).stopper(stopper).build().unwrap();
    let kept: Vec<usize> = kept.iter().map(|number| number % plan.len()).collect();
    let mut reachable = vec![false; plan.len()];
    for index in (0..plan.len()).rev() {
        if reachable[index] || kept.contains(&index) {
            reachable[index] = true;
            targets(index, plan[index]).into_iter().for_each(|target| reachable[target] = true);
        }
    }
    let (all, roots) = make(&world, plan.to_vec(), kept);
    scrub();
    world.collect().unwrap();
    // SAFETY: this thread keeps each reference in a local variable.
    let m = unsafe { world.attach("main") }.unwrap();
    for (index, weak) in all.iter().enumerate() {
        let is_alive = weak.get(&m).get().is_some();
        assert_eq!(is_alive, reachable[index], "node {index} of {plan:?}");
    }
    for (index, root) in &roots {
        let expected = targets(*index, plan[*index]).len();
        assert_eq!(look(&root.get(&m)).len(), expected);
    }
    drop(roots);
    m.collect().unwrap();
}

#[rstest]
#[case::signals(Stopper::Signals)]
#[case::safepoints(Stopper::Safepoints)]
fn exactly_the_reachable_nodes_live(#[case] stopper: Stopper) {
    let plans = (proptest::collection::vec(any::<Planned>(), 1..60), proptest::collection::vec(any::<usize>(), 0..4));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(40));
    runner
        .run(&plans, |(plan, kept)| {
            check(stopper, &plan, &kept);
            Ok(())
        })
        .unwrap();
}
