//! What the program says by itself: names, messages and markers.

use super::labels::{Label, LabelError, Labels};
use super::source::Events;

impl Events {
    /// Gives a text a number, by which events can name it. Everywhere that firing is legal.
    ///
    /// # Errors
    /// The text is too long or holds a 0, or the store is full.
    pub fn telemetry_intern(&self, text: &str) -> Result<Label, LabelError> {
        let label = Labels::of_the_process().intern(text)?;
        self.fire_interned(label.get());
        Ok(label)
    }

    /// Gives an address a name: an object, a thread's record, a data structure of the program's.
    ///
    /// # Errors
    /// Nobody interned the label, the address is 0, or the store is full.
    pub fn telemetry_label(&self, address: usize, label: Label) -> Result<(), LabelError> {
        Labels::of_the_process().bind(address, label)?;
        self.fire_labelled(address, label.get());
        Ok(())
    }

    /// Leaves a message of the program's in the trace.
    ///
    /// # Errors
    /// As of [`telemetry_intern`](Self::telemetry_intern).
    pub fn telemetry_message(&self, text: &str) -> Result<(), LabelError> {
        self.fire_user_message(self.telemetry_intern(text)?.get());
        Ok(())
    }

    /// Marks this moment in the trace, to be found again in a picture of it.
    ///
    /// # Errors
    /// As of [`telemetry_intern`](Self::telemetry_intern).
    pub fn telemetry_marker(&self, text: &str) -> Result<(), LabelError> {
        self.fire_user_marker(self.telemetry_intern(text)?.get());
        Ok(())
    }

    /// Names an address, unless it has this name already. 0 if there is no room for names: then it has none.
    pub(crate) fn name(&self, address: usize, text: &str) -> u64 {
        let labels = Labels::of_the_process();
        let label = match labels.label_of(address) {
            Some(label) if labels.text(label) == Some(text) => Ok(label),
            _ => self.telemetry_intern(text),
        };
        let named = label.and_then(|label| self.telemetry_label(address, label).map(|()| label.get()));
        named.unwrap_or(0)
    }
}
