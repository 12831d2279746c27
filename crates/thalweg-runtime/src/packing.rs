//! How the rows of a batch lie in pages, and how they come out of them again.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, cast::AsArray, new_null_array, types::Int64Type,
};
use arrow_cast::{can_cast_types, cast};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use thalweg_core::{Batch, Result, Timestamp};
use thalweg_memory::page::layout::{RowLayout, Shape};

use crate::nested::{Nested, is_wide};

/// The rows of a batch as pages hold them: text and binary of any kind as views, dictionaries as their values, lists, structs and
/// maps as bytes, and behind the columns, if some row is behind, the watermark that each row met.
#[derive(Debug)]
pub struct Packing {
    /// The rows as operators know them.
    schema: SchemaRef,
    layout: Arc<RowLayout>,
    /// How the nested columns are written as bytes, column by column.
    nested: Vec<Option<Nested>>,
    has_behind: bool,
}

impl Packing {
    /// How rows of a schema lie in pages; `None` where pages cannot hold them.
    pub fn new(schema: &SchemaRef, has_behind: bool) -> Option<Self> {
        let nested: Vec<_> = schema.fields().iter().map(|field| Nested::of(field.data_type())).collect();
        let packed = |(field, nested): (&Arc<Field>, &Option<Nested>)| match nested {
            Some(_) => Some(bytes_of(field, DataType::BinaryView)),
            None => Some(field.as_ref().clone().with_data_type(packed_type(field.data_type())?)),
        };
        let mut fields = schema.fields().iter().zip(&nested).map(packed).collect::<Option<Vec<_>>>()?;
        fields.extend(has_behind.then(met_watermark));
        let layout = RowLayout::new(Arc::new(Schema::new(fields))).ok()?;
        Some(Self { schema: Arc::clone(schema), layout: Arc::new(layout), nested, has_behind })
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

    /// The physical rows of a batch, to be put into pages; of what is nested, the selected rows alone.
    ///
    /// Errors: as [`Nested::encode`].
    pub fn pack(&self, batch: &Batch) -> Result<RecordBatch> {
        if !self.has_behind && self.nested.iter().all(Option::is_none) {
            return Ok(batch.columns().clone());
        }
        let selected = batch.selection().map(|selection| selection.rows());
        let given = batch.columns().columns().iter().zip(batch.columns().schema_ref().fields());
        let packed = given.zip(&self.nested).map(|((column, field), nested)| match nested {
            Some(nested) => Ok((bytes_of(field, DataType::LargeBinary), nested.encode(column, selected)?)),
            None => Ok((field.as_ref().clone(), Arc::clone(column))),
        });
        let met = batch.behind().map(|behind| {
            let met: ArrayRef = Arc::new(Int64Array::from_iter_values(behind.iter().map(|t| t.0)));
            Ok((met_watermark(), met))
        });
        let (fields, columns) = packed.chain(met).collect::<Result<(Vec<Field>, Vec<ArrayRef>)>>()?;
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The rows of a page as they were. Numbers, validity and short texts lie where they are: who takes rows of a column copies
    /// these. The bytes of longer texts are copied here: rows that an operator takes of them would share these bytes, and with them
    /// keep the page, for which its sender might wait for ever.
    pub fn unpack(&self, page: &RecordBatch) -> Result<Batch> {
        let columns = page.columns().iter().zip(self.schema.fields()).zip(&self.nested);
        let columns = columns.map(|((column, field), nested)| match nested {
            Some(nested) => nested.decode(column),
            None => unpacked(column, field.data_type()),
        });
        let rows = RecordBatchOptions::new().with_row_count(Some(page.num_rows()));
        let columns = columns.collect::<Result<_>>()?;
        let batch = Batch::new(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?);
        if !self.has_behind {
            return Ok(batch);
        }
        let met = page.column(page.num_columns() - 1).as_primitive::<Int64Type>();
        Ok(batch.with_behind(met.values().iter().map(|t| Timestamp(*t)).collect()))
    }
}

/// The field of a nested column's bytes, which are never null: they say whether there is a value.
fn bytes_of(nested: &Field, kind: DataType) -> Field {
    Field::new(nested.name(), kind, false)
}

fn met_watermark() -> Field {
    Field::new("met watermark", DataType::Int64, false)
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

fn unpacked(column: &ArrayRef, kind: &DataType) -> Result<ArrayRef> {
    Ok(match kind {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        kind if kind == column.data_type() => Arc::clone(column),
        kind if column.null_count() == column.len() => new_null_array(kind, column.len()),
        kind => cast(column, kind)?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::{
        BooleanArray, DictionaryArray, FixedSizeListArray, Float64Array, LargeListArray, LargeListViewArray, ListArray,
        ListViewArray, MapArray, NullArray, StringArray, StringViewArray, StructArray, UInt32Array,
        types::{Int32Type, UInt32Type},
    };
    use arrow_buffer::{NullBuffer, OffsetBuffer};
    use arrow_schema::{Fields, IntervalUnit, TimeUnit};
    use arrow_select::take::take;
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use thalweg_core::Selection;
    use thalweg_memory::{page::Page, pool::Pool};
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

    /// A page of a batch's selected rows.
    fn page(packing: &Packing, pool: &Pool, batch: &Batch) -> Page {
        let sizes = Sizes { smallest: 1 << 20, largest: 1 << 20 };
        let mut outbox = Outbox::new(Arc::clone(packing.layout()), pool.clone(), 1, sizes, Walk::Hybrid).unwrap();
        let mut pages = Vec::new();
        let selected = batch.selection().map(|selection| selection.rows());
        let to = Destinations::One(vec![0; batch.len()]);
        outbox.scatter(&packing.pack(batch).unwrap(), selected, to, &mut pages).unwrap();
        outbox.seal(&mut pages).unwrap();
        assert_eq!(pages.len(), 1, "one page is enough");
        pages.remove(0).1
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
            let pool = Pool::new(4 << 20);
            let page = page(&packing, &pool, &batch.clone().with_selection(Selection::new(vec![0, 2, 4])));
            let found = packing.unpack(&page.batch().unwrap()).unwrap();
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
            drop((found, page));
            assert_eq!((texts.len(), pool.used()), (4, 0), "text lies somewhere else");
        }
    }

    /// Values of a field, a quarter of them null where there may be nulls.
    fn values(random: &mut StdRng, field: &Field, rows: usize) -> ArrayRef {
        let is_valid = (0..rows).map(|_| !field.is_nullable() || random.random_bool(0.75)).collect::<Vec<_>>();
        let nulls = field.is_nullable().then(|| NullBuffer::from(is_valid.clone()));
        let lengths: Vec<usize> = (0..rows).map(|_| random.random_range(0..4)).collect();
        let items = lengths.iter().sum::<usize>();
        let flat = |random: &mut StdRng, kind: &DataType| {
            let words = is_valid.iter().map(|is_valid| is_valid.then(|| random.random_range(0..9_i64)));
            cast(&(Arc::new(Int64Array::from_iter(words)) as ArrayRef), kind).unwrap()
        };
        match field.data_type() {
            DataType::List(item) => {
                let values = values(random, item, items);
                Arc::new(ListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, nulls))
            }
            DataType::LargeList(item) => {
                let values = values(random, item, items);
                Arc::new(LargeListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, nulls))
            }
            // Views of one list, which overlap and are in no order.
            DataType::ListView(item) => {
                let from = lengths.iter().map(|_| random.random_range(0..5)).collect::<Vec<_>>().into();
                let lengths = lengths.iter().map(|length| *length as i32).collect::<Vec<_>>().into();
                Arc::new(ListViewArray::new(Arc::clone(item), from, lengths, values(random, item, 8), nulls))
            }
            DataType::LargeListView(item) => {
                let from = lengths.iter().map(|_| random.random_range(0..5)).collect::<Vec<_>>().into();
                let lengths = lengths.iter().map(|length| *length as i64).collect::<Vec<_>>().into();
                Arc::new(LargeListViewArray::new(Arc::clone(item), from, lengths, values(random, item, 8), nulls))
            }
            DataType::FixedSizeList(item, length) => {
                let values = values(random, item, rows * *length as usize);
                Arc::new(FixedSizeListArray::new(Arc::clone(item), *length, values, nulls))
            }
            DataType::Map(entry, is_sorted) => {
                let entries = values(random, entry, items);
                let offsets = OffsetBuffer::from_lengths(lengths);
                Arc::new(MapArray::new(Arc::clone(entry), offsets, entries.as_struct().clone(), nulls, *is_sorted))
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|field| values(random, field, rows)).collect();
                Arc::new(StructArray::new(fields.clone(), columns, nulls))
            }
            DataType::Float64 => {
                let odd = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1.5];
                Arc::new(Float64Array::from_iter(is_valid.iter().map(|v| v.then(|| odd[random.random_range(0..6)]))))
            }
            kind @ (DataType::Interval(_) | DataType::Binary | DataType::FixedSizeBinary(_)) => {
                let text = if matches!(kind, DataType::Interval(_)) { "3 days" } else { "bits" };
                let texts = StringArray::from_iter(is_valid.iter().map(|is_valid| is_valid.then_some(text)));
                let texts = Arc::new(texts) as ArrayRef;
                match kind {
                    DataType::FixedSizeBinary(_) => cast(&cast(&texts, &DataType::Binary).unwrap(), kind).unwrap(),
                    kind => cast(&texts, kind).unwrap(),
                }
            }
            DataType::Dictionary(_, words) => cast(&flat(random, words), field.data_type()).unwrap(),
            kind => flat(random, kind),
        }
    }

