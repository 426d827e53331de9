//! Counts the objects of each type.

use std::ops::ControlFlow;

use super::facts::{CensusRow, Refusal};
use super::objects::View;
use crate::os::memory::Reservation;
use crate::os::preserving_errno;

/// The maximum number of types with a row of their own; a power of two. Objects of further types are counted in a row without a type.
const MOST_TYPES: usize = 1 << 13;

/// Counts the objects and calls `write` with each row and its index. Returns the number of rows.
pub(super) fn take(view: &View<'_>, mut write: impl FnMut(usize, CensusRow)) -> Result<usize, Refusal> {
    let table = preserving_errno(|| {
        let memory = Reservation::new((MOST_TYPES + 1) * size_of::<CensusRow>(), 4096)?;
        memory.commit(0, memory.len())?;
        Ok(memory)
    });
    let table = table.map_err(|_: std::io::Error| Refusal::NoMemory)?;
    // SAFETY: committed, zero-filled and exclusively ours; a row of zeros is valid.
    let rows = unsafe { std::slice::from_raw_parts_mut(table.base().cast::<CensusRow>(), MOST_TYPES + 1) };
    let _ = view.for_each_object(|object| {
        let type_info = std::ptr::from_ref(object.info) as usize;
        let name = object.info.name();
        let place = place(rows, type_info);
        let row = &mut rows[place];
        if row.objects == 0 && place < MOST_TYPES {
            (row.type_info, row.type_name, row.type_name_bytes) = (type_info, name.as_ptr() as usize, name.len());
        }
        row.objects += 1;
        let word = view.heap.blocks.word(object.cell.block);
        row.bytes += match word.is_large_head() {
            true => view.heap.large_footprint(object.cell.block),
            false => word.cell_bytes() as u64,
        };
        ControlFlow::<()>::Continue(())
    });
    let mut count = 0;
    for row in rows.iter().filter(|row| row.objects > 0) {
        write(count, *row);
        count += 1;
    }
    Ok(count)
}

/// Returns the index of a type's row, or of the first free row in its probe sequence, or of the last row if there is neither.
fn place(rows: &[CensusRow], type_info: usize) -> usize {
    let first = (type_info >> 5).wrapping_mul(0x9e37_79b9) % MOST_TYPES;
    let places = (0..64).map(|step| (first + step) % MOST_TYPES);
    let fits = |place: &usize| rows[*place].objects == 0 || rows[*place].type_info == type_info;
    places.into_iter().find(fits).unwrap_or(MOST_TYPES)
}
