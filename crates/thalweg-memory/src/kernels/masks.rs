//! A bit for each of 64 bytes.

/// How bytes are compared, eight or thirty-two at once.
pub(super) trait Masks: Copy {
    /// Which bytes are this one.
    fn equal(self, block: &[u8; 64], byte: u8) -> u64;

    /// Which bytes are less than this one.
    fn less(self, block: &[u8; 64], byte: u8) -> u64;
}

/// As every machine can, which says what the others do.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Masks for Portable {
    #[inline(always)]
    fn equal(self, block: &[u8; 64], byte: u8) -> u64 {
        where_is(block, |other| other == byte)
    }

    #[inline(always)]
    fn less(self, block: &[u8; 64], byte: u8) -> u64 {
        where_is(block, |other| other < byte)
    }
}

#[inline(always)]
fn where_is(block: &[u8; 64], is: impl Fn(u8) -> bool) -> u64 {
    // Each byte has its own bit of eight, so that the product's highest byte, a sum of eight bytes, is all of them.
    let mut bits = [0; 64];
    for (i, byte) in block.iter().enumerate() {
        bits[i] = if is(*byte) { 1 << (i % 8) } else { 0 };
    }
    let (words, _) = bits.as_chunks::<8>();
    let sum = |word: &[u8; 8]| u64::from_le_bytes(*word).wrapping_mul(u64::MAX / 255) >> 56;
    words.iter().rev().fold(0, |mask, word| mask << 8 | sum(word))
}

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_set1_epi8,
    };

    use super::Masks;

    /// As machines with AVX2 can, of which it is the proof: only code that is compiled for them can make one.
    #[derive(Clone, Copy)]
    pub(in super::super) struct Avx2(());

    impl Avx2 {
        #[inline]
        #[target_feature(enable = "avx2")]
        pub(in super::super) fn new() -> Self {
            Self(())
        }
    }

    impl Masks for Avx2 {
        #[inline(always)]
        fn equal(self, block: &[u8; 64], byte: u8) -> u64 {
            // SAFETY: there is an `Avx2`, so the machine has its instructions.
            unsafe { equal(block, byte) }
        }

        #[inline(always)]
        fn less(self, block: &[u8; 64], byte: u8) -> u64 {
            // SAFETY: as above.
            unsafe { less(block, byte) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn equal(block: &[u8; 64], byte: u8) -> u64 {
        let bytes = _mm256_set1_epi8(byte as i8);
        let [low, high] = halves(block).map(|half| _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, bytes)) as u32);
        u64::from(low) | u64::from(high) << 32
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn less(block: &[u8; 64], byte: u8) -> u64 {
        let bytes = _mm256_set1_epi8(byte as i8);
        // The lesser of two is the other one where that is less or the same.
        let [low, high] = halves(block)
            .map(|half| !_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(half, bytes), bytes)) as u32);
        u64::from(low) | u64::from(high) << 32
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn halves(block: &[u8; 64]) -> [__m256i; 2] {
        let [low, high] = [&block[..32], &block[32..]].map(|half| half.as_ptr().cast());
        // SAFETY: behind each pointer stand 32 bytes, which may be loaded from anywhere.
        unsafe { [_mm256_loadu_si256(low), _mm256_loadu_si256(high)] }
    }
}

/// For each bit, whether the number of bits up to it is odd.
#[inline(always)]
pub(super) fn parities(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::simd::{Level, at_level};

    at_level! {
        fn both(block: &[u8; 64], byte: u8) -> (u64, u64) = find, Portable, Avx2::new()
    }

    #[inline(always)]
    fn find(masks: impl Masks, block: &[u8; 64], byte: u8) -> (u64, u64) {
        (masks.equal(block, byte), masks.less(block, byte))
    }

    #[test]
    fn each_byte_has_its_bit() {
        let mut random = StdRng::seed_from_u64(1);
        for byte in 0..=255u8 {
            let near = |random: &mut StdRng| byte.wrapping_add(random.random_range(0..5)).wrapping_sub(2);
            let block = std::array::from_fn(|_| if random.random() { near(&mut random) } else { random.random() });
            let bits = |is: fn(&u8, &u8) -> bool| {
                block.iter().rev().fold(0, |mask: u64, other| mask << 1 | u64::from(is(other, &byte)))
            };
            for level in Level::all() {
                let expected = (bits(|other, byte| other == byte), bits(|other, byte| other < byte));
                assert_eq!(both(level, &block, byte), expected, "{byte}, {}: {block:?}", level.name());
            }
        }
    }
}
