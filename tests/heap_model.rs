//! Random programs compared with a simple model: a plain graph, and reachability by searching it.
//!
//! A *program* is a list of small steps, executed twice: by a mutator on the collected heap, and on [`Model`], which never frees anything.
//! When the mutator has detached, no stack has references, so the collector must keep *exactly* the objects that the model can reach:
//! objects by number, bytes by space, weak references, drops and finalizers by name. Then every reachable object is compared with the
//! model, field by field.

mod heap_support;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use heap_support::*;
use proptest::prelude::*;
use stopworld::{
    Array, CollectionReport, Gc, GcCell, Layout, Leaf, Mutator, Paranoid, RangeGuard, Root, Stopper, Trace, Weak, Word,
    World, traced,
};

/// A reference to an object of any of the kinds below, or a small integer as an odd word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Any(usize);

impl Any {
    const NOTHING: Self = Self(0);

    fn to<T: ?Sized>(gc: Gc<T>) -> Self {
        Self(Gc::addr(gc))
    }

    fn number(n: u64) -> Self {
        Self((n as usize) << 1 | 1)
    }

    /// # Safety
    /// The value refers to a live `T`.
    unsafe fn as_gc<T: ?Sized>(self) -> Gc<T> {
        // SAFETY: the caller's promise.
        unsafe { Gc::from_addr(self.0) }
    }
}

// SAFETY: one word; a value that is no reference is null or odd.
unsafe impl Word for Any {
    const MAY_REFER: bool = true;
    fn to_bits(self) -> usize {
        self.0
    }
    unsafe fn from_bits(bits: usize) -> Self {
        Self(bits)
    }
}

// SAFETY: as above.
unsafe impl Trace for Any {
    const NAME: &'static str = "Any";
    const LAYOUT: Layout = Layout::WORD;
}

traced! {
    struct Pair {
        id: u64,
        slots: [GcCell<Any>; 2],
        check: u64,
    }
    #[repr(C)]
    struct Wide {
        id: u64,
        filler: [u64; 250],
        slots: [GcCell<Any>; 3],
    }
    #[repr(C)]
    struct HugeValue {
        slots: [GcCell<Any>; 2],
        id: u64,
        filler: [u64; 1500],
    }
}

/// A leaf that logs its drop.
struct Token {
    id: u64,
    dropped: Arc<Mutex<Vec<u64>>>,
}

impl Drop for Token {
    fn drop(&mut self) {
        self.dropped.lock().unwrap().push(self.id);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pair,
    Pinned,
    Wide,
    Huge,
    Refs(usize),
    Bytes(usize),
    Token,
    /// Weak references are made to pairs only; the target is not an edge.
    Weak,
}

/// A handle of the right type, kept in a plain `Vec`.
enum Handle {
    Pair(Root<Pair>),
    Wide(Root<Wide>),
    Huge(Root<HugeValue>),
    Refs(Root<Array<GcCell<Any>>>),
    Bytes(Root<Array<u8>>),
    Token(Root<Leaf<Token>>),
    Weak(Root<stopworld::WeakCell<Pair>>),
}

impl Handle {
    fn get(&self, m: &Mutator) -> Any {
        match self {
            Self::Pair(root) => Any::to(root.get(m)),
            Self::Wide(root) => Any::to(root.get(m)),
            Self::Huge(root) => Any::to(root.get(m)),
            Self::Refs(root) => Any::to(root.get(m)),
            Self::Bytes(root) => Any::to(root.get(m)),
            Self::Token(root) => Any::to(root.get(m)),
            Self::Weak(root) => Any::to(root.get(m)),
        }
    }

    /// # Safety
    /// `any` refers to a live object of this kind.
    unsafe fn new(m: &Mutator, kind: Kind, any: Any) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match kind {
                Kind::Pair | Kind::Pinned => Self::Pair(m.root(any.as_gc())),
                Kind::Wide => Self::Wide(m.root(any.as_gc())),
                Kind::Huge => Self::Huge(m.root(any.as_gc())),
                Kind::Refs(_) => Self::Refs(m.root(any.as_gc())),
                Kind::Bytes(_) => Self::Bytes(m.root(any.as_gc())),
                Kind::Token => Self::Token(m.root(any.as_gc())),
                Kind::Weak => Self::Weak(m.root(any.as_gc())),
            }
        }
    }
}

