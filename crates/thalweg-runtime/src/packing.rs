//! How the rows of a batch lie in pages, and how they come out of them again.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, cast::AsArray, types::Int64Type};
use arrow_cast::{can_cast_types, cast};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use thalweg_core::{Batch, Result, Timestamp};
use thalweg_memory::page::layout::{RowLayout, Shape};

/// The rows of a batch as pages hold them: text and binary of any kind as views, dictionaries as their values, and behind the
/// columns, if some row is behind, the watermark that each row met.
#[derive(Debug)]
pub struct Packing {
    /// The rows as operators know them.
    schema: SchemaRef,
    layout: Arc<RowLayout>,
    has_behind: bool,
}

impl Packing {
    /// How rows of a schema lie in pages; `None` where pages cannot hold them.
    pub fn new(schema: &SchemaRef, has_behind: bool) -> Option<Self> {
        let packed = |field: &Arc<Field>| Some(field.as_ref().clone().with_data_type(packed_type(field.data_type())?));
        let mut fields = schema.fields().iter().map(packed).collect::<Option<Vec<_>>>()?;
        fields.extend(has_behind.then(|| Field::new("met watermark", DataType::Int64, false)));
        let layout = RowLayout::new(Arc::new(Schema::new(fields))).ok()?;
        Some(Self { schema: Arc::clone(schema), layout: Arc::new(layout), has_behind })
    }

    /// Where everything lies in a page.
    pub fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }

    /// Whether it is for a batch like this one.
    pub fn is_for(&self, batch: &Batch) -> bool {
        self.has_behind == batch.behind().is_some()
            && (Arc::ptr_eq(&self.schema, batch.columns().schema_ref()) || self.schema == batch.schema())
    }

    /// The physical rows of a batch, to be put into pages.
    pub fn pack(&self, batch: &Batch) -> Result<RecordBatch> {
        let Some(behind) = batch.behind() else { return Ok(batch.columns().clone()) };
        let met: ArrayRef = Arc::new(Int64Array::from_iter_values(behind.iter().map(|t| t.0)));
        let columns = batch.columns().columns().iter().cloned().chain([met]);
        let fields = batch.columns().schema_ref().fields().iter().cloned();
        let met = Arc::new(Field::new("met watermark", DataType::Int64, false));
        let schema = Schema::new(fields.chain([met]).collect::<Vec<_>>());
        Ok(RecordBatch::try_new(Arc::new(schema), columns.collect())?)
    }

    /// The rows of a page as they were. Numbers lie where they are; text is copied: what an operator keeps of it would otherwise
    /// keep the page, and its sender might wait for that page for ever.
    pub fn unpack(&self, page: &RecordBatch) -> Result<Batch> {
        let columns = page.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| unpacked(column, field.data_type())).collect::<Result<_>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(page.num_rows()));
        let batch = Batch::new(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?);
        if !self.has_behind {
            return Ok(batch);
        }
        let met = page.column(page.num_columns() - 1).as_primitive::<Int64Type>();
        Ok(batch.with_behind(met.values().iter().map(|t| Timestamp(*t)).collect()))
    }
}

/// The type that holds values of a type in a page; `None` where there is none.
fn packed_type(kind: &DataType) -> Option<DataType> {
    let packed = match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::BinaryView,
        // A page takes rows of many batches, whose words together may be more than a narrow key can number.
        DataType::Dictionary(key, words) if is_wide(key) && !matches!(**words, DataType::Dictionary(..)) => {
            packed_type(words).filter(|words| matches!(words, DataType::Utf8View | DataType::BinaryView))?
        }
        other => other.clone(),
    };
    Shape::of(&packed)?;
    (packed == *kind || can_cast_types(&packed, kind)).then_some(packed)
}

fn is_wide(key: &DataType) -> bool {
    matches!(key, DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64)
}

