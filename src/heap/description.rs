//! What an object says of itself.
//!
//! A heap profile by description counts objects under the names of their types. Where that is too coarse (all closures of an
//! interpreter are of one type), a type has a field of type [`Description`], and each object says by it what it is called. A
//! census reads that field in the stopped world, where no code of the program runs: so it is a label's number, not a
//! function, and a traced struct that has such a field needs nothing else.

use super::trace::{Layout, Trace};
use crate::events::Label;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// A field by which an object names itself in heap profiles. Eight bytes; says nothing until it is set.
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
    /// None: the object is called as its type.
    pub const fn none() -> Description {
        Description(AtomicU64::new(0))
    }

    /// This text.
    pub const fn new(label: Label) -> Description {
        Description(AtomicU64::new(label.get()))
    }

    /// From now on this text.
    pub fn set(&self, label: Label) {
        self.0.store(label.get(), Relaxed);
    }

    /// The text that it is.
    pub fn get(&self) -> Option<Label> {
        Label::from_raw(self.0.load(Relaxed))
    }
}

// SAFETY: one atomic word, which is no reference.
unsafe impl Trace for Description {
    const NAME: &'static str = "Description";
    const LAYOUT: Layout = Layout::LEAF;
    const DESCRIPTION: Option<usize> = Some(0);
}