/// The reference fields of an object of a kind that has some.
///
/// # Safety
/// `any` refers to a live object of this kind, which stays alive as long as the result is used.
unsafe fn slots<'a>(kind: Kind, any: Any) -> &'a [GcCell<Any>] {
    // SAFETY: the caller's promise.
    unsafe {
        match kind {
            Kind::Pair | Kind::Pinned => &(*Gc::as_ptr(any.as_gc::<Pair>())).slots,
            Kind::Wide => &(*Gc::as_ptr(any.as_gc::<Wide>())).slots,
            Kind::Huge => &(*Gc::as_ptr(any.as_gc::<HugeValue>())).slots,
            // Element 0 holds the id.
            Kind::Refs(_) => &(&*Gc::as_ptr(any.as_gc::<Array<GcCell<Any>>>()))[1..],
            Kind::Bytes(_) | Kind::Token | Kind::Weak => &[],
        }
    }
}

fn byte(id: u64, index: usize) -> u8 {
    (id as usize).wrapping_mul(31).wrapping_add(index) as u8
}

/// The model of an object.
#[derive(Clone, Debug)]
struct Thing {
    kind: Kind,
    edges: Vec<Option<u64>>,
    target: Option<u64>,
    /// The number of finalizers registered for it.
    finalizers: usize,
}

/// Every object ever allocated, and those that are held.
#[derive(Default)]
struct Model {
    things: BTreeMap<u64, Thing>,
    held: Vec<u64>,
    range: [Option<u64>; RANGE],
}

const RANGE: usize = 5;

impl Model {
    fn reach(&self, from: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<u64> = from.into_iter().collect();
        while let Some(id) = open.pop() {
            if reached.insert(id) {
                open.extend(self.things[&id].edges.iter().flatten());
            }
        }
        reached
    }

    fn alive(&self) -> BTreeSet<u64> {
        self.reach(self.held.iter().copied().chain(self.range.iter().flatten().copied()))
    }
}

#[derive(Clone, Debug)]
enum Step {
    New { kind: Kind, edges: [usize; 3] },
    NewWeak { target: usize },
    Link { from: usize, slot: usize, to: usize },
    Exchange { from: usize, slot: usize, to: usize },
    Cut { from: usize, slot: usize },
    Hold { from: usize, slot: usize },
    Let { held: usize },
    Range { slot: usize, to: Option<usize> },
    Finalizer { held: usize },
    Garbage { nodes: u64 },
    Collect,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Pair),
        2 => Just(Kind::Pinned),
        2 => Just(Kind::Wide),
        1 => Just(Kind::Huge),
        3 => (1_usize..40).prop_map(Kind::Refs),
        1 => (1500_usize..3000).prop_map(Kind::Refs),
        2 => (8_usize..600).prop_map(Kind::Bytes),
        1 => (9000_usize..60_000).prop_map(Kind::Bytes),
        3 => Just(Kind::Token),
    ]
}

fn rarely_a_giant() -> impl Strategy<Value = Kind> {
    prop_oneof![
        60 => kinds(),
        1 => (140_000_usize..200_000).prop_map(Kind::Refs),
        1 => (1_100_000_usize..2_000_000).prop_map(Kind::Bytes),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let any = 0_usize..1000;
    prop_oneof![
        8 => (rarely_a_giant(), [any.clone(), any.clone(), any.clone()])
            .prop_map(|(kind, edges)| Step::New { kind, edges }),
        2 => any.clone().prop_map(|target| Step::NewWeak { target }),
        6 => (any.clone(), any.clone(), any.clone()).prop_map(|(from, slot, to)| Step::Link { from, slot, to }),
        2 => (any.clone(), any.clone(), any.clone()).prop_map(|(from, slot, to)| Step::Exchange { from, slot, to }),
        2 => (any.clone(), any.clone()).prop_map(|(from, slot)| Step::Cut { from, slot }),
        3 => (any.clone(), any.clone()).prop_map(|(from, slot)| Step::Hold { from, slot }),
        8 => any.clone().prop_map(|held| Step::Let { held }),
        2 => (any.clone(), proptest::option::weighted(0.7, any.clone()))
            .prop_map(|(slot, to)| Step::Range { slot, to }),
        2 => any.prop_map(|held| Step::Finalizer { held }),
        1 => (10_u64..3000).prop_map(|nodes| Step::Garbage { nodes }),
        1 => Just(Step::Collect),
    ]
}

#[derive(Clone, Debug)]
struct Setting {
    stopper: Stopper,
    markers: usize,
    mark_stack: usize,
    initial_heap: usize,
    /// Collections before the program begins: near the point where the epoch of marks wraps.
    age: u32,
}

fn settings() -> impl Strategy<Value = Setting> {
    (
        prop_oneof![Just(Stopper::Signals), Just(Stopper::Safepoints)],
        1_usize..4,
        prop_oneof![2 => Just(1 << 30), 1 => Just(64), 1 => Just(1024)],
        prop_oneof![Just(64 << 20), Just(256 << 10)],
        prop_oneof![3 => Just(0), 1 => 248_u32..256],
    )
        .prop_map(|(stopper, markers, mark_stack, initial_heap, age)| Setting {
            stopper,
            markers,
            mark_stack,
            initial_heap,
            age,
        })
}

/// The ids logged by finalizers. They are plain functions and capture nothing, so one case runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static FINALIZED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn finalize(_: &Mutator, pair: Gc<Pair>) {
    assert_eq!(pair.check, !pair.id, "a finalizer got a damaged object");
    FINALIZED.lock().unwrap().push(pair.id);
}

