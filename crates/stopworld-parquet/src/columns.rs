//! The columns of a table in memory, until they are written as a row group.
//!
//! Every value of a text column is in one buffer, so that a row allocates nothing. A column that increases steadily is stored as differences; the others
//! get a dictionary, with which names and paths take next to no room.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use stopworld_analysis::tables::{COMMON, Cell, Column, ColumnType, Table};

/// The maximum number of rows in a row group: the size that DuckDB uses, too.
pub(crate) const MOST_ROWS: usize = 122_880;
/// The maximum number of bytes of text in a row group.
pub(crate) const MOST_TEXT: usize = 16 << 20;
/// Columns that increase steadily.
const INCREASING: [&str; 4] = ["at_ns", "at_time", "start_ns", "start_time"];

/// The values of a column.
#[derive(Debug)]
enum Values {
    Numbers(Vec<i64>),
    Booleans(Vec<bool>),
    /// The text of all values, and the end of each.
    Texts(Vec<u8>, Vec<usize>),
}

/// A column: its values that are not null, and for each row whether it has one.
#[derive(Debug)]
struct Buffer {
    column: Column,
    values: Values,
    levels: Vec<i16>,
}

/// Rows of a table that are not written yet.
#[derive(Debug)]
pub(crate) struct Columns {
    buffers: Vec<Buffer>,
    rows: usize,
    text: usize,
}

/// The values of the [common columns](COMMON), the same in all rows of a part file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub(crate) process_id: Option<i64>,
    pub(crate) program_version: Option<String>,
    pub(crate) trace_file: String,
}

impl Buffer {
    fn new(column: Column) -> Buffer {
        let values = match column.kind {
            ColumnType::Int | ColumnType::Time => Values::Numbers(Vec::new()),
            ColumnType::Bool => Values::Booleans(Vec::new()),
            ColumnType::Text => Values::Texts(Vec::new(), Vec::new()),
        };
        Buffer { column, values, levels: Vec::new() }
    }

    /// Adds a value. Returns false if the column has another type, or no nulls.
    fn push(&mut self, cell: Cell<'_>) -> bool {
        let is_null = match (cell, &mut self.values) {
            (Cell::Null, _) => true,
            (Cell::Int(number), Values::Numbers(numbers)) if self.column.kind == ColumnType::Int => {
                numbers.push(number);
                false
            }
            (Cell::Time(number), Values::Numbers(numbers)) if self.column.kind == ColumnType::Time => {
                numbers.push(number);
                false
            }
            (Cell::Bool(value), Values::Booleans(booleans)) => {
                booleans.push(value);
                false
            }
            (Cell::Text(text), Values::Texts(bytes, ends)) => {
                bytes.extend_from_slice(text.as_bytes());
                ends.push(bytes.len());
                false
            }
            _ => return false,
        };
        if self.column.is_nullable {
            self.levels.push(i16::from(!is_null));
        }
        !is_null || self.column.is_nullable
    }

    /// Writes the column, and clears it.
    fn write(&mut self, mut to: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.column.is_nullable.then_some(&self.levels[..]);
        match &mut self.values {
            Values::Numbers(numbers) => {
                to.typed::<Int64Type>().write_batch(numbers, levels, None)?;
                numbers.clear();
            }
            Values::Booleans(booleans) => {
                to.typed::<BoolType>().write_batch(booleans, levels, None)?;
                booleans.clear();
            }
            Values::Texts(bytes, ends) => {
                let bytes = Bytes::from(std::mem::take(bytes));
                let mut from = 0;
                let slice = |end: usize| ByteArray::from(bytes.slice(std::mem::replace(&mut from, end)..end));
                let texts: Vec<ByteArray> = ends.drain(..).map(slice).collect();
                to.typed::<ByteArrayType>().write_batch(&texts, levels, None)?;
            }
        }
        self.levels.clear();
        to.close()
    }
}

impl Columns {
    pub(crate) fn new(table: Table) -> Columns {
        Columns { buffers: table.columns().iter().copied().map(Buffer::new).collect(), rows: 0, text: 0 }
    }

    /// Adds a row. Returns whether it is time to write the rows.
    ///
    /// # Errors
    ///
    /// The cells are not those of the table.
    pub(crate) fn push(&mut self, cells: &[Cell<'_>]) -> io::Result<bool> {
        let fits = cells.len() == self.buffers.len();
        if !fits || !self.buffers.iter_mut().zip(cells).all(|(buffer, cell)| buffer.push(*cell)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a row does not fit its table"));
        }
        self.rows += 1;
        self.text += cells.iter().map(|cell| if let Cell::Text(text) = cell { text.len() } else { 0 }).sum::<usize>();
        Ok(self.rows >= MOST_ROWS || self.text >= MOST_TEXT)
    }

    /// Writes the rows as a row group, and forgets them.
    pub(crate) fn write<W: io::Write + Send>(
        &mut self,
        to: &mut SerializedFileWriter<W>,
        common: &Common,
    ) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = to.next_row_group()?;
        for buffer in &mut self.buffers {
            let writer = group.next_column()?.ok_or_else(missing)?;
            buffer.write(writer)?;
        }
        // The cells of the common columns: the rows need not store them.
        let cells = [
            Cell::from(common.process_id),
            Cell::from(common.program_version.as_deref()),
            Cell::Text(&common.trace_file),
        ];
        for (column, cell) in COMMON.iter().zip(cells) {
            let levels = vec![i16::from(cell != Cell::Null); if column.is_nullable { self.rows } else { 0 }];
            let levels = column.is_nullable.then_some(&levels[..]);
            let mut writer = group.next_column()?.ok_or_else(missing)?;
            let rows = if cell == Cell::Null { 0 } else { self.rows };
            match cell {
                Cell::Text(text) => {
                    let texts = vec![ByteArray::from(Bytes::copy_from_slice(text.as_bytes())); rows];
                    writer.typed::<ByteArrayType>().write_batch(&texts, levels, None)?;
                }
                Cell::Int(number) => {
                    writer.typed::<Int64Type>().write_batch(&vec![number; rows], levels, None)?;
                }
                _ if column.kind == ColumnType::Text => {
                    writer.typed::<ByteArrayType>().write_batch(&[], levels, None)?;
                }
                _ => {
                    writer.typed::<Int64Type>().write_batch(&[], levels, None)?;
                }
            }
            writer.close()?;
        }
        group.close()?;
        (self.rows, self.text) = (0, 0);
        Ok(())
    }
}

