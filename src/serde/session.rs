//! What `Serialize` and `Deserialize` need and do not get as arguments: the mutator, and the state of the graph that is being written or read.
//! A thread-local variable refers to it, for the duration of a call.

use std::any::{Any, TypeId, type_name};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::ptr::NonNull;

use super::erased::AnyDeserializer;
use super::failure::Failure;
use super::scoped::scoped;
use super::visit::Visit;
use crate::heap::trace::{Layout, Trace};
use crate::{Gc, GcVec, Mutator, OutOfMemory};

/// Calls `body`, in which this thread can deserialize collected objects: they are allocated by `mutator`. Serializing needs this only for
/// a [`Graph`](super::Graph), for a [`Root`](crate::Root), and for a [`GcMutex`](crate::GcMutex) that another thread may hold.
///
/// What is read must be kept as any other [`Gc`], also while the rest is being read. A `Vec<Gc<T>>` is memory in which the collector does not
/// look; a [`GcVec`], or a `Vec<Root<T>>`, is right. The crates erased-serde and typetag keep what they read in such memory: types with
/// collected objects can't be read through them.
///
/// Calls may be nested. See the [module](super) for an example.
pub fn with_mutator<R>(mutator: &Mutator, body: impl FnOnce() -> R) -> R {
    Session { mutator, graph: None }.enter(body)
}

thread_local! {
    /// The session of the innermost call on this thread.
    static CURRENT: Cell<Option<NonNull<Session<'static>>>> = const { Cell::new(None) };
}

/// The mutator of a call, and the graph that is being written or read in it.
pub(super) struct Session<'a> {
    mutator: &'a Mutator,
    graph: Option<&'a GraphState>,
}

impl Session<'_> {
    /// Makes this the session of this thread for the duration of `body`.
    fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        CURRENT.with(|current| scoped(current, Some(NonNull::from(self).cast()), body))
    }
}

