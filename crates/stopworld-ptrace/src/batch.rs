//! Collects writes to the target's memory, so that they are made by few system calls.

use std::ops::Range;

use super::error::DebuggerError;
use super::memory::{Address, Memory};
use super::sys::{self, Piece};
use super::target::{SaveArea, TargetError};

/// A batch of writes.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// The target address of each piece, and its range of `bytes`.
    pub(super) pieces: Vec<(u64, Range<usize>)>,
}

impl Batch {
    pub(super) fn add(&mut self, at: Address, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.pieces.push((at.0, start..self.bytes.len()));
    }

    /// Adds a thread's registers, for the save area of its record.
    pub(super) fn add_to_save_area(
        &mut self,
        area: SaveArea,
        general: &sys::General,
        image: &[u8],
    ) -> Result<(), TargetError> {
        let bytes = sys::general_bytes(general);
        let len = bytes.len() + image.len();
        if area.at.is_null() || area.size < len {
            let (what, at, found) = ("the save area", area.at, area.size as u64);
            return Err(TargetError::Size { what, at, found, least: len, most: usize::MAX });
        }
        self.add(area.at, bytes);
        self.add(area.at.offset(bytes.len()), image);
        self.add(area.used, &(len as u32).to_le_bytes());
        Ok(())
    }

    pub(super) fn write(&self, memory: &Memory) -> Result<(), DebuggerError> {
        let pieces = self.pieces.iter().map(|(at, range)| Piece { at: *at, bytes: &self.bytes[range.clone()] });
        Ok(memory.write_all(&pieces.collect::<Vec<_>>())?)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
    }
}
