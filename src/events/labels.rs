//! Names: numbered texts, and the texts given to addresses.
//!
//! A trace contains addresses. A text is *interned* once and gets a serial number, its [`Label`]; an address is
//! *labelled* with it. The events carry only the numbers. The text stays in the store, from which the writer of a file reads it, even
//! much later: a consumer that is added late, or that selects the User category late, first writes the content of the store,
//! so that every label in its file can be resolved.
//!
//! ```text
//!   index     | 1 | 2 | 3 | …                       where the text of this label begins; 0 until it is complete
//!   bindings  | address, label | … |                a hash table by address: the last label wins
//!   texts     | length, bytes | length, bytes | …   each from a multiple of 8, never moved, never freed
//! ```
//!
//! **No lock.** A thread may be stopped in the middle of interning, and the collector interns too. So every entry is
//! claimed by one compare-exchange, filled only by the thread that claimed it, and published by one store. A thread that is stopped in
//! between leaves a hole, which readers skip. The memory is mapped on first use (two system calls, legal everywhere); a page costs
//! nothing until it is touched.
//!
//! **One store for the process**, for all worlds, so that a number means the same text in every file.

use crate::sync::{AtomicU32, AtomicU64, Mapped, Ordering, UnsafeCell, Zeroed, zeroed};

/// The longest text, in bytes.
pub const MAX_LABEL_BYTES: usize = 255;

/// The number of a text. Texts are numbered from 1 in the order of interning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(u64);

impl Label {
    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the label with this number. It need not have a text in the store. `None` for 0, which is never a label.
    pub const fn from_raw(number: u64) -> Option<Label> {
        if number == 0 { None } else { Some(Label(number)) }
    }
}

/// Why a text or an address cannot be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The text is too long.
    #[error("a label of {bytes} bytes is too long: at most {MAX_LABEL_BYTES} bytes are allowed")]
    TooLong {
        /// The length of the text in bytes.
        bytes: usize,
    },
    /// The text contains a byte 0, at which every reader would stop.
    #[error("a label must not contain a byte 0; this one has one at byte {at}")]
    Nul {
        /// The offset of that byte.
        at: usize,
    },
    /// No text was interned with this number.
    #[error("there is no label {0}: intern its text first")]
    Unknown(u64),
    /// Address 0.
    #[error("address 0 cannot be labelled: nothing is there")]
    Nowhere,
    /// The store is full.
    #[error("the label store is full: it has room for {MOST_TEXTS} texts of {} MiB in total, and {SLOTS} addresses", TEXT_BYTES >> 20)]
    Full,
    /// The system refused memory.
    #[error("the system refused memory for labels")]
    System,
}

/// The maximum number of texts.
const MOST_TEXTS: usize = 1 << 20;
/// The size in bytes of the memory for all texts. Each text takes its bytes and its length, rounded up to a multiple of [`UNIT`].
const TEXT_BYTES: usize = 32 << 20;
/// Texts begin at multiples of this.
const UNIT: usize = 8;
/// The maximum number of addresses, approximately.
const SLOTS: usize = 1 << 20;
/// How many slots are probed for an address.
const PROBES: usize = 128;

zeroed! {
    /// An address and its label. Both are 0 while the slot is free. The address is written first, then the label.
    struct Slot {
        address: AtomicU64,
        label: AtomicU64,
    }
}

zeroed! {
    struct Store {
        index: [AtomicU32; MOST_TEXTS],
        bindings: [Slot; SLOTS],
        texts: [Unit; TEXT_BYTES / UNIT],
    }
}

/// A part of a text; the first part begins with the length. The thread that claimed the part writes it, before the index refers to it.
#[repr(transparent)]
struct Unit(UnsafeCell<[u8; UNIT]>);

// SAFETY: one thread writes it, once, before others can find it.
unsafe impl Sync for Unit {}
// SAFETY: all zero bytes are valid: it contains only bytes.
unsafe impl Zeroed for Unit {}

