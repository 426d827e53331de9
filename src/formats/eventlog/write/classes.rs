//! Which events a log has, in the words of GHC's `-l`.
//!
//! | letter | class |
//! |---|---|
//! | `s` | threads: their coming, stopping and going |
//! | `g` | collections, and what the heap is |
//! | `u` | messages and markers of the program's |
//! | `a` | all of these |
//!
//! A letter behind `-` is taken out, as in `-l-gu`. GHC's other letters (`p` `f` `n` `T`) stand for things that are not here: sparks, the
//! concurrent collector, entry counters. Profiles are in a log if they are taken, whatever the letters are.

use crate::events::{EventId, EventSet};

/// Classes of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Threads.
    pub threads: bool,
    /// Collections and the heap.
    pub collections: bool,
    /// Messages and markers.
    pub user: bool,
}

/// A letter that stands for no class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is none of the classes s (threads) g (collections) u (messages) a (all); - before a letter takes it out"
)]
pub struct UnknownClass(pub char);

impl Default for Classes {
    fn default() -> Classes {
        Classes { threads: true, collections: true, user: true }
    }
}

impl Classes {
    /// Reads letters, as they stand behind GHC's `-l`. Without any, and if only some are taken out, it begins with all.
    ///
    /// # Errors
    /// A letter stands for no class.
    pub fn parse(text: &str) -> Result<Classes, UnknownClass> {
        let mut classes = Classes { threads: false, collections: false, user: false };
        if text.is_empty() || text.starts_with('-') {
            classes = Classes::default();
        }
        let mut on = true;
        for letter in text.chars() {
            match letter {
                '-' => {
                    on = false;
                    continue;
                }
                's' => classes.threads = on,
                'g' => classes.collections = on,
                'u' => classes.user = on,
                'a' => classes = Classes { threads: on, collections: on, user: on },
                letter => return Err(UnknownClass(letter)),
            }
            on = true;
        }
        Ok(classes)
    }

    /// What is to be recorded.
    pub(super) fn events(self) -> EventSet {
        let mut events: Vec<EventId> = ALWAYS.to_vec();
        if self.threads {
            events.extend(THREADS);
        }
        if self.collections {
            events.extend(COLLECTIONS);
        }
        if self.user {
            events.extend([EventId::UserMessage, EventId::UserMarker]);
        }
        events.into_iter().collect()
    }
}

/// Worlds, what went wrong, and profiles, which nobody takes who does not want them.
const ALWAYS: [EventId; 17] = [
    EventId::WorldCreated,
    EventId::WorldClosed,
    EventId::StopAbandoned,
    EventId::CollectionDiscarded,
    EventId::VtableSwapped,
    EventId::AllocationFailed,
    EventId::DebuggerAttached,
    EventId::DebuggerDetached,
    EventId::DebuggerLost,
    EventId::CensusProfileBegin,
    EventId::CensusFilter,
    EventId::CostCentre,
    EventId::CensusBegin,
    EventId::CensusBand,
    EventId::CensusEnd,
    EventId::TickerBegin,
    EventId::Tick,
];

const THREADS: [EventId; 5] =
    [EventId::ThreadAttached, EventId::ThreadDetached, EventId::SuspendBegin, EventId::SuspendEnd, EventId::RestartEnd];

const COLLECTIONS: [EventId; 13] = [
    EventId::SuspendBegin,
    EventId::SuspendEnd,
    EventId::GcStart,
    EventId::RootsBegin,
    EventId::MarkerJoined,
    EventId::MarkEnd,
    EventId::HeapBefore,
    EventId::SweepEnd,
    EventId::GcEnd,
    EventId::HeapStats,
    EventId::RestartEnd,
    EventId::SegmentCreated,
    EventId::SegmentFreed,
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", "sgu")]
    #[case("a", "sgu")]
    #[case("s", "s")]
    #[case("gu", "gu")]
    #[case("-s", "gu")]
    #[case("-sg", "gu")]
    #[case("-a", "")]
    #[case("-au", "u")]
    fn letters_are_read_as_by_ghc(#[case] text: &str, #[case] expected: &str) {
        let Classes { threads, collections, user } = Classes::parse(text).unwrap();
        let letters = [(threads, "s"), (collections, "g"), (user, "u")];
        let on: String = letters.iter().filter(|(on, _)| *on).map(|(_, letter)| *letter).collect();
        assert_eq!(on, expected);
    }

    #[test]
    fn a_letter_of_something_else_is_none() {
        assert_eq!(Classes::parse("sT"), Err(UnknownClass('T')));
    }
}
