//! A stream of records from one thread to the drain, through chunks of memory.
//!
//! ```text
//!   head ─►┌ chunk ──────────────┐next  ┌ chunk ──────────────┐next  ┌ chunk ──────────────┐
//!          │ drained │ published │ ───► │ published │ skipped │ ───► │ published │   free  │◄─ tail
//!          └─────────────────────┘      └─────────────────────┘      └─────────────────────┘
//!               spare ◄── drained chunks, on their way back to the thread
//! ```
//!
//! Positions count words from the beginning of the stream and never decrease; all chunks have the same number of words. The single word
//! `published` is the producer's cursor and also its guarantee that everything before it is written. The producer stores it with
//! a release, without a read-modify-write, and no thread waits for the producer. The drain reads `published` once, and everything before it
//! then belongs to the drain.
//!
//! A record is in one chunk: a head, which is never 0, the time, and the payload. A record that does not fit goes to the next
//! chunk. The rest of the old chunk is skipped; a head of 0 marks it (if there is a whole word left).
//!
//! The caller allocates the chunks: this file is a protocol and does not depend on where memory comes from.

use std::ptr::{self, NonNull};

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicPtr, AtomicU64, Ordering, UnsafeCell, const_new, interrupt_point, prefetch_for_writing};

/// The number of words before a record's payload.
pub(super) const HEAD_WORDS: usize = 2;

/// The distance from the cursor at which cache lines are prefetched: some ten records.
const AHEAD_WORDS: usize = 48;

/// A piece of a stream.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Chunk<const WORDS: usize> {
    /// The next chunk in the stream; or, if this chunk is drained, the one that was drained before it.
    next: AtomicPtr<Chunk<WORDS>>,
    words: [UnsafeCell<u64>; WORDS],
}

impl<const WORDS: usize> Chunk<WORDS> {
    /// Creates a chunk that is not in mapped memory.
    #[cfg(test)]
    #[allow(dead_code, reason = "for the models")]
    pub(super) fn boxed() -> NonNull<Self> {
        let words = std::array::from_fn(|_| UnsafeCell::new(0));
        NonNull::from(Box::leak(Box::new(Chunk { next: AtomicPtr::new(ptr::null_mut()), words })))
    }
}

/// The state that only the producer accesses.
#[derive(Debug)]
struct Tail<const WORDS: usize> {
    chunk: *mut Chunk<WORDS>,
    /// The position of the chunk's first word, and the position after its last word.
    start: u64,
    end: u64,
    /// The position at which writing ends: the end of the chunk, or an earlier position after [`Stream::close_chunk`].
    limit: u64,
    /// Drained chunks that have been taken back.
    kept: *mut Chunk<WORDS>,
}

/// The state that only the drain accesses.
#[derive(Debug)]
struct Head<const WORDS: usize> {
    chunk: *mut Chunk<WORDS>,
    start: u64,
    position: u64,
}

/// The words that the drain writes, on a separate cache line.
#[derive(Debug)]
#[repr(align(64))]
struct DrainSide<const WORDS: usize> {
    spare: AtomicPtr<Chunk<WORDS>>,
    head: UnsafeCell<Head<WORDS>>,
}

/// A stream, as the module documentation describes it. All zero bytes are an empty stream.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Stream<const WORDS: usize> {
    published: AtomicU64,
    tail: UnsafeCell<Tail<WORDS>>,
    /// The first chunk, for the drain.
    first: AtomicPtr<Chunk<WORDS>>,
    drain: DrainSide<WORDS>,
}

/// The record at the head of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// The head as the caller of [`Stream::write`] encoded it. The caller can decode the number of payload words.
    pub(super) head: u64,
    pub(super) ticks: u64,
}

impl<const WORDS: usize> Stream<WORDS> {
    const_new! {
        /// Creates a stream without a chunk, which has no room.
        pub(super) fn new() -> Self {
            Stream {
                published: AtomicU64::new(0),
                tail: UnsafeCell::new(Tail { chunk: ptr::null_mut(), start: 0, end: 0, limit: 0, kept: ptr::null_mut() }),
                first: AtomicPtr::new(ptr::null_mut()),
                drain: DrainSide {
                    spare: AtomicPtr::new(ptr::null_mut()),
                    head: UnsafeCell::new(Head { chunk: ptr::null_mut(), start: 0, position: 0 }),
                },
            }
        }
    }

    // ---- The producer's side ----------------------------------------------------------------------------------------

