//! Threads that start and end while collections run.
//!
//! The main thread keeps the plan's number of children running. Each child builds a list (some children collect in the
//! middle of it), checks it, passes it on as a [`Root`] and ends. The main thread waits in a blocking region for the child to end, checks
//! the list again after the child's stack has been unmapped, and starts the next child. So at any time some threads are between clone and
//! attach, some between detach and exit, and several request a collection at once (`.stop.create-race`, `.stop.exit-race`,
//! `.stop.two-collectors`).

use std::collections::VecDeque;

use super::run_control::{RunControl, RunPlan};
use super::workload::{Workload, WorkloadError, panicked};
use stopworld::{Gc, JoinHandle, Mutator, OutOfMemory, Root, cost_centre, traced};

/// The workload; see the module documentation.
pub static WORKLOAD: Workload = Workload {
    name: "churn",
    about: "threads that start and end during collections; each leaves a list",
    default_depth: None,
    needs,
    pass,
};

traced! {
    /// A link of the list that a child leaves.
    #[derive(Debug)]
    pub struct Link {
        /// The link allocated before this one.
        pub next: Option<Gc<Link>>,
        /// The number of the child that allocated the link, times the length of a list, plus the index of the link.
        pub key: u64,
    }
}

/// The result of a child: the head of its list.
type ThreadResult = Result<Root<Link>, WorkloadError>;

/// The number of children in one pass.
const BIRTHS: u64 = 400;
/// The number of links in a child's list.
const LENGTH: u64 = 2_000;
/// The number of links that are dropped for each link in the list.
const WASTE: u64 = 4;
/// One in this number of children requests a collection while it builds its list.
const COLLECTOR_EVERY: u64 = 5;

fn pass(m: &Mutator, run_control: &RunControl) -> Result<u64, WorkloadError> {
    let mut verified = 0;
    let mut alive: VecDeque<(u64, JoinHandle<ThreadResult>)> = VecDeque::new();
    let mut result = Ok(());
    for birth in 0..BIRTHS {
        if run_control.is_over() || result.is_err() {
            break;
        }
        if alive.len() == run_control.plan().threads.get() {
            result = join_oldest(m, &mut alive).map(|nodes| verified += nodes);
        }
        // SAFETY: a child keeps its list on its stack, and hands it over in a `Root`.
        match unsafe { m.world().spawn(&format!("child-{birth}"), move |m| child(m, birth)) } {
            Ok(handle) => alive.push_back((birth, handle)),
            Err(error) => result = Err(error.into()),
        }
        m.safepoint();
    }
    // Join all children, also after an error.
    while !alive.is_empty() {
        let buried = join_oldest(m, &mut alive).map(|nodes| verified += nodes);
        result = result.and(buried);
    }
    result.map(|()| verified)
}

/// Does the work of a child.
fn child(m: &Mutator, birth: u64) -> ThreadResult {
    let _cost = cost_centre!("child");
    let mut list = None;
    for index in 0..LENGTH {
        for _ in 0..WASTE {
            link(m, None, index)?;
        }
        list = Some(link(m, list, birth * LENGTH + index)?);
        if index == LENGTH / 2 && birth.is_multiple_of(COLLECTOR_EVERY) {
            m.collect()?;
        }
        m.safepoint();
    }
    let list = list.ok_or_else(|| wrong(birth, 0))?;
    check(list, birth)?;
    m.name_object(list, "legacy");
    Ok(m.root(list))
}

fn link(m: &Mutator, next: Option<Gc<Link>>, key: u64) -> Result<Gc<Link>, OutOfMemory> {
    m.alloc(Link { next, key })
}

/// Waits for the oldest child to end, and checks its list.
fn join_oldest(m: &Mutator, alive: &mut VecDeque<(u64, JoinHandle<ThreadResult>)>) -> Result<u64, WorkloadError> {
    let Some((birth, handle)) = alive.pop_front() else { return Ok(0) };
    let legacy = handle.join().unwrap_or_else(|panic| Err(panicked(&*panic)))?;
    check(legacy.get(m), birth)
}

/// Follows the list from the last link to the first, and checks the key of each.
fn check(list: Gc<Link>, birth: u64) -> Result<u64, WorkloadError> {
    let mut at = Some(list);
    let mut left = LENGTH;
    while let Some(link) = at {
        if left == 0 || link.key != birth * LENGTH + left - 1 {
            return Err(wrong(birth, LENGTH - left));
        }
        left -= 1;
        at = link.next;
    }
    if left == 0 { Ok(LENGTH) } else { Err(wrong(birth, LENGTH - left)) }
}

fn wrong(birth: u64, links: u64) -> WorkloadError {
    WorkloadError::Wrong(format!("the list of child {birth} is broken after {links} of its {LENGTH} links"))
}

/// Returns the heap size for the lists and dropped links of all running children, because collections are rare; doubled as a
/// reserve.
fn needs(plan: &RunPlan) -> usize {
    (LENGTH * (1 + WASTE)) as usize * size_of::<[usize; 3]>() * plan.threads.get() * 2 + (4 << 20)
}
