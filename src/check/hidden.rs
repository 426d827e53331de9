//! A report of a hidden reference: what it knows, and its text.

use std::fmt;

use stopworld_platform::symbols::CodePlace;

/// The largest number of calls of a backtrace that a report prints.
const MOST_PRINTED: usize = 8;

/// The name, for suppressions, of a block or a static whose name is not known.
const UNKNOWN: &str = "unknown";
/// The name, for suppressions, of all thread-local variables of the main thread.
const THREAD_LOCAL: &str = "thread-local";

/// Where a hidden reference was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HiddenIn {
    /// In a block of the [`Allocator`](crate::check::Allocator).
    Block {
        /// The block's size in bytes.
        bytes: usize,
        /// The distance of the reference from the beginning of the block, in bytes.
        offset: usize,
        /// The calls that allocated the block, innermost first, without those inside the standard library.
        allocated: Vec<CodePlace>,
    },
    /// In a live object, in a word that the collector does not scan: in a [`Leaf`](crate::Leaf) or in a field with `#[trace(skip)]`.
    Object {
        /// The type of that object, as the compiler names it.
        type_name: &'static str,
        /// The distance of the reference from the beginning of the object, in bytes.
        offset: usize,
        /// The calls that allocated the object, innermost first, without those inside this library.
        allocated: Vec<CodePlace>,
    },
    /// In a static variable.
    Static {
        /// The variable's path, if the symbols name it.
        name: Option<String>,
    },
    /// In a thread-local variable of the main thread.
    ThreadLocal,
}

/// An object that the collector would free although a reference that it does not see refers to it. [`Display`](fmt::Display) writes the report, of
/// several lines.
#[derive(Clone)]
pub struct HiddenReference {
    pub(super) collection: u32,
    pub(super) kept: bool,
    pub(super) type_name: &'static str,
    /// The object's address, inverted: a report in a `Vec` must not be a hidden reference itself.
    pub(super) inverted: usize,
    pub(super) bytes: usize,
    pub(super) offset: usize,
    pub(super) allocated: Vec<CodePlace>,
    pub(super) hidden_in: HiddenIn,
    pub(super) more: usize,
}

impl HiddenReference {
    /// Returns the number of the collection.
    pub fn collection(&self) -> u32 {
        self.collection
    }

    /// Returns whether the object was kept alive: not under [`CheckPromise::report`](crate::check::CheckPromise::report).
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Returns the name of the object's type.
    pub fn type_name(&self) -> &str {
        self.type_name
    }

    /// Returns the address of the object. Unless it was kept, the object does not exist any more.
    pub fn object_address(&self) -> usize {
        !self.inverted
    }

    /// Returns the size of the object in bytes, as the heap rounds it up.
    pub fn object_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how far from the beginning of the object the reference points, in bytes. 0 for a `Gc`.
    pub fn object_offset(&self) -> usize {
        self.offset
    }

    /// Returns the calls that allocated the object, innermost first, without those inside this library. Empty if they are not known.
    pub fn object_allocated(&self) -> &[CodePlace] {
        &self.allocated
    }

    /// Returns where the reference is; if there are several, where the first one is that the search found.
    pub fn hidden_in(&self) -> &HiddenIn {
        &self.hidden_in
    }

    /// Returns how many more references to this object are hidden, as far as they were not reported before.
    pub fn more_references(&self) -> usize {
        self.more
    }
}

/// Returns the names that a pattern may match. `places` are all calls that allocated the block, also those that a report leaves out.
pub(super) fn names<'n>(hidden_in: &'n HiddenIn, places: &'n [CodePlace]) -> impl Iterator<Item = &'n str> {
    let name = match hidden_in {
        HiddenIn::Block { .. } if places.is_empty() => Some(UNKNOWN),
        HiddenIn::Block { .. } => None,
        HiddenIn::Object { type_name, .. } => Some(*type_name),
        HiddenIn::Static { name } => Some(name.as_deref().unwrap_or(UNKNOWN)),
        HiddenIn::ThreadLocal => Some(THREAD_LOCAL),
    };
    places.iter().flat_map(|place| [Some(place.function()), place.file()]).flatten().chain(name)
}

impl fmt::Debug for HiddenReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HiddenReference")
            .field("collection", &self.collection)
            .field("kept", &self.kept)
            .field("type_name", &self.type_name)
            .field("object_address", &format_args!("{:#x}", self.object_address()))
            .field("object_bytes", &self.bytes)
            .field("object_offset", &self.offset)
            .field("object_allocated", &self.allocated)
            .field("hidden_in", &self.hidden_in)
            .field("more_references", &self.more)
            .finish()
    }
}

impl fmt::Display for HiddenReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = if self.kept { "would have freed" } else { "frees" };
        writeln!(f, "stopworld: collection {} {fate} an object that a hidden reference refers to", self.collection)?;
        writeln!(f, "  object      {}, {} bytes at {:#x}", self.type_name, self.bytes, self.object_address())?;
        print_places(f, &self.allocated)?;
        let at = |f: &mut fmt::Formatter<'_>| match self.offset {
            0 => Ok(()),
            offset => write!(f, "; it refers to byte {offset} of the object"),
        };
        match &self.hidden_in {
            HiddenIn::Block { bytes, offset, allocated } => {
                write!(f, "  hidden in   a block of {bytes} bytes, at byte {offset}")?;
                at(f)?;
                writeln!(f)?;
                print_places(f, allocated)?;
            }
            HiddenIn::Object { type_name, offset, allocated } => {
                write!(f, "  hidden in   an object, {type_name}, at byte {offset}, which is not scanned")?;
                at(f)?;
                writeln!(f)?;
                print_places(f, allocated)?;
            }
            HiddenIn::Static { name } => {
                write!(f, "  hidden in   the static variable {}", name.as_deref().unwrap_or("(without a symbol)"))?;
                at(f)?;
                writeln!(f)?;
            }
            HiddenIn::ThreadLocal => {
                write!(f, "  hidden in   a thread-local variable of the main thread")?;
                at(f)?;
                writeln!(f)?;
            }
        }
        if self.more > 0 {
            writeln!(f, "  others      {}", self.more)?;
        }
        writeln!(f, "  instead     a local variable, a traced field of an object, a Root, or register_range")
    }
}

fn print_places(f: &mut fmt::Formatter<'_>, places: &[CodePlace]) -> fmt::Result {
    if places.is_empty() {
        return writeln!(f, "    allocated at an unknown place");
    }
    for (index, place) in places.iter().take(MOST_PRINTED).enumerate() {
        writeln!(f, "    {} {place}", if index == 0 { "allocated by" } else { "   called by" })?;
    }
    match places.len().saturating_sub(MOST_PRINTED) {
        0 => Ok(()),
        more => writeln!(f, "              and {more} more calls"),
    }
}