fn unpacked(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    Ok(match kind {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        kind if kind == column.data_type() => Arc::clone(column),
        kind => cast(column, kind)?,
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        BooleanArray, DictionaryArray, FixedSizeListArray, StringArray, StringViewArray, UInt32Array,
        types::{Int32Type, UInt32Type},
    };
    use arrow_select::take::take;
    use thalweg_memory::pool::Pool;
    use thalweg_shuffle::{
        route::Destinations,
        scatter::{
            choice::Walk,
            outbox::{Outbox, Sizes},
        },
    };

    use super::*;

    fn texts() -> Vec<Option<&'static str>> {
        vec![Some("a"), None, Some("a text that is longer than a view"), Some(""), Some("a")]
    }

    fn batch(columns: Vec<ArrayRef>) -> Batch {
        let fields =
            columns.iter().enumerate().map(|(i, column)| Field::new(i.to_string(), column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Batch::new(RecordBatch::try_new(schema, columns).unwrap())
    }

    #[test]
    fn rows_come_out_with_the_types_they_had_and_text_does_not_keep_the_page() {
        let dictionary: DictionaryArray<Int32Type> = texts().into_iter().collect();
        let large = cast(&(Arc::new(StringArray::from(texts())) as ArrayRef), &DataType::LargeUtf8).unwrap();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(texts())),
            Arc::new(dictionary),
            Arc::new(StringViewArray::from(texts())),
            large,
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), None])),
        ];
        let met: Arc<[Timestamp]> = (0..5).map(Timestamp).collect();
        for batch in [batch(columns.clone()), batch(columns).with_behind(met)] {
            let packing = Packing::new(&batch.schema(), batch.behind().is_some()).unwrap();
            assert!(packing.is_for(&batch));
            let pool = Pool::new(1 << 20);
            let sizes = Sizes::within(1 << 20, 1, 1);
            let mut outbox = Outbox::new(Arc::clone(packing.layout()), pool.clone(), 1, sizes, Walk::Hybrid).unwrap();
            let mut pages = Vec::new();
            let packed = packing.pack(&batch).unwrap();
            outbox.scatter(&packed, Some(&[0, 2, 4]), Destinations::One(vec![0; 3]), &mut pages).unwrap();
            outbox.seal(&mut pages).unwrap();
            let found = packing.unpack(&pages[0].1.batch().unwrap()).unwrap();
            let rows = UInt32Array::from_iter_values([0, 2, 4]);
            for (found, given) in found.columns().columns().iter().zip(batch.columns().columns()) {
                let expected = take(given, &rows, None).unwrap();
                assert_eq!(found.data_type(), expected.data_type());
                let text = |array: &ArrayRef| cast(array, &DataType::Utf8).unwrap();
                assert_eq!(&text(found), &text(&expected));
            }
            let met = [0, 2, 4].map(Timestamp);
            assert_eq!(found.behind(), batch.behind().map(|_| &met[..]));
            let texts: Vec<ArrayRef> = found.columns().columns()[..4].to_vec();
            drop((found, pages, outbox));
            assert_eq!((texts.len(), pool.used()), (4, 0), "text lies somewhere else");
        }
    }

    #[test]
    fn what_pages_cannot_hold_is_said_before() {
        let item = Arc::new(Field::new_list_field(DataType::Int32, true));
        let nested = FixedSizeListArray::new_null(item, 2, 5);
        assert!(Packing::new(&batch(vec![Arc::new(nested)]).schema(), false).is_none());
        let narrow: DictionaryArray<arrow_array::types::Int8Type> = texts().into_iter().collect();
        assert!(Packing::new(&batch(vec![Arc::new(narrow)]).schema(), false).is_none());
        let numbers: DictionaryArray<UInt32Type> =
            DictionaryArray::new(UInt32Array::from(vec![0, 0]), Arc::new(Int64Array::from(vec![7])));
        assert!(Packing::new(&batch(vec![Arc::new(numbers)]).schema(), false).is_none());
    }
}
