//! From events to what is shown, and the picture of it on a terminal.

mod losses;
mod model;
mod screen;
mod traces;
#[path = "../written/mod.rs"]
mod written;

use stopworld_diagnostics::watched::CounterValue;
use stopworld_watch::model::{History, Observation, Purpose};

/// Microseconds, in the unit of the history.
pub const US: u64 = 1000;
/// The thread that collects.
pub const COLLECTOR: u64 = 11;

/// A history of these events of one thread, of world 0, at these times in microseconds.
pub fn history(events: &[(u64, Observation)]) -> History {
    let mut history = History::default();
    events.iter().for_each(|(us, what)| history.add(us * US, COLLECTOR, 0, what.clone()));
    history
}

/// A counter has this value.
pub fn counter(name: &str, value: f64) -> Observation {
    Observation::Counter(CounterValue {
        provider: String::new(),
        name: name.into(),
        display: String::new(),
        units: "MB".into(),
        value,
        grown_in: None,
        time: 0,
    })
}

/// Threads are about to be suspended for a collection.
pub fn begin() -> Observation {
    Observation::SuspendBegin(Purpose::Collection)
}

/// A collection that the program requested starts.
pub fn start(number: i32) -> Observation {
    Observation::Start { number, generation: 2, reason: "requested", is_background: false }
}

/// A collection from 100 to 200 µs after `at`: 10 µs until the threads are stopped, 60 µs of phases, 5 µs of restart.
pub fn collection(at: u64, number: i32) -> Vec<(u64, Observation)> {
    vec![
        (at + 100, begin()),
        (at + 110, Observation::SuspendEnd),
        (at + 110, Observation::ThreadStopped { thread: 21, ns: 9 * US, waited: true }),
        (at + 110, Observation::ThreadStopped { thread: 22, ns: 4 * US, waited: true }),
        (at + 110, Observation::ThreadStopped { thread: COLLECTOR, ns: 0, waited: false }),
        (at + 111, start(number)),
        (at + 190, Observation::Times([1, 40, 4, 0, 0, 0, 15, 0])),
        (at + 191, Observation::Stats([0, 0, 4096, 1024, 0])),
        (at + 195, Observation::RestartBegin),
        (at + 200, Observation::RestartEnd),
    ]
}
