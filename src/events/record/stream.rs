//! A stream of records from one thread to whoever drains, through chunks of memory.
//!
//! ```text
//!   head ─►┌ chunk ──────────────┐next  ┌ chunk ──────────────┐next  ┌ chunk ──────────────┐
//!          │ drained │ published │ ───► │ published │ skipped │ ───► │ published │   free  │◄─ tail
//!          └─────────────────────┘      └─────────────────────┘      └─────────────────────┘
//!               spare ◄── chunks that are drained, on their way back to the thread
//! ```
//!
//! Positions count words from the beginning of the stream and never go back; every chunk has as many. The one word
//! `published` is both the producer's cursor and its promise: what lies before it is written. The producer stores it with
//! a release, without a read-modify-write, and is never waited for; the drain reads it once and then has all before it to itself.
//!
//! A record lies in one chunk: a head, which is never 0, the time, and the payload. What does not fit goes to the next
//! chunk; the rest of the old one is skipped, which a head of 0 says (if there is a whole word for it).
//!
//! Where chunks come from is the caller's affair: this file is a protocol and knows no memory.

use std::ptr::{self, NonNull};

use crate::sabotage::{Guard, removed};
use crate::sync::{AtomicPtr, AtomicU64, Ordering, UnsafeCell, const_new, interrupt_point, prefetch_for_writing};

/// Words before a record's payload.
pub(super) const HEAD_WORDS: usize = 2;

/// So far ahead of the cursor lines are asked for: some ten records.
const AHEAD_WORDS: usize = 48;

/// A piece of a stream.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Chunk<const WORDS: usize> {
    /// The chunk after it in the stream; or, when it is drained, the one that was drained before it.
    next: AtomicPtr<Chunk<WORDS>>,
    words: [UnsafeCell<u64>; WORDS],
}

impl<const WORDS: usize> Chunk<WORDS> {
    /// One that is not mapped memory.
    #[cfg(test)]
    #[allow(dead_code, reason = "for the models")]
    pub(super) fn boxed() -> NonNull<Self> {
        let words = std::array::from_fn(|_| UnsafeCell::new(0));
        NonNull::from(Box::leak(Box::new(Chunk { next: AtomicPtr::new(ptr::null_mut()), words })))
    }
}

/// What only the producer touches.
#[derive(Debug)]
struct Tail<const WORDS: usize> {
    chunk: *mut Chunk<WORDS>,
    /// The position of the chunk's first word, and the one behind its last.
    start: u64,
    end: u64,
    /// Nothing is written from here on: the chunk's end, or less if the producer wants to be asked.
    limit: u64,
    /// Drained chunks that have come back.
    kept: *mut Chunk<WORDS>,
}

/// What only the drain touches.
#[derive(Debug)]
struct Head<const WORDS: usize> {
    chunk: *mut Chunk<WORDS>,
    start: u64,
    position: u64,
}

/// What the drain writes, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct DrainSide<const WORDS: usize> {
    spare: AtomicPtr<Chunk<WORDS>>,
    head: UnsafeCell<Head<WORDS>>,
}

/// See the module's text. All zero bytes are an empty stream.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Stream<const WORDS: usize> {
    published: AtomicU64,
    tail: UnsafeCell<Tail<WORDS>>,
    /// The first chunk, for the drain.
    first: AtomicPtr<Chunk<WORDS>>,
    drain: DrainSide<WORDS>,
}

/// What lies at the head of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// Says how many words follow, to whom wrote it.
    pub(super) head: u64,
    pub(super) ticks: u64,
}

