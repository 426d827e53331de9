//! From what a collection has found to reports.
//!
//! All this happens after the collection, with all locks released. It allocates, as [`OwnMemory`]: addresses of objects that
//! are being reported must not be found by the next search. A report that the program keeps stores the object's address inverted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex};

use super::allocator::{OwnMemory, unlisted_blocks};
use super::hidden::{HiddenIn, HiddenReference, names};
use super::settings::{Action, CheckPromise};
use super::traces::TraceId;
use crate::os::Errno;
use crate::sync::{AtomicBool, Lock, Locked, Ordering::Relaxed};
use stopworld_platform::symbols::Symbols;

/// The largest number of words that are remembered as reported. Then all are forgotten.
const MOST_REMEMBERED: usize = 1 << 20;

/// Where a hidden reference is, as the search notes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Block {
        address: usize,
        bytes: usize,
        trace: TraceId,
    },
    /// In a word of a live object that marking does not read.
    Object {
        address: usize,
        type_name: &'static str,
        trace: TraceId,
    },
    Static,
    ThreadLocal,
}

/// A hidden reference, as the search notes it: without names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The address of the word.
    pub(crate) slot: usize,
    pub(crate) place: Place,
    /// The payload address of the object.
    pub(crate) object: usize,
    /// How far from the beginning of the object the word points.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) type_name: &'static str,
    /// Where the object was allocated.
    pub(crate) allocated: TraceId,
}

/// Writes to the standard error stream. If that fails, there is no place where to report it.
fn print(text: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

/// A word that was reported or suppressed: its address, where it is, and the object that it referred to, with the place of its allocation.
type Key = (usize, Place, usize, TraceId);

impl Found {
    fn key(&self) -> Key {
        (self.slot, self.place, self.object, self.allocated)
    }
}

/// The words that were reported or suppressed, in order.
#[derive(Clone)]
pub(crate) struct Known(Arc<[Key]>);

impl Known {
    /// Returns whether a word is one of them. Stop-safe.
    pub(crate) fn contains(&self, found: &Found) -> bool {
        self.0.binary_search(&found.key()).is_ok()
    }
}

/// Whether the thread that reports can panic. The world's own threads must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayPanic {
    Yes,
    No,
}

/// The references of one collection that are not suppressed and were not reported before.
pub(crate) struct Named {
    /// Those that are reported, one for each object.
    shown: Vec<HiddenReference>,
    /// The number of other objects.
    others: usize,
}

/// Makes and delivers reports, each word once.
pub(crate) struct Reporter {
    settings: CheckPromise,
    known: Locked<Known>,
    /// The names of the last report. Reading debugging information takes much longer than using it.
    symbols: Mutex<Option<Symbols>>,
    /// Whether references were reported on a thread that may not panic.
    owes_panic: AtomicBool,
    /// Whether it was reported that a search could not read the memory.
    has_failed: AtomicBool,
}

impl Reporter {
    pub(crate) fn new(mut settings: CheckPromise) -> Self {
        settings.read_environment();
        Self {
            settings,
            known: Locked::new(Known(Arc::new([]))),
            symbols: Mutex::new(None),
            owes_panic: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns whether the objects of hidden references are kept alive.
    pub(crate) fn keeps(&self) -> bool {
        self.settings.action != Action::Report
    }

    /// Returns the lock of the known words. A fork takes it.
    pub(crate) fn lock(&self) -> &Lock {
        self.known.lock()
    }

    /// Returns the words that are not reported again.
    pub(crate) fn known(&self) -> Known {
        self.known.get(&self.known.lock().lock()).clone()
    }

    /// Adds words to the known ones. Returns those that were not known.
    fn learn<'f>(&self, found: &'f [Found]) -> Vec<&'f Found> {
        let mut held = self.known.lock().lock();
        let known = self.known.get_mut(&mut held);
        let new: Vec<&Found> = found.iter().filter(|reference| !known.contains(reference)).collect();
        if !new.is_empty() {
            let before: &[Key] = if known.0.len() >= MOST_REMEMBERED { &[] } else { &known.0 };
            let mut keys: Vec<Key> =
                before.iter().copied().chain(new.iter().map(|reference| reference.key())).collect();
            keys.sort_unstable();
            *known = Known(keys.into());
        }
        new
    }

