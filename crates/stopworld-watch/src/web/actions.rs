//! The actions of the page, and whether each can be requested at the moment.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::batch::Availability;

/// Why an action failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionError {
    /// This time; it can be requested again.
    Failed(String),
    /// The process cannot do it at all.
    Unsupported(String),
    /// The process has several worlds: one of these must be selected.
    SeveralWorlds(Vec<u64>),
}

/// What the page can request of the process. Each call may take as long as it needs, and there is at most one call of each at a time.
pub trait Actions: Send + Sync + 'static {
    /// Requests a collection, and returns after it.
    ///
    /// # Errors
    /// The process did not collect.
    fn collect(&self) -> Result<(), ActionError>;

    /// Returns a file with a heap snapshot for Chrome DevTools, to be read from its beginning: of the heap of `world`, or of the only one.
    ///
    /// # Errors
    /// There is no snapshot, or no world is selected of several.
    fn snapshot(&self, world: Option<u64>) -> Result<File, ActionError>;

    /// Records for ten seconds, and returns a file with the trace, to be read from its beginning.
    ///
    /// # Errors
    /// There is no trace.
    fn record(&self) -> Result<File, ActionError>;
}

/// An action of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Collect,
    Snapshot,
    Record,
}

impl Action {
    pub(crate) const ALL: [Action; 3] = [Action::Collect, Action::Snapshot, Action::Record];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::Collect => "collect",
            Action::Snapshot => "snapshot",
            Action::Record => "record",
        }
    }

    /// Returns the action of this name.
    pub(crate) fn named(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Performs the action, in a world if one is selected. Returns the file to download, if it makes one.
    pub(crate) fn perform(self, actions: &dyn Actions, world: Option<u64>) -> Result<Option<File>, ActionError> {
        match self {
            Action::Collect => actions.collect().map(|()| None),
            Action::Snapshot => actions.snapshot(world).map(Some),
            Action::Record => actions.record().map(Some),
        }
    }
}

/// Whether an action runs, and whether the process can do it.
#[derive(Clone, Debug, Default)]
struct State {
    runs: bool,
    unsupported: Option<String>,
}

/// The states of all actions. Clones refer to the same states.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionStates(Arc<Mutex<[State; 3]>>);

impl ActionStates {
    fn locked(&self) -> MutexGuard<'_, [State; 3]> {
        // A panic under the lock leaves the states as they were.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether each action can be requested; `ended` is why the process cannot be reached any more.
    pub(crate) fn availability(&self, ended: Option<&str>) -> [Availability; 3] {
        let states = self.locked().clone();
        let mut states = states.into_iter();
        Action::ALL.map(|action| {
            let state = states.next().unwrap_or_default();
            let running = state.runs.then(|| "in progress".to_owned());
            let reason = ended.map(str::to_owned).or(state.unsupported).or(running);
            Availability { name: action.name(), reason }
        })
    }

    /// Begins an action. `None` if it runs already.
    pub(crate) fn begin(&self, action: Action) -> Option<Running> {
        let mut states = self.locked();
        let runs = &mut states[action as usize].runs;
        if std::mem::replace(runs, true) { None } else { Some(Running { states: self.clone(), action }) }
    }
}

/// An action that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    states: ActionStates,
    action: Action,
}

impl Running {
    /// Notes that the process cannot do it.
    pub(crate) fn is_unsupported(&self, reason: &str) {
        self.states.locked()[self.action as usize].unsupported = Some(reason.to_owned());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.states.locked()[self.action as usize].runs = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(states: &ActionStates, ended: Option<&str>) -> Vec<Option<String>> {
        states.availability(ended).into_iter().map(|action| action.reason).collect()
    }

    #[test]
    fn an_action_runs_once_at_a_time() {
        let states = ActionStates::default();
        let running = states.begin(Action::Snapshot).expect("it does not run");
        assert!(states.begin(Action::Snapshot).is_none());
        assert!(states.begin(Action::Record).is_some(), "another one may run");
        assert_eq!(reasons(&states, None), [None, Some("in progress".into()), None]);
        drop(running);
        assert_eq!(reasons(&states, None), [None, None, None]);
    }

    #[test]
    fn what_the_process_cannot_do_stays_disabled_and_at_its_end_everything_is() {
        let states = ActionStates::default();
        states.begin(Action::Collect).expect("it does not run").is_unsupported("no such command");
        assert_eq!(reasons(&states, None), [Some("no such command".into()), None, None]);
        assert_eq!(reasons(&states, Some("it has ended")), vec![Some("it has ended".to_owned()); 3]);
    }
}
