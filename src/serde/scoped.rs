//! Values that are in force for the duration of a call.

use std::cell::Cell;

/// Calls `body` while the cell has this value. The cell has its former value afterwards, also if `body` unwinds.
pub(super) fn scoped<T: Copy, R>(cell: &Cell<T>, value: T, body: impl FnOnce() -> R) -> R {
    struct Restore<'a, T: Copy>(&'a Cell<T>, T);
    impl<T: Copy> Drop for Restore<'_, T> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(cell, cell.replace(value));
    body()
}
