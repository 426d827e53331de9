//! The model that all formats share: objects, references with a label, and roots in groups.
//!
//! ```text
//!   group (stacks, thread main)──▶ root (address of the word)──▶ object ──label──▶ object
//!   group (handles)            ──▶ root                      ──▶ object
//! ```
//!
//! A [`Heap`] keeps little in memory (types, roots, the address of each object) and delivers its objects one after the other, as often
//! as a writer asks: a writer of a format whose objects and references are in different places of the file visits the heap twice
//! instead of keeping it. Objects are known by their index in the order in which they are visited.

use std::fmt;

use super::error::Result;

/// An object, as a heap delivers it. Valid during the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'a> {
    /// Its index. Objects are visited in the order of their indices.
    pub index: u32,
    /// The index of its type in [`Heap::types`].
    pub type_index: u32,
    /// Its own size in bytes.
    pub size: u64,
    /// Its references.
    pub references: &'a [Reference],
}

/// A reference to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The index of the object.
    pub target: u32,
    /// Where it is in the object that contains it.
    pub label: Label,
}

/// Where a reference is in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// The offset in bytes.
    Offset(u32),
    /// The index of an element.
    Index(u32),
    /// A field, by the index of its name in [`Heap::names`].
    Field(u32),
}

impl Label {
    /// Returns the label as text; `names` are those of its heap.
    pub fn text(self, names: &[String]) -> String {
        match self {
            Label::Offset(offset) => format!("+{offset}"),
            Label::Index(index) => format!("[{index}]"),
            Label::Field(name) => names.get(name as usize).cloned().unwrap_or_default(),
        }
    }
}

/// A reference from outside the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The index of the object.
    pub target: u32,
    /// The index of its group in [`Heap::groups`].
    pub group: u32,
    /// The address of the reference, 0 if unknown.
    pub address: u64,
}

/// What a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootKind {
    /// A word on a stack or in a register.
    Stack,
    /// A handle.
    Handle,
    /// A word outside the heap that the program registered: a static variable.
    Static,
    /// The queue of objects whose finalizers are due.
    Finalizer,
    /// Anything else.
    Other,
}

impl fmt::Display for RootKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RootKind::Stack => "stacks",
            RootKind::Handle => "handles",
            RootKind::Static => "statics",
            RootKind::Finalizer => "finalizers",
            RootKind::Other => "other roots",
        })
    }
}

/// The roots of one kind, of one thread if the thread is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RootGroup {
    /// The kind of the roots.
    pub kind: RootKind,
    /// The name of the thread, if the roots belong to one that is known.
    pub thread: Option<String>,
}

impl RootGroup {
    /// The roots of a kind that belong to no thread.
    pub fn of(kind: RootKind) -> RootGroup {
        RootGroup { kind, thread: None }
    }

    /// The roots on the stacks and in the registers of a thread with this id, and with this name unless it is empty.
    pub fn stack_of(tid: u32, name: &str) -> RootGroup {
        RootGroup { kind: RootKind::Stack, thread: Some(RootGroup::thread_name(tid, name)) }
    }

    /// The references in an object that a thread had not finished.
    pub fn unfinished_of(tid: u32, name: &str) -> RootGroup {
        let thread = RootGroup::thread_name(tid, name);
        RootGroup { kind: RootKind::Other, thread: Some(format!("{thread}, which was building an object")) }
    }

    /// The roots on the stacks that the program registered, which may be those of any thread.
    pub fn registered_stacks() -> RootGroup {
        RootGroup { kind: RootKind::Stack, thread: Some("registered stacks".to_owned()) }
    }

    /// Returns a thread's name in a group: `thread 1234 "main"`. Quotes and backslashes of the name have a backslash before them. Control
    /// characters are replaced, because the name is printed on terminals.
    pub fn thread_name(tid: u32, name: &str) -> String {
        if name.is_empty() {
            return format!("thread {tid}");
        }
        let mut shown = format!("thread {tid} \"");
        for char in name.chars() {
            if matches!(char, '"' | '\\') {
                shown.push('\\');
            }
            shown.push(if char.is_control() { char::REPLACEMENT_CHARACTER } else { char });
        }
        shown.push('"');
        shown
    }
}

impl fmt::Display for RootGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.thread {
            Some(thread) => write!(f, "{} of {thread}", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

/// A heap whose objects can be visited as often as needed.
///
/// Every index (of a type, a name, a group, an object) must be smaller than the length of its table; a writer may panic otherwise.
pub trait Heap {
    /// The names of the types.
    fn types(&self) -> &[String];

    /// The names of the fields.
    fn names(&self) -> &[String];

    /// The groups of roots.
    fn groups(&self) -> &[RootGroup];

    /// The roots.
    fn roots(&self) -> &[Root];

    /// The number of objects.
    fn objects(&self) -> u32;

    /// The number of references of all objects together.
    fn references(&self) -> u64;

    /// Returns the number of roots of each group.
    fn roots_by_group(&self) -> Vec<u64> {
        let mut counts = vec![0; self.groups().len()];
        self.roots().iter().for_each(|root| counts[root.group as usize] += 1);
        counts
    }

    /// Returns the address of the object with this index.
    fn address(&self, index: u32) -> u64;

    /// Visits the objects in the order of their indices. Each call visits the same objects. Ends with the first error of `visit`.
    ///
    /// # Errors
    /// The heap can't be read, or `visit` fails.
    fn visit(&self, visit: &mut dyn FnMut(&Object<'_>) -> Result<()>) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", "thread 12")]
    #[case("main", "thread 12 \"main\"")]
    #[case("größe 漢", "thread 12 \"größe 漢\"")]
    #[case("a\"b", r#"thread 12 "a\"b""#)]
    #[case(r"a\", r#"thread 12 "a\\""#)]
    #[case("\u{1b}[2J\r\n\0\u{7f}\u{9b}", "thread 12 \"\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\"")]
    fn a_name_is_quoted_and_has_no_control_characters(#[case] name: &str, #[case] expected: &str) {
        assert_eq!(RootGroup::thread_name(12, name), expected);
        let of_stack = RootGroup::stack_of(12, name).to_string();
        assert_eq!(of_stack, format!("stacks of {expected}"));
        let unfinished = RootGroup::unfinished_of(12, name).to_string();
        assert_eq!(unfinished, format!("other roots of {expected}, which was building an object"));
    }
}