/// The program's side: the heap operations.
struct Program {
    model: Model,
    handles: Vec<Handle>,
    range: Arc<[AtomicUsize; RANGE]>,
    dropped: Arc<Mutex<Vec<u64>>>,
}

impl Program {
    fn pick(&self, number: usize) -> Option<usize> {
        (!self.handles.is_empty()).then(|| number % self.handles.len())
    }

    /// Returns a held object: its id, kind and reference.
    fn held(&self, m: &Mutator, number: usize) -> Option<(u64, Kind, Any)> {
        let index = self.pick(number)?;
        let id = self.model.held[index];
        Some((id, self.model.things[&id].kind, self.handles[index].get(m)))
    }

    fn hold(&mut self, m: &Mutator, id: u64, any: Any) {
        // SAFETY: the model knows the kind of each object.
        let handle = unsafe { Handle::new(m, self.model.things[&id].kind, any) };
        self.handles.push(handle);
        self.model.held.push(id);
    }

    #[inline(never)]
    fn new_object(&mut self, m: &Mutator, kind: Kind, edges: [usize; 3]) {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let targets = edges.map(|number| self.held(m, number));
        let fill = |slot: usize| targets[slot % 3].map_or(Any::NOTHING, |(_, _, any)| any);
        let cell = |slot: usize| GcCell::new(fill(slot));
        let (any, slots) = match kind {
            Kind::Pair => (Any::to(m.alloc(Pair { id, slots: [cell(0), cell(1)], check: !id }).unwrap()), 2),
            Kind::Pinned => (Any::to(m.alloc_pinned(Pair { id, slots: [cell(0), cell(1)], check: !id }).unwrap()), 2),
            Kind::Wide => {
                let wide = Wide { id, filler: [!id; 250], slots: [cell(0), cell(1), cell(2)] };
                (Any::to(m.alloc(wide).unwrap()), 3)
            }
            Kind::Huge => {
                let huge = HugeValue { slots: [cell(0), cell(1)], id, filler: [!id; 1500] };
                (Any::to(m.alloc(huge).unwrap()), 2)
            }
            Kind::Refs(length) => {
                let element = |i: usize| GcCell::new(if i == 0 { Any::number(id) } else { fill(i - 1) });
                (Any::to(m.alloc_array(length + 1, element).unwrap()), length)
            }
            Kind::Bytes(length) => (Any::to(m.alloc_array(length, |i| byte(id, i)).unwrap()), 0),
            Kind::Token => (Any::to(m.alloc(Leaf(Token { id, dropped: Arc::clone(&self.dropped) })).unwrap()), 0),
            Kind::Weak => unreachable!("made by `NewWeak`"),
        };
        let edges = (0..slots).map(|slot| targets[slot % 3].map(|(id, ..)| id)).collect();
        self.model.things.insert(id, Thing { kind, edges, target: None, finalizers: 0 });
        self.hold(m, id, any);
    }

