//! Cost centres: parts of a program that costs are charged to.
//!
//! A centre has three texts (name, module, place in the source) and a number, its [`CentreId`]. The same three texts always get
//! the same number. So a name that is defined again is no new centre, for example when an interpreter compiles a program a
//! second time.
//!
//! ```text
//!   entries | centre 1 | centre 2 | …             labels of the three texts, and flags; 0 until the entry is complete
//!   index   | hash, centre | … |                  a hash table keyed by the texts
//! ```
//!
//! The texts themselves are in the store of [`labels`](crate::events::labels). Events refer to them by their label numbers.
//!
//! **No lock**, as in that store. A thread claims a number, fills its entry, and publishes it with one store; then it adds the
//! entry to the index with one compare-exchange. If two threads define the same centre at the same time, the store may contain
//! two entries; all threads use the one that is in the index.
//!
//! The first seven centres are the built-in ones of GHC. Its tools use them to recognise costs outside the program.

use super::numbers::{BUILT_IN_TEXTS, CENTRE_BITS, CentreId};
use crate::events::labels::MAX_LABEL_BYTES;
use crate::events::{Label, Labels};
use crate::sync::{AtomicU32, AtomicU64, Mapped, Ordering, zeroed};

/// Maximum number of centres.
const MOST_CENTRES: usize = (1 << CENTRE_BITS) - 1;
/// Number of slots of the index.
const SLOTS: usize = 1 << (CENTRE_BITS + 1);
/// Maximum number of index slots to probe for a centre.
const PROBES: usize = 64;
/// Number of recent centres to check for the same text before it is interned.
const LOOKED_BACK: u32 = 4;

/// Flag: the entry is complete.
const READY: u32 = 1 << 31;
/// Flag: the centre belongs to the whole program and not to a caller.
const CAF: u32 = 1;

zeroed! {
    /// The entry of a centre. It is all zeros until the centre is published.
    struct Entry {
        label: AtomicU32,
        module: AtomicU32,
        place: AtomicU32,
        /// The flags, which are written last.
        flags: AtomicU32,
    }
}

zeroed! {
    /// All centres, by their numbers, and the index.
    struct Store {
        entries: [Entry; MOST_CENTRES + 1],
        index: [AtomicU64; SLOTS],
    }
}

impl CentreId {
    /// Returns the centre's name; empty if the centre does not exist.
    pub fn label(self) -> &'static str {
        self.text(|entry| &entry.label)
    }

    /// Returns the centre's module.
    pub fn module(self) -> &'static str {
        self.text(|entry| &entry.module)
    }

    /// Returns the centre's place in the source.
    pub fn place(self) -> &'static str {
        self.text(|entry| &entry.place)
    }

    /// Returns whether the centre belongs to the whole program and not to a caller.
    pub fn is_caf(self) -> bool {
        OF_THE_PROCESS.entry(self).is_some_and(|entry| entry.flags.load(Ordering::Relaxed) & CAF != 0)
    }

    /// Returns the labels of the centre's texts (name, module, place), as in events; 0 for a missing text.
    pub fn labels(self) -> [u64; 3] {
        let numbers =
            |entry: &Entry| [&entry.label, &entry.module, &entry.place].map(|l| l.load(Ordering::Relaxed).into());
        OF_THE_PROCESS.entry(self).map_or([0; 3], numbers)
    }

    fn text(self, which: impl FnOnce(&Entry) -> &AtomicU32) -> &'static str {
        let number = OF_THE_PROCESS.entry(self).map_or(0, |entry| which(entry).load(Ordering::Relaxed));
        text_of(number)
    }
}

fn interned(text: &str) -> Option<u32> {
    Labels::of_the_process().intern(text).ok().map(|label| label.get() as u32)
}

fn text_of(label: u32) -> &'static str {
    Label::from_raw(label.into()).and_then(|label| Labels::of_the_process().text(label)).unwrap_or("")
}

/// A store of centres. The process has one.
#[derive(Debug)]
pub(super) struct Centres {
    memory: Mapped<Store>,
    /// How many numbers are claimed, including those of the built-in centres.
    claimed: AtomicU32,
}

static OF_THE_PROCESS: Centres = Centres::new();

impl Centres {
    const fn new() -> Centres {
        Centres { memory: Mapped::new(), claimed: AtomicU32::new(CentreId::BUILT_IN.len() as u32) }
    }

