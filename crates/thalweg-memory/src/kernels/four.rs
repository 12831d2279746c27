//! Four numbers at once.

#[cfg(target_arch = "x86_64")]
pub(super) use super::masks::Avx2;
pub(super) use super::masks::Portable;

/// How four numbers are compared and changed at once.
pub(super) trait Four: Copy {
    /// Four numbers.
    type Numbers: Copy;

    /// These.
    fn of(self, numbers: &[i64; 4]) -> Self::Numbers;

    /// This one four times.
    fn all(self, number: i64) -> Self::Numbers;

    /// All ones where a number is less than the other one, and zero elsewhere.
    fn less(self, numbers: Self::Numbers, others: Self::Numbers) -> Self::Numbers;

    /// The larger ones.
    fn larger(self, numbers: Self::Numbers, others: Self::Numbers) -> Self::Numbers;

    /// The differences, which wrap around.
    fn minus(self, numbers: Self::Numbers, others: Self::Numbers) -> Self::Numbers;

    /// The bits that are set in one or the other.
    fn or(self, numbers: Self::Numbers, others: Self::Numbers) -> Self::Numbers;

    /// How many of them are negative.
    fn negative(self, numbers: Self::Numbers) -> usize;

    /// The first of each, the second of each, and so on.
    fn across(self, numbers: [Self::Numbers; 4]) -> [Self::Numbers; 4];

    /// As an array.
    fn to_array(self, numbers: Self::Numbers) -> [i64; 4];
}

impl Four for Portable {
    type Numbers = [i64; 4];

    #[inline(always)]
    fn of(self, numbers: &[i64; 4]) -> [i64; 4] {
        *numbers
    }

    #[inline(always)]
    fn all(self, number: i64) -> [i64; 4] {
        [number; 4]
    }

    #[inline(always)]
    fn less(self, numbers: [i64; 4], others: [i64; 4]) -> [i64; 4] {
        std::array::from_fn(|place| -i64::from(numbers[place] < others[place]))
    }

    #[inline(always)]
    fn larger(self, numbers: [i64; 4], others: [i64; 4]) -> [i64; 4] {
        std::array::from_fn(|place| numbers[place].max(others[place]))
    }

    #[inline(always)]
    fn minus(self, numbers: [i64; 4], others: [i64; 4]) -> [i64; 4] {
        std::array::from_fn(|place| numbers[place].wrapping_sub(others[place]))
    }

    #[inline(always)]
    fn or(self, numbers: [i64; 4], others: [i64; 4]) -> [i64; 4] {
        std::array::from_fn(|place| numbers[place] | others[place])
    }

    #[inline(always)]
    fn negative(self, numbers: [i64; 4]) -> usize {
        numbers.iter().map(|number| usize::from(*number < 0)).sum()
    }

    #[inline(always)]
    fn across(self, numbers: [[i64; 4]; 4]) -> [[i64; 4]; 4] {
        std::array::from_fn(|place| numbers.map(|numbers| numbers[place]))
    }

    #[inline(always)]
    fn to_array(self, numbers: [i64; 4]) -> [i64; 4] {
        numbers
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_blendv_epi8, _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_movemask_pd,
        _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set1_epi64x, _mm256_storeu_si256, _mm256_sub_epi64,
        _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    };

    use super::{Avx2, Four};

    impl Four for Avx2 {
        type Numbers = __m256i;

        #[inline(always)]
        fn of(self, numbers: &[i64; 4]) -> __m256i {
            // SAFETY: four numbers are read; here and below, the machine has AVX2.
            unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
        }

        #[inline(always)]
        fn all(self, number: i64) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_set1_epi64x(number) }
        }

        #[inline(always)]
        fn less(self, numbers: __m256i, others: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_cmpgt_epi64(others, numbers) }
        }

        #[inline(always)]
        fn larger(self, numbers: __m256i, others: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_blendv_epi8(numbers, others, _mm256_cmpgt_epi64(others, numbers)) }
        }

        #[inline(always)]
        fn minus(self, numbers: __m256i, others: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_sub_epi64(numbers, others) }
        }

        #[inline(always)]
        fn or(self, numbers: __m256i, others: __m256i) -> __m256i {
            // SAFETY: as above.
            unsafe { _mm256_or_si256(numbers, others) }
        }

        #[inline(always)]
        fn negative(self, numbers: __m256i) -> usize {
            // SAFETY: as above.
            unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(numbers)) }.count_ones() as usize
        }

        #[inline(always)]
        fn across(self, [one, two, three, four]: [__m256i; 4]) -> [__m256i; 4] {
            // SAFETY: as above.
            unsafe {
                let (low, high) = (_mm256_unpacklo_epi64(one, two), _mm256_unpackhi_epi64(one, two));
                let (others_low, others_high) =
                    (_mm256_unpacklo_epi64(three, four), _mm256_unpackhi_epi64(three, four));
                [
                    _mm256_permute2x128_si256::<0x20>(low, others_low),
                    _mm256_permute2x128_si256::<0x20>(high, others_high),
                    _mm256_permute2x128_si256::<0x31>(low, others_low),
                    _mm256_permute2x128_si256::<0x31>(high, others_high),
                ]
            }
        }

        #[inline(always)]
        fn to_array(self, numbers: __m256i) -> [i64; 4] {
            let mut array = [0; 4];
            // SAFETY: as above; four numbers are written.
            unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), numbers) };
            array
        }
    }
}