    #[inline(never)]
    fn step(&mut self, m: &Mutator, step: &Step) {
        match *step {
            Step::New { kind, edges } => self.new_object(m, kind, edges),
            Step::NewWeak { target } => {
                let Some((target, Kind::Pair | Kind::Pinned, any)) = self.held(m, target) else { return };
                let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the model records that it is a pair.
                let weak: Weak<Pair> = m.alloc_weak(unsafe { any.as_gc::<Pair>() }).unwrap();
                let thing = Thing { kind: Kind::Weak, edges: vec![], target: Some(target), finalizers: 0 };
                self.model.things.insert(id, thing);
                self.hold(m, id, Any::to(weak));
            }
            Step::Link { from, slot, to } => self.set(m, from, slot, Some(to), false),
            Step::Exchange { from, slot, to } => self.set(m, from, slot, Some(to), true),
            Step::Cut { from, slot } => self.set(m, from, slot, None, false),
            Step::Hold { from, slot } => {
                let Some((id, kind, any)) = self.held(m, from) else { return };
                // SAFETY: held, of this kind.
                let slots = unsafe { slots(kind, any) };
                if !slots.is_empty() {
                    let slot = slot % slots.len();
                    if let Some(target) = self.model.things[&id].edges[slot] {
                        let any = slots[slot].get();
                        self.hold(m, target, any);
                    }
                }
            }
            Step::Let { held } => {
                if let Some(index) = self.pick(held) {
                    self.handles.swap_remove(index);
                    self.model.held.swap_remove(index);
                }
            }
            Step::Range { slot, to } => {
                let target = to.and_then(|to| self.held(m, to));
                self.range[slot % RANGE].store(target.map_or(0, |(_, _, any)| any.0), Ordering::Relaxed);
                self.model.range[slot % RANGE] = target.map(|(id, ..)| id);
            }
            Step::Finalizer { held } => {
                let Some((id, Kind::Pair | Kind::Pinned, any)) = self.held(m, held) else { return };
                // SAFETY: the model records that it is a pair.
                m.set_finalizer(unsafe { any.as_gc::<Pair>() }, finalize).unwrap();
                if let Some(thing) = self.model.things.get_mut(&id) {
                    thing.finalizers += 1;
                }
            }
            Step::Garbage { nodes } => assert_eq!(check_list(list(m, nodes).unwrap()), nodes),
            Step::Collect => {
                m.collect().unwrap();
            }
        }
    }

    fn set(&mut self, m: &Mutator, from: usize, slot: usize, to: Option<usize>, exchange: bool) {
        let Some((id, kind, any)) = self.held(m, from) else { return };
        let target = to.and_then(|to| self.held(m, to));
        // SAFETY: held, of this kind.
        let slots = unsafe { slots(kind, any) };
        if slots.is_empty() {
            return;
        }
        let slot = slot % slots.len();
        let new = target.map_or(Any::NOTHING, |(_, _, any)| any);
        if exchange {
            let old = slots[slot].get();
            assert_eq!(slots[slot].compare_exchange(Any::number(1), new), Err(old));
            assert_eq!(slots[slot].compare_exchange(old, new), Ok(old));
        } else {
            slots[slot].set(new);
        }
        if let Some(thing) = self.model.things.get_mut(&id) {
            thing.edges[slot] = target.map(|(id, ..)| id);
        }
    }

    /// Compares every reachable object with the model, field by field.
    fn compare(&self, m: &Mutator, alive: &BTreeSet<u64>) {
        // Everything in `open` is reachable from a handle or the range, and nothing changes meanwhile; so a `Vec` may hold it.
        let mut open: Vec<(u64, Any)> =
            self.model.held.iter().copied().zip(self.handles.iter().map(|handle| handle.get(m))).collect();
        for (word, id) in self.range.iter().zip(self.model.range) {
            assert_eq!(word.load(Ordering::Relaxed) == 0, id.is_none());
            open.extend(id.map(|id| (id, Any(word.load(Ordering::Relaxed)))));
        }
        let mut seen = HashSet::new();
        let mut addresses = BTreeMap::new();
        while let Some((id, any)) = open.pop() {
            let before = addresses.insert(id, any);
            assert!(before.is_none_or(|before| before == any), "object {id} is at two addresses");
            if !seen.insert(id) {
                continue;
            }
            let thing = &self.model.things[&id];
            // SAFETY: the model records its kind.
            let slots = unsafe { slots(thing.kind, any) };
            assert_eq!(slots.len(), thing.edges.len(), "object {id}");
            // SAFETY: as above.
            unsafe { check_payload(id, thing, any, alive) };
            for (slot, edge) in slots.iter().zip(&thing.edges) {
                match (slot.get(), edge) {
                    (Any::NOTHING, None) => {}
                    (any, &Some(target)) if any != Any::NOTHING => open.push((target, any)),
                    (any, edge) => panic!("object {id} has {any:?} where the model has {edge:?}"),
                }
            }
        }
        assert_eq!(seen.len(), alive.len());
    }
}

