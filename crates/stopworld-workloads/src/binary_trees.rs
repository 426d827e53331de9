//! binary-trees, from the Computer Language Benchmarks Game.
//!
//! A tree one level deeper than all others is built and dropped, to stretch the heap. A long-lived tree is built and kept.
//! Then, for the depths 4, 8, 12 … up to that of the plan, trees are built, counted and dropped; their number is chosen so
//! that each depth allocates about the same number of nodes. The trees of a depth are distributed over the threads in turn.
//! All objects are small and of one type, and nearly all of them are dead at the next collection.

use super::run_control::{RunControl, RunPlan};
use super::workload::{Workload, WorkloadError, on_threads};
use stopworld::{Gc, Mutator, OutOfMemory, cost_centre, traced};

/// The workload; see the module documentation.
pub static WORKLOAD: Workload = Workload {
    name: "binary-trees",
    about: "many short-lived trees and one long-lived tree (Benchmarks Game); --depth",
    default_depth: Some(18),
    needs,
    pass,
};

traced! {
    /// A node, with two children or none.
    #[derive(Debug)]
    pub struct Tree {
        /// The left child.
        pub left: Option<Gc<Tree>>,
        /// The right child.
        pub right: Option<Gc<Tree>>,
    }
}

/// The size of a node in bytes: two words and the header.
const NODE_BYTES: usize = 24;
/// The depth of the smallest trees, and the step from one depth to the next.
const SHALLOWEST: u32 = 4;

/// Builds a full tree of this depth. The unfinished parts are referenced from this thread's stack, where the collector
/// finds them.
///
/// # Errors
/// If the heap limit is reached.
pub fn build(m: &Mutator, depth: u32) -> Result<Gc<Tree>, OutOfMemory> {
    if depth == 0 {
        return m.alloc(Tree { left: None, right: None });
    }
    let left = build(m, depth - 1)?;
    let right = build(m, depth - 1)?;
    m.alloc(Tree { left: Some(left), right: Some(right) })
}

/// Counts the nodes of a tree.
pub fn count(tree: Gc<Tree>) -> u64 {
    match (tree.left, tree.right) {
        (Some(left), Some(right)) => 1 + count(left) + count(right),
        _ => 1,
    }
}

/// Returns the number of nodes of a full tree of this depth.
pub const fn full(depth: u32) -> u64 {
    (2 << depth) - 1
}

/// Returns the number of trees of `depth` to build if the deepest trees have depth `deepest`.
const fn trees(deepest: u32, depth: u32) -> u64 {
    1 << (deepest - depth + SHALLOWEST)
}

fn pass(m: &Mutator, run_control: &RunControl) -> Result<u64, WorkloadError> {
    let deepest = run_control.plan().depth;
    let mut verified = {
        let _cost = cost_centre!("stretch tree");
        checked(build(m, deepest + 1)?, deepest + 1)?
    };
    let long_lived = {
        let _cost = cost_centre!("long-lived tree");
        build(m, deepest)?
    };
    m.name_object(long_lived, "long-lived tree");
    verified += on_threads(m, run_control, "trees", short_lived)?;
    verified += checked(long_lived, deepest)?;
    Ok(verified)
}

/// Builds and checks one thread's share of the short-lived trees.
fn short_lived(m: &Mutator, run_control: &RunControl, index: usize) -> Result<u64, WorkloadError> {
    let _cost = cost_centre!("short-lived trees");
    let (deepest, threads) = (run_control.plan().depth, run_control.plan().threads.get());
    let mut verified = 0;
    for depth in (SHALLOWEST..=deepest).step_by(SHALLOWEST as usize) {
        for _ in (index as u64..trees(deepest, depth)).step_by(threads) {
            if run_control.is_over() {
                return Ok(verified);
            }
            verified += checked(build(m, depth)?, depth)?;
            m.safepoint();
        }
    }
    Ok(verified)
}

fn checked(tree: Gc<Tree>, depth: u32) -> Result<u64, WorkloadError> {
    match count(tree) {
        nodes if nodes == full(depth) => Ok(nodes),
        nodes => Err(WorkloadError::Wrong(format!("a tree of depth {depth} has {nodes} nodes, not {}", full(depth)))),
    }
}

/// Returns the heap size for the long-lived tree, one of the deepest trees on each thread, and the stretch tree, which a
/// stale word on a stack may keep alive; doubled as a reserve.
fn needs(plan: &RunPlan) -> usize {
    let deepest_dealt = plan.depth / SHALLOWEST * SHALLOWEST;
    let nodes = full(plan.depth + 1) + full(plan.depth) + full(deepest_dealt) * plan.threads.get() as u64;
    nodes as usize * NODE_BYTES * 2 + (1 << 20)
}
