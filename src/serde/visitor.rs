//! What happens with the contents of a cell or a lock that a [visit](super::visit) finds.

use std::any::Any;
use std::cell::Cell;
use std::ptr::NonNull;

use super::failure::Failure;
use super::scoped::scoped;
use super::session::{GraphState, Places, Unvisited};
use super::visit::{Visit, in_field};

/// Gets the contents of each place of the visited object.
pub(super) enum Visitor<'a> {
    /// Writes the contents.
    Write(&'a mut dyn FnMut(&dyn erased_serde::Serialize) -> Result<(), Failure>),
    /// Reads the contents into an `Option` of their type, or returns false: it is not the turn of this place.
    Read(&'a mut dyn FnMut(&mut dyn Any) -> Result<bool, Failure>),
}

thread_local! {
    /// The visitor of the object that this thread visits, if it is not being called.
    static VISITOR: Cell<Option<NonNull<Visitor<'static>>>> = const { Cell::new(None) };
}

/// Sets the thread's visitor for the duration of `body`.
fn with_current<R>(visitor: Option<NonNull<Visitor<'static>>>, body: impl FnOnce() -> R) -> R {
    VISITOR.with(|current| scoped(current, visitor, body))
}

/// Serializes an object so that each of its places calls `visitor`.
pub(super) fn visit(
    graph: &GraphState,
    object: &Unvisited,
    how: Visit,
    visitor: &mut Visitor<'_>,
) -> Result<(), Failure> {
    let visitor = NonNull::from(visitor).cast();
    with_current(Some(visitor), || graph.with_places(Places::Visited, || in_field(None, || (object.visit)(how))))
}

/// Calls `body` with the visitor. Meanwhile the thread has none, and places that are serialized write their contents.
///
/// # Errors
/// That of `body`; or there is no visitor, because this is called from one.
pub(super) fn with_visitor(
    graph: &GraphState,
    body: impl FnOnce(&mut Visitor<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(mut visitor) = VISITOR.get() else {
        return Err(Failure("a cell or a lock is serialized while another one is".to_owned()));
    };
    with_current(None, || {
        // SAFETY: `visit` borrows the visitor mutably until its call of `with_current` returns or unwinds, which removes the pointer. Only
        // this function uses it, and removes it meanwhile, so there is no other reference. `body` works for every lifetime.
        graph.with_places(Places::Inline, || body(unsafe { visitor.as_mut() }))
    })
}