/// # Safety
/// `any` is a live object of the thing's kind.
unsafe fn check_payload(id: u64, thing: &Thing, any: Any, alive: &BTreeSet<u64>) {
    // SAFETY: the caller's promise.
    unsafe {
        match thing.kind {
            Kind::Pair | Kind::Pinned => {
                let pair = any.as_gc::<Pair>();
                assert_eq!((pair.id, pair.check), (id, !id));
            }
            Kind::Wide => {
                let wide = any.as_gc::<Wide>();
                assert!(wide.id == id && wide.filler.iter().all(|&word| word == !id), "object {id}");
            }
            Kind::Huge => {
                let huge = any.as_gc::<HugeValue>();
                assert!(huge.id == id && huge.filler.iter().all(|&word| word == !id), "object {id}");
            }
            Kind::Refs(length) => {
                let array = any.as_gc::<Array<GcCell<Any>>>();
                assert_eq!((array.len(), array[0].get()), (length + 1, Any::number(id)));
            }
            Kind::Bytes(length) => {
                let array = any.as_gc::<Array<u8>>();
                assert_eq!(array.len(), length);
                assert!(array.iter().enumerate().all(|(i, &b)| b == byte(id, i)), "object {id}");
            }
            Kind::Token => assert_eq!(any.as_gc::<Leaf<Token>>().id, id),
            Kind::Weak => {
                let target = any.as_gc::<stopworld::WeakCell<Pair>>().get().map(|pair| pair.id);
                let expected = thing.target.filter(|target| alive.contains(target));
                assert_eq!(target, expected, "the weak reference {id} to {:?}", thing.target);
            }
        }
    }
    // `any` must stay reachable up to here.
    std::hint::black_box(any);
}

/// The bytes in the large and in the pinned space that the objects with these ids take.
fn bytes_by_space(model: &Model, alive: &BTreeSet<u64>) -> (u64, u64) {
    const BLOCK: u64 = 16 << 10;
    let (mut large, mut pinned) = (0, 0);
    for id in alive {
        let payload = match model.things[id].kind {
            Kind::Refs(length) => 8 + 8 * (length as u64 + 1),
            Kind::Bytes(length) => 8 + length as u64,
            Kind::Huge => size_of::<HugeValue>() as u64,
            // A pair of 32 bytes and its header are a cell of 40.
            Kind::Pinned => {
                pinned += 40;
                0
            }
            _ => 0,
        };
        if payload > LARGEST_SMALL {
            large += (payload + 17).div_ceil(BLOCK) * BLOCK;
        }
    }
    (large, pinned)
}

/// Payload bytes of the largest size class: half of a block, without headers.
const LARGEST_SMALL: u64 = ((((16 << 10) - 8) / 2) & !15) - 8;