    /// Names the references that were not reported before, leaves out those that are suppressed, and joins those to one object. Uses no
    /// object, so it may run in a blocking region.
    pub(crate) fn name(&self, collection: u32, found: &[Found]) -> Named {
        let _own = OwnMemory::begin();
        let mut named = Named { shown: Vec::new(), others: 0 };
        let new = self.learn(found);
        if new.is_empty() {
            return named;
        }
        // If another thread uses them, or did when this process was forked, the files are read again.
        let cached = self.symbols.try_lock().ok().and_then(|mut symbols| symbols.take());
        let mut symbols = cached.unwrap_or_else(Symbols::new);
        symbols.renew();
        let mut suppressed: HashMap<TraceId, bool> = HashMap::new();
        // For each object, inverted, the index of its reference among those that are shown.
        let mut objects: HashMap<usize, Option<usize>> = HashMap::new();
        for reference in new {
            let mut is_suppressed = |hidden_in: &HiddenIn, symbols: &mut Symbols| match reference.place {
                Place::Object { trace, .. } => {
                    self.settings.suppresses(names(hidden_in, symbols.all_places(trace.0, trace.frames())))
                }
                Place::Block { trace, .. } => *suppressed.entry(trace).or_insert_with(|| {
                    self.settings.suppresses(names(hidden_in, symbols.all_places(trace.0, trace.frames())))
                }),
                _ => self.settings.suppresses(names(hidden_in, &[])),
            };
            let hidden_in = hidden_in(reference, &mut symbols);
            if is_suppressed(&hidden_in, &mut symbols) {
                continue;
            }
            match objects.entry(!reference.object) {
                Entry::Occupied(first) => {
                    if let Some(first) = *first.get() {
                        named.shown[first].more += 1;
                    }
                }
                Entry::Vacant(none) if named.shown.len() < self.settings.most => {
                    none.insert(Some(named.shown.len()));
                    named.shown.push(HiddenReference {
                        collection,
                        kept: self.keeps(),
                        type_name: reference.type_name,
                        inverted: !reference.object,
                        bytes: reference.bytes,
                        offset: reference.offset,
                        more: 0,
                        allocated: symbols.places(reference.allocated.0, reference.allocated.frames()).to_vec(),
                        hidden_in,
                    });
                }
                Entry::Vacant(none) => {
                    none.insert(None);
                    named.others += 1;
                }
            }
        }
        if let Ok(mut cache) = self.symbols.try_lock() {
            *cache = Some(symbols);
        }
        named
    }

    /// Reports what a collection has found. `more` references had no room in the search. `refused` is why it could not read the memory.
    ///
    /// # Panics
    /// Under [`CheckPromise::panic`], if references were found.
    pub(crate) fn deliver(
        &self,
        collection: u32,
        named: &Named,
        more: u64,
        refused: Option<Errno>,
        may_panic: MayPanic,
    ) {
        for reference in &named.shown {
            match &self.settings.listener {
                Some(listener) => listener(reference),
                None => print(format_args!("{reference}")),
            }
        }
        let is_broken = !named.shown.is_empty() || named.others > 0 || more > 0;
        if self.settings.listener.is_none() {
            if named.others > 0 {
                let others = named.others;
                print(format_args!(
                    "stopworld: collection {collection}: hidden references to {others} more objects are not shown\n"
                ));
            }
            if more > 0 {
                print(format_args!(
                    "stopworld: collection {collection}: {more} more hidden references were found than one search notes\n"
                ));
            }
            if is_broken && unlisted_blocks() > 0 {
                let unlisted = unlisted_blocks();
                print(format_args!("stopworld: {unlisted} blocks were not searched: the allocator's table was full\n"));
            }
        }
        if let Some(error) = refused
            && !self.has_failed.swap(true, Relaxed)
        {
            print(format_args!(
                "stopworld: collection {collection}: check_promise searches nothing: process_vm_readv failed: {error}\n"
            ));
        }
        if self.settings.action != Action::Panic {
            return;
        }
        if may_panic == MayPanic::No || std::thread::panicking() {
            if is_broken {
                self.owes_panic.store(true, Relaxed);
            }
        } else if self.owes_panic.swap(false, Relaxed) || is_broken {
            panic!(
                "collection {collection} found hidden references: the promise of `World::attach` is broken \
                 (see the reports above)"
            );
        }
    }
}

fn hidden_in(found: &Found, symbols: &mut Symbols) -> HiddenIn {
    match found.place {
        Place::Block { address, bytes, trace } => HiddenIn::Block {
            bytes,
            offset: found.slot - address,
            allocated: symbols.places(trace.0, trace.frames()).to_vec(),
        },
        Place::Object { address, type_name, trace } => HiddenIn::Object {
            type_name,
            offset: found.slot - address,
            allocated: symbols.places(trace.0, trace.frames()).to_vec(),
        },
        Place::Static => HiddenIn::Static { name: symbols.variable(found.slot) },
        Place::ThreadLocal => HiddenIn::ThreadLocal,
    }
}
