//! The settings of a check, and which reports they leave out.

use std::fmt;

use super::hidden::HiddenReference;

/// The environment variable with further patterns to suppress, separated by commas.
const SUPPRESS: &str = "STOPWORLD_SUPPRESS_HIDDEN";
/// Crates of this project whose buffers hold addresses of objects.
const WRITERS: [&str; 3] = ["stopworld_trace::", "stopworld_diagnostics::", "stopworld_metrics::"];
/// The default of [`CheckPromise::most_reports`].
const MOST_REPORTS: usize = 10;

/// What a collection does when it finds a hidden reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Report,
    Panic,
    Keep,
}

/// Receives each report.
pub(super) type Listener = Box<dyn Fn(&HiddenReference) + Send + Sync>;

/// What [`WorldBuilder::check_promise`](crate::WorldBuilder::check_promise) checks, and what it does with what it finds. See [the
/// module](crate::check).
///
/// ```
/// use stopworld::check::CheckPromise;
///
/// let check = CheckPromise::keep().suppress("my_program::cache::*").most_reports(3);
/// # drop(check);
/// ```
pub struct CheckPromise {
    pub(crate) action: Action,
    pub(super) suppressed: Vec<String>,
    pub(super) most: usize,
    pub(super) listener: Option<Listener>,
}

impl CheckPromise {
    fn with(action: Action) -> Self {
        Self { action, suppressed: WRITERS.map(str::to_owned).into(), most: MOST_REPORTS, listener: None }
    }

    /// Reports each hidden reference, and frees the object, as the collection would without the check. Each collection searches all blocks of the
    /// allocator and all statics while the world is stopped, and each allocation walks the stack, with this function and with the two others: see
    /// [the module](crate::check).
    pub fn report() -> Self {
        Self::with(Action::Report)
    }

    /// Reports each hidden reference, and panics on the collecting thread after the world has restarted, if a reference was reported that is
    /// not suppressed. The objects of hidden references, and all that these refer to, survive this collection, so that code that runs during
    /// the panic can use them. The panic comes after all else that belongs to the collection: its figures, its listener, its finalizers.
    ///
    /// On the thread that runs finalizers, and on a thread that is panicking, references are only reported. Then the next
    /// collection on another thread panics. More hidden references than one search notes (4096, see [the module](crate::check)) are
    /// a panic too, because nothing is known of them.
    ///
    /// A collection that an allocation needs panics in that allocation.
    pub fn panic() -> Self {
        Self::with(Action::Panic)
    }

    /// Reports each hidden reference, and keeps the object alive with all that it refers to, as if the reference were a root. A word is
    /// reported by the first collection that finds it; the object stays alive as long as the word is there.
    pub fn keep() -> Self {
        Self::with(Action::Keep)
    }

    /// Leaves out the reports in which `pattern` matches a function or a file of the backtrace of the block, or the name of the static
    /// variable. The pattern matches a part of the name; `*` in it stands for any text. All calls of the backtrace count, also those inside
    /// libraries, which reports leave out. A block or a static without known names has the name `unknown`, and all thread-local
    /// variables have the name `thread-local`. May be called several times. Each new report compares each name with each pattern; a collection without
    /// hidden references does not.
    ///
    /// Further patterns are in the environment variable `STOPWORLD_SUPPRESS_HIDDEN`, separated by commas; it is read when the world is built.
    ///
    /// A reference that is suppressed keeps its object alive under [`keep`](Self::keep) too: names are found only after the collection.
    #[must_use]
    pub fn suppress(mut self, pattern: &str) -> Self {
        self.suppressed.push(pattern.to_owned());
        self
    }

    /// Sets the largest number of objects that one collection reports; the others are counted in one line. Default: 10.
    /// Each report looks up names in the debugging information.
    #[must_use]
    pub fn most_reports(mut self, count: usize) -> Self {
        self.most = count;
        self
    }

    /// Sets a function that receives each report instead of the standard error stream. Called on the collecting thread, after the world has
    /// restarted and the locks of the collection are released. The collecting thread waits for it; the others do not.
    #[must_use]
    pub fn on_report(mut self, listener: impl Fn(&HiddenReference) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Adds the patterns of the environment.
    pub(super) fn read_environment(&mut self) {
        if let Ok(patterns) = std::env::var(SUPPRESS) {
            let patterns = patterns.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
            self.suppressed.extend(patterns.map(str::to_owned));
        }
    }

    /// Returns whether a pattern matches one of these names.
    pub(super) fn suppresses<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> bool {
        names.any(|name| self.suppressed.iter().any(|pattern| matches(pattern, name)))
    }
}

impl fmt::Debug for CheckPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckPromise")
            .field("action", &self.action)
            .field("suppressed", &self.suppressed)
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// Returns whether the pieces between the stars of `pattern` are in `name`, in this order and apart from each other.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    pattern.split('*').all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("cache", "app::cache::fill", true)]
    #[case("app::*::fill", "app::cache::fill", true)]
    #[case("fill*cache", "app::cache::fill", false)]
    #[case("aa*aa", "aaa", false)]
    #[case("src/cache.rs", "src/cache.rs:7", true)]
    #[case("*", "", true)]
    fn a_pattern_matches_a_part_of_a_name(#[case] pattern: &str, #[case] name: &str, #[case] expected: bool) {
        assert_eq!(CheckPromise::report().suppress("never").suppress(pattern).suppresses([name].into_iter()), expected);
    }
}
