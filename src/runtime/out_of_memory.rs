//! The error of an allocation.

use std::fmt;

/// The error of an allocation: the heap has no room for the object, and a collection did not free enough.
///
/// Also returned when no more finalizers can be registered, with the size of an entry as the requested bytes. Each object whose
/// type has a destructor needs such an entry, too. [`exhausted`](Self::exhausted) distinguishes the causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What is used up.
    pub exhausted: Exhausted,
    /// Requested bytes; [`OutOfMemory::BEYOND`] if the number does not fit into 64 bits.
    pub requested: usize,
    /// Bytes of live objects after the last collection.
    pub live: u64,
    /// The heap limit in bytes.
    pub limit: u64,
}

/// What an [`OutOfMemory`] has no more of.
///
/// It is whole words: the number, and the number of the variant, which is widened to the alignment of the former. In a
/// `Result<GcVec<T>, OutOfMemory>` the error overlays references. Where an error has two fields of 4 bytes, the compiler may move the
/// reference that they overlay in two halves as well, and the collector would not recognise it on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// The heap, below its limit.
    Heap,
    /// The table of registered finalizers.
    Finalizers {
        /// The number of its entries.
        entries: u64,
    },
    /// The system: it could not start the finalizer thread.
    FinalizerThread,
}

impl OutOfMemory {
    /// The value of [`requested`](Self::requested) if the size does not fit into 64 bits.
    pub const BEYOND: usize = usize::MAX;
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exhausted {
            Exhausted::Heap => {}
            Exhausted::Finalizers { entries } => {
                return write!(
                    f,
                    "the table of finalizers is full: {entries} finalizers and destructors are registered; register fewer, or \
                     keep fewer objects with a destructor alive"
                );
            }
            Exhausted::FinalizerThread => {
                return f.write_str(
                    "the finalizer thread could not be started: raise the limit of threads or of the address space of the process",
                );
            }
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        match self.requested {
            Self::BEYOND => write!(f, "out of memory: more than 2^64 bytes were asked for")?,
            bytes => write!(f, "out of memory: {bytes} bytes were asked for")?,
        }
        let (live, limit) = (mib(self.live), mib(self.limit));
        write!(f, ", {live:.1} MiB are alive, and the heap limit is {limit:.1} MiB; ")?;
        if self.requested as u64 > self.limit {
            f.write_str("no collection can make that much room: ask for less, or raise the limit")
        } else {
            f.write_str("raise the limit, or keep less alive")
        }
    }
}

impl std::error::Error for OutOfMemory {}

#[cfg(test)]
mod tests {
    use super::*;

    /// See [`Exhausted`].
    #[test]
    fn an_error_is_whole_words() {
        assert_eq!(size_of::<Exhausted>(), 2 * size_of::<u64>());
        assert_eq!(size_of::<Result<[u64; 5], OutOfMemory>>(), 6 * size_of::<u64>());
    }
}
