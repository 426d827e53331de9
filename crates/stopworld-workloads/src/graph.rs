//! A graph that is rewired at random, with weak references, finalizers, large and pinned objects.
//!
//! Each thread has a table of vertices (one large object), each with two edges to others, stored where cache lines and
//! pages say nothing of neighbourhood: what marking costs when every reference is a cache miss. Vertices are replaced
//! all the time; some are watched by a weak reference, some have a finalizer, some live in the pinned space. A weak
//! reference must give the vertex that it was made for or nothing, whatever was allocated in the vertex's place.

use super::shift::{Plan, Shift};
use super::workload::{Disorder, Workload, WorkloadError, on_threads};
use stopworld::{Array, Gc, GcCell, Mutator, OutOfMemory, Weak, cost_centre, traced};
use stopworld_platform::sync::{AtomicU64, Ordering};

/// See the module.
pub static WORKLOAD: Workload = Workload {
    name: "graph",
    about: "random links rewired; weak references, finalizers, large and pinned objects",
    default_depth: None,
    needs,
    pass,
};

traced! {
    /// A vertex of the graph.
    #[derive(Debug)]
    pub struct Vertex {
        /// Unique in its thread.
        serial: u64,
        /// Derived from the serial, so that foreign bytes are noticed.
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

/// Vertices of a thread's graph.
const VERTICES: usize = 20_000;
/// Weak references that a thread keeps.
const WATCHES: usize = 500;
/// Vertices replaced in one pass.
const REPLACED: usize = 400_000;
/// Every so many vertices has a weak reference, a finalizer, a pinned place.
const WATCH_EVERY: u64 = 16;
const FINALIZE_EVERY: u64 = 64;
const PIN_EVERY: u64 = 256;

/// Finalizers that have run, over all threads.
static FINALIZED: AtomicU64 = AtomicU64::new(0);

const fn check_of(serial: u64) -> u64 {
    serial.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn pass(m: &Mutator, shift: &Shift) -> Result<u64, WorkloadError> {
    on_threads(m, shift, "graph", body)
}

fn body(m: &Mutator, shift: &Shift, index: usize) -> Result<u64, WorkloadError> {
    let mut disorder = Disorder::new(index);
    let graph = Graph::new(m)?;
    let _cost = cost_centre!("vertices");
    let mut serial = 0;
    while serial < REPLACED as u64 && !shift.is_over() {
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

    /// Puts a new vertex into some place, with edges to two others.
    fn replace(&self, m: &Mutator, serial: u64, disorder: &mut Disorder) -> Result<(), OutOfMemory> {
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
        // The edges of what is replaced are cut, or chains of the dead would keep each other alive for ever.
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
                    return Err(WorkloadError::Wrong(format!("vertex {} holds foreign bytes", vertex.serial)));
                }
                verified += 1;
            }
        }
        Ok(verified)
    }

    /// Each weak reference gives the vertex that it was made for, or nothing.
    fn check_watches(&self) -> Result<u64, WorkloadError> {
        let mut verified = 0;
        for (watch, watched) in self.watches.iter().zip(self.watched.iter()) {
            if let Some(vertex) = watch.get().and_then(|weak| weak.get()) {
                if vertex.serial != watched.get() || vertex.check != check_of(vertex.serial) {
                    let (has, want) = (vertex.serial, watched.get());
                    return Err(WorkloadError::Wrong(format!("a weak reference to vertex {want} gives vertex {has}")));
                }
                verified += 1;
            }
        }
        Ok(verified)
    }
}

/// Runs on the finalizer thread; the vertex is whole, for the last time.
fn finalized(_: &Mutator, vertex: Gc<Vertex>) {
    assert_eq!(vertex.check, check_of(vertex.serial), "a vertex was reused before its finalizer ran");
    FINALIZED.fetch_add(1, Ordering::Relaxed);
}

/// How many finalizers of vertices have run in this process.
pub fn finalizers_run() -> u64 {
    FINALIZED.load(Ordering::Relaxed)
}

/// Each thread's vertices and tables; twice that is comfortable.
fn needs(plan: &Plan) -> usize {
    (VERTICES * (size_of::<Vertex>() + 24) + WATCHES * 64) * plan.threads.get() * 2 + (4 << 20)
}