    pub(super) fn of_the_process() -> &'static Centres {
        &OF_THE_PROCESS
    }

    /// Returns the centre with these texts, and whether it is new. If the store is full, returns `DONT_CARE`.
    pub(super) fn define(&self, label: &str, module: &str, place: &str) -> (CentreId, Novelty) {
        let texts = [label, module, place].map(fitting);
        self.find_or_add(texts).unwrap_or((CentreId::DONT_CARE, Novelty::Known))
    }

    fn find_or_add(&self, texts: [&str; 3]) -> Option<(CentreId, Novelty)> {
        let store = self.memory.map(prepare).ok()?;
        let hash = hash(texts);
        let mut mine = None;
        for slot in store.probe(hash) {
            // Acquire: pairs with the Release below: the entry is complete.
            let mut owner = slot.load(Ordering::Acquire);
            if owner == 0 {
                let number = match mine {
                    Some(number) => number,
                    None => *mine.insert(self.add(store, texts)?),
                };
                // Release: pairs with the Acquires here.
                match slot.compare_exchange(0, packed(hash, number), Ordering::Release, Ordering::Acquire) {
                    Ok(_) => return Some((CentreId(number), Novelty::New)),
                    Err(now) => owner = now,
                }
            }
            if owner >> 32 == u64::from(hash) && texts_of(store.entry(owner as u32)) == texts {
                return Some((CentreId(owner as u32), Novelty::Known));
            }
        }
        None
    }

    /// Adds an entry and returns its number.
    fn add(&self, store: &'static Store, texts: [&str; 3]) -> Option<u32> {
        let module = self.recent(store, |entry| &entry.module, texts[1]).or_else(|| interned(texts[1]))?;
        let place = self.recent(store, |entry| &entry.place, texts[2]).or_else(|| interned(texts[2]))?;
        let labels = [interned(texts[0])?, module, place];
        let next = |last: u32| (last < MOST_CENTRES as u32).then_some(last + 1);
        let number = self.claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()? + 1;
        publish(store.entry(number), labels, READY);
        Some(number)
    }

    /// Returns the label of a text if one of the most recent centres uses the same text.
    fn recent(&self, store: &'static Store, of: fn(&Entry) -> &AtomicU32, text: &str) -> Option<u32> {
        let last = self.claimed.load(Ordering::Relaxed);
        let recent = (last.saturating_sub(LOOKED_BACK).max(1)..=last).rev().map(|number| store.entry(number));
        // Acquire: pairs with the Release in `publish`.
        let complete = recent.filter(|entry| entry.flags.load(Ordering::Acquire) & READY != 0);
        complete.map(|entry| of(entry).load(Ordering::Relaxed)).find(|&label| text_of(label) == text)
    }

    fn entry(&self, centre: CentreId) -> Option<&'static Entry> {
        let store = self.memory.get().filter(|_| (1..=MOST_CENTRES).contains(&(centre.0 as usize)))?;
        let entry = store.entry(centre.0);
        // Acquire: pairs with the Release in `publish`: the labels are there.
        (entry.flags.load(Ordering::Acquire) & READY != 0).then_some(entry)
    }

    /// Every centre, in the order of the numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = CentreId> {
        // Relaxed: an entry's flags show whether it is complete.
        let claimed = if self.memory.get().is_some() { self.claimed.load(Ordering::Relaxed) } else { 0 };
        (1..=claimed).map(CentreId).filter(|centre| self.entry(*centre).is_some())
    }

    /// Makes the built-in centres readable, so that they can be listed before any centre is defined.
    pub(super) fn prepare(&self) {
        // If the memory cannot be mapped, there are no centres to list.
        let _ = self.memory.map(prepare);
    }
}

impl Store {
    /// The entry of the centre with this number, which must be in bounds.
    fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize]
    }

    /// The index slots in which a centre may be, in probing order.
    fn probe(&self, hash: u32) -> impl Iterator<Item = &AtomicU64> {
        (0..PROBES).map(move |step| &self.index[(hash as usize + step) % SLOTS])
    }
}

/// Whether a centre existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    Known,
    New,
}

/// Writes the built-in centres.
fn prepare(store: &Store) {
    for (number, texts) in (1..).zip(BUILT_IN_TEXTS) {
        let labels = texts.map(|text| interned(text).unwrap_or(0));
        publish(store.entry(number), labels, READY);
        let hash = hash(texts);
        if let Some(free) = store.probe(hash).find(|slot| slot.load(Ordering::Relaxed) == 0) {
            free.store(packed(hash, number), Ordering::Relaxed);
        }
    }
}

fn publish(entry: &Entry, labels: [u32; 3], flags: u32) {
    let words = [&entry.label, &entry.module, &entry.place];
    words.into_iter().zip(labels).for_each(|(word, label)| word.store(label, Ordering::Relaxed));
    // Release: pairs with the Acquire of the readers of the labels.
    entry.flags.store(flags, Ordering::Release);
}