    /// A field of each kind that is nested, with what else may lie in it.
    fn nested_fields() -> Vec<Field> {
        use DataType::*;
        let item = |kind| Arc::new(Field::new("item that is named", kind, true));
        let strict = |kind| Arc::new(Field::new_list_field(kind, false));
        let words = |key, word| Dictionary(Box::new(key), Box::new(word));
        let zone = Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
        let said = HashMap::from([("unit".to_string(), "seat".to_string())]);
        let fields: Fields = vec![
            Field::new("when", zone, false),
            Field::new("same name", words(Int32, Utf8), false),
            Field::new("same name", words(Int64, LargeBinary), true),
            Field::new("f", Float64, true).with_metadata(said),
        ]
        .into();
        let entries = vec![Field::new("k", Utf8View, false), Field::new("v", words(UInt32, Utf8View), true)];
        let entry = Arc::new(Field::new("entries", Struct(entries.into()), false));
        let kinds = vec![
            List(item(Int32)),
            List(strict(Utf8)),
            LargeList(item(Decimal128(12, 2))),
            ListView(item(Boolean)),
            LargeListView(strict(LargeUtf8)),
            FixedSizeList(item(Float64), 3),
            FixedSizeList(strict(words(Int32, Utf8)), 2),
            Struct(fields.clone()),
            Map(Arc::clone(&entry), false),
            Map(Arc::clone(&entry), true),
            List(item(Binary)),
            List(item(FixedSizeBinary(4))),
            List(item(Interval(IntervalUnit::MonthDayNano))),
            List(strict(Struct(fields.clone()))),
            List(item(Map(entry, false))),
            Struct(vec![Field::new("l", List(item(List(item(words(Int32, Utf8))))), false)].into()),
            Struct(vec![Field::new("s", Struct(fields), false)].into()),
        ];
        let field = |(i, kind): (usize, &DataType)| Field::new(i.to_string(), kind.clone(), true);
        let all = kinds.iter().enumerate().map(field);
        let strict = Field::new("never null", kinds[0].clone(), false);
        all.chain([strict, Field::new("flat", Int64, true)]).collect()
    }

