//! Columns of numbers put together, by AVX-512 where there is that.

use std::hint::select_unpredictable;

use crate::simd::Level;

/// What has the width of a column of numbers.
pub trait Value: Copy + private::Expand {}

impl Value for u32 {}
impl Value for u64 {}

/// Adds the values of both, as it is their turn. Panics if there are fewer than turns.
pub fn push_values<T: Value>(level: Level, turns: &[u64], [one, two]: [&[T]; 2], values: &mut Vec<T>) {
    let of_two: usize = turns.iter().map(|word| word.count_ones() as usize).sum();
    let (mut one, mut two) = (&one[..turns.len() * 64 - of_two], &two[..of_two]);
    values.reserve(turns.len() * 64);
    if T::expand(level, turns, one, two, values) {
        return;
    }
    for word in turns {
        let (ones, twos);
        (twos, two) = two.split_at(word.count_ones() as usize);
        (ones, one) = one.split_at(word.count_zeros() as usize);
        if ones.is_empty() || twos.is_empty() {
            values.extend_from_slice(ones);
            values.extend_from_slice(twos);
            continue;
        }
        let (mut left, mut right) = (0, 0);
        values.extend((0..64).map(|bit| {
            let is_two = word >> bit & 1 == 1;
            // The one that has no more is not the one whose turn it is.
            let value = (ones[left.min(ones.len() - 1)], twos[right.min(twos.len() - 1)]);
            (left, right) = (left + usize::from(!is_two), right + usize::from(is_two));
            select_unpredictable(is_two, value.1, value.0)
        }));
    }
}

mod private {
    use crate::simd::Level;

    /// What AVX-512 can put at the places of bits.
    pub trait Expand: Sized {
        /// Adds the values of both if this machine can, which are as many as there are bits, with room for them; whether it could.
        fn expand(level: Level, turns: &[u64], one: &[Self], two: &[Self], values: &mut Vec<Self>) -> bool;
    }

    macro_rules! expand {
        ($value:ident, $lanes:literal, $mask:ident, $place:ident, $place_others:ident, $store:ident) => {
            impl Expand for $value {
                #[allow(unsafe_code)]
                fn expand(level: Level, turns: &[u64], one: &[Self], two: &[Self], values: &mut Vec<Self>) -> bool {
                    #[cfg(target_arch = "x86_64")]
                    {
                        use std::arch::x86_64::{$place, $place_others, $store};

                        #[target_feature(enable = "avx512f,popcnt")]
                        fn push(turns: &[u64], one: &[$value], two: &[$value], values: &mut Vec<$value>) {
                            let rows = turns.len() * 64;
                            let of_two: usize = turns.iter().map(|word| word.count_ones() as usize).sum();
                            assert!(two.len() == of_two && one.len() == rows - of_two, "a value for each turn");
                            values.reserve(rows);
                            let (mut left, mut right) = (one.as_ptr(), two.as_ptr());
                            let mut to = values.spare_capacity_mut().as_mut_ptr();
                            for word in turns {
                                for lanes in 0..64 / $lanes {
                                    let of_two = (word >> (lanes * $lanes)) as $mask;
                                    let count = of_two.count_ones() as usize;
                                    // SAFETY: as many values are read of each as there are bits of it, and all of these together are as
                                    // many as there are values; there is room for them.
                                    unsafe {
                                        let ones = $place(!of_two, left.cast());
                                        $store(to.cast(), $place_others(ones, of_two, right.cast()));
                                        (left, right, to) =
                                            (left.add($lanes - count), right.add(count), to.add($lanes));
                                    }
                                }
                            }
                            // SAFETY: so many were written behind those that were there.
                            unsafe { values.set_len(values.len() + rows) };
                        }

                        if level.kind() == crate::simd::Kind::Avx512 {
                            // SAFETY: a level is only made where the machine has its instructions.
                            unsafe { push(turns, one, two, values) };
                            return true;
                        }
                    }
                    let _ = (level, turns, one, two, values);
                    false
                }
            }
        };
    }

    expand!(u32, 16, u16, _mm512_maskz_expandloadu_epi32, _mm512_mask_expandloadu_epi32, _mm512_storeu_epi32);
    expand!(u64, 8, u8, _mm512_maskz_expandloadu_epi64, _mm512_mask_expandloadu_epi64, _mm512_storeu_epi64);
}
