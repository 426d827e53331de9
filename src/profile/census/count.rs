//! Bytes and objects, added up.

/// Bytes and objects.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) bytes: u64,
    pub(crate) objects: u64,
}

impl Count {
    #[inline(always)]
    pub(crate) fn add(&mut self, other: Count) {
        self.bytes += other.bytes;
        self.objects += other.objects;
    }

    #[inline(always)]
    pub(crate) fn times(self, times: u64) -> Count {
        Count { bytes: self.bytes * times, objects: self.objects * times }
    }
}
