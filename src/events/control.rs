//! A listener's switches: one call for each way in which tools turn events on and off.
//!
//! The tools use three vocabularies, and a [`Selection`] supports all of them. Each call here takes the current
//! selection, changes it, and puts it in force as a whole. [`Events::select`] says exactly when a change takes
//! effect. If two threads change different keywords of one listener at the same time, no change is lost.

use super::gate::Settled;
use super::listeners::{ListenError, ListenerId};
use super::source::Events;
use super::state::{Categories, Keywords, Level, Provider, Selection, Switch};

/// The switches of one listener: see [`Events::control`].
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    events: &'a Events,
    listener: ListenerId,
}

impl Events {
    /// Returns a listener's switches, one call for each way in which tools turn events on and off.
    pub fn control(&self, listener: ListenerId) -> Control<'_> {
        Control { events: self, listener }
    }
}

/// Each change is in force when the function returns. The result says whether the fires that were under way are over.
///
/// # Errors
/// For every function: the listener has ended.
impl Control<'_> {
    /// Selects these keywords of the provider, and every level up to `up_to`; `None` selects no level.
    pub fn set(&self, provider: Provider, keywords: Keywords, up_to: Option<Level>) -> Result<Settled, ListenError> {
        self.events.change(self.listener, |wants| wants.set(provider, keywords, up_to))
    }

    /// Adds keywords; the levels are unchanged.
    pub fn enable_keyword(&self, provider: Provider, keywords: Keywords) -> Result<Settled, ListenError> {
        self.events.change(self.listener, |wants| wants.enable_keyword(provider, keywords))
    }

    /// Removes keywords; the levels are unchanged.
    pub fn disable_keyword(&self, provider: Provider, keywords: Keywords) -> Result<Settled, ListenError> {
        self.events.change(self.listener, |wants| wants.disable_keyword(provider, keywords))
    }

    /// Adds this one level; the keywords and the other levels are unchanged.
    pub fn enable_level(&self, provider: Provider, level: Level) -> Result<Settled, ListenError> {
        self.events.change(self.listener, |wants| wants.enable_level(provider, level))
    }

    /// Removes this one level; the keywords and the other levels are unchanged.
    pub fn disable_level(&self, provider: Provider, level: Level) -> Result<Settled, ListenError> {
        self.events.change(self.listener, |wants| wants.disable_level(provider, level))
    }

    /// Turns keywords on or off.
    pub fn set_event_keyword_state(
        &self,
        provider: Provider,
        keywords: Keywords,
        enabled: impl Into<Switch>,
    ) -> Result<Settled, ListenError> {
        self.events.change(self.listener, |wants| wants.set_event_keyword_state(provider, keywords, enabled))
    }

    /// Turns this one level on or off.
    pub fn set_event_level_state(
        &self,
        provider: Provider,
        level: Level,
        enabled: impl Into<Switch>,
    ) -> Result<Settled, ListenError> {
        self.events.change(self.listener, |wants| wants.set_event_level_state(provider, level, enabled))
    }

    /// `telemetry_control(reset, flip)` of the MPS: clears `reset`, then inverts `flip`. Returns the old filter.
    pub fn telemetry_control(&self, reset: Categories, flip: Categories) -> Result<Categories, ListenError> {
        self.filter(|filter| filter.control(reset, flip))
    }

    /// Returns the MPS filter.
    pub fn telemetry_get(&self) -> Result<Categories, ListenError> {
        Ok(self.selection()?.categories)
    }

    /// Adds MPS categories. Returns the old filter.
    pub fn telemetry_set(&self, mask: Categories) -> Result<Categories, ListenError> {
        self.filter(|filter| filter.telemetry_set(mask))
    }

    /// Removes MPS categories. Returns the old filter.
    pub fn telemetry_reset(&self, mask: Categories) -> Result<Categories, ListenError> {
        self.filter(|filter| filter.telemetry_reset(mask))
    }

    /// Returns the listener's selection.
    pub fn selection(&self) -> Result<Selection, ListenError> {
        self.events.selection(self.listener)
    }

    fn filter(&self, change: impl FnOnce(&mut Categories) -> Categories) -> Result<Categories, ListenError> {
        let mut old = Categories::NONE;
        self.events.change(self.listener, |wants| old = change(&mut wants.categories))?;
        Ok(old)
    }
}