fn run(setting: &Setting, program: &[Step]) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let reports = Arc::new(Mutex::new(Vec::<CollectionReport>::new()));
    let sink = Arc::clone(&reports);
    let world = World::builder()
        .paranoid(Paranoid::On)
        .stopper(setting.stopper)
        .markers(setting.markers)
        .mark_stack_limit(setting.mark_stack)
        .initial_heap(setting.initial_heap)
        .heap_limit(512 << 20)
        .on_collection(move |report| sink.lock().unwrap().push(*report))
        .build()
        .unwrap();
    for _ in 0..setting.age {
        world.collect().unwrap();
    }
    let range = Arc::new([const { AtomicUsize::new(0) }; RANGE]);
    // SAFETY: `range` lives until the guard is dropped below, and its words are atomic.
    let guard: RangeGuard = unsafe { world.register_range(range.as_ptr().cast(), RANGE * 8) }.unwrap();
    FINALIZED.lock().unwrap().clear();
    let mut state =
        Program { model: Model::default(), handles: Vec::new(), range: Arc::clone(&range), dropped: Arc::default() };
    let program = program.to_vec();
    state = on_a_thread(&world, move |m| {
        for step in &program {
            state.step(m, step);
        }
        state
    });

    let alive = state.model.alive();
    let undisturbed = reports.lock().unwrap().len() == setting.age as usize;
    let first = world.collect().unwrap();
    if undisturbed {
        check_first_collection(&state, &alive, &first);
    }
    let left = settle(&world);
    assert_eq!(left, alive.len() as u64, "live objects, compared with reachable objects");

    // The report, the verifier and the model must count the same bytes.
    reports.lock().unwrap().sort_by_key(|report| report.number);
    let last = *reports.lock().unwrap().last().unwrap();
    let verified = world.verify().unwrap();
    assert_eq!((verified.live, verified.live_objects), (last.live, last.live_objects));
    assert_eq!((last.live.large, last.live.pinned), bytes_by_space(&state.model, &alive));
    let mut live_before = 0;
    for report in reports.lock().unwrap().iter() {
        assert_eq!(live_before + report.allocated_bytes, report.live.total() + report.freed_bytes, "{report:#?}");
        live_before = report.live.total();
    }

    // The same objects must be dropped and finalized, the same number of times.
    let dead = |wanted: fn(&Thing) -> usize| -> Vec<u64> {
        let things = state.model.things.iter().filter(|(id, _)| !alive.contains(id));
        things.flat_map(|(&id, thing)| std::iter::repeat_n(id, wanted(thing))).collect()
    };
    let sorted = |log: &Mutex<Vec<u64>>| {
        let mut ids = log.lock().unwrap().clone();
        ids.sort_unstable();
        ids
    };
    assert_eq!(sorted(&state.dropped), dead(|thing| usize::from(thing.kind == Kind::Token)), "drops");
    assert_eq!(sorted(&FINALIZED), dead(|thing| thing.finalizers), "finalizers");

    let state = on_a_thread(&world, move |m| {
        state.compare(m, &alive);
        state
    });
    let Program { handles, dropped, model, .. } = state;
    drop(handles);
    range.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    assert_eq!(settle(&world), 0);
    let tokens = model.things.values().filter(|thing| thing.kind == Kind::Token).count();
    assert_eq!(dropped.lock().unwrap().len(), tokens);
    drop(guard);
}

/// If nothing was collected before, the result of the first collection can be predicted: what is alive, what finalizers keep, which weak
/// references are cleared, what is queued.
fn check_first_collection(state: &Program, alive: &BTreeSet<u64>, first: &CollectionReport) {
    let model = &state.model;
    let calls = model.things.iter().filter(|(id, thing)| !alive.contains(id) && thing.finalizers > 0);
    let due: usize = calls.clone().map(|(_, thing)| thing.finalizers).sum();
    let resurrected = model.reach(calls.map(|(&id, _)| id));
    let kept: BTreeSet<u64> = alive.union(&resurrected).copied().collect();
    let drops = model.things.iter().filter(|(id, thing)| thing.kind == Kind::Token && !kept.contains(id)).count();
    assert_eq!(first.finalizers_queued as usize, due + drops);
    assert_eq!(first.live_objects as usize, kept.len() + drops);
    let cleared = model
        .things
        .iter()
        .filter(|&(id, thing)| {
            let Some(target) = thing.target else { return false };
            (alive.contains(id) && !alive.contains(&target)) || (kept.contains(id) && !kept.contains(&target))
        })
        .count();
    assert_eq!(first.weak_cleared as usize, cleared);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_collector_keeps_exactly_what_a_search_of_a_plain_graph_reaches(
        setting in settings(),
        program in proptest::collection::vec(steps(), 1..400),
    ) {
        run(&setting, &program);
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256)
}

/// A simple fixed program, so that a failure of the test's own code can be distinguished from one of the collector.
#[test]
fn a_program_that_does_a_little_of_everything() {
    let setting = Setting { stopper: Stopper::Signals, markers: 2, mark_stack: 64, initial_heap: 1 << 20, age: 253 };
    let mut program = Vec::new();
    for i in 0..60 {
        let kinds = [Kind::Pair, Kind::Refs(20), Kind::Token, Kind::Wide, Kind::Pinned, Kind::Huge, Kind::Bytes(9000)];
        program.push(Step::New { kind: kinds[i % kinds.len()], edges: [i, i * 7, i * 13] });
        program.push(Step::NewWeak { target: i * 3 });
        program.push(Step::Finalizer { held: i * 5 });
        program.push(Step::Range { slot: i, to: Some(i * 11) });
        program.push(Step::Let { held: i * 17 });
        if i % 9 == 0 {
            program.push(Step::Collect);
        }
    }
    run(&setting, &program);
}
