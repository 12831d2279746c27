//! What is compared: numbers of every width, in PostgreSQL's order.

/// A fixed-width value. NaN is equal to NaN and larger than all numbers, and −0.0 is 0.0.
pub trait Lane: Copy + PartialOrd + std::fmt::Debug + 'static {
    /// Whether it is not a number.
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }

    /// Whether the first is equal to the second.
    #[inline(always)]
    fn same(self, other: Self) -> bool {
        self == other
    }

    /// Whether the first is less than the second.
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        self < other
    }
}

macro_rules! whole {
    ($($kind:ty),*) => { $(impl Lane for $kind {})* };
}

macro_rules! float {
    ($($kind:ty),*) => { $(
        impl Lane for $kind {
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn is_nan(self) -> bool {
                self != self
            }

            #[inline(always)]
            fn same(self, other: Self) -> bool {
                (self == other) | (Lane::is_nan(self) & Lane::is_nan(other))
            }

            #[inline(always)]
            #[allow(clippy::neg_cmp_op_on_partial_ord)]
            fn less(self, other: Self) -> bool {
                // A comparison with NaN is false, so that its negation is true for a number below NaN.
                !(self >= other) & !Lane::is_nan(self)
            }
        }
    )* };
}

whole!(i8, i16, i32, i64, i128, u8, u16, u32, u64);
float!(f32, f64);

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn floats_are_ordered_as_in_postgresql() {
        let values = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN, -f64::NAN];
        let rank = |v: f64| {
            if v.is_nan() {
                100
            } else if v.is_infinite() {
                v.signum() as i32 * 50
            } else {
                v as i32
            }
        };
        for a in values {
            for b in values {
                let order = rank(a).cmp(&rank(b));
                assert_eq!(a.less(b), order == Ordering::Less, "{a} < {b}");
                assert_eq!(a.same(b), order == Ordering::Equal, "{a} = {b}");
                let (a, b) = (a as f32, b as f32);
                assert_eq!((a.less(b), a.same(b)), (order == Ordering::Less, order == Ordering::Equal), "{a} {b}");
            }
        }
    }
}