/// Calls `body` with this thread's session, if there is one.
fn with_session<R>(body: impl FnOnce(Option<&Session<'_>>) -> R) -> R {
    // SAFETY: `enter` removes the pointer before it returns or unwinds, and borrows the session until then. `body` can end before
    // that only, and it works for every lifetime, so it keeps no reference.
    body(CURRENT.get().map(|session| unsafe { session.as_ref() }))
}

/// Calls `body` with the mutator of [`with_mutator`].
///
/// # Errors
/// That of `body`, or one that says that there is no mutator.
pub(super) fn mutator<R, E>(
    body: impl FnOnce(&Mutator) -> Result<R, E>,
    no_mutator: impl FnOnce(&'static str) -> E,
) -> Result<R, E> {
    with_session(|session| match session {
        Some(session) if session.mutator.is_in_blocking_region() => Err(no_mutator(
            "this thread is in a blocking region (`Mutator::blocking`), where it can't use collected objects: call serde before or after it",
        )),
        Some(session) => body(session.mutator),
        None => Err(no_mutator(
            "this thread has no mutator for collected objects: call serde in `stopworld::serde::with_mutator`",
        )),
    })
}

/// Calls `body` with the mutator of [`with_mutator`], if there is one.
pub(super) fn any_mutator<R>(body: impl FnOnce(Option<&Mutator>) -> R) -> R {
    let outside = |session: &Session<'_>| !session.mutator.is_in_blocking_region();
    with_session(|session| body(session.filter(|session| outside(session)).map(|session| session.mutator)))
}

/// Calls `body` with the graph that this thread is writing or reading, if any.
pub(super) fn graph<R>(body: impl FnOnce(Option<&GraphState>) -> R) -> R {
    with_session(|session| body(session.and_then(|session| session.graph)))
}

/// Calls `body` with a new graph.
///
/// # Errors
/// As [`mutator`].
pub(super) fn in_new_graph<R, E>(
    body: impl FnOnce(&GraphState) -> Result<R, E>,
    no_mutator: impl FnOnce(&'static str) -> E,
) -> Result<R, E> {
    mutator(
        |mutator| {
            let state = GraphState::default();
            Session { mutator, graph: Some(&state) }.enter(|| body(&state))
        },
        no_mutator,
    )
}

/// What a place that may change does when it is serialized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Places {
    /// It writes its contents: it is part of the root, or of another place's contents, so no object of its own refers back to it.
    #[default]
    Inline,
    /// It is a field of an object: its contents follow later.
    Deferred,
    /// It hands its contents to the [visitor](super::visitor), or takes them from it.
    Visited,
}

/// The error of a graph that was not the same in both passes.
pub(super) const CHANGED: &str = "the graph changed while it was written";

/// How the contents of a place are read.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    /// The number of the place's field.
    pub(super) field: u32,
    /// Reads the contents into an `Option` of their type.
    pub(super) read: fn(&mut dyn Any, &mut dyn AnyDeserializer<'_>) -> Result<(), Failure>,
}

/// The numbers of the fields with the places of each object, in order. The key is the object's number.
pub(super) type Fields = HashMap<u64, VecDeque<u32>>;

/// An object whose places have not been visited.
pub(super) struct Unvisited {
    type_name: &'static str,
    pub(super) number: u64,
    /// Serializes the object for the visitor.
    pub(super) visit: Box<dyn Fn(Visit) -> Result<(), Failure>>,
    /// One for each place, in order. Empty when writing.
    pub(super) readers: VecDeque<Reader>,
}

impl Unvisited {
    /// The error of a type without a place for contents that it has read the place of.
    pub(super) fn disagrees(&self, field: u32) -> String {
        format!(
            "`{}` has no cell or lock in the field with the number {field}: its `Serialize` and `Deserialize` do not agree",
            self.type_name
        )
    }
}

/// Whether an object that has a number is whole.
enum Object {
    Unfinished,
    /// A `Gc<T>`.
    Finished(Box<dyn Any>),
}

/// What is known of a graph that is being written or read. It lies on the stack, where the collector finds `keep`.
#[derive(Default)]
pub(super) struct GraphState {
    /// Keeps each object of the graph alive: the other fields are memory of malloc.
    keep: RefCell<GcVec<AnyGc>>,
    /// Writing: the number of each object, and whether it is written as a whole.
    numbers: RefCell<HashMap<usize, (u64, bool)>>,
    /// Reading: the objects by number.
    objects: RefCell<Vec<(TypeId, &'static str, Object)>>,
    places: Cell<Places>,
    /// Whether the current object has places.
    has_places: Cell<bool>,
    /// Writing: the fields of places that are not written, if they are known: from the second pass on.
    fields: RefCell<Option<Fields>>,
    /// The number of the current object.
    current: Cell<u64>,
    /// Reading: how to read the places of the current object.
    readers: RefCell<VecDeque<Reader>>,
    unvisited: RefCell<VecDeque<Unvisited>>,
}

/// How an object that is met while writing is written.
pub(super) enum Meeting {
    /// It is new, and has this number now.
    First(u64),
    /// It was written before.
    Again(u64),
    /// It is being written: it refers to itself by fields that cannot change.
    Cycle,
}

impl GraphState {
    pub(super) fn places(&self) -> Places {
        self.places.get()
    }

    /// Calls `body` while places do as `places` says.
    pub(super) fn with_places<R>(&self, places: Places, body: impl FnOnce() -> R) -> R {
        scoped(&self.places, places, body)
    }

    /// Calls `body`, which writes or reads the value of an object. Also returns whether that has places.
    fn noting_places<R>(&self, body: impl FnOnce() -> R) -> (R, bool) {
        scoped(&self.has_places, false, || {
            let result = self.with_places(Places::Deferred, body);
            (result, self.has_places.get())
        })
    }

    /// Makes the fields of all places known.
    pub(super) fn set_fields(&self, fields: Fields) {
        self.fields.replace(Some(fields));
    }

    /// Notes that the current object has a place. Returns the number of its field. `None` if the object had fewer places before.
    pub(super) fn defer_writing(&self) -> Option<u32> {
        self.has_places.set(true);
        match &mut *self.fields.borrow_mut() {
            None => Some(0),
            Some(fields) => fields.get_mut(&self.current.get())?.pop_front(),
        }
    }

    /// Notes that the current object has a place, and how to read it.
    pub(super) fn defer_reading(&self, reader: Reader) {
        self.has_places.set(true);
        self.readers.borrow_mut().push_back(reader);
    }

    fn keep<T: ?Sized>(&self, mutator: &Mutator, object: Gc<T>) -> Result<(), OutOfMemory> {
        self.keep.borrow_mut().push(mutator, AnyGc { _address: Gc::addr(object) })
    }

    pub(super) fn meet<T: ?Sized>(&self, mutator: &Mutator, object: Gc<T>) -> Result<Meeting, OutOfMemory> {
        if let Some(&(number, finished)) = self.numbers.borrow().get(&Gc::addr(object)) {
            return Ok(if finished { Meeting::Again(number) } else { Meeting::Cycle });
        }
        self.keep(mutator, object)?;
        let mut numbers = self.numbers.borrow_mut();
        let number = numbers.len() as u64;
        numbers.insert(Gc::addr(object), (number, false));
        Ok(Meeting::First(number))
    }

    /// Calls `body`, which writes the value of a new object, and notes whether it has places.
    pub(super) fn write<T, R, E>(&self, number: u64, object: Gc<T>, body: impl FnOnce() -> Result<R, E>) -> Result<R, E>
    where
        T: ?Sized + 'static,
        Gc<T>: VisitObject,
    {
        let (written, has_places) = scoped(&self.current, number, || self.noting_places(body));
        if written.is_ok() {
            if has_places {
                self.push_unvisited(number, object, VecDeque::new());
            }
            if let Some((_, finished)) = self.numbers.borrow_mut().get_mut(&Gc::addr(object)) {
                *finished = true;
            }
        }
        written
    }

    /// Calls `body`, which reads the value of the object with the number `number` and allocates it.
    ///
    /// # Errors
    /// That of `body`, or one made by `error`.
    pub(super) fn read<T, E>(
        &self,
        number: u64,
        body: impl FnOnce() -> Result<Gc<T>, E>,
        error: impl Fn(&dyn Display) -> E,
    ) -> Result<Gc<T>, E>
    where
        T: ?Sized + 'static,
        Gc<T>: VisitObject,
    {
        let index = self.objects.borrow().len();
        if number != index as u64 {
            return Err(error(&format_args!(
                "the object has the number {number}: expected {index}, the next in order"
            )));
        }
        self.objects.borrow_mut().push((TypeId::of::<T>(), type_name::<T>(), Object::Unfinished));
        let readers_outside = self.readers.take();
        let (read, has_places) = self.noting_places(body);
        let readers = self.readers.replace(readers_outside);
        let object = read?;
        mutator(|mutator| self.keep(mutator, object).map_err(|problem| error(&problem)), |problem| error(&problem))?;
        self.objects.borrow_mut()[index].2 = Object::Finished(Box::new(object));
        if has_places {
            self.push_unvisited(number, object, readers);
        }
        Ok(object)
    }

    /// Returns the object with this number.
    ///
    /// # Errors
    /// There is none, or it has another type, or it is not read yet.
    pub(super) fn same<T: ?Sized + 'static>(&self, number: u64) -> Result<Gc<T>, String> {
        let objects = self.objects.borrow();
        let Some((_, name, object)) = usize::try_from(number).ok().and_then(|index| objects.get(index)) else {
            return Err(format!("there is no object {number} before this: {} objects were read", objects.len()));
        };
        match object {
            Object::Unfinished => Err(format!("the object {number} refers to itself by fields that cannot change")),
            Object::Finished(object) => object
                .downcast_ref()
                .copied()
                .ok_or_else(|| format!("the object {number} is a `{name}`; here a `{}` is expected", type_name::<T>())),
        }
    }

    fn push_unvisited<T: ?Sized + 'static>(&self, number: u64, object: Gc<T>, readers: VecDeque<Reader>)
    where
        Gc<T>: VisitObject,
    {
        let visit = Box::new(move |visit| object.visit(visit));
        self.unvisited.borrow_mut().push_back(Unvisited { type_name: type_name::<T>(), number, visit, readers });
    }

    /// Takes the next object whose places are to be visited.
    pub(super) fn next_unvisited(&self) -> Option<Unvisited> {
        self.unvisited.borrow_mut().pop_front()
    }
}

/// An object that can be serialized for a visitor.
pub(super) trait VisitObject {
    fn visit(&self, visit: Visit) -> Result<(), Failure>;
}

impl<T: ?Sized + ::serde::Serialize> VisitObject for Gc<T> {
    fn visit(&self, visit: Visit) -> Result<(), Failure> {
        (**self).serialize(visit)
    }
}

/// The address of an object of any type. It keeps the object alive.
struct AnyGc {
    _address: usize,
}

// SAFETY: one word, which is never changed, and has the address of an object.
unsafe impl Trace for AnyGc {
    const NAME: &'static str = "AnyGc";
    const LAYOUT: Layout = Layout::WORD;
}