    #[test]
    fn what_is_nested_comes_out_with_names_nulls_and_types_as_it_was_and_does_not_keep_the_page() {
        let schema = Arc::new(Schema::new(nested_fields()));
        for seed in 0..60 {
            let mut random = StdRng::seed_from_u64(seed);
            let columns = schema.fields().iter().map(|field| values(&mut random, field, 30)).collect();
            // As batches are cut out of larger ones.
            let from = random.random_range(0..10);
            let all = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap().slice(from, 20);
            let rows: Vec<u32> = (0..20).filter(|_| seed % 3 == 0 || random.random_bool(0.5)).chain([20 - 1]).collect();
            let rows: Vec<u32> = rows.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
            let mut batch = Batch::new(all.clone());
            if seed % 3 > 0 {
                batch = batch.with_selection(Selection::new(rows.clone()));
            }
            if seed % 2 == 0 {
                batch = batch.with_behind((0..20).map(Timestamp).collect());
            }
            let packing = Packing::new(&schema, batch.behind().is_some()).unwrap();
            let pool = Pool::new(4 << 20);
            let page = page(&packing, &pool, &batch);
            let found = packing.unpack(&page.batch().unwrap()).unwrap();
            let rows = UInt32Array::from(rows);
            assert_eq!(found.columns().schema(), schema);
            for ((found, given), field) in found.columns().columns().iter().zip(all.columns()).zip(schema.fields()) {
                found.to_data().validate_full().unwrap();
                let expected = take(given, &rows, None).unwrap();
                assert_eq!(found.data_type(), field.data_type());
                assert!(found.to_data() == expected.to_data(), "seed {seed}: {field}\n{found:?}\n{expected:?}");
            }
            assert_eq!(found.behind().map(<[_]>::len), batch.behind().map(|_| rows.len()));
            let nested: Vec<ArrayRef> = found.columns().columns()[..17].to_vec();
            drop((found, page));
            assert_eq!((nested.len(), pool.used()), (17, 0), "what is nested lies somewhere else");
        }
    }

