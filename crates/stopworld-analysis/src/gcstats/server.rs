//! Distinguishes the server collector from the workstation collector.
//!
//! No event of a trace names the collector. The server collector marks the handles of each heap on a thread of its own,
//! the workstation collector marks all of them on one. So the kind of collector is determined at the end of the first collection that
//! reports such marks; later collections do not change it. PerfView's trace log has the same rule.

/// The state of the detection.
#[derive(Debug, Default)]
pub(super) struct Detector {
    /// Whether a collection has started since the last time the kind was determined.
    is_looking: bool,
    first: Option<i64>,
    has_second: bool,
    is_server: Option<bool>,
}

impl Detector {
    /// Records that a collection has started.
    pub(super) fn start(&mut self) {
        self.is_looking |= self.first.is_none();
    }

    /// Records that `thread` has marked the handles of a heap.
    pub(super) fn handles_marked(&mut self, thread: i64) {
        if self.is_looking {
            self.has_second |= *self.first.get_or_insert(thread) != thread;
        }
    }

    /// Records that a collection has ended.
    pub(super) fn end(&mut self) {
        if self.first.is_some() {
            self.is_looking = false;
            self.is_server.get_or_insert(self.has_second);
        }
    }

    /// Returns whether the process has the server collector; `None` until a collection with marks of handles has ended.
    pub(super) fn is_server(&self) -> Option<bool> {
        self.is_server
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::two_threads(&[1, 2], Some(true))]
    #[case::one_thread_for_all_heaps(&[1, 1], Some(false))]
    #[case::no_marks(&[], None)]
    fn the_first_collection_with_marks_of_handles_decides(#[case] threads: &[i64], #[case] expected: Option<bool>) {
        let mut detector = Detector::default();
        detector.handles_marked(8);
        detector.handles_marked(9);
        detector.end();
        assert_eq!(detector.is_server(), None, "no collection has started");
        detector.start();
        threads.iter().for_each(|&thread| detector.handles_marked(thread));
        detector.end();
        assert_eq!(detector.is_server(), expected);
        detector.start();
        [3, 4].iter().for_each(|&thread| detector.handles_marked(thread));
        detector.end();
        assert_eq!(detector.is_server(), expected.or(Some(true)));
    }
}