    /// Writes a record and publishes it; false if there is no room.
    ///
    /// # Safety
    /// The caller is the producer. `head` is not 0.
    #[inline(always)]
    pub(super) unsafe fn write(&self, head: u64, ticks: u64, payload: &[u64]) -> bool {
        let position = self.published.load(Ordering::Relaxed);
        // SAFETY: only the producer touches the tail.
        let (chunk, start, limit) = self.tail.with(|tail| unsafe { ((*tail).chunk, (*tail).start, (*tail).limit) });
        let after = position + (HEAD_WORDS + payload.len()) as u64;
        if after > limit {
            return false;
        }
        let first = (position - start) as usize;
        let put = |at: usize, word: u64| {
            // SAFETY: `after <= limit`, so the word is in the chunk, which belongs to the producer until it is published and drained.
            // The drain reads nothing at or after `published`.
            unsafe { (*chunk).words.get_unchecked(first + at).with_mut(|place| *place = word) };
        };
        put(0, head);
        put(1, ticks);
        // An index loop: it is unrolled where the length is known.
        for (index, word) in payload.iter().enumerate() {
            put(HEAD_WORDS + index, *word);
        }
        // The cache lines of a chunk that was given back were last read by the drain, on another processor. Waiting for each line when it
        // is needed would cost as much as everything else.
        // SAFETY: only the chunk's address is used.
        prefetch_for_writing(unsafe { (&raw const (*chunk).words).cast::<u64>() }.wrapping_add(first + AHEAD_WORDS));
        interrupt_point();
        self.publish(after);
        true
    }

    #[inline(always)]
    fn publish(&self, position: u64) {
        // Release: pairs with the acquire of `published`, so that the drain sees everything before the position.
        let order = if removed(Guard::EventPublish) { Ordering::Relaxed } else { Ordering::Release };
        self.published.store(position, order);
    }