fn texts_of(entry: &Entry) -> [&'static str; 3] {
    [&entry.label, &entry.module, &entry.place].map(|label| text_of(label.load(Ordering::Relaxed)))
}

const fn packed(hash: u32, number: u32) -> u64 {
    (hash as u64) << 32 | number as u64
}

/// FNV-1a over the texts, with a separator that cannot occur in a text.
fn hash(texts: [&str; 3]) -> u32 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash >> 32) as u32 ^ hash as u32
}

/// The longest prefix of a text that is a valid label: it ends before the first NUL, and at a character boundary.
fn fitting(text: &str) -> &str {
    let text = text.split('\0').next().unwrap_or("");
    &text[..text.floor_char_boundary(MAX_LABEL_BYTES)]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Stores are never unmapped; a test leaks its own.
    fn store() -> &'static Centres {
        Box::leak(Box::new(Centres::new()))
    }

    fn texts(store: &Centres, centre: CentreId) -> [&'static str; 3] {
        store.entry(centre).map_or([""; 3], texts_of)
    }

    #[test]
    fn the_same_texts_are_the_same_centre() {
        let store = store();
        let (first, novelty) = store.define("push", "stack", "stack.rs:1");
        assert_eq!((first.get(), novelty), (8, Novelty::New));
        assert_eq!(store.define("push", "stack", "stack.rs:1"), (first, Novelty::Known));
        let others = [("pop", "stack", "stack.rs:1"), ("push", "queue", "stack.rs:1"), ("push", "stack", "stack.rs:2")];
        for (number, (label, module, place)) in (9..).zip(others) {
            assert_eq!(store.define(label, module, place), (CentreId(number), Novelty::New));
            assert_eq!(texts(store, CentreId(number)), [label, module, place]);
        }
        assert_eq!(store.iter().count(), 7 + 4);
    }

    #[test]
    fn the_built_in_centres_are_those_of_ghc_and_come_first() {
        let store = store();
        assert_eq!(store.iter().count(), 0);
        store.prepare();
        let all: Vec<_> = store.iter().map(|centre| texts(store, centre)).collect();
        let names = ["MAIN", "SYSTEM", "GC", "OVERHEAD_of", "DONT_CARE", "PINNED", "IDLE"];
        assert_eq!(all.iter().map(|texts| texts[0]).collect::<Vec<_>>(), names);
        assert!(all.iter().all(|texts| texts[2] == "<built-in>"));
        assert_eq!(store.define("GC", "GC", "<built-in>"), (CentreId::GC, Novelty::Known));
    }

    #[rstest]
    #[case("", "")]
    #[case("a\0b", "a")]
    #[case(&"x".repeat(300), &"x".repeat(255))]
    #[case(&"é".repeat(200), &"é".repeat(127))]
    fn a_name_that_is_no_valid_label_is_cut(#[case] given: &str, #[case] kept: &str) {
        let store = store();
        let (centre, _) = store.define(given, "m", "p");
        assert_eq!(texts(store, centre), [kept, "m", "p"]);
        assert_eq!(store.define(kept, "m", "p").0, centre);
    }

    #[test]
    fn threads_that_define_the_same_centres_at_once_agree() {
        let store = store();
        let numbers: Vec<Vec<CentreId>> = std::thread::scope(|scope| {
            let define = |number: u32| store.define(&number.to_string(), "m", "p").0;
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(move || (0..2000).map(define).collect())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(numbers.iter().all(|of_thread| *of_thread == numbers[0]), "one centre has two numbers");
        for (number, centre) in numbers[0].iter().enumerate() {
            assert_eq!(texts(store, *centre)[0], number.to_string());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// The oracle is a map.
        #[test]
        fn the_store_is_a_map_from_texts_to_numbers(
            names in proptest::collection::vec(("[a-c]{0,2}", "[ab]{0,1}", "[ab]{0,1}"), 1..100),
        ) {
            let store = store();
            let mut oracle = HashMap::new();
            for (label, module, place) in names {
                let next = CentreId(8 + oracle.len() as u32);
                let (centre, novelty) = store.define(&label, &module, &place);
                let is_new = !oracle.contains_key(&(label.clone(), module.clone(), place.clone()));
                prop_assert_eq!(novelty == Novelty::New, is_new);
                let known = *oracle.entry((label, module, place)).or_insert(next);
                prop_assert_eq!(centre, known);
            }
            for ((label, module, place), centre) in oracle {
                prop_assert_eq!(texts(store, centre), [label.as_str(), &module, &place]);
            }
        }
    }
}
