//! What a program computes from a row, as columns.

use std::sync::Arc;

use arrow_array::{
    ArrayRef,
    builder::{
        BooleanBuilder, Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder,
        StringBuilder, TimestampMicrosecondBuilder,
    },
};
use arrow_schema::{DataType, TimeUnit};
use thalweg_core::Timestamp;

/// A value of one new column: `bool`, `i8` … `i64`, `f32`, `f64`, `String`, [`Timestamp`], or an `Option` of these.
pub trait Value: Sized {
    /// What collects the values of a batch.
    type Builder: Default + Send;
    /// The column's type.
    const TYPE: DataType;

    /// Adds a value, or null.
    fn append(value: Option<Self>, builder: &mut Self::Builder);

    /// The column.
    fn finish(builder: &mut Self::Builder) -> ArrayRef;
}

/// The values of one or several new columns: a [`Value`], or a tuple of up to six.
pub trait Values: Sized {
    /// What collects the values of a batch.
    type Builders: Default + Send;

    /// The columns' types.
    fn types() -> Vec<DataType>;

    /// Adds a row's values, or nulls where there is no row.
    fn append(values: Option<Self>, builders: &mut Self::Builders);

    /// The columns.
    fn finish(builders: &mut Self::Builders) -> Vec<ArrayRef>;
}

impl<T: Value> Value for Option<T> {
    type Builder = T::Builder;
    const TYPE: DataType = T::TYPE;

    fn append(value: Option<Self>, builder: &mut Self::Builder) {
        T::append(value.flatten(), builder);
    }

    fn finish(builder: &mut Self::Builder) -> ArrayRef {
        T::finish(builder)
    }
}

impl<T: Value> Values for Option<T> {
    type Builders = T::Builder;

    fn types() -> Vec<DataType> {
        vec![T::TYPE]
    }

    fn append(values: Option<Self>, builders: &mut Self::Builders) {
        T::append(values.flatten(), builders);
    }

    fn finish(builders: &mut Self::Builders) -> Vec<ArrayRef> {
        vec![T::finish(builders)]
    }
}

macro_rules! values {
    ($($native:ty, $builder:ty, $kind:expr, $give:expr;)*) => {$(
        impl Value for $native {
            type Builder = $builder;
            const TYPE: DataType = $kind;

            fn append(value: Option<Self>, builder: &mut Self::Builder) {
                builder.append_option(value.map($give));
            }

            fn finish(builder: &mut Self::Builder) -> ArrayRef {
                Arc::new(builder.finish())
            }
        }

        impl Values for $native {
            type Builders = $builder;

            fn types() -> Vec<DataType> {
                vec![$kind]
            }

            fn append(values: Option<Self>, builders: &mut Self::Builders) {
                <Self as Value>::append(values, builders);
            }

            fn finish(builders: &mut Self::Builders) -> Vec<ArrayRef> {
                vec![<Self as Value>::finish(builders)]
            }
        }
    )*};
}

values! {
    bool, BooleanBuilder, DataType::Boolean, |value| value;
    i8, Int8Builder, DataType::Int8, |value| value;
    i16, Int16Builder, DataType::Int16, |value| value;
    i32, Int32Builder, DataType::Int32, |value| value;
    i64, Int64Builder, DataType::Int64, |value| value;
    f32, Float32Builder, DataType::Float32, |value| value;
    f64, Float64Builder, DataType::Float64, |value| value;
    String, StringBuilder, DataType::Utf8, |value| value;
    Timestamp, TimestampMicrosecondBuilder, DataType::Timestamp(TimeUnit::Microsecond, None), |time: Timestamp| time.0;
}

macro_rules! tuples {
    ($($value:ident $number:tt),*) => {
        impl<$($value: Value),*> Values for ($($value,)*) {
            type Builders = ($($value::Builder,)*);

            fn types() -> Vec<DataType> {
                vec![$($value::TYPE),*]
            }

            fn append(values: Option<Self>, builders: &mut Self::Builders) {
                match values {
                    Some(values) => {$($value::append(Some(values.$number), &mut builders.$number);)*}
                    None => {$($value::append(None, &mut builders.$number);)*}
                }
            }

            fn finish(builders: &mut Self::Builders) -> Vec<ArrayRef> {
                vec![$($value::finish(&mut builders.$number)),*]
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
