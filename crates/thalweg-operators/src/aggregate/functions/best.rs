//! Smallest and largest values of the windows of a key, from batch to batch.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray,
    builder::{
        ArrayBuilder, BinaryBuilder, LargeBinaryBuilder, LargeStringBuilder, PrimitiveBuilder, StringBuilder,
        StringViewBuilder,
    },
    cast::AsArray,
    downcast_primitive,
};
use arrow_schema::DataType;
use thalweg_core::{
    Result,
    aggregate::{Follower, Windows, builder},
};

use super::{
    extreme::canonical,
    rows::{counted, not_a_state},
    tree::{Above, Tree},
};

/// What finds the largest values of this type, or the smallest.
pub fn best(kind: &DataType, is_max: bool) -> Option<Box<dyn Follower>> {
    macro_rules! values {
        ($primitive:ty) => {
            Some(of::<PrimitiveBuilder<$primitive>>(is_max))
        };
    }
    match kind {
        DataType::Utf8 => Some(of::<StringBuilder>(is_max)),
        DataType::LargeUtf8 => Some(of::<LargeStringBuilder>(is_max)),
        DataType::Utf8View => Some(of::<StringViewBuilder>(is_max)),
        DataType::Binary => Some(of::<BinaryBuilder>(is_max)),
        DataType::LargeBinary => Some(of::<LargeBinaryBuilder>(is_max)),
        kind => downcast_primitive!(kind => (values), _ => None),
    }
}

fn of<B: Values + 'static>(is_max: bool) -> Box<dyn Follower> {
    Box::new(Best::<B> { tree: Tree::new(is_max), of: PhantomData })
}

/// What builds a column of values.
trait Values: ArrayBuilder {
    /// A value, in the order of values.
    type Value: Above + Send;

    /// Those of a column of this type; whatever there is where it has nulls.
    fn of(column: &ArrayRef) -> Result<Vec<Self::Value>>;

    fn put(&mut self, value: Option<&Self::Value>) -> Result<()>;
}

impl<T: ArrowPrimitiveType> Values for PrimitiveBuilder<T> {
    type Value = T::Native;

    fn of(column: &ArrayRef) -> Result<Vec<T::Native>> {
        Ok(column.as_primitive_opt::<T>().ok_or_else(not_a_state)?.values().to_vec())
    }

    fn put(&mut self, value: Option<&T::Native>) -> Result<()> {
        self.append_option(value.copied());
        Ok(())
    }
}

/// Text or bytes, in the order of bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bytes(Arc<[u8]>);

impl Above for Bytes {
    fn is_above(&self, other: &Self) -> bool {
        self > other
    }

    fn bytes(&self) -> usize {
        // With two counts of references.
        self.0.len() + 2 * size_of::<usize>()
    }
}

macro_rules! texts {
    ($builder:ty, $column:expr, $text:expr) => {
        impl Values for $builder {
            type Value = Bytes;

            fn of(column: &ArrayRef) -> Result<Vec<Bytes>> {
                let column = $column(column).ok_or_else(not_a_state)?;
                Ok((0..column.len()).map(|row| Bytes(AsRef::<[u8]>::as_ref(column.value(row)).into())).collect())
            }

            fn put(&mut self, value: Option<&Bytes>) -> Result<()> {
                let text = value.map(|value| $text(&value.0[..])).transpose();
                self.append_option(text.map_err(|_| not_a_state())?);
                Ok(())
            }
        }
    };
}

texts!(StringBuilder, |column| AsArray::as_string_opt::<i32>(column), str::from_utf8);
texts!(LargeStringBuilder, |column| AsArray::as_string_opt::<i64>(column), str::from_utf8);
texts!(StringViewBuilder, |column| AsArray::as_string_view_opt(column), str::from_utf8);
texts!(BinaryBuilder, |column| AsArray::as_binary_opt::<i32>(column), Ok::<_, ()>);
texts!(LargeBinaryBuilder, |column| AsArray::as_binary_opt::<i64>(column), Ok::<_, ()>);

/// The rows of a key.
struct Best<B: Values> {
    tree: Tree<B::Value>,
    of: PhantomData<fn() -> B>,
}

impl<B: Values> Best<B> {
    fn values(arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<B::Value>>> {
        Ok(counted(arguments, filter, B::of(&canonical(&arguments[0])?)?.into_iter()))
    }
}

impl<B: Values + 'static> Follower for Best<B> {
    fn insert(&mut self, arguments: &[ArrayRef], filter: Option<&BooleanArray>, places: &[usize]) -> Result<()> {
        let values = Self::values(arguments, filter)?.into_iter().zip(places).enumerate();
        values.for_each(|(number, (value, place))| self.tree.insert(place + number, value));
        Ok(())
    }

    fn drop_first(&mut self, rows: usize) {
        self.tree.drop_first(rows);
    }

    fn results(&mut self, windows: &Windows<'_>, found: &mut dyn ArrayBuilder) -> Result<()> {
        let own = if windows.own.is_some() { Self::values(windows.arguments, windows.filter)? } else { Vec::new() };
        let (tree, found): (_, &mut B) = (&self.tree, builder(found)?);
        windows.windows.iter().enumerate().try_for_each(|(number, window)| {
            let end = window.end.max(window.start);
            let lacked = windows.lacks.get(number).cloned().unwrap_or(end..end);
            let [one, other]: [Range<usize>; 2] = [window.start..lacked.start, lacked.end..end];
            let best = tree.better(tree.best(one), tree.best(other).as_ref());
            found.put(tree.better(best, own.get(number).and_then(Option::as_ref)).as_ref())
        })
    }

    fn moves(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.tree.bytes()
    }
}
