//! Descriptions: how an object names itself.
//!
//! A heap profile by description counts objects under the names of their types. Where that is too coarse (all closures of an
//! interpreter have one type), a type has a field of type [`Description`], in which each object stores its own name. A census
//! reads that field in the stopped world, where no code of the program runs. So the field is a label's number, not a function,
//! and a traced struct that has such a field needs nothing else.

use super::trace::{Layout, Trace};
use crate::events::Label;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// A field by which an object names itself in heap profiles. Eight bytes; has no effect until it is set.
///
/// ```
/// use stopworld::{Description, Gc, traced};
///
/// traced! {
///     struct Closure {
///         called: Description,
///         code: u64,
///     }
/// }
///
/// let world = stopworld::World::builder().build()?;
/// let label = world.telemetry_intern("fibonacci")?;
/// let closure = Closure { called: Description::new(label), code: 7 };
/// assert_eq!(closure.called.get(), Some(label));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Description(AtomicU64);

impl Description {
    /// Creates an empty description: the object counts under the name of its type.
    pub const fn none() -> Description {
        Description(AtomicU64::new(0))
    }

    /// Creates a description with this text.
    pub const fn new(label: Label) -> Description {
        Description(AtomicU64::new(label.get()))
    }

    /// Changes the text.
    pub fn set(&self, label: Label) {
        self.0.store(label.get(), Relaxed);
    }

    /// Returns the text, if one is set.
    pub fn get(&self) -> Option<Label> {
        Label::from_raw(self.0.load(Relaxed))
    }
}

// SAFETY: one atomic word, which is not a reference.
unsafe impl Trace for Description {
    const NAME: &'static str = "Description";
    const LAYOUT: Layout = Layout::LEAF;
    const DESCRIPTION: Option<usize> = Some(0);
}
