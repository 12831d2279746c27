//! `bit_and`, `bit_or` and `bit_xor`.

use std::{mem, sync::Arc};

use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, builder::PrimitiveBuilder, cast::AsArray,
    downcast_integer,
};
use thalweg_core::{
    Result,
    aggregate::{Accumulator, Follower, Signature, Slide, Windows},
    moving::{Bag, Bagged},
};

use super::{
    Function,
    rows::{counted, counting, each, not_a_state},
};

/// What the bits of all values come to.
pub fn bits(signature: &Signature<'_>) -> Option<Function> {
    let [kind] = signature.arguments else { return None };
    if kind != signature.output {
        return None;
    }
    let fold = match signature.name {
        "bit_and" => Fold::And,
        "bit_or" => Fold::Or,
        _ => Fold::Xor,
    };
    let state = [("value", kind.clone())];
    macro_rules! values {
        ($integer:ty) => {{
            let make = move || Values::<$integer> { fold, values: Vec::new() };
            Some(Function::new(signature, &state, make).with_slide(Folded::<$integer>::new(fold)))
        }};
    }
    downcast_integer! { kind => (values), _ => None }
}

#[derive(Clone, Copy, Debug)]
enum Fold {
    And,
    Or,
    Xor,
}

/// A whole number whose bits are looked at.
trait Whole: Copy + Send + Sync + 'static {
    /// Its bits, behind as many others as it may take.
    fn bits(self) -> u64;

    /// That of these bits.
    fn of(bits: u64) -> Self;
}

macro_rules! whole {
    ($($number:ty),*) => {
        $(impl Whole for $number {
            fn bits(self) -> u64 {
                self as u64
            }

            fn of(bits: u64) -> Self {
                bits as Self
            }
        })*
    };
}

whole!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Fold {
    fn of(self, one: u64, other: u64) -> u64 {
        match self {
            Self::And => one & other,
            Self::Or => one | other,
            Self::Xor => one ^ other,
        }
    }
}

/// How many values are there, how many of them have each bit, and which bits an odd number of them has.
#[derive(Debug)]
struct Bits {
    fold: Fold,
    count: u32,
    each: [u32; 64],
    odd: u64,
}

impl Bag for Bits {
    type Value = u64;

    fn change(&mut self, value: u64, comes: bool) {
        self.count = if comes { self.count + 1 } else { self.count - 1 };
        if let Fold::Xor = self.fold {
            self.odd ^= value;
            return;
        }
        let mut left = value;
        while left != 0 {
            let times = &mut self.each[left.trailing_zeros() as usize];
            *times = if comes { *times + 1 } else { *times - 1 };
            left &= left - 1;
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl Bits {
    /// What the values come to, if there is one.
    fn folded(&self) -> Option<u64> {
        let least = match self.fold {
            _ if self.count == 0 => return None,
            Fold::Xor => return Some(self.odd),
            Fold::And => self.count,
            Fold::Or => 1,
        };
        Some(self.each.iter().enumerate().fold(0, |bits, (bit, times)| bits | u64::from(*times >= least) << bit))
    }
}

/// The result of windows that move on.
struct Folded<T> {
    fold: Fold,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T> Folded<T> {
    fn new(fold: Fold) -> Self {
        Self { fold, of: std::marker::PhantomData }
    }
}

impl<T> Clone for Folded<T> {
    fn clone(&self) -> Self {
        Self::new(self.fold)
    }
}

impl<T: ArrowPrimitiveType<Native: Whole>> Bagged for Folded<T> {
    type Bag = Bits;
    type Builder = PrimitiveBuilder<T>;

    fn bag(&self) -> Bits {
        Bits { fold: self.fold, count: 0, each: [0; 64], odd: 0 }
    }

    fn values(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<Option<u64>>> {
        let column = arguments[0].as_primitive_opt::<T>().ok_or_else(not_a_state)?;
        Ok(counted(arguments, filter, column.values().iter().map(|value| value.bits())))
    }

    fn put(&self, bits: &Bits, found: &mut PrimitiveBuilder<T>) -> Result<()> {
        found.append_option(bits.folded().map(T::Native::of));
        Ok(())
    }
}

impl<T: ArrowPrimitiveType<Native: Whole>> Slide for Folded<T> {
    fn results(&self, windows: &Windows<'_>) -> Result<Option<ArrayRef>> {
        let mut found = PrimitiveBuilder::<T>::with_capacity(windows.windows.len());
        self.follow(self.bag(), windows, &mut found)?;
        Ok(Some(Arc::new(found.finish())))
    }

    fn follower(&self) -> Option<Box<dyn Follower>> {
        Some(Bagged::follower(self))
    }
}

struct Values<T: ArrowPrimitiveType> {
    fold: Fold,
    values: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType<Native: Whole>> Accumulator for Values<T> {
    fn update(
        &mut self,
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        groups: &[u32],
        count: usize,
    ) -> Result<()> {
        self.values.resize(count, None);
        let new = arguments[0].as_primitive_opt::<T>().ok_or_else(not_a_state)?.values();
        each(counting(arguments, filter).as_ref(), groups, |row, group| {
            let value = &mut self.values[group];
            let bits = value.map_or(new[row].bits(), |value| self.fold.of(value.bits(), new[row].bits()));
            *value = Some(T::Native::of(bits));
        });
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[u32], count: usize) -> Result<()> {
        self.update(states, None, groups, count)
    }

    fn take_state(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take_result()?])
    }

    fn take_result(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(mem::take(&mut self.values).into_iter().collect::<PrimitiveArray<T>>()))
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<T::Native>>()
    }
}
