//! A graph that is rewired at random, with weak references, finalizers, large and pinned objects.
//!
//! Each thread has a table of vertices (one large object). Each vertex has two edges to random others, so that neighbours in
//! the graph share neither cache lines nor pages: this shows the cost of marking when every reference is a cache miss.
//! Vertices are replaced continuously. Some are the target of a weak reference, some have a finalizer, some are in the
//! pinned space. A weak reference must return its original vertex or nothing, whatever was allocated at the same address.

use super::run_control::{RunControl, RunPlan};
use super::workload::{Workload, WorkloadError, Xorshift, on_threads};
use stopworld::{Array, Gc, GcCell, Mutator, OutOfMemory, Weak, cost_centre, traced};
use stopworld_platform::sync::{AtomicU64, Ordering};

/// The workload; see the module documentation.
pub static WORKLOAD: Workload = Workload {
    name: "graph",
    about: "a randomly rewired graph with weak references, finalizers, large and pinned objects",
    default_depth: None,
    needs,
    pass,
};

traced! {
    /// A vertex of the graph.
    #[derive(Debug)]
    pub struct Vertex {
        /// A number that is unique in its thread.
        serial: u64,
        /// Derived from the serial, to detect overwritten bytes.
        check: u64,
        edges: [GcCell<Option<Gc<Vertex>>>; 2],
    }
}

traced! {
    /// A thread's graph.
    struct Graph {
        vertices: Gc<Array<GcCell<Option<Gc<Vertex>>>>>,
        watches: Gc<Array<GcCell<Option<Weak<Vertex>>>>>,
        watched: Gc<Array<GcCell<u64>>>,
    }
}

/// The number of vertices of a thread's graph.
const VERTICES: usize = 20_000;
/// The number of weak references of a thread.
const WATCHES: usize = 500;
/// The number of vertices replaced in one pass.
const REPLACED: usize = 400_000;
/// One vertex in this number has a weak reference to it.
const WATCH_EVERY: u64 = 16;
/// One vertex in this number has a finalizer.
const FINALIZE_EVERY: u64 = 64;
/// One vertex in this number is pinned.
const PIN_EVERY: u64 = 256;

/// The number of finalizers that have run, for all threads.
static FINALIZED: AtomicU64 = AtomicU64::new(0);

const fn check_of(serial: u64) -> u64 {
    serial.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn pass(m: &Mutator, run_control: &RunControl) -> Result<u64, WorkloadError> {
    on_threads(m, run_control, "graph", body)
}

fn body(m: &Mutator, run_control: &RunControl, index: usize) -> Result<u64, WorkloadError> {
    let mut disorder = Xorshift::new(index);
    let graph = Graph::new(m)?;
    let _cost = cost_centre!("vertices");
    let mut serial = 0;
    while serial < REPLACED as u64 && !run_control.is_over() {
        graph.replace(m, serial, &mut disorder)?;
        serial += 1;
        m.safepoint();
    }
    Ok(graph.check_vertices()? + graph.check_watches()?)
}

impl Graph {
    fn new(m: &Mutator) -> Result<Graph, OutOfMemory> {
        let _cost = cost_centre!("tables");
        let graph = Graph {
            vertices: m.alloc_array(VERTICES, |_| GcCell::new(None))?,
            watches: m.alloc_array(WATCHES, |_| GcCell::new(None))?,
            watched: m.alloc_array(WATCHES, |_| GcCell::new(0))?,
        };
        m.name_object(graph.vertices, "vertices");
        m.name_object(graph.watches, "watches");
        m.name_object(graph.watched, "watched");
        Ok(graph)
    }

    /// Stores a new vertex at a random index, with edges to two others.
    fn replace(&self, m: &Mutator, serial: u64, disorder: &mut Xorshift) -> Result<(), OutOfMemory> {
        let mut other = || GcCell::new(self.vertices[disorder.below(VERTICES)].get());
        let vertex = Vertex { serial, check: check_of(serial), edges: [other(), other()] };
        let vertex = if serial.is_multiple_of(PIN_EVERY) { m.alloc_pinned(vertex)? } else { m.alloc(vertex)? };
        if serial.is_multiple_of(FINALIZE_EVERY) {
            m.set_finalizer(vertex, finalized)?;
        }
        if serial.is_multiple_of(WATCH_EVERY) {
            let at = disorder.below(WATCHES);
            self.watches[at].set(Some(m.alloc_weak(vertex)?));
            self.watched[at].set(serial);
        }
        // Clear the edges of the replaced vertex. Otherwise chains of replaced vertices would stay reachable and grow.
        let place = &self.vertices[disorder.below(VERTICES)];
        if let Some(old) = place.replace(Some(vertex)) {
            old.edges.iter().for_each(|edge| edge.set(None));
        }
        Ok(())
    }

    fn check_vertices(&self) -> Result<u64, WorkloadError> {
        let mut verified = 0;
        for vertex in self.vertices.iter().filter_map(GcCell::get) {
            let edges = vertex.edges.iter().filter_map(GcCell::get);
            for vertex in edges.chain([vertex]) {
                if vertex.check != check_of(vertex.serial) {
                    return Err(WorkloadError::Wrong(format!("vertex {} was overwritten", vertex.serial)));
                }
                verified += 1;
            }
        }
        Ok(verified)
    }

    /// Checks that each weak reference returns its original vertex or nothing.
    fn check_watches(&self) -> Result<u64, WorkloadError> {
        let mut verified = 0;
        for (watch, watched) in self.watches.iter().zip(self.watched.iter()) {
            if let Some(vertex) = watch.get().and_then(|weak| weak.get()) {
                if vertex.serial != watched.get() || vertex.check != check_of(vertex.serial) {
                    let (has, want) = (vertex.serial, watched.get());
                    return Err(WorkloadError::Wrong(format!(
                        "a weak reference to vertex {want} returns vertex {has}"
                    )));
                }
                verified += 1;
            }
        }
        Ok(verified)
    }
}

/// The finalizer of a vertex. Runs on the finalizer thread; the vertex must still be intact.
fn finalized(_: &Mutator, vertex: Gc<Vertex>) {
    assert_eq!(vertex.check, check_of(vertex.serial), "a vertex was reused before its finalizer ran");
    FINALIZED.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of finalizers of vertices that have run in this process.
pub fn finalizers_run() -> u64 {
    FINALIZED.load(Ordering::Relaxed)
}

/// Returns the heap size for each thread's vertices and tables, doubled as a reserve.
fn needs(plan: &RunPlan) -> usize {
    (VERTICES * (size_of::<Vertex>() + 24) + WATCHES * 64) * plan.threads.get() * 2 + (4 << 20)
}
