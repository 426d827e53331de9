//! GCBench, by John Ellis, Pete Kovac and Hans Boehm.
//!
//! Every thread runs the whole benchmark: a large tree to stretch the heap, a smaller tree and an array of doubles that
//! stay alive, then trees of growing depth. The trees of each depth are built both from the top down (a node is allocated
//! first and its children are stored into it, as constructors do) and from the bottom up (children first). So the heap has
//! live data of medium size and much short-lived data, and collections find partially built trees of both kinds.

use super::run_control::{RunControl, RunPlan};
use super::workload::{Workload, WorkloadError, on_threads};
use stopworld::{Array, Gc, GcCell, Mutator, OutOfMemory, cost_centre, keep_alive, traced};

/// The workload; see the module documentation.
pub static WORKLOAD: Workload = Workload {
    name: "gcbench",
    about: "Boehm's benchmark: trees built top-down and bottom-up, with long-lived data; --depth",
    default_depth: Some(18),
    needs,
    pass,
};

traced! {
    /// A node of GCBench: two children and two unused integers.
    #[derive(Debug)]
    pub struct Node {
        left: GcCell<Option<Gc<Node>>>,
        right: GcCell<Option<Gc<Node>>>,
        i: i32,
        j: i32,
    }
}

/// The size of a node in bytes: two references, two integers and the header.
const NODE_BYTES: usize = 32;
/// The number of doubles in the long-lived array.
const ARRAY_LENGTH: usize = 500_000;
/// The depth of the smallest trees, and the step from one depth to the next.
const SHALLOWEST: u32 = 4;
const STEP: usize = 2;
/// The difference in depth between the stretch tree and both the deepest short-lived trees and the long-lived tree.
const BELOW_STRETCH: u32 = 2;

fn node(m: &Mutator, left: Option<Gc<Node>>, right: Option<Gc<Node>>) -> Result<Gc<Node>, OutOfMemory> {
    m.alloc(Node { left: GcCell::new(left), right: GcCell::new(right), i: 0, j: 0 })
}

/// Builds a full tree of this depth below a node, from the top down.
fn populate(m: &Mutator, depth: u32, tree: Gc<Node>) -> Result<(), OutOfMemory> {
    if depth == 0 {
        return Ok(());
    }
    let left = node(m, None, None)?;
    tree.left.set(Some(left));
    let right = node(m, None, None)?;
    tree.right.set(Some(right));
    populate(m, depth - 1, left)?;
    populate(m, depth - 1, right)
}

fn top_down(m: &Mutator, depth: u32) -> Result<Gc<Node>, OutOfMemory> {
    let tree = node(m, None, None)?;
    populate(m, depth, tree)?;
    Ok(tree)
}

fn bottom_up(m: &Mutator, depth: u32) -> Result<Gc<Node>, OutOfMemory> {
    if depth == 0 {
        return node(m, None, None);
    }
    let left = bottom_up(m, depth - 1)?;
    let right = bottom_up(m, depth - 1)?;
    node(m, Some(left), Some(right))
}

const fn tree_size(depth: u32) -> u64 {
    (2 << depth) - 1
}

/// A function that builds a tree.
type Build = fn(&Mutator, u32) -> Result<Gc<Node>, OutOfMemory>;

/// Returns the number of trees of `depth` that together allocate twice as much as the stretch tree.
const fn iterations(stretch: u32, depth: u32) -> u64 {
    2 * tree_size(stretch) / tree_size(depth)
}

fn pass(m: &Mutator, run_control: &RunControl) -> Result<u64, WorkloadError> {
    on_threads(m, run_control, "gcbench", body)
}

fn body(m: &Mutator, run_control: &RunControl, _index: usize) -> Result<u64, WorkloadError> {
    let stretch = run_control.plan().depth;
    let long_depth = stretch.saturating_sub(BELOW_STRETCH);
    {
        let _cost = cost_centre!("stretch tree");
        bottom_up(m, stretch)?;
    }
    let (long_lived, array) = {
        let _cost = cost_centre!("long-lived data");
        (top_down(m, long_depth)?, reciprocals(m)?)
    };
    m.name_object(long_lived, "long-lived tree");
    m.name_object(array, "long-lived array");
    for depth in (SHALLOWEST..=long_depth).step_by(STEP) {
        short_lived(m, run_control, depth)?;
    }
    keep_alive(long_lived);
    keep_alive(array);
    Ok(check_tree(long_lived, long_depth)? + check_array(array)?)
}

fn short_lived(m: &Mutator, run_control: &RunControl, depth: u32) -> Result<(), OutOfMemory> {
    for (build, is_top_down) in [(top_down as Build, true), (bottom_up, false)] {
        let _cost = if is_top_down { cost_centre!("top down") } else { cost_centre!("bottom up") };
        for _ in 0..iterations(run_control.plan().depth, depth) {
            if run_control.is_over() {
                return Ok(());
            }
            build(m, depth)?;
            m.safepoint();
        }
    }
    Ok(())
}

/// Allocates the array: 1, 1/2, 1/3 … in the first half, zeros in the second.
fn reciprocals(m: &Mutator) -> Result<Gc<Array<f64>>, OutOfMemory> {
    m.alloc_array(ARRAY_LENGTH, |i| if i < ARRAY_LENGTH / 2 { 1.0 / (i + 1) as f64 } else { 0.0 })
}

fn check_tree(tree: Gc<Node>, depth: u32) -> Result<u64, WorkloadError> {
    fn count(tree: Gc<Node>) -> u64 {
        let below = |child: &GcCell<Option<Gc<Node>>>| child.get().map_or(0, count);
        1 + below(&tree.left) + below(&tree.right) + u64::from(tree.i != tree.j)
    }
    match count(tree) {
        nodes if nodes == tree_size(depth) => Ok(nodes),
        nodes => Err(WorkloadError::Wrong(format!("the long-lived tree of depth {depth} has {nodes} nodes"))),
    }
}

fn check_array(array: Gc<Array<f64>>) -> Result<u64, WorkloadError> {
    let half = array.len() / 2;
    let right = array[..half].iter().enumerate().all(|(i, &x)| x == 1.0 / (i + 1) as f64)
        && array[half..].iter().all(|&x| x == 0.0);
    match right && array.len() == ARRAY_LENGTH {
        true => Ok(1),
        false => Err(WorkloadError::Wrong("the long-lived array of doubles has changed".to_owned())),
    }
}

/// Returns the heap size for the stretch tree, or the long-lived data with one deepest tree if that is larger, on every
/// thread; doubled as a reserve.
fn needs(plan: &RunPlan) -> usize {
    let long_depth = plan.depth.saturating_sub(BELOW_STRETCH);
    let nodes = tree_size(plan.depth).max(2 * tree_size(long_depth)) as usize;
    (nodes * NODE_BYTES + ARRAY_LENGTH * size_of::<f64>()) * plan.threads.get() * 2
}