impl<const WORDS: usize> Stream<WORDS> {
    const_new! {
        /// Without a chunk: there is no room.
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
            // SAFETY: `after <= limit`, so the word lies in the chunk, which is ours until it is published and drained;
            // nothing at or after `published` is read by the drain.
            unsafe { (*chunk).words.get_unchecked(first + at).with_mut(|place| *place = word) };
        };
        put(0, head);
        put(1, ticks);
        // An index loop: it is unrolled where the length is known.
        for (index, word) in payload.iter().enumerate() {
            put(HEAD_WORDS + index, *word);
        }
        // The lines of a chunk that has come back were read last by the drain, on another processor. To wait for each when it
        // is needed costs as much as all of the rest.
        // SAFETY: only the chunk's address is used.
        prefetch_for_writing(unsafe { (&raw const (*chunk).words).cast::<u64>() }.wrapping_add(first + AHEAD_WORDS));
        interrupt_point();
        self.publish(after);
        true
    }

    #[inline(always)]
    fn publish(&self, position: u64) {
        // Release: pairs with the acquire of `published`, so that the drain sees what lies before the position.
        let order = if removed(Guard::EventPublish) { Ordering::Relaxed } else { Ordering::Release };
        self.published.store(position, order);
    }

    /// Goes on in a fresh chunk.
    ///
    /// # Safety
    /// The caller is the producer, and gives the chunk away.
    pub(super) unsafe fn extend(&self, fresh: NonNull<Chunk<WORDS>>) {
        let position = self.published.load(Ordering::Relaxed);
        self.tail.with_mut(|tail| {
            // SAFETY: only the producer touches the tail.
            let tail = unsafe { &mut *tail };
            // SAFETY: ours; nobody else has it.
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

    /// The head and the time of the record that was written last, if it has this many payload words. (If it has others, what
    /// is returned is no record: the caller looks at the head.)
    ///
    /// # Safety
    /// The caller is the producer.
    pub(super) unsafe fn last_written(&self, payload_words: usize) -> Option<Next> {
        let position = self.published.load(Ordering::Relaxed);
        // SAFETY: only the producer touches the tail.
        let (chunk, start) = self.tail.with(|tail| unsafe { ((*tail).chunk, (*tail).start) });
        let first = (position - start).checked_sub((HEAD_WORDS + payload_words) as u64)? as usize;
        // SAFETY: the last chunk, which the drain does not give back before it has a next one, and words before the cursor.
        let word = |at: usize| unsafe { (*chunk).words.get_unchecked(first + at).with(|word| *word) };
        Some(Next { head: word(0), ticks: word(1) })
    }

    /// From now on there is no room in this chunk, whatever fits: the producer wants to be asked.
    ///
    /// # Safety
    /// The caller is the producer.
    pub(super) unsafe fn close_chunk(&self) {
        let position = self.published.load(Ordering::Relaxed);
        // SAFETY: only the producer touches the tail.
        self.tail.with_mut(|tail| unsafe { (*tail).limit = position });
    }

    /// A chunk that the drain has given back.
    ///
    /// # Safety
    /// The caller is the producer.
    pub(super) unsafe fn take_back(&self) -> Option<NonNull<Chunk<WORDS>>> {
        self.tail.with_mut(|tail| {
            // SAFETY: only the producer touches the tail.
            let tail = unsafe { &mut *tail };
            if tail.kept.is_null() {
                // Acquire: pairs with the release of `give_back`. What is written to the chunk comes after it was read.
                tail.kept = self.drain.spare.swap(ptr::null_mut(), Ordering::Acquire);
            }
            let chunk = NonNull::new(tail.kept)?;
            // SAFETY: the chunks that have come back are ours.
            tail.kept = unsafe { chunk.as_ref() }.next.load(Ordering::Relaxed);
            Some(chunk)
        })
    }

    /// Whether [`take_back`](Self::take_back) would have something. A hint.
    pub(super) fn has_spare(&self) -> bool {
        // Relaxed: `take_back` acquires what it takes. A caller that waits has its ticket first, whose acquire makes every
        // chunk visible that was given back before that turn.
        !self.drain.spare.load(Ordering::Relaxed).is_null()
    }

    // ---- The drain's side -------------------------------------------------------------------------------------------

    /// Up to where everything is written.
    pub(super) fn published(&self) -> u64 {
        // Acquire: pairs with the release of `publish`.
        self.published.load(Ordering::Acquire)
    }

    /// The record at the head of the stream, before `published`. `give` gets chunks that are through.
    ///
    /// # Safety
    /// The caller is the only one who drains; `published` came from [`published`](Self::published).
    #[inline]
    pub(super) unsafe fn next(&self, published: u64, mut give: impl FnMut(NonNull<Chunk<WORDS>>)) -> Option<Next> {
        self.drain.head.with_mut(|head| {
            // SAFETY: only the drain touches the head.
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
                    // SAFETY: a chunk of the stream, which is ours before `published`.
                    let chunk = unsafe { &*head.chunk };
                    // SAFETY: published; nobody writes it before it is given back.
                    let word = chunk.words[index].with(|word| unsafe { *word });
                    if word != 0 {
                        // SAFETY: as above: the record is published as a whole.
                        let ticks = chunk.words[index + 1].with(|word| unsafe { *word });
                        return Some(Next { head: word, ticks });
                    }
                    head.position = head.start + WORDS as u64;
                    continue;
                }
                // Something is published behind this chunk, so it has a next one.
                // SAFETY: as above.
                let next = unsafe { &*head.chunk }.next.load(Ordering::Relaxed);
                if let Some(old) = NonNull::new(std::mem::replace(&mut head.chunk, next)) {
                    give(old);
                }
                head.start = head.position;
            }
        })
    }

    /// Takes the record that [`next`](Self::next) has shown, of this many payload words, out of the stream.
    ///
    /// # Safety
    /// As `next`, which has been called before; `payload` is as long as that record's.
    #[inline(always)]
    pub(super) unsafe fn take(&self, payload: &mut [u64]) {
        self.drain.head.with_mut(|head| {
            // SAFETY: only the drain touches the head.
            let head = unsafe { &mut *head };
            let first = (head.position - head.start) as usize + HEAD_WORDS;
            debug_assert!(first + payload.len() <= WORDS, "the records of a stream are torn, or out of order");
            for (index, word) in payload.iter_mut().enumerate() {
                // Word by word: most records have two, and to call who copies memory takes longer than that.
                // SAFETY: the record is published as a whole, and lies in this chunk.
                *word = unsafe { (*head.chunk).words.get_unchecked(first + index).with(|word| word.read_volatile()) };
            }
            head.position += (HEAD_WORDS + payload.len()) as u64;
        });
    }

    /// Gives a drained chunk back to the producer.
    ///
    /// # Safety
    /// The caller is the only one who drains, and `chunk` came from this stream.
    pub(super) unsafe fn give_back(&self, chunk: NonNull<Chunk<WORDS>>) {
        let mut seen = self.drain.spare.load(Ordering::Relaxed);
        loop {
            // SAFETY: ours until it is given back.
            unsafe { chunk.as_ref() }.next.store(seen, Ordering::Relaxed);
            // Release: pairs with the acquire of `take_back`. The producer only takes everything at once, so that a chunk
            // can't have come back behind our back.
            match self.drain.spare.compare_exchange_weak(seen, chunk.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
