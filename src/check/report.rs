//! From what a collection has found to reports.
//!
//! All this happens after the world has restarted, with all locks released. It allocates, as [`OwnMemory`]: addresses of objects that
//! are being reported must not be found by the next search. A report that the program keeps stores the object's address inverted.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Write;
use std::sync::Mutex;

use super::allocator::{OwnMemory, unlisted_blocks};
use super::hidden::{HiddenIn, HiddenReference};
use super::settings::{Action, CheckPromise};
use super::symbols::Symbols;
use super::traces::TraceId;

/// The largest number of words that are remembered as reported. Then all are forgotten.
const MOST_REMEMBERED: usize = 1 << 16;

/// Where a hidden reference is, as the search notes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Block { address: usize, bytes: usize, trace: TraceId },
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

/// A word that was reported: its address, and what it was said to refer to.
type Reported = (usize, Place, usize, TraceId);

/// Makes and delivers reports, each word once.
pub(crate) struct Reporter {
    settings: CheckPromise,
    reported: Mutex<HashSet<Reported>>,
}

impl Reporter {
    pub(crate) fn new(mut settings: CheckPromise) -> Self {
        settings.read_environment();
        Self { settings, reported: Mutex::new(HashSet::new()) }
    }

    /// Returns whether the objects of hidden references are kept alive.
    pub(crate) fn keeps(&self) -> bool {
        self.settings.action != Action::Report
    }

    /// Reports what a collection has found; `more` references had no room in `found`.
    ///
    /// # Panics
    /// Under [`CheckPromise::panic`], if a reference was reported.
    pub(crate) fn report(&self, collection: u32, found: &[Found], more: u64) {
        let mut others = more;
        let mut delivered = 0;
        for reference in self.name_new_ones(collection, found) {
            if delivered == self.settings.most {
                others += 1;
                continue;
            }
            delivered += 1;
            match &self.settings.listener {
                Some(listener) => listener(&reference),
                None => print(format_args!("{reference}")),
            }
        }
        if others > 0 && self.settings.listener.is_none() {
            print(format_args!("stopworld: collection {collection}: {others} more hidden references are not shown\n"));
        }
        if delivered > 0 && unlisted_blocks() > 0 && self.settings.listener.is_none() {
            let unlisted = unlisted_blocks();
            print(format_args!("stopworld: {unlisted} blocks were not searched: the allocator's table was full\n"));
        }
        if delivered > 0 && self.settings.action == Action::Panic && !std::thread::panicking() {
            panic!(
                "collection {collection} found hidden references: the promise of `World::attach` is broken \
                 (see the reports above)"
            );
        }
    }

    /// Names the references that were not reported before, leaves out those that are suppressed, and joins those to one object.
    fn name_new_ones(&self, collection: u32, found: &[Found]) -> Vec<HiddenReference> {
        let _own = OwnMemory::begin();
        let is_new = |reference: &&Found| {
            let key = (reference.slot, reference.place, reference.object, reference.allocated);
            // If another thread is here, or was here when this process was forked, the reference may be reported twice.
            let Ok(mut reported) = self.reported.try_lock() else { return true };
            if reported.len() >= MOST_REMEMBERED {
                reported.clear();
            }
            reported.insert(key)
        };
        let new: Vec<&Found> = found.iter().filter(is_new).collect();
        if new.is_empty() {
            return Vec::new();
        }
        let mut symbols = Symbols::new();
        let named = new.into_iter().map(|reference| self.name(collection, reference, &mut symbols));
        let mut by_object: Vec<HiddenReference> = Vec::new();
        let mut index: HashMap<usize, usize> = HashMap::new();
        for reference in named.filter(|reference| !self.settings.suppresses(reference.names())) {
            match index.entry(reference.inverted) {
                Entry::Occupied(first) => by_object[*first.get()].more += 1,
                Entry::Vacant(none) => {
                    none.insert(by_object.len());
                    by_object.push(reference);
                }
            }
        }
        by_object
    }

    fn name(&self, collection: u32, found: &Found, symbols: &mut Symbols) -> HiddenReference {
        let hidden_in = match found.place {
            Place::Block { address, bytes, trace } => {
                HiddenIn::Block { bytes, offset: found.slot - address, allocated: symbols.places(trace) }
            }
            Place::Static => HiddenIn::Static { name: symbols.variable(found.slot) },
            Place::ThreadLocal => HiddenIn::ThreadLocal,
        };
        HiddenReference {
            collection,
            kept: self.keeps(),
            type_name: found.type_name,
            inverted: !found.object,
            bytes: found.bytes,
            offset: found.offset,
            more: 0,
            allocated: symbols.places(found.allocated),
            hidden_in,
        }
    }
}
