//! What the program reports itself: names, messages and markers.

use super::labels::{Label, LabelError, Labels};
use super::source::Events;

impl Events {
    /// Interns a text: assigns it a number, by which events can refer to it. Legal wherever firing is legal.
    ///
    /// # Errors
    /// The text is too long or contains a byte 0, or the store is full.
    pub fn telemetry_intern(&self, text: &str) -> Result<Label, LabelError> {
        let label = Labels::of_the_process().intern(text)?;
        self.fire_interned(label.get());
        Ok(label)
    }

    /// Names an address, for example that of an object, of a thread's record, or of a data structure of the program.
    ///
    /// # Errors
    /// The label was not interned, the address is 0, or the store is full.
    pub fn telemetry_label(&self, address: usize, label: Label) -> Result<(), LabelError> {
        Labels::of_the_process().bind(address, label)?;
        self.fire_labelled(address, label.get());
        Ok(())
    }

    /// Writes a message of the program to the trace.
    ///
    /// # Errors
    /// The errors of [`telemetry_intern`](Self::telemetry_intern).
    pub fn telemetry_message(&self, text: &str) -> Result<(), LabelError> {
        self.fire_user_message(self.telemetry_intern(text)?.get());
        Ok(())
    }

    /// Marks this moment in the trace, so that it can be found in a timeline.
    ///
    /// # Errors
    /// The errors of [`telemetry_intern`](Self::telemetry_intern).
    pub fn telemetry_marker(&self, text: &str) -> Result<(), LabelError> {
        self.fire_user_marker(self.telemetry_intern(text)?.get());
        Ok(())
    }

    /// Names an address, unless it has this name already. Returns the label's number, or 0 if there is no room for names.
    pub(crate) fn name(&self, address: usize, text: &str) -> u64 {
        let labels = Labels::of_the_process();
        let label = labels.label_with(address, text).map_or_else(|| self.telemetry_intern(text), Ok);
        let named = label.and_then(|label| self.telemetry_label(address, label).map(|()| label.get()));
        named.unwrap_or(0)
    }
}