/// A store of labels. The process has one: [`Labels::of_the_process`].
#[derive(Debug)]
pub struct Labels {
    store: Mapped<Store>,
    /// The number of claimed texts in the upper half, the number of claimed units in the lower half.
    claimed: AtomicU64,
}

static OF_THE_PROCESS: Labels = Labels::new();

impl Labels {
    const fn new() -> Labels {
        Labels { store: Mapped::new(), claimed: AtomicU64::new(0) }
    }

    /// Returns the store that all worlds use.
    pub fn of_the_process() -> &'static Labels {
        &OF_THE_PROCESS
    }

    /// Interns a text: assigns it a number, a new one on each call.
    ///
    /// # Errors
    /// The text is too long or contains a byte 0, or the store is full.
    pub fn intern(&self, text: &str) -> Result<Label, LabelError> {
        if text.len() > MAX_LABEL_BYTES {
            return Err(LabelError::TooLong { bytes: text.len() });
        }
        if let Some(at) = text.bytes().position(|byte| byte == 0) {
            return Err(LabelError::Nul { at });
        }
        let store = self.mapped()?;
        let (number, unit) = self.claim((1 + text.len()).div_ceil(UNIT))?;
        let place = store.text_at(unit);
        // SAFETY: `claim` gave these bytes of the mapping to this call alone, enough for the length and the text.
        unsafe {
            place.write(text.len() as u8);
            std::ptr::copy_nonoverlapping(text.as_ptr(), place.add(1), text.len());
        }
        // Release: pairs with the Acquire in `text`: the text is complete.
        store.index[number].store(unit as u32 + 1, Ordering::Release);
        Ok(Label(number as u64 + 1))
    }

    /// Returns the text of a label. `None` if no text was interned with this number, or interning is not complete yet.
    pub fn text(&self, label: Label) -> Option<&str> {
        let store = self.store.get()?;
        let index = store.index.get(usize::try_from(label.0.checked_sub(1)?).ok()?)?;
        // Acquire: pairs with the Release in `intern`.
        let place = store.text_at(index.load(Ordering::Acquire).checked_sub(1)? as usize);
        // SAFETY: `intern` wrote a length and that many bytes of a `str` here, and they never change.
        unsafe {
            Some(std::str::from_utf8_unchecked(std::slice::from_raw_parts(place.add(1), usize::from(place.read()))))
        }
    }

    /// Labels an address. The label replaces the previous one.
    ///
    /// # Errors
    /// The label has no text, the address is 0, or the store is full.
    pub fn bind(&self, address: usize, label: Label) -> Result<(), LabelError> {
        self.text(label).ok_or(LabelError::Unknown(label.0))?;
        let address = address as u64;
        if address == 0 {
            return Err(LabelError::Nowhere);
        }
        for slot in self.mapped()?.probe(address) {
            let owner = match slot.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => address,
                Err(owner) => owner,
            };
            if owner == address {
                // Release: pairs with the Acquire in `label_of` and `bindings`: the label's text is visible too.
                slot.label.store(label.0, Ordering::Release);
                return Ok(());
            }
        }
        Err(LabelError::Full)
    }

    /// Returns the label of an address.
    pub fn label_of(&self, address: usize) -> Option<Label> {
        let store = self.store.get().filter(|_| address != 0)?;
        for slot in store.probe(address as u64) {
            match slot.address.load(Ordering::Relaxed) {
                0 => return None,
                // Acquire: pairs with the Release in `bind`.
                owner if owner == address as u64 => return Label::from_raw(slot.label.load(Ordering::Acquire)),
                _ => {}
            }
        }
        None
    }

    /// Returns the label of an address if it has this text. A name belongs to the address, so the label may have been made for what was
    /// there before.
    pub(crate) fn label_with(&self, address: usize, text: &str) -> Option<Label> {
        self.label_of(address).filter(|label| self.text(*label) == Some(text))
    }

    /// Returns the text of an address.
    pub fn text_of(&self, address: usize) -> Option<&str> {
        self.text(self.label_of(address)?)
    }

    /// Returns everything in the store, for a consumer that is added late: all texts in the order of their numbers, then all addresses.
    /// Names that are added during the iteration may be included or not; each of them fires an event in any case.
    pub fn iter(&self) -> impl Iterator<Item = Named<'_>> {
        self.texts().map(|(label, text)| Named::Text { label, text }).chain(self.bindings())
    }

    /// Returns every label with its text, in the order of the numbers.
    pub fn texts(&self) -> impl Iterator<Item = (Label, &str)> {
        // Acquire: pairs with the Release in `claim`, so that the mapping is visible if a text was claimed.
        let claimed = self.claimed.load(Ordering::Acquire) >> 32;
        (1..=claimed).map(Label).filter_map(|label| Some((label, self.text(label)?)))
    }

    fn bindings(&self) -> impl Iterator<Item = Named<'_>> {
        let slots = self.store.get().map_or(&[] as &[Slot], |store| &store.bindings);
        slots.iter().filter_map(|slot| {
            // Acquire: pairs with the Release in `bind`; the address was written before.
            let label = Label::from_raw(slot.label.load(Ordering::Acquire))?;
            Some(Named::Address { address: slot.address.load(Ordering::Relaxed) as usize, label })
        })
    }

    /// Takes the next number and `units` units of text. Returns the number's index and the first unit.
    fn claim(&self, units: usize) -> Result<(usize, usize), LabelError> {
        let mut seen = self.claimed.load(Ordering::Relaxed);
        loop {
            let (numbers, used) = ((seen >> 32) as usize, seen as u32 as usize);
            if numbers == MOST_TEXTS || used + units > TEXT_BYTES / UNIT {
                return Err(LabelError::Full);
            }
            let next = (numbers as u64 + 1) << 32 | (used + units) as u64;
            // Release: pairs with the Acquire in `texts`.
            match self.claimed.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok((numbers, used)),
                Err(now) => seen = now,
            }
        }
    }

    fn mapped(&self) -> Result<&'static Store, LabelError> {
        self.store.map(|_| ()).map_err(|_| LabelError::System)
    }
}

