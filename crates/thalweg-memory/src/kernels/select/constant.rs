//! Constants and columns as numbers of the type that is asked for.

use super::{Constant, column::Column, lane::Lane};

impl Constant {
    /// The constant as a lane of this type, if it is one.
    pub(super) fn to_lane<T: FromConstant>(self) -> Option<T> {
        T::from_constant(self)
    }
}

/// A lane that a constant may be turned into, exactly.
pub trait FromConstant: Lane {
    /// The constant as a lane, if it is one.
    fn from_constant(constant: Constant) -> Option<Self>;
}

macro_rules! from_constant {
    ($($kind:ty),*) => { $(
        impl FromConstant for $kind {
            fn from_constant(constant: Constant) -> Option<Self> {
                match constant {
                    Constant::Whole(value) => value.try_into().ok(),
                    Constant::Unsigned(value) => value.try_into().ok(),
                    Constant::Wide(value) => value.try_into().ok(),
                    Constant::Float(_) => None,
                }
            }
        }
    )* };
}

from_constant!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl FromConstant for f64 {
    fn from_constant(constant: Constant) -> Option<Self> {
        if let Constant::Float(value) = constant { Some(value) } else { None }
    }
}

impl FromConstant for f32 {
    fn from_constant(constant: Constant) -> Option<Self> {
        let Constant::Float(value) = constant else { return None };
        (f64::from(value as f32).same(value)).then_some(value as f32)
    }
}

/// A number that a column may hold, or be widened to.
pub trait FromColumn: Sized {
    /// Copies a column's values from a row on.
    fn copy(column: &Column<'_>, values: &mut [Self], from: usize) -> Option<()>;
}

macro_rules! from_column {
    ($kind:ty: $($variant:ident),*) => {
        impl FromColumn for $kind {
            fn copy(column: &Column<'_>, values: &mut [Self], from: usize) -> Option<()> {
                match column {
                    $(Column::$variant(lanes, _) => {
                        let lanes = &lanes[from..from + values.len()];
                        values.iter_mut().zip(lanes).for_each(|(value, lane)| *value = (*lane).into());
                    })*
                    _ => return None,
                }
                Some(())
            }
        }
    };
}

from_column!(i32: Int8, Int16, Int32, UInt8, UInt16);
from_column!(i64: Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32);
from_column!(f32: Int8, Int16, UInt8, UInt16, Float32);
from_column!(f64: Int8, Int16, Int32, UInt8, UInt16, UInt32, Float32, Float64);
