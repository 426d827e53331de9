//! [`GcString`], a growing text.

use std::borrow::{Borrow, Cow};
use std::cmp;
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::iter::FusedIterator;
use std::ops::{Deref, Index, Range, RangeBounds};
use std::slice::SliceIndex;
use std::str::Utf8Error;

use super::buffer::checked_range;
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
    /// Creates an empty text, without storage. O(1).
    pub const fn new() -> Self {
        Self { bytes: GcVec::new() }
    }

    /// Creates an empty text with room for `capacity` bytes, with one allocation.
    ///
    /// # Errors
    /// There is no room in the heap, here and in all functions that take a mutator. The text is unchanged.
    pub fn with_capacity(mutator: &Mutator, capacity: usize) -> Result<Self, OutOfMemory> {
        Ok(Self { bytes: GcVec::with_capacity(mutator, capacity)? })
    }

    /// Creates a copy of a text. O(n), with one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_str(mutator: &Mutator, text: &str) -> Result<Self, OutOfMemory> {
        let mut string = Self::with_capacity(mutator, text.len())?;
        string.push_str(mutator, text)?;
        Ok(string)
    }

    /// Creates a text of the items of an iterator, which may allocate: characters, or texts. O(n), with O(log n) allocations.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_iter<P: TextPiece>(
        mutator: &Mutator,
        pieces: impl IntoIterator<Item = P>,
    ) -> Result<Self, OutOfMemory> {
        let mut text = Self::new();
        text.extend(mutator, pieces)?;
        Ok(text)
    }

    /// Takes bytes as a text. O(n), without an allocation.
    ///
    /// # Errors
    /// The bytes are not UTF-8. They are dropped: an error that has them, like that of std, would hide them from the collector when it is boxed. To keep
    /// them, check them by [`str::from_utf8`] first.
    pub fn from_utf8(bytes: GcVec<u8>) -> Result<Self, Utf8Error> {
        str::from_utf8(&bytes)?;
        Ok(Self { bytes })
    }

    /// Returns the bytes of the text. O(1).
    pub fn into_bytes(self) -> GcVec<u8> {
        self.bytes
    }

    /// Copies the text. O(n), with one allocation of the exact size.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn try_clone(&self, mutator: &Mutator) -> Result<Self, OutOfMemory> {
        Self::from_str(mutator, self)
    }

    /// Returns the text as a `str`. O(1).
    pub fn as_str(&self) -> &str {
        // SAFETY: the bytes are UTF-8: each function adds and removes whole characters.
        unsafe { std::str::from_utf8_unchecked(&self.bytes) }
    }

    /// Returns the number of bytes for which there is room. O(1).
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Makes room for `additional` more bytes. O(n) if there was too little, and otherwise O(1).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn reserve(&mut self, mutator: &Mutator, additional: usize) -> Result<(), OutOfMemory> {
        self.bytes.reserve(mutator, additional)
    }

    /// Releases the room that is not used, by moving the text to a new array of the exact size: O(n).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn shrink_to_fit(&mut self, mutator: &Mutator) -> Result<(), OutOfMemory> {
        self.bytes.shrink_to_fit(mutator)
    }

    /// As [`shrink_to_fit`](Self::shrink_to_fit), but leaves room for at least `capacity` bytes. Does nothing if the capacity is smaller.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn shrink_to(&mut self, mutator: &Mutator, capacity: usize) -> Result<(), OutOfMemory> {
        self.bytes.shrink_to(mutator, capacity)
    }

    /// Appends a text. O(its length) on average: moves all to a new array of twice the capacity if there is no room.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn push_str(&mut self, mutator: &Mutator, text: &str) -> Result<(), OutOfMemory> {
        self.bytes.reserve(mutator, text.len())?;
        self.bytes.extend_from_slice(mutator, text.as_bytes())
    }

    /// Appends a character. O(1) on average, as [`push_str`](Self::push_str).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn push(&mut self, mutator: &Mutator, character: char) -> Result<(), OutOfMemory> {
        self.push_str(mutator, character.encode_utf8(&mut [0; 4]))
    }

    /// Appends the items of an iterator, which may allocate: characters, or texts. O(items), with allocations as [`push_str`](Self::push_str).
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity). The items before the error are appended.
    pub fn extend<P: TextPiece>(
        &mut self,
        mutator: &Mutator,
        pieces: impl IntoIterator<Item = P>,
    ) -> Result<(), OutOfMemory> {
        pieces.into_iter().try_for_each(|piece| piece.with_str(|text| self.push_str(mutator, text)))
    }

    /// Appends a copy of a range of the text. O(its length), and at most one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If the range ends beyond the end, or before it begins, or if an end is inside a character.
    pub fn extend_from_within(&mut self, mutator: &Mutator, range: impl RangeBounds<usize>) -> Result<(), OutOfMemory> {
        let range = self.checked(range);
        self.bytes.extend_from_within(mutator, range)
    }

    /// The range of bytes that `range` is. Panics unless it has whole characters.
    fn checked(&self, range: impl RangeBounds<usize>) -> Range<usize> {
        let range = checked_range(range, self.len());
        for at in [range.start, range.end] {
            assert!(
                self.is_char_boundary(at),
                "the position {at} is not between two characters of {:?}",
                self.as_str()
            );
        }
        range
    }

    /// Removes the last character and returns it. O(1).
    pub fn pop(&mut self) -> Option<char> {
        let last = self.chars().next_back()?;
        self.bytes.truncate(self.len() - last.len_utf8());
        Some(last)
    }

    /// Inserts a character at a byte position. O(n - at) on average.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If `at` is beyond the end, or inside a character.
    pub fn insert(&mut self, mutator: &Mutator, at: usize, character: char) -> Result<(), OutOfMemory> {
        self.insert_str(mutator, at, character.encode_utf8(&mut [0; 4]))
    }

    /// Inserts a text at a byte position. O(n - at, and its length) on average.
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

    /// Removes the character at a byte position and returns it. O(n - at).
    ///
    /// # Panics
    /// If `at` is the end or beyond it, or inside a character.
    pub fn remove(&mut self, at: usize) -> char {
        let Some(character) = self[at..].chars().next() else { panic!("the position {at} is the end of the text") };
        self.bytes.rotate_from(at, at + character.len_utf8());
        self.bytes.truncate(self.len() - character.len_utf8());
        character
    }

    /// Removes a range of the text, and returns an iterator over its characters.
    ///
    /// The range is removed when the iterator is dropped, in O(bytes after it). If the iterator is leaked, the text is unchanged.
    ///
    /// # Panics
    /// If the range ends beyond the end, or before it begins, or if an end is inside a character.
    pub fn drain(&mut self, range: impl RangeBounds<usize>) -> StringDrain<'_> {
        let range = self.checked(range);
        StringDrain { left: range.clone(), range, text: self }
    }

    /// Replaces a range of the text by another text. O(its length, and bytes from the beginning of the range on), and at most one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    ///
    /// # Panics
    /// If the range ends beyond the end, or before it begins, or if an end is inside a character.
    pub fn replace_range(
        &mut self,
        mutator: &Mutator,
        range: impl RangeBounds<usize>,
        with: &str,
    ) -> Result<(), OutOfMemory> {
        let range = self.checked(range);
        self.insert_str(mutator, range.end, with)?;
        self.bytes.drain(range);
        Ok(())
    }

    /// Moves everything from byte `at` on to a new text. O(n - at), and one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity); this text is unchanged.
    ///
    /// # Panics
    /// If `at` is beyond the end, or inside a character.
    pub fn split_off(&mut self, mutator: &Mutator, at: usize) -> Result<Self, OutOfMemory> {
        let at = self.checked(at..).start;
        Ok(Self { bytes: self.bytes.split_off(mutator, at)? })
    }

    /// Keeps the characters for which `keep` returns true. O(n).
    ///
    /// # Panics
    /// If `keep` does. Then its character and those that it has not seen stay.
    pub fn retain(&mut self, mut keep: impl FnMut(char) -> bool) {
        let mut kept = Kept { bytes: &mut self.bytes, len: 0, at: 0 };
        while let Some(character) = kept.next() {
            // `keep` may panic.
            let keeps = keep(character);
            let bytes = kept.at..kept.at + character.len_utf8();
            kept.at = bytes.end;
            if keeps {
                kept.move_down(bytes);
            }
        }
    }

    /// Removes everything from byte `len` on. O(1).
    ///
    /// # Panics
    /// If `len` is inside a character.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            assert!(self.is_char_boundary(len), "the position {len} is not between two characters");
            self.bytes.truncate(len);
        }
    }

    /// Removes everything, and keeps the storage. O(1).
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns a writer for `write!`, which appends. Its error means that there is no room in the heap. O(1).
    pub fn writer<'a>(&'a mut self, mutator: &'a Mutator) -> GcStringWriter<'a> {
        GcStringWriter { string: self, mutator }
    }

    /// Copies the text to an object of the exact size, which can be shared. O(n), and one allocation.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn into_str(self, mutator: &Mutator) -> Result<Gc<str>, OutOfMemory> {
        mutator.alloc_str(&self)
    }
}

