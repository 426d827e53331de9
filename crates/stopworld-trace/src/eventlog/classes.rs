//! The classes of events in a log, selected with the letters of the GHC option `-l`.
//!
//! | letter | class |
//! |---|---|
//! | `s` | threads: attach, stop, run and detach |
//! | `g` | collections, and the state of the heap |
//! | `u` | messages and markers of the program |
//! | `a` | all of these |
//!
//! A letter after `-` is removed, as in `-l-gu`. The other letters of GHC (`p` `f` `n` `T`) select events that do not exist here: those of
//! sparks, of the concurrent collector, of entry counters. The letters do not select profiles: a log contains every profile that is taken.

use stopworld::events::{EventId, EventSet};

/// The selected classes of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Threads.
    pub threads: bool,
    /// Collections and the heap.
    pub collections: bool,
    /// Messages and markers.
    pub user: bool,
}

/// A letter that is not a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a class; the classes are s (threads), g (collections), u (messages), a (all); - before a letter removes it"
)]
pub struct UnknownClass(pub char);

impl Default for Classes {
    fn default() -> Classes {
        Classes { threads: true, collections: true, user: true }
    }
}

impl Classes {
    /// Parses letters as in the argument of the GHC option `-l`. If the text is empty or begins with `-`, all classes are selected at
    /// first.
    ///
    /// # Errors
    /// A letter is not a class.
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

    /// Returns the events to record.
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

/// The events that are recorded for any selection of classes: worlds, failures, and profiles (which exist only if they were requested).
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
    fn letters_are_parsed_as_by_ghc(#[case] text: &str, #[case] expected: &str) {
        let Classes { threads, collections, user } = Classes::parse(text).unwrap();
        let letters = [(threads, "s"), (collections, "g"), (user, "u")];
        let on: String = letters.iter().filter(|(on, _)| *on).map(|(_, letter)| *letter).collect();
        assert_eq!(on, expected);
    }

    #[test]
    fn an_unknown_letter_is_an_error() {
        assert_eq!(Classes::parse("sT"), Err(UnknownClass('T')));
    }
}