fn missing() -> ParquetError {
    ParquetError::General("the schema has fewer columns than the table".to_owned())
}

/// Returns the schema of a table.
pub(crate) fn schema(table: Table) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            ColumnType::Int => (Physical::INT64, None),
            ColumnType::Bool => (Physical::BOOLEAN, None),
            ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnType::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        };
        let repetition = if column.is_nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical);
        field.with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
    };
    let fields: Vec<TypePtr> = table.columns().iter().chain(COMMON).map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder(table.name()).with_fields(fields).build().map(Arc::new)
}

/// Returns the properties of the part files of a table.
pub(crate) fn properties(table: Table) -> WriterPropertiesPtr {
    let increasing = table.columns().iter().filter(|column| INCREASING.contains(&column.name));
    let builder = WriterProperties::builder()
        .set_created_by(concat!("stopworld-parquet ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    let differences = |builder: parquet::file::properties::WriterPropertiesBuilder, column: &Column| {
        let path = ColumnPath::from(column.name);
        builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
    };
    Arc::new(increasing.fold(builder, differences).build())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// A value of a column, which owns its text.
    #[derive(Clone, Debug)]
    enum Value {
        Null,
        Int(i64),
        Time(i64),
        Bool(bool),
        Text(String),
    }

    impl Value {
        fn cell(&self) -> Cell<'_> {
            match self {
                Value::Null => Cell::Null,
                Value::Int(number) => Cell::Int(*number),
                Value::Time(number) => Cell::Time(*number),
                Value::Bool(value) => Cell::Bool(*value),
                Value::Text(text) => Cell::Text(text),
            }
        }

        fn field(&self) -> Field {
            match self {
                Value::Null => Field::Null,
                Value::Int(number) => Field::Long(*number),
                Value::Time(number) => Field::TimestampMicros(*number),
                Value::Bool(value) => Field::Bool(*value),
                Value::Text(text) => Field::Str(text.clone()),
            }
        }
    }

    fn value(column: &Column) -> BoxedStrategy<Value> {
        let value = match column.kind {
            ColumnType::Int => any::<i64>().prop_map(Value::Int).boxed(),
            ColumnType::Time => any::<i64>().prop_map(Value::Time).boxed(),
            ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
            ColumnType::Text => any::<String>().prop_map(Value::Text).boxed(),
        };
        if column.is_nullable { prop_oneof![Just(Value::Null), value].boxed() } else { value }
    }

    fn table_with_rows() -> impl Strategy<Value = (Table, Vec<Vec<Value>>)> {
        select(&Table::ALL[..]).prop_flat_map(|table| {
            let row: Vec<_> = table.columns().iter().map(value).collect();
            (Just(table), prop::collection::vec(row, 0..40))
        })
    }

    proptest! {
        /// Any rows, in any number of row groups, are read back by the reader of the `parquet` crate.
        #[test]
        fn rows_are_read_back(
            (table, rows) in table_with_rows(),
            group in 1..20_usize,
            process_id in any::<Option<i64>>(),
            program_version in any::<Option<String>>(),
            trace_file in any::<String>(),
        ) {
            let common = Common { process_id, program_version: program_version.clone(), trace_file: trace_file.clone() };
            let file = tempfile::tempfile().unwrap();
            let copy = file.try_clone().unwrap();
            let mut writer = SerializedFileWriter::new(copy, schema(table).unwrap(), properties(table)).unwrap();
            let mut columns = Columns::new(table);
            for rows in rows.chunks(group) {
                for row in rows {
                    let cells: Vec<Cell<'_>> = row.iter().map(Value::cell).collect();
                    columns.push(&cells).unwrap();
                }
                columns.write(&mut writer, &common).unwrap();
            }
            writer.close().unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            prop_assert_eq!(reader.metadata().num_row_groups(), rows.len().div_ceil(group));
            let found: Vec<Vec<Field>> =
                reader.into_iter().map(|row| row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect()).collect();
            let of_all = [
                process_id.map_or(Field::Null, Field::Long),
                program_version.map_or(Field::Null, Field::Str),
                Field::Str(trace_file),
            ];
            let expected: Vec<Vec<Field>> =
                rows.iter().map(|row| row.iter().map(Value::field).chain(of_all.clone()).collect()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_row_that_does_not_fit_is_an_error() {
        for cells in [&[Cell::Null; 4][..], &[Cell::Int(1); 4], &[Cell::Int(1)]] {
            assert!(Columns::new(Table::HeapSamples).push(cells).is_err(), "{cells:?}");
        }
    }

    #[test]
    fn rows_are_written_when_there_are_many_or_their_text_is_long() {
        let filled_after = |figure: &str| {
            let mut columns = Columns::new(Table::HeapSamples);
            let row = [Cell::Int(1), Cell::Null, Cell::Text(figure), Cell::Int(1)];
            (1..).find(|_| columns.push(&row).unwrap()).unwrap()
        };
        assert_eq!((filled_after(""), filled_after(&"x".repeat(1 << 20))), (MOST_ROWS, MOST_TEXT >> 20));
    }
}
