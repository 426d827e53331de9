//! [`GcString`], a growing text.

use std::borrow::Borrow;
use std::cmp;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use super::vec::GcVec;
use crate::{Gc, Mutator, OutOfMemory, Trace};

/// A growing UTF-8 text in the collected heap, with the interface of `String`. See [`collections`](crate::collections).
///
/// A text that does not change is better a `Gc<str>`, one object of the exact size ([`into_str`](Self::into_str)).
///
/// ```
/// use std::fmt::Write;
/// use stopworld::{GcString, World};
///
/// let world = World::builder().build()?;
/// // SAFETY: this thread keeps every `Gc` and every collection in local variables.
/// let mutator = unsafe { world.attach("main") }?;
/// let mut text = GcString::from_str(&mutator, "λx")?;
/// text.push_str(&mutator, ".x")?;
/// write!(text.writer(&mutator), " = {}", 1 + 1)?;
/// assert_eq!(text, "λx.x = 2");
/// assert_eq!(text.pop(), Some('2'));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default, Trace)]
pub struct GcString {
    /// UTF-8.
    bytes: GcVec<u8>,
}

impl GcString {
    /// Creates an empty text, without storage.
    pub const fn new() -> Self {
        Self { bytes: GcVec::new() }
    }

    /// Creates an empty text with room for `capacity` bytes.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The text is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { bytes: GcVec::with_capacity(mutator, capacity)? })
    }

    /// Creates a copy of a text.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_str(mutator: &Mutator, text: &str) -> Result<Self, OutOfMemory> {
        let mut string = Self::with_capacity(mutator, text.len())?;
        string.push_str(mutator, text)?;
        Ok(string)
    }

    /// Returns the text as a `str`.
    pub fn as_str(&self) -> &str {
        // SAFETY: the bytes are UTF-8: each function adds and removes whole characters.
        unsafe { std::str::from_utf8_unchecked(&self.bytes) }
    }

    /// Returns the number of bytes for which there is room.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Makes room for `additional` more bytes.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        self.bytes.reserve(mutator, additional)
    }

    /// Appends a text.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn push_str(&mut self, mutator: &Mutator, text: &str) -> Result<(), OutOfMemory> {
        self.bytes.reserve(mutator, text.len())?;
        self.bytes.extend_from_slice(mutator, text.as_bytes())
    }

    /// Appends a character.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn push(&mut self, mutator: &Mutator, character: char) -> Result<(), OutOfMemory> {
        self.push_str(mutator, character.encode_utf8(&mut [0; 4]))
    }

    /// Removes the last character and returns it.
    pub fn pop(&mut self) -> Option<char> {
        let last = self.chars().next_back()?;
        self.bytes.truncate(self.len() - last.len_utf8());
        Some(last)
    }

    /// Inserts a text at a byte position.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If `at` is beyond the end, or inside a character.
    pub fn insert_str(&mut self, mutator: &Mutator, at: usize, text: &str) -> Result<(), OutOfMemory> {
        assert!(self.is_char_boundary(at), "the position {at} is not between two characters of {:?}", self.as_str());
        let before = self.len();
        self.push_str(mutator, text)?;
        self.bytes.rotate_from(at, before);
        Ok(())
    }

    /// Removes the character at a byte position and returns it.
    ///
    /// # Panics
    /// If `at` is the end or beyond it, or inside a character.
    pub fn remove(&mut self, at: usize) -> char {
        let Some(character) = self[at..].chars().next() else { panic!("the position {at} is the end of the text") };
        self.bytes.rotate_from(at, at + character.len_utf8());
        self.bytes.truncate(self.len() - character.len_utf8());
        character
    }

    /// Removes everything from byte `len` on.
    ///
    /// # Panics
    /// If `len` is inside a character.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            assert!(self.is_char_boundary(len), "the position {len} is not between two characters");
            self.bytes.truncate(len);
        }
    }

    /// Removes everything, and keeps the storage.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns a writer for `write!`, which appends. Its error means that there is no room in the heap.
    pub fn writer<'a>(&'a mut self, mutator: &'a Mutator) -> GcStringWriter<'a> {
        GcStringWriter { string: self, mutator }
    }

    /// Copies the text to an object of the exact size, which can be shared.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn into_str(self, mutator: &Mutator) -> Result<Gc<str>, OutOfMemory> {
        mutator.alloc_str(&self)
    }
}

/// Appends to a [`GcString`]; for `write!`.
pub struct GcStringWriter<'a> {
    string: &'a mut GcString,
    mutator: &'a Mutator,
}

impl Write for GcStringWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.string.push_str(self.mutator, text).map_err(|_| fmt::Error)
    }
}

impl Deref for GcString {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for GcString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for GcString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl PartialEq for GcString {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for GcString {}

impl PartialEq<str> for GcString {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for GcString {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for GcString {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GcString {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for GcString {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl AsRef<str> for GcString {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for GcString {
    fn borrow(&self) -> &str {
        self
    }
}