/// A text while some of its characters are removed. When it is dropped, also by a panic, the bytes are UTF-8 again.
struct Kept<'a> {
    bytes: &'a mut GcVec<u8>,
    /// The number of bytes that are kept, at the beginning.
    len: usize,
    /// The position of the character that comes next.
    at: usize,
}

impl Kept<'_> {
    fn next(&self) -> Option<char> {
        // SAFETY: these bytes are as they were, and begin with a character.
        let text = unsafe { str::from_utf8_unchecked(&self.bytes[self.at..]) };
        text.chars().next()
    }

    /// Moves bytes to the end of those that are kept.
    fn move_down(&mut self, bytes: Range<usize>) {
        let to = self.len;
        self.len += bytes.len();
        self.bytes.as_mut_slice().copy_within(bytes, to);
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.move_down(self.at..self.bytes.len());
        self.bytes.truncate(self.len);
    }
}

/// An iterator over the characters of a range of a [`GcString`], which it removes when it is dropped: [`GcString::drain`].
pub struct StringDrain<'a> {
    text: &'a mut GcString,
    range: Range<usize>,
    /// What the iterator has not returned, whole characters.
    left: Range<usize>,
}

impl StringDrain<'_> {
    /// Returns the text that is left. O(1).
    pub fn as_str(&self) -> &str {
        &self.text[self.left.clone()]
    }
}