impl Store {
    /// Returns the address of the text that begins with this unit, which must be in bounds.
    fn text_at(&self, unit: usize) -> *mut u8 {
        debug_assert!(unit < self.texts.len());
        // The pointer is derived from the whole array, not from one unit, because the text continues in the next units.
        self.texts.as_ptr().wrapping_add(unit).cast::<u8>().cast_mut()
    }

    /// Returns the slots in which an address may be, the preferred one first.
    fn probe(&self, address: u64) -> impl Iterator<Item = &Slot> {
        // Fibonacci hashing, because addresses are multiples of 8 and close together.
        let first = ((address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.trailing_zeros())) as usize;
        (0..PROBES).map(move |step| &self.bindings[(first + step) % SLOTS])
    }
}

/// An entry of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// A label and its text.
    Text {
        /// The label.
        label: Label,
        /// The text.
        text: &'a str,
    },
    /// An address and its label.
    Address {
        /// The address.
        address: usize,
        /// Its latest label.
        label: Label,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Stores are never unmapped; a test leaks its own.
    fn store() -> &'static Labels {
        Box::leak(Box::new(Labels::new()))
    }

    #[test]
    fn numbers_are_serial_from_one_and_a_repeated_text_gets_a_new_one() {
        let labels = store();
        assert_eq!(labels.texts().count(), 0);
        assert_eq!(labels.text(Label(1)), None);
        let numbers: Vec<u64> = ["a", "", "a"].iter().map(|text| labels.intern(text).unwrap().get()).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(labels.texts().map(|(_, text)| text).collect::<Vec<_>>(), ["a", "", "a"]);
        assert_eq!(labels.text(Label(4)), None);
        assert_eq!(labels.text(Label(u64::MAX)), None);
        assert_eq!(Label::from_raw(0), None);
    }

    #[rstest]
    #[case(&"x".repeat(255), Ok(Label(1)))]
    #[case(&"x".repeat(256), Err(LabelError::TooLong { bytes: 256 }))]
    #[case("a\0b", Err(LabelError::Nul { at: 1 }))]
    fn a_text_that_readers_could_not_read_is_refused(#[case] text: &str, #[case] answer: Result<Label, LabelError>) {
        assert_eq!(store().intern(text), answer);
    }

    #[test]
    fn an_address_has_its_latest_label() {
        let labels = store();
        let [one, two] = ["one", "two"].map(|text| labels.intern(text).unwrap());
        assert_eq!(labels.label_of(0x1000), None);
        labels.bind(0x1000, one).unwrap();
        labels.bind(0x1008, one).unwrap();
        labels.bind(0x1000, two).unwrap();
        assert_eq!(labels.text_of(0x1000), Some("two"));
        assert_eq!(labels.text_of(0x1008), Some("one"));
        assert_eq!(labels.bind(0x1000, Label(3)), Err(LabelError::Unknown(3)));
        assert_eq!(labels.bind(0, one), Err(LabelError::Nowhere));
        let mut all: Vec<_> = labels.iter().collect();
        assert_eq!(all.drain(..2).collect::<Vec<_>>().len(), 2);
        all.sort_by_key(|named| matches!(named, Named::Address { address: 0x1008, .. }));
        let expected = [(0x1000, two), (0x1008, one)].map(|(address, label)| Named::Address { address, label });
        assert_eq!(all, expected);
    }

    #[test]
    fn a_full_store_is_an_error_and_keeps_its_texts() {
        let labels = store();
        let text = "y".repeat(255);
        let fit = TEXT_BYTES / 256;
        for number in 0..fit {
            assert_eq!(labels.intern(&text), Ok(Label(number as u64 + 1)));
        }
        assert_eq!(labels.intern(&text), Err(LabelError::Full));
        assert_eq!(labels.text(Label(fit as u64)), Some(text.as_str()));
    }

    #[test]
    fn threads_that_intern_at_once_get_different_numbers_and_whole_texts() {
        const EACH: usize = 20_000;
        let labels = store();
        let mine: Vec<HashMap<u64, String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    scope.spawn(move || {
                        let named = |number| {
                            let text = format!("{thread}-{number}");
                            let label = labels.intern(&text).unwrap();
                            labels.bind(label.get() as usize * 8, label).unwrap();
                            (label.get(), text)
                        };
                        (0..EACH).map(named).collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let all: HashMap<u64, &String> = mine.iter().flatten().map(|(number, text)| (*number, text)).collect();
        assert_eq!(all.len(), 4 * EACH, "a number was given twice");
        assert_eq!(labels.texts().count(), 4 * EACH);
        for (number, text) in all {
            assert_eq!(labels.text(Label(number)), Some(text.as_str()));
            assert_eq!(labels.text_of(number as usize * 8), Some(text.as_str()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// The oracle is a map.
        #[test]
        fn the_store_is_a_map_from_addresses_to_texts(
            steps in proptest::collection::vec((1_usize..40, ".{0,40}"), 1..100),
        ) {
            let labels = store();
            let mut oracle = HashMap::new();
            for (address, text) in steps {
                let text = text.replace('\0', "");
                let label = labels.intern(&text).unwrap();
                labels.bind(address * 8, label).unwrap();
                oracle.insert(address * 8, text);
            }
            for (address, text) in &oracle {
                prop_assert_eq!(labels.text_of(*address), Some(text.as_str()));
            }
            prop_assert_eq!(labels.bindings().count(), oracle.len());
        }
    }
}