    #[test]
    fn what_is_nested_takes_no_bytes_where_a_row_is_not_selected() {
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        let list = |rows| ListArray::new(Arc::clone(&item), OffsetBuffer::from_lengths([5; 4]), rows, None);
        let batch = batch(vec![Arc::new(list(Arc::new(Int64Array::from_iter_values(0..20))))]);
        let packing = Packing::new(&batch.schema(), false).unwrap();
        let packed = packing.pack(&batch.with_selection(Selection::new(vec![2]))).unwrap();
        let bytes = packed.column(0).as_binary::<i64>();
        assert_eq!((0..4).map(|row| bytes.value(row).is_empty()).collect::<Vec<_>>(), [true, true, false, true]);
    }

    #[test]
    fn what_pages_cannot_hold_is_said_before() {
        let narrow: DictionaryArray<arrow_array::types::Int8Type> = texts().into_iter().collect();
        let numbers: DictionaryArray<UInt32Type> =
            DictionaryArray::new(UInt32Array::from(vec![0, 0]), Arc::new(Int64Array::from(vec![7])));
        for refused in [Arc::new(narrow) as ArrayRef, Arc::new(numbers), Arc::new(NullArray::new(3))] {
            let item = Arc::new(Field::new_list_field(refused.data_type().clone(), true));
            let lengths = OffsetBuffer::from_lengths([refused.len()]);
            let list = ListArray::new(item, lengths, Arc::clone(&refused), None);
            assert!(Packing::new(&batch(vec![refused]).schema(), false).is_none());
            assert!(Packing::new(&batch(vec![Arc::new(list)]).schema(), false).is_none());
        }
        let nothing = StructArray::new_empty_fields(5, None);
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        let empty = FixedSizeListArray::new_null(item, 0, 5);
        for refused in [Arc::new(nothing) as ArrayRef, Arc::new(empty)] {
            assert!(Packing::new(&batch(vec![refused]).schema(), false).is_none());
        }
    }
}