    /// Continues in a fresh chunk.
    ///
    /// # Safety
    /// The caller is the producer, and passes the ownership of the chunk.
    pub(super) unsafe fn extend(&self, fresh: NonNull<Chunk<WORDS>>) {
        let position = self.published.load(Ordering::Relaxed);
        self.tail.with_mut(|tail| {
            // SAFETY: only the producer touches the tail.
            let tail = unsafe { &mut *tail };
            // SAFETY: the chunk belongs to this call; no other thread has it.
            unsafe { fresh.as_ref() }.next.store(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: null, or the last chunk, which the drain does not give back before it has a next one.
            match unsafe { tail.chunk.as_ref() } {
                None => self.first.store(fresh.as_ptr(), Ordering::Relaxed),
                Some(old) => {
                    if position < tail.end {
                        // SAFETY: inside the chunk, and not published.
                        old.words[(position - tail.start) as usize].with_mut(|word| unsafe { *word = 0 });
                    }
                    old.next.store(fresh.as_ptr(), Ordering::Relaxed);
                }
            }
            *tail = Tail { chunk: fresh.as_ptr(), start: tail.end, end: tail.end + WORDS as u64, ..*tail };
            tail.limit = tail.end;
            interrupt_point();
            self.publish(tail.start);
        });
    }

    /// Returns the head and the time of the record that was written last, if it has this many payload words. (If it has a different number,
    /// the result is not a record. The caller must check the head.)
    ///
    /// # Safety
    /// The caller is the producer.
    pub(super) unsafe fn last_written(&self, payload_words: usize) -> Option<Next> {
        let position = self.published.load(Ordering::Relaxed);
        // SAFETY: only the producer touches the tail.
        let (chunk, start) = self.tail.with(|tail| unsafe { ((*tail).chunk, (*tail).start) });
        let first = (position - start).checked_sub((HEAD_WORDS + payload_words) as u64)? as usize;
        // SAFETY: the last chunk, which the drain does not give back before it has a next one. The words are before the cursor.
        let word = |at: usize| unsafe { (*chunk).words.get_unchecked(first + at).with(|word| *word) };
        Some(Next { head: word(0), ticks: word(1) })
    }

    /// Closes the chunk: from now on it has no room, even for a short record, so the next write fails.
    ///
    /// # Safety
    /// The caller is the producer.
    pub(super) unsafe fn close_chunk(&self) {
        let position = self.published.load(Ordering::Relaxed);
        // SAFETY: only the producer touches the tail.
        self.tail.with_mut(|tail| unsafe { (*tail).limit = position });
    }

    /// Returns a chunk that the drain has given back.
    ///
    /// # Safety
    /// The caller is the producer.
    pub(super) unsafe fn take_back(&self) -> Option<NonNull<Chunk<WORDS>>> {
        self.tail.with_mut(|tail| {
            // SAFETY: only the producer touches the tail.
            let tail = unsafe { &mut *tail };
            if tail.kept.is_null() {
                // Acquire: pairs with the release of `give_back`. The producer's writes to the chunk come after the drain's reads.
                tail.kept = self.drain.spare.swap(ptr::null_mut(), Ordering::Acquire);
            }
            let chunk = NonNull::new(tail.kept)?;
            // SAFETY: the chunks that were given back belong to the producer.
            tail.kept = unsafe { chunk.as_ref() }.next.load(Ordering::Relaxed);
            Some(chunk)
        })
    }

    /// Whether [`take_back`](Self::take_back) would return a chunk. A hint.
    pub(super) fn has_spare(&self) -> bool {
        // Relaxed: `take_back` acquires what it takes. A caller that waits takes its ticket first, and the acquire of the ticket makes
        // every chunk visible that was given back before that turn.
        !self.drain.spare.load(Ordering::Relaxed).is_null()
    }

    // ---- The drain's side -------------------------------------------------------------------------------------------

    /// Returns the position up to which all words are written.
    pub(super) fn published(&self) -> u64 {
        // Acquire: pairs with the release of `publish`.
        self.published.load(Ordering::Acquire)
    }

    /// Returns the record at the head of the stream, if there is one before `published`. Drained chunks are passed to `give`.
    ///
    /// # Safety
    /// The caller is the only drain; `published` is a result of [`published`](Self::published).
    #[inline]
    pub(super) unsafe fn next(&self, published: u64, mut give: impl FnMut(NonNull<Chunk<WORDS>>)) -> Option<Next> {
        self.drain.head.with_mut(|head| {
            // SAFETY: only the drain accesses the head.
            let head = unsafe { &mut *head };
            loop {
                if head.position >= published {
                    return None;
                }
                if head.chunk.is_null() {
                    head.chunk = self.first.load(Ordering::Relaxed);
                }
                let index = (head.position - head.start) as usize;
                if index < WORDS {
                    // SAFETY: a chunk of the stream, which belongs to the drain up to `published`.
                    let chunk = unsafe { &*head.chunk };
                    // SAFETY: published; the producer does not write it before it is given back.
                    let word = chunk.words[index].with(|word| unsafe { *word });
                    if word != 0 {
                        // SAFETY: as above: the record is published as a whole.
                        let ticks = chunk.words[index + 1].with(|word| unsafe { *word });
                        return Some(Next { head: word, ticks });
                    }
                    head.position = head.start + WORDS as u64;
                    continue;
                }
                // Something is published after this chunk, so it has a next one.
                // SAFETY: as above.
                let next = unsafe { &*head.chunk }.next.load(Ordering::Relaxed);
                if let Some(old) = NonNull::new(std::mem::replace(&mut head.chunk, next)) {
                    give(old);
                }
                head.start = head.position;
            }
        })
    }

    /// Takes out the record that [`next`](Self::next) has returned, and copies its payload.
    ///
    /// # Safety
    /// As for `next`, which has been called before. `payload` is as long as that record's payload.
    #[inline(always)]
    pub(super) unsafe fn take(&self, payload: &mut [u64]) {
        self.drain.head.with_mut(|head| {
            // SAFETY: only the drain touches the head.
            let head = unsafe { &mut *head };
            let first = (head.position - head.start) as usize + HEAD_WORDS;
            debug_assert!(first + payload.len() <= WORDS, "the records of a stream are torn, or out of order");
            for (index, word) in payload.iter_mut().enumerate() {
                // Word by word: most records have two words, for which a call of `memcpy` would take longer.
                // SAFETY: the record is published as a whole, and is in this chunk.
                *word = unsafe { (*head.chunk).words.get_unchecked(first + index).with(|word| word.read_volatile()) };
            }
            head.position += (HEAD_WORDS + payload.len()) as u64;
        });
    }

    /// Returns a drained chunk to the producer.
    ///
    /// # Safety
    /// The caller is the only drain, and `chunk` came from this stream.
    pub(super) unsafe fn give_back(&self, chunk: NonNull<Chunk<WORDS>>) {
        let mut seen = self.drain.spare.load(Ordering::Relaxed);
        loop {
            // SAFETY: the chunk belongs to the drain until it is given back.
            unsafe { chunk.as_ref() }.next.store(seen, Ordering::Relaxed);
            // Release: pairs with the acquire of `take_back`. The producer always takes all chunks at once, so `seen` cannot have been taken
            // and given back in the meantime (no ABA problem).
            match self.drain.spare.compare_exchange_weak(seen, chunk.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
