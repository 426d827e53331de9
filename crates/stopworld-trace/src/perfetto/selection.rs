//! The events on a timeline: the default, and a selection as text.

use stopworld::events::{EventId, EventSet, Group};
use stopworld_platform::suggest;

/// The events of a heap dump. The collector makes a dump only if they are requested.
const DUMP: [EventId; 5] =
    [EventId::DumpNode, EventId::DumpEdge, EventId::DumpStack, EventId::DumpRoot, EventId::DumpEnd];

/// Returns the default events: all except those fired for each object, reference or block, or for each thread of a stop, those that only name
/// addresses, and heap dumps, which would be made only for this trace.
pub fn usual() -> EventSet {
    let many = EventSet::group(Group::Object) | EventSet::group(Group::Block);
    let others = [
        EventId::Interned,
        EventId::Labelled,
        EventId::ObjectSampled,
        EventId::AllocationSampled,
        EventId::ThreadStopped,
    ];
    let others: EventSet = others.into_iter().chain(DUMP).collect();
    EventSet::all().without(many | others)
}

/// Parses a list of groups of the table of events: `Collection Memory`. Heap dumps are included only with `all`.
///
/// # Errors
/// A message with the word that is not a group's name, the list of groups, and the most similar name.
pub fn groups(text: &str) -> Result<EventSet, String> {
    let mut events = EventSet::NONE;
    let dumps: EventSet = DUMP.into_iter().collect();
    for word in text.split([' ', ',', '+']).filter(|word| !word.is_empty()) {
        let named = |group: &&Group| format!("{group:?}").eq_ignore_ascii_case(word);
        match Group::ALL.iter().find(named) {
            Some(group) => events |= EventSet::group(*group).without(dumps),
            None if word.eq_ignore_ascii_case("all") => return Ok(EventSet::all()),
            None => {
                let names = Group::ALL.map(|group| format!("{group:?}"));
                let guess = suggest::nearest(word, names.iter().map(String::as_str));
                let guess = guess.map_or(String::new(), |name| format!(": did you mean '{name}'?"));
                return Err(format!("'{word}' is not one of the groups {}, or all{guess}", names.join(" ")));
            }
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of many threads would have as many marks on its timeline for each stop.
    #[test]
    fn the_stops_of_threads_are_on_a_timeline_only_if_requested() {
        assert!(!usual().contains(EventId::ThreadStopped));
        assert!(usual().contains(EventId::SuspendEnd));
        assert!(groups("collection").unwrap().contains(EventId::ThreadStopped));
    }
}