impl Iterator for StringDrain<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let character = self.as_str().chars().next()?;
        self.left.start += character.len_utf8();
        Some(character)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.as_str().chars().size_hint()
    }
}

impl DoubleEndedIterator for StringDrain<'_> {
    fn next_back(&mut self) -> Option<char> {
        let character = self.as_str().chars().next_back()?;
        self.left.end -= character.len_utf8();
        Some(character)
    }
}

impl FusedIterator for StringDrain<'_> {}

impl Drop for StringDrain<'_> {
    fn drop(&mut self) {
        self.text.bytes.drain(self.range.clone());
    }
}

impl fmt::Debug for StringDrain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StringDrain").field(&self.as_str()).finish()
    }
}

/// What [`GcString::extend`] appends: a character or a text.
pub trait TextPiece: sealed::Sealed {
    /// Calls `append` with the text.
    #[doc(hidden)]
    fn with_str<R>(&self, append: impl FnOnce(&str) -> R) -> R;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! pieces {
    ($($type:ty: $piece:pat => $text:expr;)+) => {
        $(
            impl sealed::Sealed for $type {}

            impl TextPiece for $type {
                fn with_str<R>(&self, append: impl FnOnce(&str) -> R) -> R {
                    let $piece = self;
                    append($text)
                }
            }
        )+
    };
}

pieces! {
    char: character => character.encode_utf8(&mut [0; 4]);
    &char: character => character.encode_utf8(&mut [0; 4]);
    &str: text => text;
    String: text => text;
    Box<str>: text => text;
    Cow<'_, str>: text => text;
    Gc<str>: text => text;
    GcString: text => text;
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

macro_rules! equal {
    ($($one:ty, $other:ty;)+) => {
        $(
            impl PartialEq<$other> for $one {
                fn eq(&self, other: &$other) -> bool {
                    self[..] == other[..]
                }
            }
        )+
    };
}

equal! {
    GcString, str;
    GcString, &str;
    GcString, String;
    GcString, Cow<'_, str>;
    GcString, Gc<str>;
    str, GcString;
    &str, GcString;
    String, GcString;
    Cow<'_, str>, GcString;
}

impl<I: SliceIndex<str>> Index<I> for GcString {
    type Output = I::Output;

    fn index(&self, index: I) -> &I::Output {
        &self.as_str()[index]
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

impl AsRef<[u8]> for GcString {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<str> for GcString {
    fn borrow(&self) -> &str {
        self
    }
}
