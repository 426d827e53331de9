//! The layout that all tables for a terminal share.

use std::ops::Range;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Returns a table without rows, of which no cell will wrap.
pub(super) fn empty() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Aligns the columns with these indices to the right, for numbers. Columns that the table does not have are ignored.
pub(super) fn align_right(table: &mut Table, columns: Range<usize>) {
    for column in table.column_iter_mut().skip(columns.start).take(columns.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
