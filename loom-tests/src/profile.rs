//! The shipped tree of cost centre stacks, and its models.
//!
//! Threads push and pop as scopes do: a push returns a stack number, which is stored in the thread's [`CurrentId`]. A ticker reads the
//! `CurrentId` of other threads at any moment and resolves the numbers, as the reader of a tick and a census do. Only the orderings in the
//! shipped files synchronize these threads: a number whose node is not visible yet would be mistaken for the root stack, the
//! program itself.

#![allow(dead_code, reason = "the models do not use everything that the library does")]

#[path = "../../src/profile/numbers.rs"]
mod numbers;
#[path = "../../src/profile/tree.rs"]
mod tree;

use std::sync::Arc;

use self::numbers::{CentreId, StackId};
use self::tree::Tree;
use crate::check::Preemptions::AtMost;
use crate::check::{Fault, explore, must_fail_without};
use crate::kernel::Kernel;
use crate::sabotage::Guard;
use crate::sync::CurrentId;

/// A tree with room for four stacks in addition to the built-in ones, and for the edges to them.
type Small = Tree<12, 4, 2>;

const A: CentreId = CentreId(8);
const B: CentreId = CentreId(9);

struct Program {
    tree: Small,
    present: [CurrentId; 2],
}

impl Program {
    fn new() -> Arc<Program> {
        Arc::new(Program { tree: Small::new(), present: [CurrentId::new(), CurrentId::new()] })
    }

    /// Enters a scope on `thread`. Returns the previous stack.
    fn push(&self, thread: usize, centre: CentreId) -> StackId {
        let before = StackId(self.present[thread].get());
        self.present[thread].set(self.tree.push(before, centre).0);
        before
    }

    /// Leaves the scope.
    fn pop(&self, thread: usize, before: StackId) {
        self.present[thread].set(before.0);
    }

    /// Returns the cost centres of a stack, innermost first.
    fn centres(&self, mut stack: StackId) -> Vec<u32> {
        let mut centres = Vec::new();
        while stack != StackId::MAIN {
            let (parent, centre) = self.tree.node(stack).expect("a stack number has no node");
            centres.push(centre.0);
            stack = parent;
        }
        centres
    }

    /// Returns the cost centres that a ticker sees for a thread.
    fn tick(&self, thread: usize) -> Vec<u32> {
        self.centres(StackId(self.present[thread].get()))
    }
}

fn joined(thread: loom::thread::JoinHandle<()>) {
    thread.join().expect("loom reports what fails");
}

/// `.profile.tree`: two threads make the same stacks at the same time. One of them gets the number of a stack that the other has made,
/// whose nodes the ticker has not seen. (The ticker is the last thread because loom does not explore every value that an earlier
/// reader could see.)
#[test]
fn a_ticker_that_sees_a_threads_stack_sees_its_centres() {
    explore("tree, 2 threads that push and a ticker", AtMost(2), || {
        let kernel = Kernel::boot(4);
        let program = Program::new();
        let mut threads = Vec::new();
        for thread in [0, 1] {
            let program = Arc::clone(&program);
            threads.push(kernel.spawn(thread as u32 + 2, move || {
                let outer = program.push(thread, A);
                if thread == 1 {
                    let inner = program.push(thread, B);
                    program.pop(thread, inner);
                }
                program.pop(thread, outer);
            }));
        }
        let ticking = Arc::clone(&program);
        threads.push(kernel.spawn(4, move || {
            for thread in [1, 0] {
                let seen = ticking.tick(thread);
                let was_there = [&[][..], &[A.0], &[B.0, A.0]].contains(&&*seen);
                assert!(was_there, "the ticker saw a stack that the thread never had: {seen:?}");
            }
        }));
        threads.into_iter().for_each(joined);
        let first = program.tree.push(StackId::MAIN, A);
        assert_eq!(program.tree.push(StackId::MAIN, A), first, "one stack has two numbers");
    });
}

#[test]
fn a_number_published_before_its_node_is_caught() {
    let claim = Fault::Claim("a stack number has no node");
    must_fail_without(Guard::ProfileTree, "profile::a_ticker_that_sees_a_threads_stack_sees_its_centres", claim);
}

/// Two threads that push the same centres at the same time get the same stack, even if both map the tree. Recursion returns to the earlier
/// stack.
#[test]
fn threads_that_push_the_same_have_the_same_number() {
    explore("tree, 2 threads that push the same", AtMost(3), || {
        let kernel = Kernel::boot(2);
        let program = Program::new();
        let path = |program: &Program, thread: usize| {
            let there = [A, B].into_iter().map(|centre| {
                program.push(thread, centre);
                program.present[thread].get()
            });
            let there: Vec<_> = there.collect();
            assert_eq!(program.tick(thread), [B.0, A.0]);
            program.push(thread, A);
            assert_eq!(program.present[thread].get(), there[0], "recursion did not return to the earlier stack");
            assert_eq!(program.tree.push(StackId::MAIN, CentreId::GC), StackId::GC);
            assert_eq!(program.centres(StackId::GC), [CentreId::GC.0]);
            there
        };
        let same = Arc::clone(&program);
        let thread = kernel.spawn(2, move || drop(path(&same, 1)));
        let mine = path(&program, 0);
        joined(thread);
        assert_eq!(path(&program, 1), mine, "one stack has two numbers");
    });
}

/// A listing of all stacks yields each stack after its parent, even if another thread made the parent.
#[test]
fn a_listing_has_every_stack_after_its_parent() {
    explore("tree, 2 threads that push and a list of all", AtMost(2), || {
        let kernel = Kernel::boot(4);
        let program = Program::new();
        let threads = [&[A][..], &[A, B]].into_iter().zip(0..).map(|(path, thread)| {
            let program = Arc::clone(&program);
            kernel.spawn(thread as u32 + 2, move || path.iter().for_each(|centre| _ = program.push(thread, *centre)))
        });
        let mut threads: Vec<_> = threads.collect();
        let listing = Arc::clone(&program);
        threads.push(kernel.spawn(4, move || {
            let mut met = vec![StackId::MAIN];
            for stack in listing.tree.iter() {
                let (parent, _) = listing.tree.node(stack).expect("it was listed");
                assert!(met.contains(&parent), "a stack is listed before its parent");
                met.push(stack);
            }
        }));
        threads.into_iter().for_each(joined);
    });
}

#[test]
fn a_number_published_before_its_parent_is_caught() {
    let claim = Fault::Claim("a stack is listed before its parent");
    must_fail_without(Guard::ProfileTree, "profile::a_listing_has_every_stack_after_its_parent", claim);
}
